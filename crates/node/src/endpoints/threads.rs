//! The threads that serve the connections of the Redis endpoint or the HTTP endpoint. Each thread has its own async
//! runtime and its own clients of the cluster. An endpoint thread can therefore process a request without waking other
//! endpoint threads, and only wakes the owner threads that decide the events.

use std::thread::{Builder, available_parallelism};

use firstseen_backend::ConnectionSender;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Stack size of a thread, in bytes. Unoptimized builds need more than the default of 2 MiB for the nested calls of one
/// connection.
const STACK_BYTES: usize = 8 << 20;

/// Returns the number of threads that serve connections. The default is half the number of processors.
pub(crate) fn count(threads: Option<u16>) -> usize {
    let processors = available_parallelism().map_or(1, |processors| processors.get());
    threads.map_or((processors / 2).max(1), usize::from)
}

/// Parameters of the threads of an endpoint.
pub(crate) struct EndpointThreads<'a> {
    /// Prefix of the thread names.
    pub(crate) name: &'a str,
    /// Name of the endpoint's clients in log messages.
    pub(crate) clients: &'a str,
    pub(crate) count: usize,
    /// Cancelled when the endpoint closes.
    pub(crate) stop: &'a CancellationToken,
}

impl EndpointThreads<'_> {
    /// Starts the threads and returns the channels through which they receive connections. Returns `None` if the
    /// endpoint closes first.
    ///
    /// `make` supplies the work of the threads. It is called once for each thread, with the argument `true` for the
    /// first thread, and returns a closure that runs on the new thread. This closure connects to the cluster, and
    /// returns two values:
    ///
    /// - the channel through which the thread receives connections,
    /// - the future that serves these connections.
    ///
    /// The closure returns `None` if the endpoint closes before the thread has connected to the cluster.
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
                    tracing::debug!(error, "the endpoint for {clients} is not opened");
                    return None;
                }
                Err(error) => tracing::error!(error, "a thread of the endpoint for {clients} cannot be started"),
            }
        }
        if senders.is_empty() {
            tracing::error!("the endpoint for {clients} is not opened: none of its threads could be started");
        }
        Some(senders)
    }
}

/// Starts a thread with this name.
///
/// # Errors
/// Returns an error if the thread cannot be started, or if the endpoint closes first.
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
