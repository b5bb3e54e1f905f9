//! The times at which a run saves its state while it goes on.
//!
//! Promises: a state is saved only when there is something new to save, not more often than asked for, and never so
//! often that saving takes more than a twentieth of the run. Must not know: clocks (moments are passed in), what a
//! state is.

use std::time::{Duration, Instant};

/// After so many bytes of input a save is due, however quickly they came.
const UNSAVED_BYTES_MAX: u64 = 1 << 30;
/// From one save to the next it takes at least so many times as long as the last one took.
const REST_SAVES: u32 = 20;

/// A first state is saved this soon: until then a run that is killed has no state, and all of its records pass again. The time to the
/// next one doubles, so that a young run that is killed passes half of its records again at most.
const FIRST: Duration = Duration::from_secs(1);
/// Bytes of a filter that are surely saved in a second. A large filter is first saved later, so that this keeps to the twentieth,
/// too.
const SAVED_BYTES_PER_S: u64 = 200 << 20;

/// The time of the last attempt to save, and whether there is something that is not saved.
pub(crate) struct Checkpoints {
    /// None where only the end of the run is saved.
    every: Option<Duration>,
    /// How long after the start or the last attempt the next save of a young run is due, if that is sooner.
    young: Duration,
    tried_at: Instant,
    took: Duration,
    tried_bytes: u64,
    has_news: bool,
}

impl Checkpoints {
    /// The state of a run that begins `now`, to be saved `every` so often.
    pub(crate) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self { every, young: FIRST, tried_at: now, took: Duration::ZERO, tried_bytes: 0, has_news: false }
    }

    /// Sets the size of the filter, in bytes.
    pub(crate) fn will_save(&mut self, filter_bytes: u64) {
        let takes = Duration::from_millis(filter_bytes.saturating_mul(1000) / SAVED_BYTES_PER_S);
        self.young = FIRST.max(takes.saturating_mul(REST_SAVES));
    }

    /// How long after the last attempt, or after the start, a save is due.
    fn due_after(&self) -> Option<Duration> {
        let every = self.every.filter(|_| self.has_news)?;
        Some(every.min(self.young))
    }

    /// Records were answered.
    pub(crate) fn has_answered(&mut self) {
        self.has_news = true;
    }

    /// Whether a save is due, when so many bytes of the input have been read.
    pub(crate) fn is_due(&self, now: Instant, input_bytes: u64) -> bool {
        let Some(every) = self.due_after() else { return false };
        let passed = now.saturating_duration_since(self.tried_at);
        let is_much = input_bytes.saturating_sub(self.tried_bytes) >= UNSAVED_BYTES_MAX;
        passed >= self.rest() && (passed >= every || is_much)
    }

    /// How long a pause of the input may last until a save is due; none where nothing is new.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let every = self.due_after()?;
        Some(every.max(self.rest()).saturating_sub(now.saturating_duration_since(self.tried_at)))
    }

    /// An attempt to save has `began` and `ended`, with `input_bytes` read. After a failure the state is still new, and
    /// the next attempt is due no sooner than a save after a success would be.
    pub(crate) fn tried(&mut self, began: Instant, ended: Instant, input_bytes: u64, is_saved: bool) {
        self.took = ended.saturating_duration_since(began);
        self.young = self.young.saturating_mul(2);
        (self.tried_at, self.tried_bytes) = (ended, input_bytes);
        self.has_news &= !is_saved;
    }

    fn rest(&self) -> Duration {
        self.took.saturating_mul(REST_SAVES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_state_is_saved_every_minute_and_every_gigabyte() {
        let start = Instant::now();
        let mut checkpoints = Checkpoints::new(Some(MINUTE), start);
        checkpoints.will_save(u64::MAX);
        assert!(!checkpoints.is_due(start + 2 * MINUTE, 0), "nothing was answered");
        assert_eq!(checkpoints.wait(start), None);
        checkpoints.has_answered();
        assert!(!checkpoints.is_due(start + MINUTE / 2, UNSAVED_BYTES_MAX - 1));
        assert!(checkpoints.is_due(start + MINUTE / 2, UNSAVED_BYTES_MAX));
        assert!(checkpoints.is_due(start + MINUTE, 0));
        assert_eq!(checkpoints.wait(start + MINUTE / 4), Some(3 * MINUTE / 4));
        assert_eq!(checkpoints.wait(start + 2 * MINUTE), Some(Duration::ZERO));
        checkpoints.tried(start + MINUTE, start + MINUTE, UNSAVED_BYTES_MAX, true);
        checkpoints.has_answered();
        assert!(!checkpoints.is_due(start + MINUTE + MINUTE / 2, 2 * UNSAVED_BYTES_MAX - 1));
    }

    #[test]
    fn saving_takes_a_twentieth_of_the_run_at_most() {
        let start = Instant::now();
        let mut checkpoints = Checkpoints::new(Some(Duration::from_secs(1)), start);
        checkpoints.tried(start, start + MINUTE, 0, true);
        checkpoints.has_answered();
        assert!(!checkpoints.is_due(start + 20 * MINUTE, u64::MAX));
        assert!(checkpoints.is_due(start + 21 * MINUTE, 0));
        assert_eq!(checkpoints.wait(start + MINUTE), Some(20 * MINUTE));
    }

    #[test]
    fn a_failed_save_is_tried_again_though_no_record_comes() {
        let start = Instant::now();
        let mut checkpoints = Checkpoints::new(Some(MINUTE), start);
        checkpoints.will_save(u64::MAX);
        checkpoints.has_answered();
        assert!(checkpoints.is_due(start + MINUTE, 0));
        checkpoints.tried(start + MINUTE, start + MINUTE, 0, false);
        assert_eq!(checkpoints.wait(start + MINUTE), Some(MINUTE));
        assert!(!checkpoints.is_due(start + MINUTE, 0), "not at once");
        assert!(checkpoints.is_due(start + 2 * MINUTE, 0));
        checkpoints.tried(start + 2 * MINUTE, start + 2 * MINUTE, 0, true);
        assert_eq!(checkpoints.wait(start + 2 * MINUTE), None);
    }

    /// A run that was killed in its first minute had no state, and passed everything again; later it had one of its first second.
    #[test]
    fn the_first_state_is_saved_soon_and_that_of_a_large_filter_later() {
        let start = Instant::now();
        for (mebibytes, first) in [(0, 1), (1, 1), (10, 1), (100, 10), (500, 50), (600, 60), (1 << 20, 60)] {
            let (first, moment) = (Duration::from_secs(first), Duration::from_millis(1));
            let mut checkpoints = Checkpoints::new(Some(MINUTE), start);
            checkpoints.will_save(mebibytes << 20);
            checkpoints.has_answered();
            assert!(!checkpoints.is_due(start + first - moment, 0), "{mebibytes} MiB");
            assert!(checkpoints.is_due(start + first, 0), "{mebibytes} MiB");
            assert_eq!(checkpoints.wait(start), Some(first));
            checkpoints.tried(start + first, start + first, 0, true);
            checkpoints.has_answered();
            assert_eq!(checkpoints.wait(start + first), Some(MINUTE.min(2 * first)), "then after twice the time");
        }
        let mut checkpoints = Checkpoints::new(Some(Duration::from_millis(1)), start);
        checkpoints.has_answered();
        assert!(checkpoints.is_due(start + Duration::from_millis(1), 0), "or as often as was asked for");
    }

    #[test]
    fn a_run_that_saves_only_at_its_end_does_so() {
        let start = Instant::now();
        let mut checkpoints = Checkpoints::new(None, start);
        checkpoints.has_answered();
        assert!(!checkpoints.is_due(start + 100 * MINUTE, u64::MAX));
        assert_eq!(checkpoints.wait(start), None);
    }
}
