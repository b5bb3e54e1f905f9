//! The threads that serve Redis clients.
//!
//! Nobody is accepted before the node can be asked. This module must not depend on who may come in.

use std::sync::Arc;

use firstseen_door::{Counter, Door};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::doors::{own_client, threads};
use crate::shared::Shared;

/// Serves Redis clients until the node stops.
pub(super) async fn serve(door: Arc<Door>, threads: usize, listener: TcpListener, shared: Arc<Shared>) {
    // Nothing new is taken up then, and what is under way is replied to.
    let stop = shared.departure.door_closed.clone();
    let mut counters = Vec::with_capacity(threads);
    for number in 1..=threads {
        let is_first = counters.is_empty();
        match begin(&door, number, is_first, &shared, &stop).await {
            Ok(counter) => counters.push(counter),
            Err(error) if stop.is_cancelled() => {
                return tracing::debug!(error, "the door for Redis clients stays closed");
            }
            Err(error) => tracing::error!(error, "a thread of the door for Redis clients cannot be started"),
        }
    }
    if counters.is_empty() {
        tracing::error!("the door for Redis clients stays closed: none of its threads could be started");
    }
    let _ = shared.open.door.set(door.counts());
    door.serve(listener, &counters, stop).await;
}

/// Starts a thread with an attendant; returns where connections are handed to it.
async fn begin(
    door: &Arc<Door>,
    number: usize,
    is_first: bool,
    shared: &Arc<Shared>,
    stop: &CancellationToken,
) -> Result<Counter, String> {
    let (door, shared, stop) = (door.clone(), shared.clone(), stop.clone());
    threads::start(format!("redis-{number}"), move || async move {
        let client =
            stop.run_until_cancelled(own_client::connect(&shared, super::CLIENTS, door.verdict_timeout())).await?;
        let (counter, attendant) = door.attendant(client, is_first);
        Some((counter, attendant.serve(stop)))
    })
    .await
}
