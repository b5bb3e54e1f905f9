//! The data that a node stores for the consensus: its identity, its votes, the log, and the newest snapshot.
//!
//! # Guarantees
//! - A write is on the disk before it is acknowledged, and writes are executed one after the other.
//! - A torn or modified value results in an error that names the file.

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
pub(crate) use tending::maintain_reserve;

/// Key of a node's [`Identity`].
pub(crate) const IDENTITY: &str = "identity";

/// The permanent identity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Cluster of the node.
    pub cluster: ClusterId,
    /// Number of the node in the cluster.
    pub node: NodeId,
    /// Whether the node founded the cluster.
    pub founder: bool,
    /// Cluster id in the node's journal. This is the cluster that the node originally joined, which differs from
    /// `cluster` after a recovery.
    pub journal: ClusterId,
}

#[cfg(test)]
mod tests;
