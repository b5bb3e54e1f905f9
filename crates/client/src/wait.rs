//! The client for programs without an async runtime: calls that block.
//!
//! Promises: connections are served by a thread of their own, also while no call waits.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// Waits for any call of the client in a program without an async runtime.
///
/// ```
/// use firstseen_client::{Client, Verdict, Wait};
///
/// # let run = |seed: String| -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect([seed]).wait()?;
/// let clicks = client.filter("clicks").wait()?;
/// assert_eq!(clicks.observe("click").wait()?, Verdict::FirstSeen);
/// # Ok(())
/// # };
/// # firstseen_fake::run_blocking(run);
/// ```
pub trait Wait: Future + Sized {
    /// Runs the call on this thread until it is over, and returns what it returns. The first one in a process starts the
    /// thread `firstseen-client`, which serves the connections of all clients that were connected in this way.
    ///
    /// # Panics
    /// In an async runtime, where it would block a thread that has other work; and if the thread cannot be started.
    fn wait(self) -> Self::Output {
        runtime().block_on(self)
    }
}

impl<F: Future> Wait for F {}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("firstseen-client").enable_all().build();
        runtime.expect("a thread of the client")
    })
}
