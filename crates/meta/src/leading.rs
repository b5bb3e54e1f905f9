//! Logs who is the leader of the consensus group. Each change that this node learns about has one line.

use std::sync::Arc;

use firstseen_routing::NodeId;
use tokio_util::sync::CancellationToken;

use crate::store::Published;
use crate::types::Raft;

/// Logs changes of the leader until the node stops.
pub(crate) async fn log_changes(raft: Raft, published: Arc<Published>, stop: CancellationToken) {
    stop.run_until_cancelled(follow(&raft, &published)).await;
}

async fn follow(raft: &Raft, published: &Published) {
    let mut metrics = raft.metrics();
    let mut known = None;
    loop {
        let (leader, term) = {
            let metrics = metrics.borrow_and_update();
            (metrics.current_leader.map(NodeId), metrics.current_term)
        };
        if leader != known {
            let map = published.newest();
            let node = leader.and_then(|leader| map.nodes.get(&leader)).map(|record| record.name.as_str());
            match leader {
                Some(number) => {
                    tracing::info!(
                        event = "leader",
                        node,
                        number = number.0,
                        term,
                        "a node is the leader of the cluster"
                    );
                }
                None => tracing::warn!(event = "no_leader", term, "this node knows no leader of the cluster"),
            }
            known = leader;
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
