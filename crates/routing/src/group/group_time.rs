//! The time state of a slice group. It consists of the current time, whether that time can be trusted, and whether
//! events may be recorded now. Groups of one slice and groups of several slices both use this module.
//!
//! When a user alters a filter, the filter is closed and a successor replaces it. The closed filter still finds its
//! earlier events, but it records no new events and never replies first-seen. If it does not find an event, the event
//! counts as *absent*. The reply then tells the client to send the event to the successor, or to try again later.
//!
//! Nothing is recorded without a lease, or after a successor has replaced the filter. This module does not depend on
//! events or cells.

use firstseen_filter::{FilterDefinition, UnitNumber};

use super::clock::{HeadClock, Heading};
use super::lease::Lease;
use super::limits::OwnerLimits;
use super::rules::Rule;
use crate::map::FilterRecord;
use crate::protocol::{Moment, MonotonicMs, Times};
use crate::verdict::Reason;

/// The present, as far as this node knows it.
pub(crate) struct GroupTime {
    /// Arrival time of the input that is being processed, or of the last input.
    now: Moment,
    limits: OwnerLimits,
    clock: HeadClock,
    /// The lease that limits until when this node may record.
    lease: Lease,
    /// The reason why the time of day cannot be trusted. `None` if it can, or if the filter does not use the time of
    /// day.
    doubt: Option<Reason>,
    /// The reason in replies for events that are not found, after a successor has replaced the filter. `None` while the
    /// filter records events.
    absent: Option<Reason>,
}

impl GroupTime {
    /// Creates the time state of a group. At first, the group trusts the time of day and may record events without a
    /// time limit. Call `set_doubt` if the time of day cannot be trusted, and `set_lease` to limit how long events may
    /// be recorded. If a successor has already replaced the filter, no events are recorded at all.
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

    /// Notes the arrival time of an input.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.now = now;
    }

    /// Returns the monotonic time of the current input.
    pub(crate) fn now_ms(&self) -> MonotonicMs {
        self.now.monotonic_ms
    }

    /// Returns the latest time that any correct clock in the cluster can show, in milliseconds since 1970.
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

    /// Prepares the clock before the events of a batch are placed in the window.
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

    /// Takes over whether a new cluster map says that the filter is closed. Returns `true` if the map says so for the
    /// first time.
    pub(crate) fn follow(&mut self, absent: Option<Reason>) -> bool {
        let is_new = self.absent.is_none() && absent.is_some();
        self.absent = absent;
        is_new
    }

    /// Returns the reason in replies for events that are not found, if a successor has replaced the filter.
    pub(crate) fn absent(&self) -> Option<Reason> {
        self.absent
    }

    /// Returns the reason why this node may not record because its lease has ended. Other nodes may then reply in its
    /// place.
    pub(crate) fn cut_off(&self) -> Option<Reason> {
        (!self.lease.holds(self.now)).then_some(Reason::CutOff)
    }

    /// Returns the current unit of the window at a given moment, as far as it is known.
    pub(crate) fn unit_at(&self, now: Moment) -> UnitNumber {
        match self.doubt {
            None => self.clock.present_unit(now.wall_ms),
            Some(_) => self.clock.now_unit(),
        }
    }
}
