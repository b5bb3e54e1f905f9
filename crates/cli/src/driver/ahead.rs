//! Checks the times at the end of a batch against the times of the records that follow. A clock that is wrong can give
//! a record a time far in the future. If the following records have similar times, the time of the record is confirmed.
//! If the following records have much earlier times, they contradict it.

use std::time::Duration;

use crate::input::border::{Behind, behind};
use crate::input::{Batch, present_ms};

/// How far the times of the input have advanced: the time that half of the last records have reached.
#[derive(Default)]
pub(super) struct Reached(Option<i64>);

impl Reached {
    /// Returns how long to wait for the records after `batch` before the batch is decided. The wait is only needed if
    /// the batch contains a time that is more than `step_ms` ahead of the time that the input has reached. Later
    /// records must confirm such a time, so the function returns `doubt`. Otherwise it returns zero.
    pub(super) fn patience<R>(&mut self, batch: &Batch<R>, step_ms: u64, doubt: Duration) -> Duration {
        let Some((middle_ms, greatest_ms)) = batch.last_times_ms() else { return Duration::ZERO };
        // If most times lie in the future, all of them may be wrong together. A single record does not confirm its own
        // time.
        let middle_ms = middle_ms.min(i64::try_from(present_ms()).unwrap_or(i64::MAX));
        let reached_ms = if middle_ms < greatest_ms { self.0.max(Some(middle_ms)) } else { self.0 };
        self.0 = self.0.max(Some(middle_ms));
        match reached_ms {
            Some(reached_ms) if greatest_ms <= reached_ms.saturating_add_unsigned(step_ms) => Duration::ZERO,
            _ => doubt,
        }
    }
}

/// Returns the times that can confirm or contradict the last times of the batch `held`. Usually these are the first
/// times of `next`, which is the following batch.
///
/// A time that is at most `step_ms` ahead of the other times needs no confirmation. If `step_ms` is `None`, the filter
/// does not use times, so the result is empty.
pub(super) fn ahead_ms<R>(held: &mut Batch<R>, next: &Batch<R>, step_ms: Option<u64>) -> Vec<u64> {
    let Some(step_ms) = step_ms else { return Vec::new() };
    if held.file == next.file {
        return next.first_times_ms();
    }
    // The last batch of a file may be small. Its few times then do not show how far the file has advanced.
    let last_ms: Vec<u64> = held.own_times_ms().collect();
    let Behind { ahead_ms, is_older } = behind(&last_ms, next.first_times_ms(), step_ms, present_ms());
    held.is_before_older = is_older;
    ahead_ms
}
