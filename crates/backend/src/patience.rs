//! How long the calls of one read are waited for.
//!
//! Promises: a filter whose nodes are away delays the commands of one read by a second once, and by a tenth for each further call.
//! Must not know: what is asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_client::FilterError;
use tokio::time::Instant;

use crate::filters::{Answers, Asked, Filters};

/// A call that took so long was given up, or nearly so.
const SLOW: Duration = Duration::from_millis(900);
/// How long later calls to the same filter are waited for: most are answered within a few milliseconds, where they are at all.
const LATER_WAIT: Duration = Duration::from_millis(100);

/// The filters whose nodes have kept commands of this read waiting.
#[derive(Default)]
pub struct Patience {
    slow: Mutex<Vec<Arc<str>>>,
}

impl Patience {
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
            return filters.ask(name, asked, Some(LATER_WAIT)).await;
        }
        let begun = Instant::now();
        let answers = filters.ask(name, asked, None).await;
        if begun.elapsed() >= SLOW {
            self.slow.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        }
        answers
    }

    fn is_slow(&self, name: &str) -> bool {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|slow| **slow == *name)
    }
}
