//! The state of a cluster as one of its nodes knows it. If the cluster runs a newer release than this program, the
//! program may be unable to read the definitions of some filters. The state omits these filters, and a notice on stderr
//! names each of them.

use std::collections::BTreeMap;

use firstseen_routing::{ClusterMap, NodeId};
use firstseen_wire::map::{UnreadableFilter, readable};
use firstseen_wire::proto::admin::{StatusReply, StatusRequest};

use crate::cluster::connect::Operator;

/// The state of the cluster as one of its nodes sees it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterStatus {
    pub(crate) map: ClusterMap,
    /// Number of the leader. `None` means that no node leads at present.
    pub(crate) leader: Option<NodeId>,
    pub(crate) term: u64,
    pub(crate) last_applied: u64,
    /// Nodes that the asked node cannot reach.
    pub(crate) unreachable: Vec<NodeId>,
    /// Nodes that do not answer the asked node at this moment.
    pub(crate) not_answering: Vec<NodeId>,
    /// Deviation of each node's clock from the median of all clocks, in milliseconds. A positive number means that the
    /// clock of the node is ahead. A node whose clock was not measured yet has no entry.
    pub(crate) clocks: BTreeMap<NodeId, i64>,
    /// Maximum allowed difference between two clocks in milliseconds.
    pub(crate) clock_skew_max_ms: u64,
}

/// Asks a node for its status with the cluster map.
///
/// # Errors
/// Returns the errors of the node, an error if the map cannot be read, or an error if there is no cluster yet.
pub(crate) async fn ask(member: &Operator) -> anyhow::Result<ClusterStatus> {
    member.call(async |mut client| client.status(StatusRequest::default()).await).await?.try_into()
}

impl TryFrom<StatusReply> for ClusterStatus {
    type Error = anyhow::Error;

    fn try_from(reply: StatusReply) -> anyhow::Result<Self> {
        let StatusReply { map, leader, term, last_applied, unreachable, clocks, clock_skew_max_ms, not_answering } =
            reply;
        let map = match map {
            Some(map) if map.version > 0 => map,
            _ => anyhow::bail!("this node belongs to no cluster yet: firstseen cluster init, join or form"),
        };
        let (map, unreadable) = readable(map)?;
        for UnreadableFilter { name, error } in unreadable {
            notice!("firstseen: filter `{name}` is not shown, as this version does not understand it: {error}");
        }
        Ok(Self {
            map,
            leader: (leader > 0).then_some(NodeId(leader)),
            term,
            last_applied,
            unreachable: unreachable.into_iter().map(NodeId).collect(),
            not_answering: not_answering.into_iter().map(NodeId).collect(),
            clocks: clocks.into_iter().map(|clock| (NodeId(clock.node_id), clock.ahead_ms)).collect(),
            clock_skew_max_ms,
        })
    }
}
