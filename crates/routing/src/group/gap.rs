//! What slices may lack, until when that matters, and the proposal to the map when it no longer does; the same for all
//! groups.
//!
//! Where no node is left that knows the missing events, these are of no later unit than the time of day, with the skew
//! of clocks and, where others may record in this node's place, the rest of their leases (`lease.rs`). Cells of unit
//! `newest` expire at `newest + span`, and no event is judged more than the lateness before the present, so nothing is
//! missing any more from
//!
//! `now = newest + span + lateness` on.
//!
//! Where the window counts events, the missing ones came before all that are counted from now on.
//!
//! Promises: no slice is called complete that may lack an event of the window, unless the event's time was further in
//! the future than clocks may differ. Must not know: which nodes are asked, which slices there are.

use firstseen_filter::{FilterDefinition, Unit, UnitNumber};

use super::lease::others_may_record_ms;
use super::present::Present;
use super::site::Site;
use crate::ids::Epoch;
use crate::protocol::{Command, MonotonicMs};

/// A proposal to the map is sent again after so long.
const AGAIN_MS: u64 = 1_000;

/// The events that some slices may lack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// No event of a later unit is missing, as far as is known.
    newest_unit: UnitNumber,
    /// Missing events may also be of any unit up to the time of day, which is not known yet.
    awaits_time: bool,
    /// Until this time other nodes may record without this one.
    unshared_ms: MonotonicMs,
}

impl Missing {
    /// Events of units up to this one, and no further ones will be missing.
    pub(crate) fn until(newest_unit: UnitNumber) -> Self {
        Self { newest_unit, awaits_time: false, unshared_ms: MonotonicMs::START }
    }

    /// Events that no node is left to know of; `has_others` is whether other nodes may have recorded in this one's
    /// place.
    pub(crate) fn unknown(present: &Present, has_others: bool) -> Self {
        let for_ms = if has_others { others_may_record_ms(present.limits()) } else { 0 };
        let newest_ms = present.latest_ms().saturating_add(for_ms);
        let awaits_time = present.doubt().is_some();
        Self {
            newest_unit: if awaits_time { UnitNumber::FIRST } else { present.clock().unit_at(newest_ms) },
            awaits_time,
            unshared_ms: present.now_ms().after(for_ms),
        }
    }

    /// The events of `other` may be missing, too.
    pub(crate) fn add(&mut self, other: Self) {
        self.newest_unit = self.newest_unit.max(other.newest_unit);
        self.awaits_time |= other.awaits_time;
        self.unshared_ms = self.unshared_ms.max(other.unshared_ms);
    }

    /// Events up to this unit may be missing, too.
    pub(crate) fn add_until(&mut self, newest_unit: UnitNumber) {
        self.newest_unit = self.newest_unit.max(newest_unit);
    }

    /// The time of day is known now: missing events up to it are of no unit after this one.
    pub(crate) fn learn_the_time(&mut self, newest_unit: UnitNumber) {
        if std::mem::take(&mut self.awaits_time) {
            self.add_until(newest_unit);
        }
    }

    pub(crate) fn awaits_time(&self) -> bool {
        self.awaits_time
    }

    /// The unit after which no event is missing; none while the time of day is not known.
    pub(crate) fn newest_unit(&self) -> Option<UnitNumber> {
        (!self.awaits_time).then_some(self.newest_unit)
    }

    /// The unit from which on all missing events have expired; none where that is not known, or nothing expires.
    pub(crate) fn complete_from_unit(&self, definition: &FilterDefinition) -> Option<UnitNumber> {
        let newest_unit = self.newest_unit().filter(|_| definition.unit != Unit::Endless)?;
        Some(definition.rule.expiry(newest_unit).after(definition.rule.lateness_units))
    }

    /// Whether all missing events have expired by `now_unit`, and no further ones can be missing. An event with a time
    /// after the present does not make that so any sooner.
    pub(crate) fn is_over(&self, definition: &FilterDefinition, present: &Present, now_unit: UnitNumber) -> bool {
        let now_unit = present.clock().not_after(present.latest_ms(), now_unit);
        let is_unshared = present.now_ms() >= self.unshared_ms;
        is_unshared && self.complete_from_unit(definition).is_some_and(|unit| now_unit >= unit)
    }
}

/// When the next proposal is due that slices here are complete, as long as the map does not say so.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    next_ms: MonotonicMs,
}

impl Proposals {
    /// Proposes that slices are complete, if there are any and the last proposal was not just now.
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
        self.next_ms = now_ms.after(AGAIN_MS);
        Some(site.complete(slices, epoch))
    }

    /// When the next proposal is due.
    pub(crate) fn next_ms(&self) -> MonotonicMs {
        self.next_ms
    }
}
