//! Forms a cluster of several nodes, or finds that the nodes already form a cluster. If the procedure is interrupted,
//! it can be started again, because it first asks each node whether it already belongs to a cluster.

use std::time::Duration;

use anyhow::{Context, bail};
use firstseen_wire::proto::admin::{IdentifyReply, IdentifyRequest};
use tokio::time::{Instant, sleep};

use super::{ClusterStatus, init, join, status};
use crate::cluster::connect::Operator;

/// Interval in which the nodes are asked whether they agree.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Forms a cluster of the nodes at `addresses`, and returns the id of the cluster. The function waits until each node
/// answers, adds the nodes that belong to no cluster yet, and then waits until all nodes have the same cluster map.
pub async fn form(any: &Operator, addresses: &[String], patience: Duration) -> anyhow::Result<String> {
    let deadline = Instant::now() + patience;
    let any = any.within(patience);
    let mut members = Vec::new();
    let mut others = Vec::new();
    for address in addresses {
        let identity: IdentifyReply =
            any.at(address).call(async |mut client| client.identify(IdentifyRequest {}).await).await?;
        if identity.cluster_id.is_empty() { others.push(address) } else { members.push(address) }
    }
    let (member, joining) = match (members.first(), others.split_first()) {
        (Some(member), _) => (any.at(member), &others[..]),
        (None, Some((founder, joining))) => {
            let founder = any.at(founder);
            init(&founder).await?;
            (founder, joining)
        }
        (None, None) => bail!("a cluster has at least one node"),
    };
    for address in joining {
        join(&member, address).await.with_context(|| format!("{address} cannot join"))?;
    }
    agreed(&any, addresses, deadline).await
}

/// Waits until every node has the same cluster map, with a leader and with at least one start of each node.
async fn agreed(any: &Operator, addresses: &[String], deadline: Instant) -> anyhow::Result<String> {
    let mut clusters = Vec::new();
    for address in addresses {
        let node = any.at(address).within(deadline.saturating_duration_since(Instant::now()));
        loop {
            match status::ask(&node).await {
                Ok(known) if is_formed(&known, addresses.len()) => break clusters.push(known.map.cluster.to_string()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Ok(_) if Instant::now() > deadline => {
                    bail!("the node at {address} does not agree with the others in time: its log says more")
                }
                // A node that has just joined does not know its cluster yet.
                _ => sleep(POLL_INTERVAL).await,
            }
        }
    }
    clusters.dedup();
    match &clusters[..] {
        [cluster] => Ok(cluster.clone()),
        _ => bail!("the nodes belong to different clusters: {}", clusters.join(", ")),
    }
}

/// Returns whether a node knows a leader and this number of nodes that have started.
fn is_formed(status: &ClusterStatus, nodes: usize) -> bool {
    let started = status.map.nodes.values().filter(|node| node.incarnation.0 > 0).count();
    status.leader.is_some() && started >= nodes
}
