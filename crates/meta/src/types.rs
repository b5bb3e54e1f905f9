//! The types that openraft is used with.
//!
//! Promises: numbers of nodes are those of the map. Must not know: what the types are used for.

use std::io::Cursor;

use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, InstallSnapshotRequest, VoteRequest};
use serde::{Deserialize, Serialize};

use crate::asked::Asked;
use crate::asked_by::FORMAT_OF_WHO_ASKS;
use crate::codec;
use crate::command::{Command, Outcome};
use crate::refusal::Refusal;

/// A member as openraft knows it: enough to reach it before the map says how.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Member {
    /// The name in its certificate.
    pub(crate) name: String,
    /// `host:port`.
    pub(crate) address: String,
}

/// The outcome of an entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// The entry.
    pub(crate) index: u64,
    /// The outcome of its command.
    pub(crate) outcome: Option<Result<Outcome, Refusal>>,
}

openraft::declare_raft_types!(
    /// Our choice of types.
    pub(crate) TypeConfig:
        D = Command,
        R = Applied,
        NodeId = u64,
        Node = Member,
        SnapshotData = Cursor<Vec<u8>>,
);

/// What is stored or sent, with the first version of the codec that can express it.
pub(crate) trait Versioned: Serialize {
    /// That version.
    fn version(&self) -> u8 {
        codec::FIRST
    }
}

impl Versioned for Entry {
    fn version(&self) -> u8 {
        match &self.payload {
            EntryPayload::Normal(command) => command.format().0,
            EntryPayload::Blank | EntryPayload::Membership(_) => codec::FIRST,
        }
    }
}

impl Versioned for AppendEntriesRequest<TypeConfig> {
    fn version(&self) -> u8 {
        self.entries.iter().map(Versioned::version).max().unwrap_or(codec::FIRST)
    }
}

impl Versioned for Asked {
    fn version(&self) -> u8 {
        match self {
            Self::Command(command) => command.format().0,
            Self::Join { .. } | Self::Leave { .. } | Self::Confirm { .. } => codec::FIRST,
            Self::JoinBy { .. } | Self::LeaveBy { .. } => FORMAT_OF_WHO_ASKS.0,
        }
    }
}

/// A snapshot's state has a version of its own.
impl Versioned for InstallSnapshotRequest<TypeConfig> {}

impl Versioned for VoteRequest<u64> {}

pub(crate) type Raft = openraft::Raft<TypeConfig>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, Member>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, Member>;
pub(crate) type Snapshot = openraft::Snapshot<TypeConfig>;
pub(crate) type Metrics = openraft::RaftMetrics<u64, Member>;
