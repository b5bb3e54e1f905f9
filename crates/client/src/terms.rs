//! Calls on other terms: events that are remembered for less than their filter's window, as each has a life of its own, and answers
//! that are waited for no longer than the caller likes.
//!
//! Promises: what [`firstseen_filter::LifeError`] says is refused before anything is sent; an event lives at least as long as was
//! asked, and two of its filter's units longer at most. Must not know: how events travel.

use std::time::Duration;

use firstseen_filter::{Digest, FilterSecret, Unit, UnitNumber};
use firstseen_routing::Operation;

use crate::error::CallError;
use crate::filter::{Filter, Verdict};
use crate::intake::FilterCore;
use crate::queue::{Events, Life};
use crate::wait::Wait;

impl Filter {
    /// The same filter, whose calls wait so long at most, where that is less than the client's deadline: events are `Undecided` whose
    /// answers have not come by then.
    #[must_use]
    pub fn within(&self, wait_max: Duration) -> Self {
        Self::new(self.opened().clone(), Wait::at_most(wait_max))
    }

    /// Whether an event of the filter can be remembered for `life_ms` instead of the window: its kind and rule allow that, events
    /// bring their times, and none of them may come late.
    ///
    /// # Errors
    /// [`CallError::Life`] says why not.
    pub fn takes_life(&self, life_ms: u64) -> Result<(), CallError> {
        // Any unit that is late enough will do.
        self.newest().unit_of_life(life_ms, UnitNumber::LAST).map(drop)
    }

    /// Like [`Self::observe_digests_or`], for events that occur at `now_ms`, milliseconds since 1970, and are remembered for
    /// `life_ms`: at least so long, and two units of the filter longer at most. An event that is known lives on as it did.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Life`] where the filter remembers all events for its window.
    pub async fn observe_digests_for(
        &self,
        digests: &[Digest],
        (now_ms, life_ms): (u64, u64),
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<Verdict>, CallError> {
        self.takes_life(life_ms)?;
        let events = Events { life: Some(Life { now_ms, life_ms }), ..Events::plain(digests, &[]) };
        self.verdicts(Operation::Observe, events, (self.secret(), rehash)).await
    }
}

impl FilterCore {
    /// Returns the time that an event has to bring so that this filter remembers it for its life: as if it had occurred so much
    /// earlier, while the clock shows the present.
    ///
    /// # Errors
    /// [`CallError::Life`] if the filter cannot remember an event for that time.
    pub(crate) fn time_of_life(&self, life: Life) -> Result<u64, CallError> {
        match self.backdated(life) {
            // A filter that was altered records nothing: it is only asked whether it has the event now.
            Err(_) if self.is_followed() => Ok(life.now_ms),
            time_ms => time_ms,
        }
    }

    fn backdated(&self, Life { now_ms, life_ms }: Life) -> Result<u64, CallError> {
        let refused = |reason: String| CallError::Life { filter: self.record().name.clone(), reason };
        let now_unit =
            self.catch_up(Some(now_ms)).ok_or_else(|| refused("its nodes stamp events (--clock wall)".to_owned()))?;
        let unit = self.unit_of_life(life_ms, now_unit)?;
        match &self.record().definition.group.unit {
            Unit::Milliseconds(unit_ms) => Ok(unit.0.saturating_mul(*unit_ms)),
            _ => Err(refused("its window is not counted in milliseconds".to_owned())),
        }
    }

    fn unit_of_life(&self, life_ms: u64, now_unit: UnitNumber) -> Result<UnitNumber, CallError> {
        let record = self.record();
        let refused = |reason: String| CallError::Life { filter: record.name.clone(), reason };
        if !self.needs_times() {
            return Err(refused("its nodes stamp events (--clock wall)".to_owned()));
        }
        // An event that may come late is judged by its own time, which is not the present here.
        if record.definition.group.rule.lateness_units > 0 {
            return Err(refused("its events may come late (--lateness 0 says that they do not)".to_owned()));
        }
        let stamp = record.definition.group.stamp_for(life_ms, now_unit);
        stamp.map(|stamp| stamp.unit).map_err(|error| refused(error.to_string()))
    }
}
