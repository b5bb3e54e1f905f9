//! The types that openraft is parameterized with. Nodes have the same numbers in openraft as in the cluster map.

use std::io::Cursor;

use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, InstallSnapshotRequest, VoteRequest};
use serde::{Deserialize, Serialize};

use crate::asked::Asked;
use crate::asked_by::FORMAT_OF_WHO_ASKS;
use crate::codec;
use crate::command::{Command, Outcome};
use crate::refusal::Refusal;

/// A member as openraft knows it. The record is enough to connect to the member before the cluster map contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Name in the member's certificate.
    pub(crate) name: String,
    /// Address of the member as `host:port`.
    pub(crate) address: String,
}

/// Result of applying a log entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// Index of the log entry.
    pub(crate) index: u64,
    /// Outcome of the command in the entry. `None` means that the entry has no command.
    pub(crate) outcome: Option<Result<Outcome, Refusal>>,
}

openraft::declare_raft_types!(
    /// Type parameters of openraft in this crate.
    pub(crate) TypeConfig:
        D = Command,
        R = Applied,
        NodeId = u64,
        Node = Member,
        SnapshotData = Cursor<Vec<u8>>,
);

/// A value that is stored or sent, with the first version of the encoding that can express it.
pub(crate) trait Versioned: Serialize {
    /// Returns that version.
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

/// The state in a snapshot has its own version.
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
