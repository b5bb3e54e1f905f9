//! What a slice that shares no events with others may lack after a start, and until when that matters.
//!
//! Nobody knows what was recorded before, but that it was of no later unit than the time of day, with the skew of clocks;
//! or, in windows of so many events, that it came before all that is counted from now on. Cells of that unit expire at
//! `unit + span`, and nothing is judged more than the lateness before the present.
//!
//! Promises: nothing is called complete that may lack an event of the window, unless its time was further in the future
//! than clocks may differ. Must not know: how the map learns of it.

use firstseen_filter::WindowRule;

use super::HeadClock;
use crate::Moment;

/// The map is told again after so long.
const AGAIN_MS: u64 = 1_000;

/// What the slice may lack.
pub(super) struct Gap {
    rule: WindowRule,
    has_window: bool,
    clock_skew_max_ms: u64,
    /// The newest unit that may be missing, once it is known what time it is.
    newest_unit: Option<u64>,
    next_claim_ms: u64,
}

impl Gap {
    /// Everything, before the first input.
    pub(super) fn new(rule: WindowRule, has_window: bool, clock_skew_max_ms: u64) -> Self {
        Self { rule, has_window, clock_skew_max_ms, newest_unit: None, next_claim_ms: 0 }
    }

    /// The time is known now.
    pub(super) fn open(&mut self, clock: &HeadClock, now: Moment) {
        self.newest_unit.get_or_insert_with(|| clock.unit_at(now.wall_ms.saturating_add(self.clock_skew_max_ms)));
    }

    /// Others have recorded events without the slice: what it may lack is known at the next input.
    pub(super) fn reopen(&mut self) {
        self.newest_unit = None;
    }

    /// Whether that has happened.
    pub(super) fn is_open(&self) -> bool {
        self.newest_unit.is_some()
    }

    /// The unit from which on nothing is missing.
    pub(super) fn complete_from_unit(&self) -> Option<u64> {
        let newest_unit = self.newest_unit.filter(|_| self.has_window)?;
        Some(self.rule.expiry(newest_unit).saturating_add(self.rule.lateness_units))
    }

    /// Whether all that may be missing has expired.
    pub(super) fn is_over(&self, clock: &HeadClock) -> bool {
        self.complete_from_unit().is_some_and(|unit| clock.now_unit() >= unit)
    }

    /// When the map may be told again.
    pub(super) fn next_claim_ms(&self) -> u64 {
        self.next_claim_ms
    }

    /// Whether the map may be told now; not again for a while.
    pub(super) fn may_claim(&mut self, now: Moment) -> bool {
        let may_claim = now.monotonic_ms >= self.next_claim_ms;
        if may_claim {
            self.next_claim_ms = now.monotonic_ms + AGAIN_MS;
        }
        may_claim
    }
}
