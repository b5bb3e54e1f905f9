//! What a node must not forget: its identity, its votes, the log, the newest snapshot.
//!
//! Promises: what was written is on the disk before it is acknowledged, and writes happen one after the other; what
//! was torn or altered is an error that names the file. Must not know: what entries mean.

mod database;
mod disk;
mod log;
mod machine;
mod reserve;
mod storage;
mod survivor;
mod tending;

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

/// What a node's [`Identity`] is kept under.
pub(crate) const IDENTITY: &str = "identity";

/// Who a node is, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its number in it.
    pub node: NodeId,
    /// Whether the cluster began with it.
    pub founder: bool,
    /// Whose journal it has: the cluster that it joined, which is another than its own once that has been recovered.
    pub journal: ClusterId,
}

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
