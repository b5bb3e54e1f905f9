//! Checks the times at the end of a batch against the times of the records that follow. The check is necessary because
//! a wrong clock can give a record a time far in the future. If the following records have similar times, they confirm
//! the time of the record. If they have much earlier times, they contradict it.

use std::time::Duration;

use crate::input::border::{Behind, behind};
use crate::input::{Batch, present_ms};

/// How far the times of the input have advanced: the time that half of the last records have reached.
#[derive(Default)]
pub(super) struct Reached(Option<i64>);

impl Reached {
    /// Returns how long to wait for the records after `batch` before the batch is decided. If a time of the batch is
    /// more than `step_ms` ahead of the time that the input has reached, only later records can confirm it. The
    /// function then returns `doubt`. Otherwise no confirmation is needed, and the function returns zero.
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

/// Returns the times that can confirm or contradict the last times of the batch `held`. If the following batch `next`
/// belongs to the same file, these are the first times of `next`. If `next` belongs to a different file, the function
/// `behind` determines the times.
///
/// Only a time that is more than `step_ms` ahead of the other times needs confirmation. If `step_ms` is `None`, the
/// filter does not use times, so no confirmation is needed and the result is empty.
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
