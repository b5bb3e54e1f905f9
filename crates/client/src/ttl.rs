//! Time to live: remembers an event for a shorter time than its filter's window.
//!
//! A filter remembers an event for at least the event's time to live. It may remember the event for up to two units
//! longer, where a unit is the smallest time step of the filter's window. Some filters cannot apply a time to live
//! ([`firstseen_filter::TtlError`]). In that case, the client returns an error before it sends anything.

use firstseen_filter::{Unit, UnitNumber};
use firstseen_routing::rules::Rule;

use crate::batch::Ttl;
use crate::error::CallError;
use crate::intake::FilterCore;

/// How one filter applies a time to live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedTtl {
    /// Time that the events carry, if the filter's events carry times.
    pub(crate) time_ms: Option<u64>,
    /// Time to live that nodes apply, in milliseconds. `None` means that the events' times express it already.
    pub(crate) by_nodes_ms: Option<u64>,
}

impl FilterCore {
    /// Returns how this filter applies a time to live. There are two ways:
    ///
    /// - If events carry their own times and never arrive late, the client submits the event with an earlier time, so
    ///   that it leaves the filter's window earlier.
    /// - In all other filters, the nodes apply the time to live. It begins when a node stamps the event.
    ///
    /// # Errors
    /// Returns [`CallError::Ttl`] if the filter cannot remember an event for this time.
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
            // A filter that was altered records nothing, so its events need no time to live. It is asked only whether
            // it already has the event.
            Err(_) if self.is_followed() => Ok(CountedTtl { time_ms: now_ms, by_nodes_ms: None }),
            counted => counted,
        }
    }

    /// Checks whether the filter can remember an event for `ttl_ms` milliseconds.
    ///
    /// # Errors
    /// Returns [`CallError::Ttl`] if it cannot.
    pub(crate) fn takes_ttl(&self, ttl_ms: u64) -> Result<(), CallError> {
        // The result does not depend on the present time, so any late unit can stand for it.
        self.unit_of_ttl(ttl_ms, UnitNumber::LAST).map(drop)
    }

    /// Returns one event time that expresses the time to live in all filters of a chain, or `None` if each filter needs
    /// a time of its own. The result is usually `None`: the filters of a chain can have different windows, so the same
    /// time would express a different time to live in each of them.
    ///
    /// Only simulations use a common time, and only if they have switched off the rule [`Rule::CountsTtlByEachWindow`].
    /// Without this rule, events are remembered for a wrong time. Such a simulation checks that the tests detect this
    /// error.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::count_ttl`].
    pub(crate) fn time_for_all_windows(&self, ttl: Ttl) -> Result<Option<u64>, CallError> {
        if self.core().options().rules.keep(Rule::CountsTtlByEachWindow) {
            return Ok(None);
        }
        let CountedTtl { time_ms, by_nodes_ms } = self.count_ttl(ttl)?;
        Ok(time_ms.filter(|_| by_nodes_ms.is_none()))
    }

    fn backdated(&self, Ttl { now_ms, ttl_ms }: Ttl) -> Result<u64, CallError> {
        let Some(now_unit) = self.catch_up(Some(now_ms)) else {
            return Err(self.ttl_not_supported("its nodes stamp events (--clock wall)"));
        };
        let unit = self.unit_of_ttl(ttl_ms, now_unit)?;
        match &self.record().definition.group.unit {
            Unit::Milliseconds(unit_ms) => Ok(unit.0.saturating_mul(*unit_ms)),
            _ => Err(self.ttl_not_supported("its window is not counted in milliseconds")),
        }
    }

    fn ttl_not_supported(&self, reason: impl ToString) -> CallError {
        CallError::Ttl { filter: self.record().name.clone(), reason: reason.to_string() }
    }

    fn unit_of_ttl(&self, ttl_ms: u64, now_unit: UnitNumber) -> Result<UnitNumber, CallError> {
        let record = self.record();
        // Other levels of a tree receive the times of events, but not their time to live.
        if record.branch.is_some() && !self.needs_times() {
            return Err(self.ttl_not_supported("it is in a tree, and its nodes stamp events (--clock wall)"));
        }
        if record.branch.is_some() && record.definition.group.rule.lateness_units > 0 {
            return Err(self.ttl_not_supported("it is in a tree, and its events may come late (--lateness)"));
        }
        let stamp = record.definition.group.stamp_for(ttl_ms, now_unit);
        stamp.map(|stamp| stamp.unit).map_err(|error| self.ttl_not_supported(error))
    }
}
