//! Proposes this node's start to the agreement, until the map says which start it is; and proposes that the node is up
//! again, where the others have given it up or it has given itself up, which counts as a start.
//!
//! Promises: one start counts once, however often it is proposed. Must not know: what an incarnation is good for.

use firstseen_routing::{ClusterMap, Format, Incarnation, NodeId};

use crate::change::Change;
use crate::codec;
use crate::command::{Command, CommandId, Outcome};
use crate::error::MetaError;
use crate::meta::Meta;
use crate::mixed::{halves, mixed_128};
use crate::store::Identity;

/// Runs until the map shows the start, or the node stops.
pub(crate) async fn until_known(meta: Meta) {
    meta.inner.stop.run_until_cancelled(stay_announced(&meta)).await;
}

async fn stay_announced(meta: &Meta) {
    let Some(identity) = meta.identity() else { return };
    // A refusal is remembered under its id, so a command after one needs another id; and so does every start.
    let mut tries = 0;
    let mut maps = meta.map();
    while let Some(incarnation) = announce(meta, identity, &mut tries).await {
        meta.inner.incarnation.send(Some(incarnation));
        tokio::select! {
            biased;
            gone_on = maps.wait_for(|map| is_given_up(map, identity.node, incarnation)) => match gone_on {
                Ok(_) => tracing::warn!("the other nodes have gone on without this one: it counts as started anew"),
                Err(_) => return,
            },
            () = meta.is_over(incarnation) => {}
        }
        meta.inner.incarnation.send(None);
        tries += 1;
    }
}

fn is_given_up(map: &ClusterMap, node: NodeId, incarnation: Incarnation) -> bool {
    map.nodes.get(&node).is_some_and(|record| record.is_down && record.incarnation == incarnation)
}

/// Proposes the start; returns the incarnation that it counts as, none where the node has no part in the cluster.
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
                tracing::error!(?other, "the start of this node was answered as something else");
                return None;
            }
            Err(MetaError::Refused(refusal)) => {
                *tries += 1;
                tracing::error!(node = identity.node.0, %refusal, "the cluster refuses this node");
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

/// An id of its own in every life of every node, and for every try there.
fn id_of(meta: &Meta, identity: Identity, tries: u64) -> CommandId {
    let [low, high] = halves(identity.cluster.0);
    mixed_128(&[meta.inner.config.seed, low, high, identity.node.0, meta.inner.starts, tries])
}
