//! Requests status samples from the nodes of a cluster. The requests to all nodes are sent at the same time, and the
//! console waits at most [`ANSWER_MAX`] for the replies. A node that has not replied by then is left out of the result,
//! so one slow node cannot delay the overview.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::{Incarnation, NodeId, NodeRecord};
use firstseen_wire::net::{self, Channel, Connector};
use firstseen_wire::proto::peer::{SampleReply, SampleRequest};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::sample::NodeSample;

/// Maximum time that a node may take to answer.
const ANSWER_MAX: Duration = Duration::from_millis(700);

/// Maximum number of nodes that are asked. Nodes with higher numbers are not asked.
pub(super) const NODES_MAX: usize = 256;

/// Connections to the other nodes.
#[derive(Default)]
pub(super) struct Peers(BTreeMap<NodeId, (String, Channel)>);

impl Peers {
    /// Requests a sample from all reachable nodes.
    pub(super) async fn ask(
        &mut self,
        own: &Arc<NodeSample>,
        connector: &dyn Connector,
    ) -> BTreeMap<NodeId, (Incarnation, Arc<SampleReply>)> {
        let view = own.health.views.newest();
        self.0.retain(|node, (address, _)| view.map.nodes.get(node).is_some_and(|record| record.address == *address));
        let mut asked = JoinSet::new();
        for (node, record) in view.map.nodes.iter().take(NODES_MAX) {
            let node = *node;
            let incarnation = record.incarnation;
            if view.node() == Some(node) {
                let own = own.clone();
                asked.spawn(async move { (node, incarnation, timeout(ANSWER_MAX, own.take()).await.ok()) });
            } else if let Some(channel) = self.channel(connector, node, record).filter(|_| view.reaches(node)) {
                asked.spawn(async move { (node, incarnation, timeout(ANSWER_MAX, ask(channel)).await.ok().flatten()) });
            }
        }
        let mut said = BTreeMap::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok((node, incarnation, Some(sample))) = answer {
                said.insert(node, (incarnation, Arc::new(sample)));
            }
        }
        said
    }

    fn channel(&mut self, connector: &dyn Connector, node: NodeId, record: &NodeRecord) -> Option<Channel> {
        if let Some((_, channel)) = self.0.get(&node) {
            return Some(channel.clone());
        }
        let channel = connector.channel(&record.address, Some(&record.name)).ok()?;
        self.0.insert(node, (record.address.clone(), channel.clone()));
        Some(channel)
    }
}

/// Returns the answer of a node. Returns `None` if the version of the node does not know the request.
async fn ask(channel: Channel) -> Option<SampleReply> {
    let answer = net::peer_client(channel).sample(SampleRequest {}).await.ok()?.into_inner();
    (!answer.version.is_empty()).then_some(answer)
}
