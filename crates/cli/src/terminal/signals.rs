//! Receives Ctrl-C and SIGTERM for commands that wait in an async runtime.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask the command to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts to listen for signals. Must be called within a runtime.
    ///
    /// # Errors
    /// Returns an error if the process cannot listen for signals.
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
