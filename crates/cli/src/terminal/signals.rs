//! Ctrl-C and SIGTERM for commands that wait in a runtime.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask the command to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from now on; must be called in a runtime.
    ///
    /// # Errors
    /// Where signals cannot be listened for.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next signal, and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

fn listen(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot listen for signals")
}
