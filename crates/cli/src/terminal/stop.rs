//! Ctrl-C and SIGTERM: a wish to stop, told to whoever waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The one that listens: signals come to the process, and are listened for once.
static LISTENS: OnceLock<Stop> = OnceLock::new();

/// Set once a person or the system wants the run to end.
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

    /// Whether the process is to stop, for whoever waits where nobody has handed on what listens.
    #[cfg(feature = "full")]
    pub(crate) fn is_wished() -> bool {
        LISTENS.get().is_some_and(Self::is_set)
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
