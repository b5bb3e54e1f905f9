//! How long the calls of one read are waited for.
//!
//! Promises: a filter whose nodes are away delays the commands of one read once by the timeout, and by a tenth of it for each further
//! call.
//! Must not know: what is asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_client::FilterError;
use tokio::time::Instant;

use crate::filters::{Answers, Asked, Filters};

/// The filters whose nodes have kept commands of this read waiting.
pub struct Patience {
    /// A call that took this long was given up, or nearly so.
    slow_call: Duration,
    /// How long later calls to a slow filter are waited for. Nodes that answer at all do so within milliseconds.
    later_wait: Duration,
    slow: Mutex<Vec<Arc<str>>>,
}

impl Patience {
    /// Returns the patience with nodes from which verdicts are waited for up to `verdict_timeout`.
    pub fn new(verdict_timeout: Duration) -> Self {
        Self { slow_call: verdict_timeout * 9 / 10, later_wait: verdict_timeout / 10, slow: Mutex::default() }
    }

    /// Commands of another read come.
    pub fn begin(&mut self) {
        self.slow.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Asks about events of a filter. Where it has kept others waiting, those are undecided soon of which there is no answer.
    ///
    /// # Errors
    /// As [`Filters::ask`].
    pub async fn ask(&self, filters: &Filters, name: &Arc<str>, asked: &Asked<'_>) -> Result<Answers, FilterError> {
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
