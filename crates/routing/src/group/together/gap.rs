//! What a slice that shares no events with others may lack after a start, and until when that matters.
//!
//! Nobody knows what was recorded before, but that it was of no later unit than the time of day, with the skew of clocks,
//! and, where others may record in its place, the rest of their leases (`lease.rs`); or, in windows of so many events, that
//! it came before all that is counted from now on. Cells of that unit expire at `unit + span`, and nothing is judged more
//! than the lateness before the present.
//!
//! Promises: nothing is called complete that may lack an event of the window, unless its time was further in the future
//! than clocks may differ. Must not know: how the map learns of it.

use firstseen_filter::WindowRule;

use crate::group::clock::HeadClock;
use crate::group::lease::others_may_record_ms;
use crate::group::limits::OwnerLimits;
use crate::protocol::Moment;

/// The map is told again after so long.
const AGAIN_MS: u64 = 1_000;

/// What the slice may lack.
pub(super) struct Gap {
    rule: WindowRule,
    has_window: bool,
    clock_skew_max_ms: u64,
    /// After so long nobody else may record by a lease that there is now.
    leases_over_after_ms: u64,
    /// The newest unit that may be missing, and the monotonic time until when others may record, once it is known what time
    /// it is.
    newest: Option<(u64, u64)>,
    next_claim_ms: u64,
}

impl Gap {
    /// Everything, before the first input.
    pub(super) fn new(rule: WindowRule, has_window: bool, limits: &OwnerLimits) -> Self {
        let leases_over_after_ms = others_may_record_ms(limits);
        let clock_skew_max_ms = limits.clock_skew_max_ms;
        Self { rule, has_window, clock_skew_max_ms, leases_over_after_ms, newest: None, next_claim_ms: 0 }
    }

    /// The time is known now; `has_others` says whether another node may have recorded in the slice's place.
    pub(super) fn open(&mut self, clock: &HeadClock, now: Moment, has_others: bool) {
        let for_ms = if has_others { self.leases_over_after_ms } else { 0 };
        self.newest.get_or_insert_with(|| {
            let newest_ms = now.wall_ms.saturating_add(self.clock_skew_max_ms).saturating_add(for_ms);
            (clock.unit_at(newest_ms), now.monotonic_ms.saturating_add(for_ms))
        });
    }

    /// Others have recorded events without the slice: what it may lack is known at the next input.
    pub(super) fn reopen(&mut self) {
        self.newest = None;
    }

    /// Whether that has happened.
    pub(super) fn is_open(&self) -> bool {
        self.newest.is_some()
    }

    /// The unit from which on nothing is missing.
    pub(super) fn complete_from_unit(&self) -> Option<u64> {
        let (newest_unit, _) = self.newest.filter(|_| self.has_window)?;
        Some(self.rule.expiry(newest_unit).saturating_add(self.rule.lateness_units))
    }

    /// Whether all that may be missing has expired, and nobody else adds to it. An event that says to occur after the present
    /// does not end that sooner.
    pub(super) fn is_over(&self, clock: &HeadClock, now: Moment) -> bool {
        let is_unshared = self.newest.is_some_and(|(_, until_ms)| now.monotonic_ms >= until_ms);
        let now_unit = clock.not_after(now.wall_ms.saturating_add(self.clock_skew_max_ms), clock.now_unit());
        is_unshared && self.complete_from_unit().is_some_and(|unit| now_unit >= unit)
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
