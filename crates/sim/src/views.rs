//! The views of nodes: which nodes answer for which slices, as each of them believes, while a run goes on.
//!
//! Promises: a view is noted soon after it has changed, without a message. Must not know: what follows from it.

use std::sync::{Arc, Mutex, PoisonError};

use firstseen_checker::history::View;
use firstseen_routing::ClusterMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::now_us;

/// The views of all nodes of a run. Clones share one list.
#[derive(Clone, Default)]
pub struct Views(Arc<Mutex<Vec<View>>>);

impl Views {
    /// All views so far.
    pub fn all(&self) -> Vec<View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A node has begun to act on `map` between `after_us` and now.
    pub fn note(&self, node: usize, after_us: u64, map: &ClusterMap) {
        let answering = answering(map);
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = views.iter().rev().find(|view| view.node == node);
        if last.is_none_or(|last| last.answering != answering) {
            views.push(View { node, after_us, by_us: now_us(), answering });
        }
    }
}

/// A number for the nodes that answer: equal where the same copies of all slices of all filters count, in the same
/// starts of their nodes and the same epochs.
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
