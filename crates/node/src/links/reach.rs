//! Maintains the set of nodes that are unreachable from this node. Operations do not wait for the nodes in this set.
//!
//! A node is added when its link has been down without interruption for the configured time, so a short break of the
//! connection has no effect. A link that has never been up gets [`FIRST_TIMES`] times as much time, because the first
//! connection often takes longer. A node is removed as soon as its link is up again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::NodeId;
use firstseen_wire::watch;

/// The set of unreachable nodes.
pub(crate) type Unreachable = Arc<watch::Sender<BTreeSet<NodeId>>>;

/// Factor by which the time until a node counts as unreachable is longer if the node has never been reached. The first
/// connection can take a long time. For example, when all nodes of a cluster start at the same time, they must first
/// elect a leader, and agree on which process of each node is the current one.
const FIRST_TIMES: u32 = 3;

/// Watches one link.
pub(super) struct Reach {
    pub(super) peer: NodeId,
    pub(super) patience: Duration,
    /// Whether the link is up.
    pub(super) up: watch::Receiver<bool>,
    pub(super) unreachable: Unreachable,
}

impl Reach {
    /// Watches the link until it no longer exists.
    pub(super) async fn run(mut self) {
        let mut has_link = true;
        let mut patience = self.patience * FIRST_TIMES;
        while has_link && self.up.wait_for(|up| !up).await.is_ok() {
            let in_time = tokio::time::timeout(patience, self.is_up_again()).await;
            patience = self.patience;
            has_link = match in_time {
                Ok(has_link) => has_link,
                Err(_) => {
                    self.unreachable.send_if_modified(|listed| listed.insert(self.peer));
                    let has_link = self.is_up_again().await;
                    self.unreachable.send_if_modified(|listed| listed.remove(&self.peer));
                    has_link
                }
            };
        }
    }

    /// Waits until the link is up. Returns `false` if the link has ended.
    async fn is_up_again(&mut self) -> bool {
        self.up.wait_for(|up| *up).await.is_ok()
    }
}
