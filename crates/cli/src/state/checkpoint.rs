//! Decides when a run saves its state while it processes records.
//!
//! # Guarantees
//!
//! - The state is saved only if records were answered since the last save.
//! - The state is not saved more often than the user asked for.
//! - Saving takes at most a twentieth of the run's time.
//!
//! This module does not read clocks: callers pass each moment as a parameter. It does not depend on what a state
//! contains.

use std::time::{Duration, Instant};

/// Bytes of input after which a save is due, no matter how quickly they came.
const UNSAVED_BYTES_MAX: u64 = 1 << 30;
/// Minimum time from one save to the next, as a multiple of the time that the last save took.
const REST_SAVES: u32 = 20;

/// Time from the start of a run to the first save of its state. If a run is killed before its first save, all its work
/// is lost, and the next run passes all records again. The first save is therefore early.
///
/// The interval between two saves then doubles from save to save, up to the interval that the user asked for. Until
/// that interval is reached, each interval is about as long as the whole run before it. If the run is killed, at most
/// about half of its work must be repeated.
const FIRST: Duration = Duration::from_secs(1);
/// Assumed speed at which any machine can save a filter, in bytes per second. A run uses this number to estimate how
/// long it takes to save its filter. The run delays its first save until it has lasted for twenty times this estimate.
/// For example, saving a filter of 500 MiB takes an estimated 2.5 seconds, so the first save is due after 50 seconds.
const SAVED_BYTES_PER_S: u64 = 200 << 20;

/// Time of the last attempt to save, and whether there is something new to save.
pub(crate) struct Checkpoints {
    /// Time between two saves. `None` means that the state is saved only at the end of the run.
    every: Option<Duration>,
    /// Time from the start or the last attempt to the next save of a run that started recently. It applies only while
    /// it is shorter than `every`.
    young: Duration,
    tried_at: Instant,
    took: Duration,
    tried_bytes: u64,
    has_news: bool,
}

impl Checkpoints {
    /// Returns the state of a run that begins at `now` and saves its filter in intervals of `every`.
    pub(crate) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self { every, young: FIRST, tried_at: now, took: Duration::ZERO, tried_bytes: 0, has_news: false }
    }

    /// Sets the size of the filter, in bytes. A large filter delays the first save.
    pub(crate) fn set_filter_bytes(&mut self, filter_bytes: u64) {
        let takes = Duration::from_millis(filter_bytes.saturating_mul(1000) / SAVED_BYTES_PER_S);
        self.young = FIRST.max(takes.saturating_mul(REST_SAVES));
    }

    /// Returns the time from the start or the last attempt to the next save.
    fn due_after(&self) -> Option<Duration> {
        let every = self.every.filter(|_| self.has_news)?;
        Some(every.min(self.young))
    }

    /// Notes that records were answered, so that there is something new to save.
    pub(crate) fn has_answered(&mut self) {
        self.has_news = true;
    }

    /// Returns whether a save is due after `input_bytes` bytes of input have been read.
    pub(crate) fn is_due(&self, now: Instant, input_bytes: u64) -> bool {
        let Some(every) = self.due_after() else { return false };
        let passed = now.saturating_duration_since(self.tried_at);
        let is_much = input_bytes.saturating_sub(self.tried_bytes) >= UNSAVED_BYTES_MAX;
        passed >= self.rest() && (passed >= every || is_much)
    }

    /// Returns how long the input may pause until a save is due. `None` means that there is nothing new to save.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let every = self.due_after()?;
        Some(every.max(self.rest()).saturating_sub(now.saturating_duration_since(self.tried_at)))
    }

    /// Records an attempt to save the state, which lasted from `began` to `ended`. `input_bytes` is the number of input
    /// bytes that were read before the attempt.
    ///
    /// After a failed attempt, the state still needs to be saved. The pause before the next attempt is the same as
    /// after a successful save.
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
        checkpoints.set_filter_bytes(u64::MAX);
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
        checkpoints.set_filter_bytes(u64::MAX);
        checkpoints.has_answered();
        assert!(checkpoints.is_due(start + MINUTE, 0));
        checkpoints.tried(start + MINUTE, start + MINUTE, 0, false);
        assert_eq!(checkpoints.wait(start + MINUTE), Some(MINUTE));
        assert!(!checkpoints.is_due(start + MINUTE, 0), "not at once");
        assert!(checkpoints.is_due(start + 2 * MINUTE, 0));
        checkpoints.tried(start + 2 * MINUTE, start + 2 * MINUTE, 0, true);
        assert_eq!(checkpoints.wait(start + 2 * MINUTE), None);
    }

    /// The first save of a run used to be due only after a minute. A run that was killed within its first minute had no
    /// state, so the next run passed all records again. The first save is now due after one second, or later if the
    /// filter is large.
    #[test]
    fn the_first_state_is_saved_soon_and_that_of_a_large_filter_later() {
        let start = Instant::now();
        for (mebibytes, first) in [(0, 1), (1, 1), (10, 1), (100, 10), (500, 50), (600, 60), (1 << 20, 60)] {
            let (first, moment) = (Duration::from_secs(first), Duration::from_millis(1));
            let mut checkpoints = Checkpoints::new(Some(MINUTE), start);
            checkpoints.set_filter_bytes(mebibytes << 20);
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
