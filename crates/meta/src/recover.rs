//! A cluster goes on with one node of it, where more than half of the voters are lost for good.
//!
//! The node that is left takes the newest state that it knows, and founds a cluster of another id with it: nodes of the
//! former cluster are refused, whatever they have agreed on since. Other nodes without slices are gone; those with
//! slices stay in the map as nodes that are down, under other names, so that their slices can be drained, and nodes in
//! their place can join.
//!
//! Promises: all of it is on the disk at once or nothing; no number is given twice, and epochs and versions are above
//! all that the former cluster can have had. Must not know: who asks for the recovery, what is in slices.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firstseen_routing::{ClusterId, FilterId, FilterRecord, NodeId, NodeRecord};
use thiserror::Error;

use crate::state::{Doubts, State};
use crate::store::{Identity, MetaStorage, StoreError, Survivor};

/// Upper bound of the epochs and versions that the others may have agreed on without this node, by far.
const UNSEEN_MAX: u64 = 1 << 32;

/// Upper bound of the numbers of nodes and filters that they may have given.
const UNSEEN_NUMBERS_MAX: u64 = 1 << 10;

/// Why a cluster cannot go on with this node.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The node's database cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node never belonged to a cluster.
    #[error("this node belongs to no cluster: there is nothing to recover")]
    NoCluster,
    /// The others have gone on without the node.
    #[error("this node has left its cluster for good: recover with a node that has not")]
    Left,
    /// The node is the only voter already.
    #[error("this node is the only one of its cluster, and needs nobody's agreement: just start it")]
    Alone,
    /// The node has run since the recovery was planned.
    #[error("the node has kept something else since this was planned: has it been started meanwhile? Recover again")]
    Changed,
    /// The random source gave an id that the cluster has.
    #[error("the id of the new cluster is that of the former one")]
    SameCluster,
}

/// The plan of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The node that is left.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The cluster that it was in.
    pub former: ClusterId,
    /// Other nodes, by their former names, each with its new name if it has slices; the rest are gone.
    pub lost: Vec<(String, Option<String>)>,
    /// Filters that have slices on lost nodes, or whose events may have been recorded without this node.
    pub filters: Vec<LostFilter>,
}

/// The losses of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFilter {
    /// What it is called.
    pub name: String,
    /// All of its slices.
    pub slices: u32,
    /// Slices of which no copy is left.
    pub lost: u32,
    /// Slices here whose events others may have recorded without this node: they count as incomplete.
    pub incomplete: u32,
}

/// Plans the recovery of the node whose database is at `path`; nothing is written there.
///
/// # Errors
/// [`RecoveryError`].
pub async fn plan_recovery(path: PathBuf) -> Result<Recovery, RecoveryError> {
    let survivor = Survivor::open(MetaStorage::Copy(path)).await?;
    let identity = survivor.identity().ok_or(RecoveryError::NoCluster)?;
    let (_, recovery) = alone(&survivor.state(), identity, identity.cluster, next_index(&survivor))?;
    Ok(recovery)
}

/// Carries out the `planned` recovery of the database at `path`, which no other process has open, as cluster `cluster`.
///
/// # Errors
/// [`RecoveryError`]; nothing has changed.
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

/// An index above all entries that the others may have.
fn next_index(survivor: &Survivor) -> u64 {
    survivor.last_index().saturating_add(UNSEEN_MAX)
}

/// The state with which the node goes on, as of entry `index`, with the losses.
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
        // A copy on its way to a lost node stays where it is.
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
            // A node in its place may then have its name and its address.
            let address = format!("{name}.invalid:1");
            left.insert(node, NodeRecord { name, address, voter: false, is_down: true, ..record });
        }
    }
    map.nodes = left;
    map.cluster = cluster;
    map.version = index;
    map.next_filter = FilterId(map.next_filter.0.saturating_add(UNSEEN_NUMBERS_MAX));
    // The others may have gone on without this node before they were lost, and this node without them.
    let copies = map.filters.values_mut().flat_map(FilterRecord::all_copies_mut);
    copies.for_each(|(_, copy)| copy.has_gap = true);
    map.filters.values_mut().for_each(|record| record.epoch = record.epoch.after(UNSEEN_MAX));
    let filters = map.filters.values().map(|record| lost_of(record, me)).filter(LostFilter::is_hurt).collect();
    recovered.pass_numbers(UNSEEN_NUMBERS_MAX);
    recovered.doubts = Doubts::default();
    Ok((recovered, Recovery { node: me, name, former: identity.cluster, lost, filters }))
}

/// The new name of a lost node.
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
