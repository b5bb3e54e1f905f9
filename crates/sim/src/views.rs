//! Records the views of nodes during a run. The view of a node states which nodes answer for which slices. It follows
//! from the cluster map that the node currently uses, so nodes can have different views at the same time. A change of a
//! view is recorded soon after it has happened. Recording sends no messages, so it does not change the run.

use std::sync::{Arc, Mutex, PoisonError};

use firstseen_checker::history::View;
use firstseen_routing::ClusterMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::now_us;

/// The views of all nodes of a run. Clones share one list.
#[derive(Clone, Default)]
pub struct Views(Arc<Mutex<Vec<View>>>);

impl Views {
    /// Returns all views so far.
    pub fn all(&self) -> Vec<View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that a node has begun to act on `map` between `after_us` and now.
    pub fn note(&self, node: usize, after_us: u64, map: &ClusterMap) {
        let answering = answering(map);
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = views.iter().rev().find(|view| view.node == node);
        if last.is_none_or(|last| last.answering != answering) {
            views.push(View { node, after_us, by_us: now_us(), answering });
        }
    }
}

/// Returns a number that identifies which copies answer according to a cluster map. Two maps give the same number only
/// if they agree in the following points:
///
/// - the filters and their epochs
/// - the nodes that hold the copies of slices, and the incarnations of these nodes
/// - whether each copy is complete, and whether it is gone
fn answering(map: &ClusterMap) -> u64 {
    let filters = map.filters.iter().map(|(filter, record)| {
        let copies: Vec<_> = record
            .all_copies()
            .map(|(slice, copy)| {
                let incarnation = map.nodes.get(&copy.node).map(|node| node.incarnation);
                (slice, copy.node, incarnation, map.is_complete_copy(copy), map.is_gone(copy))
            })
            .collect();
        (filter, record.epoch.0, &record.line, copies)
    });
    xxh3_64(format!("{:?}", filters.collect::<Vec<_>>()).as_bytes())
}
