//! Announces the start of this node to the cluster, and repeats the announcement until the cluster map contains the
//! start. The map identifies each start of a node by its incarnation, which is a number that rises with each start. A
//! repeated announcement of the same start is recognized and does not create another incarnation.
//!
//! A node also announces a new start in two cases in which its process has not restarted. In the first case, the other
//! nodes have marked the node as down. In the second case, the node itself wants to count as restarted, for example
//! because it lacks events.

use firstseen_routing::{ClusterMap, Format, Incarnation, NodeId};

use crate::change::Change;
use crate::codec;
use crate::command::{Command, CommandId, Outcome};
use crate::error::MetaError;
use crate::meta::Meta;
use crate::mixed::{halves, mixed_128};
use crate::store::Identity;

/// Announces this node until it stops.
pub(crate) async fn until_known(meta: Meta) {
    meta.inner.stop.run_until_cancelled(stay_announced(&meta)).await;
}

async fn stay_announced(meta: &Meta) {
    let Some(identity) = meta.identity() else { return };
    // The cluster remembers a rejection under the id of its command. A command after a rejection, and the command of
    // another start, therefore need another id.
    let mut tries = 0;
    let mut maps = meta.map();
    while let Some(incarnation) = announce(meta, identity, &mut tries).await {
        meta.inner.incarnation.send(Some(incarnation));
        tokio::select! {
            biased;
            gone_on = maps.wait_for(|map| is_abandoned(map, identity.node, incarnation)) => match gone_on {
                Ok(_) => tracing::warn!("the other nodes have continued without this node: it now counts as restarted"),
                Err(_) => return,
            },
            () = meta.is_over(incarnation) => {}
        }
        meta.inner.incarnation.send(None);
        tries += 1;
    }
}

fn is_abandoned(map: &ClusterMap, node: NodeId, incarnation: Incarnation) -> bool {
    map.nodes.get(&node).is_some_and(|record| record.is_down && record.incarnation == incarnation)
}

/// Proposes the start, and returns the incarnation that it received. Returns `None` if the node no longer belongs to
/// the cluster.
async fn announce(meta: &Meta, identity: Identity, tries: &mut u64) -> Option<Incarnation> {
    loop {
        if identity.founder && meta.inner.published.newest().nodes.is_empty() && found(meta, identity).await.is_err() {
            tokio::time::sleep(meta.inner.config.timing.attempt()).await;
            continue;
        }
        let profile = meta.inner.config.profile.clone();
        let change = Change::NodeStarted {
            node: identity.node,
            address: profile.address,
            site: profile.site,
            memory_bytes: profile.memory_bytes,
        };
        match meta.propose(Command::new(id_of(meta, identity, *tries), change)).await {
            Ok(Outcome::NodeStarted(incarnation)) => return Some(incarnation),
            Ok(other) => {
                tracing::error!(?other, "the cluster answered the start of this node with an unexpected outcome");
                return None;
            }
            Err(MetaError::Refused(refusal)) => {
                *tries += 1;
                tracing::error!(node = identity.node.0, %refusal, "the cluster rejects this node");
            }
            Err(error @ MetaError::Unknown { .. }) => tracing::info!(%error, "waiting for the cluster"),
            Err(error) => {
                tracing::error!(%error, "this node cannot take part");
                return None;
            }
        }
        tokio::time::sleep(meta.inner.config.timing.attempt()).await;
    }
}

async fn found(meta: &Meta, identity: Identity) -> Result<Outcome, MetaError> {
    let profile = meta.inner.config.profile.clone();
    let change = Change::FoundAs { cluster: identity.cluster, profile, format: Format(codec::NEWEST) };
    let founded = meta.propose(Command::new(identity.cluster.0, change)).await;
    if let Err(error) = &founded {
        tracing::error!(%error, "the cluster could not be founded");
    }
    founded
}

/// Returns a command id that is unique to this start of this node and to this attempt.
fn id_of(meta: &Meta, identity: Identity, tries: u64) -> CommandId {
    let [low, high] = halves(identity.cluster.0);
    mixed_128(&[meta.inner.config.seed, low, high, identity.node.0, meta.inner.starts, tries])
}
