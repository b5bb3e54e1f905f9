//! Tracks which events may be missing in the slices of a slice group, for example because their node was down when the
//! events were recorded. An event matters only until it expires. When all missing events have expired, this module
//! proposes to list the slices as complete in the cluster map.
//!
//! If no remaining node knows the missing events, their times are limited by the time of day plus the maximum clock
//! skew. If other nodes may record in this node's place, the longest time for which their leases can still be active is
//! added (`lease.rs`). Cells of unit `newest` expire at `newest + span`, and no event is judged more than the lateness
//! before the present. As a result, nothing is missing any more once the present unit reaches the following value:
//!
//! `now = newest + span + lateness`
//!
//! If the window counts events, the missing events came before all events that are counted from now on.
//!
//! The cluster map does not list a slice as complete while the slice may lack an event that is still within the window.
//! There is one exception. If an event has a time so far in the future that no correct clock could have produced it,
//! the slice may be listed as complete without that event.

use firstseen_filter::{FilterDefinition, Unit, UnitNumber};

use super::group_time::GroupTime;
use super::lease::others_may_record_ms;
use super::site::Site;
use crate::ids::Epoch;
use crate::protocol::{Command, MonotonicMs};

/// Time in milliseconds after which a proposal to the cluster map is sent again.
const RETRY_MS: u64 = 1_000;

/// The range of events that some slices may lack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// The greatest unit of a missing event, as far as it is known.
    newest_unit: UnitNumber,
    /// Whether missing events may have any unit up to the time of day, which is not known yet.
    awaits_time: bool,
    /// Time until which other nodes may record events without this node.
    unshared_ms: MonotonicMs,
}

impl Missing {
    /// Returns a range of missing events that ends with unit `newest_unit`. No further events will be missing.
    pub(crate) fn until(newest_unit: UnitNumber) -> Self {
        Self { newest_unit, awaits_time: false, unshared_ms: MonotonicMs::START }
    }

    /// Returns the range of missing events for the case that no remaining node knows which events are missing. Any
    /// event up to the present may then be missing, so the range ends at the present time of day plus the maximum clock
    /// skew.
    ///
    /// If `has_others` is set, other nodes may have recorded events in place of this node. They may continue to do so
    /// until their leases end, and this node does not know when that is. The range is therefore extended by the longest
    /// time for which such a lease can still be active.
    pub(crate) fn unknown(present: &GroupTime, has_others: bool) -> Self {
        let for_ms = if has_others { others_may_record_ms(present.limits()) } else { 0 };
        let newest_ms = present.latest_ms().saturating_add(for_ms);
        let awaits_time = present.doubt().is_some();
        Self {
            newest_unit: if awaits_time { UnitNumber::FIRST } else { present.clock().unit_at(newest_ms) },
            awaits_time,
            unshared_ms: present.now_ms().after(for_ms),
        }
    }

    /// Extends the range by the missing events of `other`.
    pub(crate) fn add(&mut self, other: Self) {
        self.newest_unit = self.newest_unit.max(other.newest_unit);
        self.awaits_time |= other.awaits_time;
        self.unshared_ms = self.unshared_ms.max(other.unshared_ms);
    }

    /// Extends the range to events up to this unit.
    pub(crate) fn add_until(&mut self, newest_unit: UnitNumber) {
        self.newest_unit = self.newest_unit.max(newest_unit);
    }

    /// Notes that the time of day is known now. Missing events up to this time have at most the unit `newest_unit`.
    pub(crate) fn learn_the_time(&mut self, newest_unit: UnitNumber) {
        if std::mem::take(&mut self.awaits_time) {
            self.add_until(newest_unit);
        }
    }

    pub(crate) fn awaits_time(&self) -> bool {
        self.awaits_time
    }

    /// Returns the greatest unit of missing events, or `None` while the time of day is unknown.
    pub(crate) fn newest_unit(&self) -> Option<UnitNumber> {
        (!self.awaits_time).then_some(self.newest_unit)
    }

    /// Returns the unit from which on all missing events have expired. Returns `None` if that is unknown, or if events
    /// never expire.
    pub(crate) fn complete_from_unit(&self, definition: &FilterDefinition) -> Option<UnitNumber> {
        let newest_unit = self.newest_unit().filter(|_| definition.unit != Unit::Endless)?;
        Some(definition.rule.expiry(newest_unit).after(definition.rule.lateness_units))
    }

    /// Returns whether all missing events have expired at `now_unit`, and no further events can be missing. The clock
    /// of the group may be too far ahead, for example because a producer sent an event with a time in the future. Such
    /// a clock cannot end the gap early, because `now_unit` is limited to the unit of the time of day.
    pub(crate) fn is_over(&self, definition: &FilterDefinition, present: &GroupTime, now_unit: UnitNumber) -> bool {
        let now_unit = present.clock().not_after(present.latest_ms(), now_unit);
        let is_unshared = present.now_ms() >= self.unshared_ms;
        is_unshared && self.complete_from_unit(definition).is_some_and(|unit| now_unit >= unit)
    }
}

/// Schedule of the proposals to the cluster map that slices here are complete. A proposal is repeated until the map
/// confirms it.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    next_ms: MonotonicMs,
}

impl Proposals {
    /// Returns a command that proposes these slices as complete. Returns `None` if there are no slices, or if the last
    /// proposal is too recent.
    pub(crate) fn propose(
        &mut self,
        site: &Site,
        slices: Vec<u32>,
        epoch: Epoch,
        now_ms: MonotonicMs,
    ) -> Option<Command> {
        if slices.is_empty() || now_ms < self.next_ms {
            return None;
        }
        self.next_ms = now_ms.after(RETRY_MS);
        Some(site.complete(slices, epoch))
    }

    /// Returns the time at which the next proposal is due.
    pub(crate) fn next_ms(&self) -> MonotonicMs {
        self.next_ms
    }
}
