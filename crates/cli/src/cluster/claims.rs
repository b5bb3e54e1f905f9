//! Counts claimed events. A claim is the permission of one consumer to deliver an event for a limited time. Each node
//! knows only the claims of the events that it decides, so this module asks the nodes and collects their numbers. A
//! node that does not answer delays the command by at most [`REQUEST_TIMEOUT`].

use std::collections::BTreeMap;
use std::time::Duration;

use firstseen_filter::duration;
use firstseen_routing::{Branch, ClusterMap, FilterId, FilterRecord, NodeId};
use firstseen_wire::proto::admin::{InspectFilterReply, InspectFilterRequest};
use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::timeout;

use crate::cluster::connect::Operator;
use crate::text::numbers::grouped;
use crate::text::size::ByteSize;

/// How long a node may take to report the state of its slices.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the status of a cluster waits for nodes that do not report their claims.
const STATUS_PATIENCE: Duration = Duration::from_secs(2);

/// Claims of the events for which a node is the head node. The head node of an event owns its first position and
/// decides about it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Claims {
    /// Number of claimed events.
    pub(crate) open: u64,
    pub(crate) bytes: u64,
    /// Time in milliseconds for which a former head node may still hold claims. It is 0 if no node does.
    pub(crate) unsure_ms: u64,
}

/// Claims by node. `None` stands for a node that does not answer.
pub(crate) type ByNode = Vec<(NodeId, Option<Claims>)>;

/// Returns the number of claims of each filter that supports claims, separately for each node. In a tree of filters,
/// only the root counts claims, so the result has no entries for the other levels.
///
/// The function asks all nodes at the same time. It does not ask nodes that are marked down or listed in `unreachable`,
/// and the result contains `None` for them.
pub(crate) async fn of_all(
    operator: &Operator,
    map: &ClusterMap,
    unreachable: &[NodeId],
) -> BTreeMap<FilterId, ByNode> {
    let filters = map.filters.iter().filter(|(_, filter)| {
        filter.policies.claim_lease_max_ms.is_some() && filter.branch.as_ref().is_none_or(Branch::is_root)
    });
    let pairs =
        filters.flat_map(|(number, filter)| filter.nodes().into_iter().map(move |node| (*number, filter, node)));
    let asked = pairs.map(async |(number, filter, node)| {
        let is_silent = map.is_down(node) || unreachable.contains(&node);
        let asked = timeout(STATUS_PATIENCE, inspect(operator, map, node, &filter.name));
        let reply = if is_silent { None } else { asked.await.ok().and_then(Result::ok) };
        (number, node, reply.as_ref().and_then(claims_of))
    });
    let mut claims = BTreeMap::<FilterId, ByNode>::new();
    for (number, node, said) in join_all(asked).await {
        claims.entry(number).or_default().push((node, said));
    }
    claims
}

/// Asks a node for the state of its slices of a filter.
///
/// # Errors
/// Returns the errors of the node, or an error if the node is not a member.
pub(crate) async fn inspect(
    operator: &Operator,
    map: &ClusterMap,
    node: NodeId,
    name: &str,
) -> anyhow::Result<InspectFilterReply> {
    let Some(node) = map.nodes.get(&node) else { anyhow::bail!("it is no member any more") };
    let request = InspectFilterRequest { name: name.to_owned() };
    let node = operator.at(&node.address).within(REQUEST_TIMEOUT);
    node.call(async |mut client| client.inspect_filter(request.clone()).await).await
}

/// Returns the claims of a filter, as far as its nodes answer, and `None` if its events cannot be claimed.
pub(crate) async fn of_filter(operator: &Operator, map: &ClusterMap, filter: &FilterRecord) -> Option<Claims> {
    filter.policies.claim_lease_max_ms?;
    let asked = filter.nodes().into_iter().map(async |node| inspect(operator, map, node, &filter.name).await.ok());
    let replies = join_all(asked).await;
    let claims = replies.iter().flatten().filter_map(claims_of);
    Some(claims.fold(Claims::default(), |sum, more| Claims {
        open: sum.open + more.open,
        bytes: sum.bytes + more.bytes,
        unsure_ms: sum.unsure_ms.max(more.unsure_ms),
    }))
}

/// Returns what a prompt says about the claims of a filter that is about to be removed. The text is empty if its events
/// cannot be claimed.
pub(crate) async fn cost(operator: &Operator, map: &ClusterMap, filter: &FilterRecord) -> String {
    let Some(lease_max_ms) = filter.policies.claim_lease_max_ms else { return String::new() };
    let open = of_filter(operator, map, filter).await.unwrap_or_default().open;
    let lease_max = duration(lease_max_ms.get().into());
    format!(
        ". {} events are claimed now: for {lease_max} and a little more, no client can claim an event that is not \
         recorded (`claims_unknown`)",
        grouped(open)
    )
}

pub(crate) fn claims_of(reply: &InspectFilterReply) -> Option<Claims> {
    let claims = reply.claims?;
    Some(Claims { open: claims.open, bytes: claims.bytes, unsure_ms: claims.unsure_ms })
}

/// Returns a text with the number of claimed events, and with the nodes where new claims must wait.
pub(crate) fn pending<'a>(claims: impl Iterator<Item = (&'a str, Claims)> + Clone) -> String {
    let open = claims.clone().map(|(_, claims)| claims.open).sum();
    let bytes = claims.clone().map(|(_, claims)| claims.bytes).sum();
    let unsure = claims.filter(|(_, claims)| claims.unsure_ms > 0);
    let unsure: Vec<String> =
        unsure.map(|(node, claims)| format!("{node} for {}", duration(claims.unsure_ms))).collect();
    let waits = if unsure.is_empty() {
        String::new()
    } else {
        format!("; what it took over is granted later (former heads may hold it): {}", unsure.join(", "))
    };
    format!("{} pending ({}){waits}", grouped(open), ByteSize(bytes))
}
