//! What a node persists for the agreement: its identity, its votes, the log, the newest snapshot.
//!
//! Promises: a write is on the disk before it is acknowledged, and writes happen one after the other; a torn or altered
//! value is an error that names the file. Must not know: what entries mean.

mod database;
mod disk;
mod log;
mod machine;
mod reserve;
mod storage;
mod survivor;
mod tending;
mod untold;

use firstseen_routing::{ClusterId, NodeId};
use serde::{Deserialize, Serialize};

pub(crate) use database::Database;
pub use database::StoreError;
pub(crate) use log::LogStore;
pub(crate) use machine::{Machine, Published};
pub use reserve::RESERVE_FILE;
pub use storage::MetaStorage;
pub(crate) use survivor::Survivor;
pub(crate) use tending::tend;

/// The key of a node's [`Identity`].
pub(crate) const IDENTITY: &str = "identity";

/// The identity of a node, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its number in it.
    pub node: NodeId,
    /// Whether the cluster began with it.
    pub founder: bool,
    /// The cluster of its journal: the one that the node joined, which is another than its own after a recovery.
    pub journal: ClusterId,
}

#[cfg(test)]
mod tests;
