//! Which nodes have been out of reach for so long that nobody should wait for them.
//!
//! Promises: a node is listed when its link has been down without a break for the time that the operator allows, or,
//! where it has never been up, for [`FIRST_TIMES`] as long; from the moment on that the link is up again, the node is
//! not listed. Must not know: streams, what follows from the list.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::NodeId;
use firstseen_wire::watch;

/// The nodes that are listed.
pub(crate) type Unreachable = Arc<watch::Sender<BTreeSet<NodeId>>>;

/// Where all nodes start at once, one finds another only when they have agreed on a leader, and on both starts.
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
    /// Looks until there is no link any more.
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

    /// Waits until the link is up; false where it has ended.
    async fn is_up_again(&mut self) -> bool {
        self.up.wait_for(|up| *up).await.is_ok()
    }
}
