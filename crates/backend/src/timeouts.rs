//! Limits how long the calls of one read wait.
//!
//! A client can send many commands in one read of its connection. If the nodes of a filter are unreachable, each call
//! to this filter waits until its timeout, so the replies to all commands would take very long. Therefore a filter is
//! given the whole timeout only until one of its calls has been slow. For the rest of the read, each further call to
//! this filter waits for only a tenth of the timeout.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_client::FilterError;
use tokio::time::Instant;

use crate::filters::{Answers, EventCall, Filters};

/// Waiting limits for the calls of one read, and the filters that have been slow in this read.
pub struct Patience {
    /// Duration from which a call counts as slow. A slow call has reached its timeout, or nearly so.
    slow_call: Duration,
    /// Waiting time for later calls to a slow filter. Nodes that answer at all do so within milliseconds.
    later_wait: Duration,
    slow: Mutex<Vec<Arc<str>>>,
}

impl Patience {
    /// Creates the limits for calls that may wait up to `verdict_timeout` for their verdicts.
    pub fn new(verdict_timeout: Duration) -> Self {
        Self { slow_call: verdict_timeout * 9 / 10, later_wait: verdict_timeout / 10, slow: Mutex::default() }
    }

    /// Begins another read, and forgets which filters were slow.
    pub fn begin(&mut self) {
        self.slow.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends a call to a filter. If the filter was slow in this read, the call waits only briefly, and events without
    /// an answer are undecided.
    ///
    /// # Errors
    /// Returns the same errors as [`Filters::ask`].
    pub async fn ask(&self, filters: &Filters, name: &Arc<str>, asked: &EventCall<'_>) -> Result<Answers, FilterError> {
        if self.is_slow(name) {
            return filters.ask(name, asked, Some(self.later_wait)).await;
        }
        let begun = Instant::now();
        let answers = filters.ask(name, asked, None).await;
        if begun.elapsed() >= self.slow_call {
            self.slow.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        }
        answers
    }

    fn is_slow(&self, name: &str) -> bool {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|slow| **slow == *name)
    }
}
