//! The threads that serve a door's connections. Each has its own runtime and its own clients of the cluster, so a request wakes no
//! other thread than the one that owns its slice.
//!
//! This module must not depend on what a thread serves.

use std::thread::{Builder, available_parallelism};

use firstseen_backend::ConnectionSender;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Bytes of a thread's stack. Builds without optimisation take more than the default of 2 MiB for the calls of one connection.
const STACK_BYTES: usize = 8 << 20;

/// How many threads serve connections: as many as the settings say, or half of the processors.
pub(crate) fn count(threads: Option<u16>) -> usize {
    let processors = available_parallelism().map_or(1, |processors| processors.get());
    threads.map_or((processors / 2).max(1), usize::from)
}

/// The threads of a door.
pub(crate) struct DoorThreads<'a> {
    /// What the names of threads begin with.
    pub(crate) name: &'a str,
    /// Whose connections they serve, for the log.
    pub(crate) clients: &'a str,
    pub(crate) count: usize,
    /// Cancelled when the door closes.
    pub(crate) stop: &'a CancellationToken,
}

impl DoorThreads<'_> {
    /// Starts the threads, and returns where connections are handed to them; `None` if the door closes first. `make` gets whether the
    /// thread is the first one. What it returns connects to the cluster on the thread, and says what the thread serves from then on, or
    /// `None` if the door closes first.
    pub(crate) async fn start<Begin, Make, Serving>(
        &self,
        make: impl Fn(bool) -> Begin,
    ) -> Option<Vec<ConnectionSender>>
    where
        Begin: FnOnce() -> Make + Send + 'static,
        Make: Future<Output = Option<(ConnectionSender, Serving)>>,
        Serving: Future<Output = ()>,
    {
        let clients = self.clients;
        let mut senders = Vec::with_capacity(self.count);
        for number in 1..=self.count {
            let begin = make(senders.is_empty());
            match start(format!("{}-{number}", self.name), begin).await {
                Ok(sender) => senders.push(sender),
                Err(error) if self.stop.is_cancelled() => {
                    tracing::debug!(error, "the door for {clients} stays closed");
                    return None;
                }
                Err(error) => tracing::error!(error, "a thread of the door for {clients} cannot be started"),
            }
        }
        if senders.is_empty() {
            tracing::error!("the door for {clients} stays closed: none of its threads could be started");
        }
        Some(senders)
    }
}

/// Starts a thread of this name.
///
/// # Errors
/// The thread cannot be started, or the door closes first.
async fn start<Make, Serving>(
    name: String,
    begin: impl FnOnce() -> Make + Send + 'static,
) -> Result<ConnectionSender, String>
where
    Make: Future<Output = Option<(ConnectionSender, Serving)>>,
    Serving: Future<Output = ()>,
{
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let (ready, is_ready) = oneshot::channel();
    let thread = Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
        runtime.block_on(async {
            let Some((sender, serving)) = begin().await else { return };
            if ready.send(sender).is_ok() {
                serving.await;
            }
        });
    });
    thread.map_err(|error| error.to_string())?;
    is_ready.await.map_err(|_| "it has ended".to_owned())
}
