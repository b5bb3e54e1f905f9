//! Raises the format in which the cluster encodes its map. There are two ways to start this change: an operator can
//! request it, or the leader makes it automatically when all nodes have been able to read the newer format for a while.
//! In both cases, every node must have recently reported that it can read the newer format.

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

/// Key of the database value that says whether this node holds the format.
const HOLDS: &str = "holds_format";

/// Interval between two checks of the leader, in heartbeats.
const LOOK_HEARTBEATS: u32 = 10;
/// Maximum age of a report that counts as recent, in attempts to get one.
const LATELY_ATTEMPTS: u32 = 2;

/// Reads from the disk whether this node holds the format of the cluster.
pub(crate) async fn read_hold(meta: &Meta) -> Result<(), MetaError> {
    meta.inner.formats.set_holds(meta.inner.database.value::<bool>(HOLDS).await?.unwrap_or(false));
    Ok(())
}

/// Returns whether this node holds the format of the cluster.
pub fn holds_format(meta: &Meta) -> bool {
    meta.inner.formats.holds()
}

/// Sets whether this node holds the format of the cluster. As long as any node holds the format, the leader does not
/// raise it, so that the operator can still go back to an older version of the program. The setting survives restarts
/// of the node.
///
/// # Errors
/// Returns the errors of the disk. In this case, nothing has changed.
pub async fn hold_format(meta: &Meta, holds: bool) -> Result<(), MetaError> {
    meta.inner.database.put(HOLDS, &holds).await?;
    meta.inner.formats.set_holds(holds);
    Ok(())
}

/// Raises the format of the cluster to the newest format that this program can write, and returns that format. The call
/// succeeds only on the leader. The change cannot be undone, and older versions of the program can no longer join the
/// cluster.
///
/// # Errors
/// [`MetaError::FormatStays`] names the obstacle. Other errors are those of [`Meta::propose`].
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
    // Every node can read the newest format, so this command may use it before the cluster does.
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

/// Returns this node's report about formats.
pub(crate) fn reads(meta: &Meta) -> Reads {
    Reads { newest: NEWEST_FORMAT, holds: holds_format(meta) }
}

/// Task that raises the format of the cluster automatically. The task acts only on the leader. It raises the format
/// when all nodes have been able to read the newer format for the configured time and no node has prevented the change.
/// It ends as soon as the cluster uses the newest format.
pub(crate) async fn when_all_can(meta: Meta) {
    meta.inner.stop.run_until_cancelled(raise_in_time(&meta)).await;
}

async fn raise_in_time(meta: &Meta) {
    let mut maps = meta.map();
    let mut patience = Patience::default();
    let timing = &meta.inner.config.timing;
    // A cluster that was founded by this version already has this format.
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
                    tracing::info!(%format, "every node can read the newest format, so the cluster writes it from now \
                                             on")
                }
                Err(error) => tracing::warn!(%error, "the format of the cluster could not be raised"),
            }
        }
    }
}

/// Returns the error message that says why the format cannot be raised, and what to do.
fn reason(format: Format, obstacle: &Obstacle) -> String {
    let stays = format!("the cluster's format stays {format}");
    match obstacle {
        Obstacle::Silent { node } => format!(
            "{stays}: node `{node}` has not answered recently, and may run a version that cannot read a newer format: \
             start it, or let it leave for good"
        ),
        Obstacle::Old { node, newest } => {
            format!(
                "{stays}: node `{node}` runs a version that reads formats up to {newest}: start it with a newer \
                 version first"
            )
        }
        Obstacle::Held { node } => {
            format!(
                "{stays}: node `{node}` holds the format: release it on all nodes with `firstseen cluster upgrade \
                 finalize`"
            )
        }
    }
}
