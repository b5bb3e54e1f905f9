//! The board on which nodes show what they have counted.
//!
//! Promises: counts that were asked for are of a moment after. Must not know: what is counted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstseen_node::Node;

/// How often a node looks at the board, and those who wait do.
const LOOK: Duration = Duration::from_millis(5);

/// What one node shows.
#[derive(Clone, Default)]
struct Shown {
    map_version: u64,
    /// The number of the question that the metrics answer.
    answered: u64,
    metrics: String,
}

#[derive(Default)]
struct State {
    /// Questions so far.
    asked: u64,
    nodes: Vec<Shown>,
}

/// The board; clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<State>>);

impl Board {
    pub(super) fn new(nodes: usize) -> Self {
        Self(Arc::new(Mutex::new(State { asked: 0, nodes: vec![Shown::default(); nodes] })))
    }

    /// Shows what node `index` knows, again and again.
    pub(super) async fn keep(&self, index: usize, node: &Node) {
        loop {
            let question = {
                let mut state = self.lock();
                let asked = state.asked;
                let shown = &mut state.nodes[index];
                shown.map_version = node.map_version();
                (shown.answered < asked).then_some(asked)
            };
            if let Some(question) = question {
                let metrics = node.metrics().await;
                let shown = &mut self.lock().nodes[index];
                (shown.answered, shown.metrics) = (question, metrics);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until all nodes act on this version of the map.
    pub(super) async fn all_at(&self, map_version: u64) {
        while self.lock().nodes.iter().any(|shown| shown.map_version < map_version) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The metrics of all nodes, from now on.
    pub(super) async fn metrics(&self) -> Vec<String> {
        let question = {
            let mut state = self.lock();
            state.asked += 1;
            state.asked
        };
        loop {
            tokio::time::sleep(LOOK).await;
            let state = self.lock();
            if state.nodes.iter().all(|shown| shown.answered >= question) {
                return state.nodes.iter().map(|shown| shown.metrics.clone()).collect();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
