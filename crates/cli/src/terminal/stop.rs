//! Ctrl-C and SIGTERM: the wish to stop, which a run looks at.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The handler of signals: they come to the process, which handles them in one place.
static LISTENS: OnceLock<Stop> = OnceLock::new();

/// Set once a user or the system wants the run to end.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens for the signals; `wake` is called when one comes, to end a wait. A second signal ends the process at
    /// once.
    ///
    /// # Errors
    /// Where signals cannot be listened for.
    pub fn on_signal(wake: impl Fn() + Send + 'static) -> anyhow::Result<Self> {
        let stop = Self::default();
        let flag = stop.clone();
        ctrlc::set_handler(move || {
            if flag.0.swap(true, Ordering::SeqCst) {
                std::process::exit(i32::from(crate::exit::INTERRUPTED));
            }
            wake();
        })?;
        Ok(LISTENS.get_or_init(|| stop).clone())
    }

    /// Whether the process is to stop, for code that was not given the handler.
    #[cfg(feature = "full")]
    pub(crate) fn is_wished() -> bool {
        LISTENS.get().is_some_and(Self::is_set)
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
