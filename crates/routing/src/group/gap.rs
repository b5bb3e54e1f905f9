//! What is missing in slices, until when that matters, and that the map learns when it does no more; once for all groups.
//!
//! Of what nobody is left to ask about it is known that it is of no later unit than the time of day, with the skew of clocks
//! and, where others may record in this node's place, the rest of their leases (`lease.rs`). Cells of unit `newest` expire at
//! `newest + span`, and nothing is judged more than the lateness before the present, so all is here again from
//!
//! `now = newest + span + lateness` on.
//!
//! Where events make the window, what is missing came before all that is counted from now on.
//!
//! Promises: nothing is called complete that may lack an event of the window, unless its time was further in the future
//! than clocks may differ. Must not know: who is asked, which slices there are.

use firstseen_filter::{FilterDefinition, Unit};

use super::lease::others_may_record_ms;
use super::present::Present;
use super::site::Site;
use crate::protocol::Command;

/// A proposal to the map is made again after so long.
const AGAIN_MS: u64 = 1_000;

/// What some slices may lack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// As far as is known, no event of a later unit is missing.
    newest_unit: u64,
    /// Missing events may also be of any unit up to the time of day, which is not known yet.
    awaits_time: bool,
    /// Until this monotonic time others may record without this node.
    unshared_ms: u64,
}

impl Missing {
    /// All that there is of no later unit than this, to which nobody adds.
    pub(crate) fn until(newest_unit: u64) -> Self {
        Self { newest_unit, awaits_time: false, unshared_ms: 0 }
    }

    /// What nobody is left who knows of; `has_others` says whether other nodes may have recorded in this one's place.
    pub(crate) fn unknown(present: &Present, has_others: bool) -> Self {
        let for_ms = if has_others { others_may_record_ms(present.limits()) } else { 0 };
        let newest_ms = present.latest_ms().saturating_add(for_ms);
        let awaits_time = present.doubt().is_some();
        Self {
            newest_unit: if awaits_time { 0 } else { present.clock().unit_at(newest_ms) },
            awaits_time,
            unshared_ms: present.now_ms().saturating_add(for_ms),
        }
    }

    /// This may be missing, too.
    pub(crate) fn add(&mut self, other: Self) {
        self.newest_unit = self.newest_unit.max(other.newest_unit);
        self.awaits_time |= other.awaits_time;
        self.unshared_ms = self.unshared_ms.max(other.unshared_ms);
    }

    /// What was recorded up to this unit may be missing, too.
    pub(crate) fn add_until(&mut self, newest_unit: u64) {
        self.newest_unit = self.newest_unit.max(newest_unit);
    }

    /// What may be of any unit up to the time of day is of none after this one.
    pub(crate) fn learn_the_time(&mut self, newest_unit: u64) {
        if std::mem::take(&mut self.awaits_time) {
            self.add_until(newest_unit);
        }
    }

    pub(crate) fn awaits_time(&self) -> bool {
        self.awaits_time
    }

    /// The unit after which nothing is missing; none while the time of day is not known.
    pub(crate) fn newest_unit(&self) -> Option<u64> {
        (!self.awaits_time).then_some(self.newest_unit)
    }

    /// The unit from which on all of it has expired; none where that is not known, or nothing expires.
    pub(crate) fn complete_from_unit(&self, definition: &FilterDefinition) -> Option<u64> {
        let newest_unit = self.newest_unit().filter(|_| definition.unit != Unit::Endless)?;
        Some(definition.rule.expiry(newest_unit).saturating_add(definition.rule.lateness_units))
    }

    /// Whether all of it has expired by `now_unit`, and nobody adds to it. An event that says to occur after the present does
    /// not end that sooner.
    pub(crate) fn is_over(&self, definition: &FilterDefinition, present: &Present, now_unit: u64) -> bool {
        let now_unit = present.clock().not_after(present.latest_ms(), now_unit);
        let is_unshared = present.now_ms() >= self.unshared_ms;
        is_unshared && self.complete_from_unit(definition).is_some_and(|unit| now_unit >= unit)
    }
}

/// When it is proposed next that slices here are complete, should the map not say so.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    next_ms: u64,
}

impl Claims {
    /// Proposes that slices are complete, if there are any and this was not proposed just now.
    pub(crate) fn claim(&mut self, site: &Site, slices: Vec<u32>, epoch: u64, now_ms: u64) -> Option<Command> {
        if slices.is_empty() || now_ms < self.next_ms {
            return None;
        }
        self.next_ms = now_ms + AGAIN_MS;
        Some(site.complete(slices, epoch))
    }

    /// When that may be again.
    pub(crate) fn next_ms(&self) -> u64 {
        self.next_ms
    }
}
