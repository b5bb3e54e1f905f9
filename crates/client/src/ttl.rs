//! Events that are remembered for less than their filter's window, as each has a ttl of its own.
//!
//! What [`firstseen_filter::TtlError`] says is refused before anything is sent. An event is remembered for its time to live at least, and
//! for two of its filter's units longer at most. This module must not depend on how events travel.

use firstseen_filter::{Unit, UnitNumber};
use firstseen_routing::rules::Rule;

use crate::batch::Ttl;
use crate::error::CallError;
use crate::intake::FilterCore;

/// How a filter counts the ttl of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedTtl {
    /// The time that events bring, where they bring one.
    pub(crate) time_ms: Option<u64>,
    /// The ttl that nodes count, where the time does not say it.
    pub(crate) by_nodes_ms: Option<u64>,
}

impl FilterCore {
    /// Returns how this filter counts a ttl. If events bring their times and never come late, it is expressed by an earlier
    /// event time. Otherwise nodes count it from the time that they stamp.
    ///
    /// # Errors
    /// [`CallError::Ttl`] if the filter cannot remember an event for that time.
    pub(crate) fn count_ttl(&self, ttl: Ttl) -> Result<CountedTtl, CallError> {
        let now_ms = self.needs_times().then_some(ttl.now_ms);
        let is_said_by_times = now_ms.is_some() && self.record().definition.group.rule.lateness_units == 0;
        let counted = if is_said_by_times {
            self.backdated(ttl).map(|time_ms| CountedTtl { time_ms: Some(time_ms), by_nodes_ms: None })
        } else {
            let fits = self.unit_of_ttl(ttl.ttl_ms, UnitNumber::LAST);
            fits.map(|_| CountedTtl { time_ms: now_ms, by_nodes_ms: Some(ttl.ttl_ms) })
        };
        match counted {
            // A filter that was altered records nothing: it is only asked whether it has the event now.
            Err(_) if self.is_followed() => Ok(CountedTtl { time_ms: now_ms, by_nodes_ms: None }),
            counted => counted,
        }
    }

    /// Checks whether the filter can remember an event for `ttl_ms`.
    ///
    /// # Errors
    /// [`CallError::Ttl`] if it cannot.
    pub(crate) fn takes_ttl(&self, ttl_ms: u64) -> Result<(), CallError> {
        // Any unit that is late enough will do.
        self.unit_of_ttl(ttl_ms, UnitNumber::LAST).map(drop)
    }

    /// Returns the time that expresses a ttl for all filters of a line, where a simulation does without
    /// [`Rule::CountsTtlByEachWindow`].
    ///
    /// # Errors
    /// As [`Self::count_ttl`].
    pub(crate) fn time_for_all_windows(&self, ttl: Ttl) -> Result<Option<u64>, CallError> {
        if self.core().options().rules.keep(Rule::CountsTtlByEachWindow) {
            return Ok(None);
        }
        let CountedTtl { time_ms, by_nodes_ms } = self.count_ttl(ttl)?;
        Ok(time_ms.filter(|_| by_nodes_ms.is_none()))
    }

    fn backdated(&self, Ttl { now_ms, ttl_ms }: Ttl) -> Result<u64, CallError> {
        let Some(now_unit) = self.catch_up(Some(now_ms)) else {
            return Err(self.keeps_no_ttl("its nodes stamp events (--clock wall)"));
        };
        let unit = self.unit_of_ttl(ttl_ms, now_unit)?;
        match &self.record().definition.group.unit {
            Unit::Milliseconds(unit_ms) => Ok(unit.0.saturating_mul(*unit_ms)),
            _ => Err(self.keeps_no_ttl("its window is not counted in milliseconds")),
        }
    }

    fn keeps_no_ttl(&self, reason: impl ToString) -> CallError {
        CallError::Ttl { filter: self.record().name.clone(), reason: reason.to_string() }
    }

    fn unit_of_ttl(&self, ttl_ms: u64, now_unit: UnitNumber) -> Result<UnitNumber, CallError> {
        let record = self.record();
        // Other levels of a tree are told the times of events, and no time to live.
        if record.branch.is_some() && !self.needs_times() {
            return Err(self.keeps_no_ttl("it is in a tree, and its nodes stamp events (--clock wall)"));
        }
        if record.branch.is_some() && record.definition.group.rule.lateness_units > 0 {
            return Err(self.keeps_no_ttl("it is in a tree, and its events may come late (--lateness)"));
        }
        let stamp = record.definition.group.stamp_for(ttl_ms, now_unit);
        stamp.map(|stamp| stamp.unit).map_err(|error| self.keeps_no_ttl(error))
    }
}
