//! Blocking calls, for programs without an async runtime.
//!
//! A separate thread serves the connections, so they stay alive even while no call is waiting.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// Runs any call of the client in a program without an async runtime, and blocks until the call returns.
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
    /// Runs the call to its end on the current thread, and returns the result of the call. The first use in a process
    /// starts the background thread `firstseen-client`. This thread serves the connections of all clients that were
    /// connected with this function.
    ///
    /// # Panics
    /// Panics inside an async runtime, because the call would block a thread of the runtime. Panics if the thread
    /// cannot be started.
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
