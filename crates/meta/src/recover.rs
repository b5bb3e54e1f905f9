//! Recovers a cluster after more than half of its voters have failed for good. One remaining node founds a new cluster
//! from the newest state that it knows. The new cluster has a new id, and rejects nodes of the previous cluster. This
//! is necessary because those nodes may have made changes that the remaining node does not know.
//!
//! All other nodes of the previous cluster count as lost. Nodes without slices are removed from the cluster map. Nodes
//! with slices stay in the map, marked as down and under new names, so that their slices can be moved to other nodes.
//! New nodes can then join in their place under the old names.
//!
//! # Guarantees
//! - Either all changes are written to the disk or none.
//! - No number is assigned twice, and epochs and versions exceed all values that the previous cluster can have used.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firstseen_routing::{ClusterId, FilterId, FilterRecord, NodeId, NodeRecord};
use thiserror::Error;

use crate::state::{Doubts, State};
use crate::store::{Identity, MetaStorage, StoreError, Survivor};

/// Upper bound, with a large margin, of the number of epochs and versions that the other nodes may have agreed on
/// without this node.
const UNSEEN_MAX: u64 = 1 << 32;

/// Upper bound of the number of node and filter numbers that the other nodes may have assigned without this node.
const UNSEEN_NUMBERS_MAX: u64 = 1 << 10;

/// Reason why a cluster cannot be recovered with this node.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The node's database cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node never belonged to a cluster.
    #[error("this node belongs to no cluster: there is nothing to recover")]
    NoCluster,
    /// The node was removed from its cluster.
    #[error("this node has left its cluster for good: recover with a node that has not")]
    Left,
    /// The node is already the only voter.
    #[error("this node is the only voter of its cluster, so no recovery is necessary: just start it")]
    Alone,
    /// The node has run since the recovery was planned.
    #[error(
        "the data of the node has changed since the recovery was planned: was the node started in the meantime? Run \
         the recovery again"
    )]
    Changed,
    /// The random number generator returned the id of the previous cluster.
    #[error("the new cluster has the same id as the previous one")]
    SameCluster,
}

/// The plan of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The remaining node.
    pub node: NodeId,
    /// Name of the remaining node.
    pub name: String,
    /// The cluster that it belonged to.
    pub former: ClusterId,
    /// The other nodes by their previous names. A node with slices has a new name, and the others are removed.
    pub lost: Vec<(String, Option<String>)>,
    /// Filters that have slices on lost nodes, or whose events may have been recorded without this node.
    pub filters: Vec<LostFilter>,
}

/// The losses of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFilter {
    /// Name of the filter.
    pub name: String,
    /// Number of all its slices.
    pub slices: u32,
    /// Number of slices without any remaining copy.
    pub lost: u32,
    /// Number of slices on this node that count as incomplete, because other nodes may have recorded events without
    /// this node.
    pub incomplete: u32,
}

/// Plans the recovery of the node whose database is at `path`. Nothing is written.
///
/// # Errors
/// [`RecoveryError`] says why the cluster cannot be recovered.
pub async fn plan_recovery(path: PathBuf) -> Result<Recovery, RecoveryError> {
    let survivor = Survivor::open(MetaStorage::Copy(path)).await?;
    let identity = survivor.identity().ok_or(RecoveryError::NoCluster)?;
    let (_, recovery) = alone(&survivor.state(), identity, identity.cluster, next_index(&survivor))?;
    Ok(recovery)
}

/// Executes the `planned` recovery of the database at `path`, as cluster `cluster`. No other process may have the
/// database open.
///
/// # Errors
/// [`RecoveryError`]: nothing has changed.
pub async fn recover(path: PathBuf, cluster: ClusterId, planned: &Recovery) -> Result<(), RecoveryError> {
    let survivor = Survivor::open(MetaStorage::File(path)).await?;
    let recovered = recover_open(&survivor, cluster, planned).await;
    survivor.close().await?;
    recovered
}

async fn recover_open(survivor: &Survivor, cluster: ClusterId, planned: &Recovery) -> Result<(), RecoveryError> {
    let identity = survivor.identity().ok_or(RecoveryError::NoCluster)?;
    if cluster == identity.cluster {
        return Err(RecoveryError::SameCluster);
    }
    let index = next_index(survivor);
    let (recovered, recovery) = alone(&survivor.state(), identity, cluster, index)?;
    if recovery != *planned {
        return Err(RecoveryError::Changed);
    }
    survivor.replace(Identity { cluster, ..identity }, &recovered, index).await?;
    Ok(())
}

/// Returns an index that exceeds all entries that the other nodes may have.
fn next_index(survivor: &Survivor) -> u64 {
    survivor.last_index().saturating_add(UNSEEN_MAX)
}

/// Returns the state with which the node continues, as of entry `index`, together with the losses.
fn alone(
    state: &State,
    identity: Identity,
    cluster: ClusterId,
    index: u64,
) -> Result<(State, Recovery), RecoveryError> {
    let me = identity.node;
    let Some(own) = state.map.nodes.get(&me) else { return Err(RecoveryError::Left) };
    if state.map.nodes.len() == 1 {
        return Err(RecoveryError::Alone);
    }
    let name = own.name.clone();
    let mut recovered = state.clone();
    let map = Arc::make_mut(&mut recovered.map);
    for record in map.filters.values_mut() {
        // The move of a copy to a lost node is cancelled.
        record.copies.retain(|copy| copy.replaces.is_none() || copy.owner.node == me);
    }
    let mut lost = Vec::new();
    let mut left = BTreeMap::new();
    for (node, record) in std::mem::take(&mut map.nodes) {
        if node == me {
            left.insert(node, NodeRecord { voter: true, is_down: false, ..record });
            continue;
        }
        let has_slices = map.filters.values().any(|filter| filter.is_on(node));
        let renamed = has_slices.then(|| free_name(node, &name));
        lost.push((record.name.clone(), renamed.clone()));
        if let Some(name) = renamed {
            // A replacement node may then have the previous name and address.
            let address = format!("{name}.invalid:1");
            left.insert(node, NodeRecord { name, address, voter: false, is_down: true, ..record });
        }
    }
    map.nodes = left;
    map.cluster = cluster;
    map.version = index;
    map.next_filter = FilterId(map.next_filter.0.saturating_add(UNSEEN_NUMBERS_MAX));
    // Before their failure, the other nodes may have continued without this node, and this node without them.
    let copies = map.filters.values_mut().flat_map(FilterRecord::all_copies_mut);
    copies.for_each(|(_, copy)| copy.has_gap = true);
    map.filters.values_mut().for_each(|record| record.epoch = record.epoch.after(UNSEEN_MAX));
    let filters = map.filters.values().map(|record| lost_of(record, me)).filter(LostFilter::is_hurt).collect();
    recovered.pass_numbers(UNSEEN_NUMBERS_MAX);
    recovered.doubts = Doubts::default();
    Ok((recovered, Recovery { node: me, name, former: identity.cluster, lost, filters }))
}

/// Returns the new name of a lost node.
fn free_name(node: NodeId, taken: &str) -> String {
    match format!("lost-{node}") {
        name if name == taken => format!("{name}-too"),
        name => name,
    }
}

fn lost_of(record: &FilterRecord, me: NodeId) -> LostFilter {
    let slices = 0..record.owners.len() as u32;
    let lost = slices.clone().filter(|slice| record.copies_of(*slice).all(|copy| copy.node != me));
    let incomplete = record.all_copies().filter(|(_, copy)| copy.node == me && copy.has_gap);
    LostFilter {
        name: record.name.clone(),
        slices: slices.end,
        lost: lost.count() as u32,
        incomplete: incomplete.count() as u32,
    }
}

impl LostFilter {
    fn is_hurt(&self) -> bool {
        self.lost > 0 || self.incomplete > 0
    }
}

#[cfg(test)]
mod tests;
