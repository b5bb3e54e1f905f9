//! A board on which nodes publish their counts. Requested counts were taken after the request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstseen_node::Node;

/// Interval at which nodes and waiting readers look at the board.
const LOOK: Duration = Duration::from_millis(5);

/// What one node publishes.
#[derive(Clone, Default)]
struct Shown {
    map_version: u64,
    /// Number of the request that the metrics answer.
    answered: u64,
    metrics: String,
}

#[derive(Default)]
struct State {
    /// Number of requests so far.
    asked: u64,
    nodes: Vec<Shown>,
}

/// The board. Clones are the same board.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<State>>);

impl Board {
    pub(super) fn new(nodes: usize) -> Self {
        Self(Arc::new(Mutex::new(State { asked: 0, nodes: vec![Shown::default(); nodes] })))
    }

    /// Publishes the counts of node `index` repeatedly.
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

    /// Returns the metrics of all nodes, taken from now on.
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
