//! Handles Ctrl-C and SIGTERM by setting a flag, which a run checks regularly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The stop flag of the process, which its single signal handler sets.
static STOP_FLAG: OnceLock<Stop> = OnceLock::new();

/// Flag that is set once the user or the system asks the run to end.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Starts to listen for the signals. Calls `wake` when a signal arrives, to end a wait. A second signal ends the
    /// process at once.
    ///
    /// # Errors
    /// Returns an error if the process cannot listen for signals.
    pub fn on_signal(wake: impl Fn() + Send + 'static) -> anyhow::Result<Self> {
        let stop = Self::default();
        let flag = stop.clone();
        ctrlc::set_handler(move || {
            if flag.0.swap(true, Ordering::SeqCst) {
                std::process::exit(i32::from(crate::exit::INTERRUPTED));
            }
            wake();
        })?;
        Ok(STOP_FLAG.get_or_init(|| stop).clone())
    }

    /// Returns whether the process was asked to stop, for code that has no access to the handler.
    #[cfg(feature = "full")]
    pub(crate) fn is_requested() -> bool {
        STOP_FLAG.get().is_some_and(Self::is_set)
    }

    /// Returns whether the run was asked to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
