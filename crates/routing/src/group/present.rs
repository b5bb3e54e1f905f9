//! The present of a group: what time it is, whether that is to be relied on, and what may be done in it; shared by both
//! kinds of groups.
//!
//! Where another filter has followed, nothing is recorded any more, and no reply says first-seen: an event that is not
//! found here is *absent*, and its reply is a reason to ask again, or to ask the other filter.
//!
//! Promises: nothing is recorded without a lease, nor where another filter has followed. Must not know: events, cells.

use firstseen_filter::{FilterDefinition, UnitNumber};

use super::clock::{HeadClock, Heading};
use super::lease::Lease;
use super::limits::OwnerLimits;
use super::rules::Rule;
use crate::map::FilterRecord;
use crate::protocol::{Moment, MonotonicMs, Times};
use crate::verdict::Reason;

/// The present, as far as this node knows it.
pub(crate) struct Present {
    /// When the input came that is worked on, or the one before.
    now: Moment,
    limits: OwnerLimits,
    clock: HeadClock,
    /// Until when this node may record.
    lease: Lease,
    /// Why the time of day is not to be relied on, where that is so and matters.
    doubt: Option<Reason>,
    /// The reason in replies for events that are not here, where another filter has followed and nothing is recorded
    /// any more.
    absent: Option<Reason>,
}

impl Present {
    /// Until `set_lease` and `set_doubt` are called, the group may record for ever, unless another filter has followed.
    pub(crate) fn new(definition: &FilterDefinition, record: &FilterRecord, limits: &OwnerLimits) -> Self {
        Self {
            now: Moment::default(),
            limits: *limits,
            clock: HeadClock::new(definition, record.policies.clock, limits),
            lease: Lease::ENDLESS,
            doubt: None,
            absent: record.line.absent(),
        }
    }

    /// An input has come.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.now = now;
    }

    /// The monotonic time.
    pub(crate) fn now_ms(&self) -> MonotonicMs {
        self.now.monotonic_ms
    }

    /// The latest that a right clock shows.
    pub(crate) fn latest_ms(&self) -> u64 {
        self.now.wall_ms.saturating_add(self.limits.clock_skew_max_ms)
    }

    pub(crate) fn limits(&self) -> &OwnerLimits {
        &self.limits
    }

    pub(crate) fn limits_mut(&mut self) -> &mut OwnerLimits {
        &mut self.limits
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.limits.rules.keep(rule)
    }

    pub(crate) fn clock(&self) -> &HeadClock {
        &self.clock
    }

    pub(crate) fn clock_mut(&mut self) -> &mut HeadClock {
        &mut self.clock
    }

    /// Before the events of a batch are placed.
    pub(crate) fn open_batch(&mut self, heading: Heading, times: &Times) {
        self.clock.open_batch(heading, times, self.now.wall_ms);
    }

    pub(crate) fn set_lease(&mut self, lease: Lease) {
        if self.keeps(Rule::HoldsLease) {
            self.lease = lease;
        }
    }

    pub(crate) fn set_doubt(&mut self, doubt: Option<Reason>) {
        self.doubt = doubt.filter(|_| self.clock.follows_time());
    }

    pub(crate) fn doubt(&self) -> Option<Reason> {
        self.doubt
    }

    /// The map may say that the filter is closed; returns whether it says so for the first time.
    pub(crate) fn follow(&mut self, absent: Option<Reason>) -> bool {
        let is_new = self.absent.is_none() && absent.is_some();
        self.absent = absent;
        is_new
    }

    /// The reason in replies for events that are not here, where another filter has followed.
    pub(crate) fn absent(&self) -> Option<Reason> {
        self.absent
    }

    /// Why this node records nothing, where others may answer in its place.
    pub(crate) fn cut_off(&self) -> Option<Reason> {
        (!self.lease.holds(self.now)).then_some(Reason::CutOff)
    }

    /// The unit that it is at a moment, as far as that is known.
    pub(crate) fn unit_at(&self, now: Moment) -> UnitNumber {
        match self.doubt {
            None => self.clock.present_unit(now.wall_ms),
            Some(_) => self.clock.now_unit(),
        }
    }
}
