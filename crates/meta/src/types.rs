//! The types that openraft is used with.
//!
//! Promises: numbers of nodes are those of the map. Must not know: what the types are used for.

use std::io::Cursor;

use serde::{Deserialize, Serialize};

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

pub(crate) type Raft = openraft::Raft<TypeConfig>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, Member>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, Member>;
pub(crate) type Snapshot = openraft::Snapshot<TypeConfig>;
pub(crate) type Metrics = openraft::RaftMetrics<u64, Member>;
