//! Calls on other terms: events that are remembered for less than their filter's window, as each has a ttl of its own, and answers
//! that are waited for no longer than the caller likes.
//!
//! What [`firstseen_filter::TtlError`] says is refused before anything is sent. An event is remembered for its time to live at least, and
//! for two of its filter's units longer at most. This module must not depend on how events travel.

use std::time::Duration;

use firstseen_filter::{Digest, FilterSecret, Unit, UnitNumber};
use firstseen_routing::rules::Rule;
use firstseen_routing::{Fence, Operation};

use crate::claims::{Confirming, confirming};
use crate::error::CallError;
use crate::filter::{Filter, Verdict};
use crate::intake::FilterCore;
use crate::queue::{Events, Ttl};
use crate::wait::Wait;

impl Filter {
    /// The same filter, whose calls wait so long at most, where that is less than the client's deadline: events are `Undecided` whose
    /// answers have not come by then.
    #[must_use]
    pub fn within(&self, wait_max: Duration) -> Self {
        Self::new(self.opened().clone(), Wait::at_most(wait_max))
    }

    /// Whether an event of the filter can be remembered for `ttl_ms` instead of the window, as its kind allows that. Where the filter
    /// is in a tree, its events must bring their times, and none of them may come late.
    ///
    /// # Errors
    /// [`CallError::Ttl`] says why not.
    pub fn takes_ttl(&self, ttl_ms: u64) -> Result<(), CallError> {
        // Any unit that is late enough will do.
        self.newest().unit_of_ttl(ttl_ms, UnitNumber::LAST).map(drop)
    }

    /// Like [`Self::observe_digests_or`], for events that occur at `now_ms`, milliseconds since 1970, and are remembered for
    /// `ttl_ms`: at least so long, and two units of the filter longer at most. The expiry of a known event does not change.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Ttl`] where the filter remembers all events for its window.
    pub async fn observe_digests_for(
        &self,
        digests: &[Digest],
        ttl: Ttl,
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<Verdict>, CallError> {
        self.takes_ttl(ttl.ttl_ms)?;
        if !self.opened().core().limits().rules.keep(Rule::CountsTtlByEachWindow)
            && let CountedTtl { time_ms: Some(time_ms), by_nodes_ms: None } = self.newest().count_ttl(ttl)?
        {
            let times_ms = vec![time_ms; digests.len()];
            return self.verdicts(Operation::Observe, Events::plain(digests, &times_ms), (self.secret(), rehash)).await;
        }
        let events = Events { ttl: Some(ttl), ..Events::plain(digests, &[]) };
        self.verdicts(Operation::Observe, events, (self.secret(), rehash)).await
    }

    /// Like [`Self::confirm_digests_or`], for events that are remembered for `ttl_ms` from `now_ms` on, as
    /// [`Self::observe_digests_for`] has it.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Ttl`] where the filter remembers all events for its window.
    pub async fn confirm_digests_for(
        &self,
        digests: &[Digest],
        fences: &[Fence],
        ttl: Ttl,
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<Confirming>, CallError> {
        self.takes_ttl(ttl.ttl_ms)?;
        let events = Events { fences, ttl: Some(ttl), ..Events::plain(digests, &[]) };
        let confirmed = self.by_fences_of(Operation::Confirm, events, (self.secret(), rehash)).await?;
        Ok(confirmed.into_iter().map(confirming).collect())
    }
}

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
