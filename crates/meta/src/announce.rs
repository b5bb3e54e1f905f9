//! Tells the cluster that this node has started, until the cluster says which start it is.
//!
//! Promises: one start counts once, however often it is told. Must not know: what an incarnation is good for.

use crate::command::{Change, Command, CommandId, Outcome};
use crate::config::mixed_128;
use crate::error::MetaError;
use crate::meta::Meta;
use crate::store::Identity;

/// Runs until the cluster knows, or the node stops.
pub(crate) async fn until_known(meta: Meta) {
    let stop = meta.stopped().clone();
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = announce(&meta) => {}
    }
}

async fn announce(meta: &Meta) {
    let Some(identity) = meta.identity() else { return };
    // A refusal is remembered under its id, so what is asked after one needs another.
    let mut refusals = 0;
    loop {
        if identity.founder && meta.published().newest().nodes.is_empty() && found(meta, identity).await.is_err() {
            tokio::time::sleep(meta.config().timing.attempt()).await;
            continue;
        }
        let profile = meta.config().profile.clone();
        let change = Change::NodeStarted {
            node: identity.node,
            address: profile.address,
            site: profile.site,
            memory_bytes: profile.memory_bytes,
        };
        match meta.propose(Command { id: id_of(meta, identity, refusals), change }).await {
            Ok(Outcome::NodeStarted(incarnation)) => return meta.show_incarnation(incarnation),
            Ok(other) => return tracing::error!(?other, "the start of this node was answered as something else"),
            Err(MetaError::Refused(refusal)) => {
                refusals += 1;
                tracing::error!(node = identity.node.0, %refusal, "the cluster refuses this node");
            }
            Err(error @ MetaError::Unknown { .. }) => tracing::info!(%error, "waiting for the cluster"),
            Err(error) => return tracing::error!(%error, "this node cannot take part"),
        }
        tokio::time::sleep(meta.config().timing.attempt()).await;
    }
}

async fn found(meta: &Meta, identity: Identity) -> Result<Outcome, MetaError> {
    let change = Change::Found { cluster: identity.cluster, profile: meta.config().profile.clone() };
    let founded = meta.propose(Command { id: identity.cluster.0, change }).await;
    if let Err(error) = &founded {
        tracing::error!(%error, "the cluster could not be founded");
    }
    founded
}

/// Another one in every life of every node.
fn id_of(meta: &Meta, identity: Identity, refusals: u64) -> CommandId {
    let cluster = u128::from_le_bytes(identity.cluster.0);
    let (low, high) = (cluster as u64, (cluster >> 64) as u64);
    mixed_128(&[meta.config().seed, low, high, identity.node.0, meta.starts(), refusals])
}
