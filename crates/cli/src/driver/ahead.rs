//! The times behind a batch, which confirm or contradict those of its last records.
//!
//! Guarantees: pure, apart from the time of day. It does not know files or filters.

use std::time::Duration;

use crate::input::border::{Behind, behind};
use crate::input::{Batch, present_ms};

/// How far the times of the input have come: the time that half of the last records have reached.
#[derive(Default)]
pub(super) struct Reached(Option<i64>);

impl Reached {
    /// Returns how long to wait for the records behind `batch`, where a time up to `step_ms` ahead is accepted without
    /// confirmation: `doubt` where these records may matter.
    pub(super) fn patience<R>(&mut self, batch: &Batch<R>, step_ms: u64, doubt: Duration) -> Duration {
        let Some((middle_ms, greatest_ms)) = batch.last_times_ms() else { return Duration::ZERO };
        // Times after the present may all be wrong together; one record alone does not confirm itself.
        let middle_ms = middle_ms.min(i64::try_from(present_ms()).unwrap_or(i64::MAX));
        let reached_ms = if middle_ms < greatest_ms { self.0.max(Some(middle_ms)) } else { self.0 };
        self.0 = self.0.max(Some(middle_ms));
        match reached_ms {
            Some(reached_ms) if greatest_ms <= reached_ms.saturating_add_unsigned(step_ms) => Duration::ZERO,
            _ => doubt,
        }
    }
}

/// Returns the times behind `held`, as far as `next` has them. A time up to `step_ms` ahead is accepted without
/// confirmation; `None` means that times do not matter.
pub(super) fn ahead_ms<R>(held: &mut Batch<R>, next: &Batch<R>, step_ms: Option<u64>) -> Vec<u64> {
    let Some(step_ms) = step_ms else { return Vec::new() };
    if held.file == next.file {
        return next.first_times_ms();
    }
    // A file may end in a small batch; then the few times in it say nothing about how far the file has come.
    let last_ms: Vec<u64> = held.own_times_ms().collect();
    let Behind { ahead_ms, is_older } = behind(&last_ms, next.first_times_ms(), step_ms, present_ms());
    held.is_before_older = is_older;
    ahead_ms
}
