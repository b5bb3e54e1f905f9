//! The threads that serve a door's connections. Each has its own runtime and its own clients of the cluster, so a request wakes no
//! other thread than the one that owns its slice.
//!
//! This module must not depend on what a thread serves.

use std::thread::{Builder, available_parallelism};

use tokio::runtime;
use tokio::sync::oneshot;

/// How many threads serve connections: as many as the settings say, or half of the processors.
pub(crate) fn count(threads: Option<u16>) -> usize {
    let processors = available_parallelism().map_or(1, |processors| processors.get());
    threads.map_or((processors / 2).max(1), usize::from)
}

/// Starts a thread of this name. `make` connects to the cluster there, and returns where connections are handed to the thread, and
/// what it serves from then on; or `None` if the door closes first.
///
/// # Errors
/// The thread cannot be started, or the door closes first.
pub(crate) async fn start<Make, Counter, Serving>(
    name: String,
    make: impl FnOnce() -> Make + Send + 'static,
) -> Result<Counter, String>
where
    Make: Future<Output = Option<(Counter, Serving)>>,
    Counter: Send + 'static,
    Serving: Future<Output = ()>,
{
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let (ready, is_ready) = oneshot::channel();
    let attend = move || {
        runtime.block_on(async {
            let Some((counter, serving)) = make().await else { return };
            if ready.send(counter).is_ok() {
                serving.await;
            }
        });
    };
    Builder::new().name(name).spawn(attend).map_err(|error| error.to_string())?;
    is_ready.await.map_err(|_| "it has ended".to_owned())
}
