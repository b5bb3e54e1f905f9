//! The claims of events, as the nodes that head them say.
//!
//! Promises: a node that does not answer holds up nobody for longer than [`PATIENCE`]. Must not know: how claims are granted.

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

/// How long a node may take to answer how its slices fare.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long the status of a cluster waits for nodes that do not say what they hold.
const STATUS_PATIENCE: Duration = Duration::from_secs(2);

/// Claims of the events that a node heads.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Claims {
    /// Events that are held.
    pub(crate) open: u64,
    pub(crate) bytes: u64,
    /// For how long a former head may still hold events; 0 where none may.
    pub(crate) unsure_ms: u64,
}

/// What the nodes of a filter say; none of a node that does not answer.
pub(crate) type ByNode = Vec<(NodeId, Option<Claims>)>;

/// What the nodes of each filter say whose events can be claimed; in a tree, those of the root. All nodes are asked at once, but for
/// those that are `unreachable`.
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

/// Asks a node how its slices of a filter fare.
///
/// # Errors
/// Those of the node; that it is no member.
pub(crate) async fn inspect(
    operator: &Operator,
    map: &ClusterMap,
    node: NodeId,
    name: &str,
) -> anyhow::Result<InspectFilterReply> {
    let Some(node) = map.nodes.get(&node) else { anyhow::bail!("it is no member any more") };
    let request = InspectFilterRequest { name: name.to_owned() };
    let node = operator.at(&node.address).within(PATIENCE);
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

/// Returns what a prompt says of the claims of a filter that is about to go, and an empty text if its events cannot be claimed.
pub(crate) async fn cost(operator: &Operator, map: &ClusterMap, filter: &FilterRecord) -> String {
    let Some(lease_max_ms) = filter.policies.claim_lease_max_ms else { return String::new() };
    let open = of_filter(operator, map, filter).await.unwrap_or_default().open;
    let lease_max = duration(lease_max_ms.get().into());
    format!(
        ". {} events are claimed now: for {lease_max} and a little more, nobody is granted an event that is not recorded \
         (`claims_unknown`)",
        grouped(open)
    )
}

pub(crate) fn claims_of(reply: &InspectFilterReply) -> Option<Claims> {
    let claims = reply.claims?;
    Some(Claims { open: claims.open, bytes: claims.bytes, unsure_ms: claims.unsure_ms })
}

/// How many events are held, and at which nodes new ones wait.
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
