//! What keeps a group from recording, and whether the time of day is to be relied on; once for all groups.
//!
//! Promises: nothing is recorded without a lease, nor where another filter has followed. Must not know: events, cells.

use super::clock::HeadClock;
use super::lease::Lease;
use super::rules::{Rule, Rules};
use crate::protocol::Moment;
use crate::verdict::Reason;

/// Whether a group may record.
pub(crate) struct Leave {
    /// Until when this node may.
    lease: Lease,
    /// Why the time of day is not to be relied on, where that is so and matters.
    doubt: Option<Reason>,
    /// What is told of events that are not here, where another filter has followed and nothing is recorded any more.
    absent: Option<Reason>,
}

impl Leave {
    /// A group that is told nothing may record for ever, unless another filter has followed.
    pub(crate) fn new(absent: Option<Reason>) -> Self {
        Self { lease: Lease::ENDLESS, doubt: None, absent }
    }

    pub(crate) fn set_lease(&mut self, lease: Lease, rules: Rules) {
        if rules.keep(Rule::HoldsLease) {
            self.lease = lease;
        }
    }

    pub(crate) fn set_doubt(&mut self, doubt: Option<Reason>, clock: &HeadClock) {
        self.doubt = doubt.filter(|_| clock.follows_time());
    }

    pub(crate) fn doubt(&self) -> Option<Reason> {
        self.doubt
    }

    /// The map may say that the filter is closed; whether it says so for the first time.
    pub(crate) fn follow(&mut self, absent: Option<Reason>) -> bool {
        let is_new = self.absent.is_none() && absent.is_some();
        self.absent = absent;
        is_new
    }

    /// What is told of events that are not here, where another filter has followed.
    pub(crate) fn absent(&self) -> Option<Reason> {
        self.absent
    }

    /// Why nothing is recorded here, where others may answer in this node's place.
    pub(crate) fn cut_off(&self, now: Moment) -> Option<Reason> {
        (!self.lease.holds(now)).then_some(Reason::CutOff)
    }

    /// The unit of the present, as far as it is known.
    pub(crate) fn present_unit(&self, clock: &HeadClock, now: Moment) -> u64 {
        match self.doubt {
            None => clock.present_unit(now.wall_ms),
            Some(_) => clock.now_unit(),
        }
    }
}
