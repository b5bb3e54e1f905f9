//! Asks nodes what they report about themselves.

use firstseen_routing::stopping::may_owe;
use firstseen_routing::{ClusterMap, NodeId};
use firstseen_wire::proto::admin::{IdentifyReply, IdentifyRequest};
use futures_util::future::join_all;
use tokio::time::{Duration, timeout};

use super::connect::Operator;

/// How long a node may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns what the node reports about itself, or `None` if it does not answer in time.
pub(super) async fn identified(member: &Operator, map: &ClusterMap, node: NodeId) -> Option<IdentifyReply> {
    let record = map.nodes.get(&node)?;
    let there = member.at(&record.address).within(REQUEST_TIMEOUT);
    let call = there.call(async |mut client| client.identify(IdentifyRequest {}).await);
    timeout(REQUEST_TIMEOUT, call).await.ok().and_then(Result::ok)
}

/// Returns the number of events that levels of filter trees have called first-seen without the levels above, and have
/// not reported yet, on all nodes together. `None` means that a node does not report it.
pub(super) async fn owed_events(member: &Operator, map: &ClusterMap) -> Option<u64> {
    if !may_owe(map) {
        return Some(0);
    }
    let replies = join_all(map.nodes.keys().map(|node| identified(member, map, *node))).await;
    let of_nodes = replies.into_iter().map(|reply| {
        let report = reply?.owed?;
        Some(report.filters.iter().map(|of| of.events).sum::<u64>())
    });
    of_nodes.sum()
}
