//! The format of the cluster is raised: by an operator, or by the leader once all nodes have read the next one for a while.
//!
//! Promises: the format rises only when every node has said lately that it reads the new one. Must not know: what the formats
//! mean, how nodes say what they read.

use firstseen_routing::Format;
use tokio::time::Instant;

use crate::asked_by::AskedBy;
use crate::change::Change;
use crate::codec;
use crate::command::{Command, Outcome};
use crate::error::MetaError;
use crate::formats::{NEWEST_FORMAT, Obstacle, Patience, Reads};
use crate::meta::Meta;
use crate::mixed::{halves, mixed_128};
use crate::running::Running;

/// The value in the database that says whether this node holds the format.
const HOLDS: &str = "holds_format";

/// How often the leader looks, in heartbeats.
const LOOK_HEARTBEATS: u32 = 10;
/// An answer is of lately for so many waits for one.
const LATELY_ATTEMPTS: u32 = 2;

/// Reads from the disk whether this node holds the format of the cluster.
pub(crate) async fn read_hold(meta: &Meta) -> Result<(), MetaError> {
    meta.inner.formats.set_holds(meta.inner.database.value::<bool>(HOLDS).await?.unwrap_or(false));
    Ok(())
}

/// Whether this node holds the format of the cluster.
pub fn holds_format(meta: &Meta) -> bool {
    meta.inner.formats.holds()
}

/// The leader does not raise the format of the cluster while any node holds it. The node remembers it over restarts.
///
/// # Errors
/// Those of the disk: nothing has changed.
pub async fn hold_format(meta: &Meta, holds: bool) -> Result<(), MetaError> {
    meta.inner.database.put(HOLDS, &holds).await?;
    meta.inner.formats.set_holds(holds);
    Ok(())
}

/// Raises the format of the cluster to the newest that this node, the leader, writes; returns it. There is no way back from
/// it.
///
/// # Errors
/// [`MetaError::FormatStays`] says what is in the way; other errors as of [`Meta::propose`].
pub async fn raise_format(meta: &Meta, asked_by: AskedBy) -> Result<Format, MetaError> {
    let running = meta.running()?;
    if !running.leads() {
        let reason = "this node does not lead the cluster: ask the leader, which `firstseen cluster status` names";
        return Err(MetaError::FormatStays { reason: reason.to_owned() });
    }
    let format = meta.map().borrow().format;
    if format >= NEWEST_FORMAT {
        return Ok(format);
    }
    match obstacle(meta, running) {
        Some(obstacle) => Err(MetaError::FormatStays { reason: reason(format, &obstacle) }),
        None => raise(meta, running, Some(asked_by)).await,
    }
}

async fn raise(meta: &Meta, running: &Running, asked_by: Option<AskedBy>) -> Result<Format, MetaError> {
    let [low, high] = halves(running.identity.cluster.0);
    let id = mixed_128(&[low, high, u64::from(codec::NEWEST)]);
    // Every node reads the newest format, so it may be written before the cluster writes it.
    let change = Change::Raise { format: NEWEST_FORMAT };
    match meta.propose(Command { id, asked_by, change }).await? {
        Outcome::Done => Ok(NEWEST_FORMAT),
        other => Err(MetaError::Stopped { reason: format!("raising the format ended with {other:?}") }),
    }
}

fn obstacle(meta: &Meta, running: &Running) -> Option<Obstacle> {
    let now = Instant::now();
    let lately = meta.inner.config.timing.attempt() * LATELY_ATTEMPTS;
    let formats = &meta.inner.formats;
    formats.note(running.identity.node, reads(meta), now);
    formats.obstacle(&meta.map().borrow(), NEWEST_FORMAT, now, lately)
}

/// What this node says of formats.
pub(crate) fn reads(meta: &Meta) -> Reads {
    Reads { newest: NEWEST_FORMAT, holds: holds_format(meta) }
}

/// Raises the format where this node leads, once nothing has been in the way for long; ends when the format is the newest.
pub(crate) async fn when_all_can(meta: Meta) {
    meta.inner.stop.run_until_cancelled(raise_in_time(&meta)).await;
}

async fn raise_in_time(meta: &Meta) {
    let mut maps = meta.map();
    let mut patience = Patience::default();
    let timing = &meta.inner.config.timing;
    // A cluster that was made by this version has its format already.
    while maps.wait_for(|map| !map.nodes.is_empty()).await.is_ok() && maps.borrow().format < NEWEST_FORMAT {
        tokio::time::sleep(timing.pause() * LOOK_HEARTBEATS).await;
        let Ok(running) = meta.running() else { return };
        if !running.leads() {
            patience = Patience::default();
            continue;
        }
        let in_the_way = obstacle(meta, running);
        if patience.is_over(in_the_way.as_ref(), Instant::now(), timing.raise_after()) {
            match raise(meta, running, None).await {
                Ok(format) => {
                    tracing::info!(%format, "every node reads the newest format: the cluster writes it from now on")
                }
                Err(error) => tracing::warn!(%error, "the format of the cluster could not be raised"),
            }
        }
    }
}

/// Why the format stays, and what to do.
fn reason(format: Format, obstacle: &Obstacle) -> String {
    let stays = format!("the cluster's format stays {format}");
    match obstacle {
        Obstacle::Silent { node } => format!(
            "{stays}: node `{node}` has not answered lately, and may run a version that reads no newer one: start it, or let it \
             leave for good"
        ),
        Obstacle::Old { node, newest } => {
            format!(
                "{stays}: node `{node}` runs a version that reads formats up to {newest}: start it with a newer one first"
            )
        }
        Obstacle::Held { node } => {
            format!(
                "{stays}: node `{node}` was told to hold it: `firstseen cluster upgrade finalize` ends that on all nodes"
            )
        }
    }
}
