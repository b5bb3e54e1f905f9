//! The threads of the door for Redis clients: each has a runtime and a client of its own, so that a command is read, asked for and
//! replied to without waking another thread, but for the owner of its slice.
//!
//! Promises: nobody is accepted before the node can be asked. Must not know: who may come in.

use std::sync::Arc;
use std::thread::{Builder, available_parallelism};

use firstseen_door::{Attendant, Counter, Door};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::doors::own_client;
use crate::shared::Shared;

/// How many threads attend to connections: as many as the settings say, or half of the processors.
pub(super) fn count(threads: Option<u16>) -> usize {
    let processors = available_parallelism().map_or(1, |processors| processors.get());
    threads.map_or((processors / 2).max(1), usize::from)
}

/// Serves Redis clients until the node stops.
pub(super) async fn serve(door: Arc<Door>, threads: usize, listener: TcpListener, shared: Arc<Shared>) {
    // Nothing new is taken up then, and what is under way is replied to.
    let stop = shared.departure.door_closed.clone();
    let mut counters = Vec::with_capacity(threads);
    for number in 1..=threads {
        let is_first = counters.is_empty();
        match begin(&door, (number, is_first), &shared, &stop).await {
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
    (number, is_first): (usize, bool),
    shared: &Arc<Shared>,
    stop: &CancellationToken,
) -> Result<Counter, String> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let (ready, is_ready) = oneshot::channel();
    let (door, shared, stop) = (door.clone(), shared.clone(), stop.clone());
    let attend = async move {
        let Some(client) = stop.run_until_cancelled(own_client::connect(&shared, super::CLIENTS)).await else { return };
        let (counter, attendant): (Counter, Attendant) = door.attendant(client, is_first);
        if ready.send(counter).is_ok() {
            attendant.serve(stop).await;
        }
    };
    let thread = Builder::new().name(format!("redis-{number}"));
    thread.spawn(move || runtime.block_on(attend)).map_err(|error| error.to_string())?;
    is_ready.await.map_err(|_| "it has ended".to_owned())
}
