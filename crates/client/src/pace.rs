//! Limits the time span of the events that are in flight at once.
//!
//! Without this limit, a client that replays a log could cause wrong verdicts. The slices of a group are on different
//! nodes, and each slice has a clock of its own. An event advances only the clocks of the slices that it visits. When a
//! client replays a log, a whole day of the log can be in flight at once. The clocks of some slices could then be a day
//! ahead of events that arrive later, and these slices would judge the events as late.
//!
//! The limit is half of the lateness that the filter allows: the times of all in-flight events of a filter differ by at
//! most this amount. The other half of the lateness remains for events that are out of order in the input. Every event
//! therefore gets the same verdict as in a single process.
//!
//! The limit never delays events that are sent as they occur, because their times are always close together.
//!
//! An event is delayed only while older events of the same filter have no answer yet.

use firstseen_filter::UnitNumber;
use firstseen_routing::SlicedDefinition;

/// Tracks the time span of a filter's events that are in flight, and determines which events may be sent.
///
/// Some filters need no limit. If a filter is in no tree and its slices share no events, each event visits only one
/// slice, so it meets only one clock. Differences between the clocks of different slices then do not matter, and the
/// tracker never delays an event of such a filter.
pub(crate) struct Pace {
    skew_units_max: Option<u64>,
    /// Reading of the clock at the first event of each batch in flight.
    inflight_units: Vec<UnitNumber>,
}

impl Pace {
    /// Creates the tracker for a filter. Events are delayed only if two conditions are met. `has_clock` must be `true`,
    /// which means that events carry their own times and advance the clocks of slices. `has_flights` must also be
    /// `true`, which means that an event visits several slices or several levels of a tree, whose clocks can differ.
    pub(crate) fn of(definition: &SlicedDefinition, has_flights: bool, has_clock: bool) -> Self {
        let is_paced = has_clock && has_flights;
        let skew_units_max = is_paced.then_some(definition.group.rule.lateness_units / 2);
        Self { skew_units_max, inflight_units: Vec::new() }
    }

    /// Returns whether this filter delays events. If so, the end of a batch may allow the events of other nodes to be
    /// sent.
    pub(crate) fn holds_back(&self) -> bool {
        self.skew_units_max.is_some()
    }

    /// Notes that a batch is sent whose first event has this clock reading.
    pub(crate) fn begin(&mut self, unit: UnitNumber) {
        if self.holds_back() {
            self.inflight_units.push(unit);
        }
    }

    /// Notes that a batch whose first event has this clock reading was answered.
    pub(crate) fn end(&mut self, unit: UnitNumber) {
        if let Some(place) = self.inflight_units.iter().position(|began| *began == unit) {
            self.inflight_units.swap_remove(place);
        }
    }

    /// Returns the greatest clock reading whose events may be sent now. `queued_units` are the readings at the first
    /// queued event of each node.
    pub(crate) fn unit_max(&self, queued_units: impl Iterator<Item = UnitNumber>) -> UnitNumber {
        let Some(skew_units_max) = self.skew_units_max else { return UnitNumber::NEVER };
        let oldest = self.inflight_units.iter().copied().chain(queued_units).min();
        oldest.map_or(UnitNumber::NEVER, |oldest| oldest.after(skew_units_max))
    }
}

#[cfg(test)]
mod tests {
    use std::iter::{empty, once};

    use firstseen_filter::{FilterSpec, Kind};
    use firstseen_routing::Slicing;

    use super::*;

    fn pace(window: &str, kind: Kind, slicing: &str) -> Pace {
        let spec = FilterSpec { capacity_events: Some(100), ..FilterSpec::new(kind, window.parse().unwrap()) };
        let slicing: Slicing = slicing.parse().unwrap();
        Pace::of(&SlicedDefinition::new(&spec, slicing).unwrap(), slicing.divides_cells(), true)
    }

    /// Checks the limit with a window of 128 s, which has units of 1 s and a lateness of 16 units.
    #[test]
    fn what_is_in_flight_spans_half_the_lateness() {
        let mut pace = pace("128s", Kind::Timing, "vertical:4");
        assert_eq!(pace.unit_max(empty()), UnitNumber::NEVER);
        let (first, latest) = (UnitNumber(100), UnitNumber(120));
        assert_eq!(pace.unit_max([UnitNumber(110), first].into_iter()), UnitNumber(108));
        [first, UnitNumber(103), first].into_iter().for_each(|unit| pace.begin(unit));
        assert_eq!(pace.unit_max(once(latest)), UnitNumber(108));
        pace.end(first);
        assert_eq!(pace.unit_max(once(latest)), UnitNumber(108));
        pace.end(first);
        assert_eq!(pace.unit_max(once(latest)), UnitNumber(111));
    }

    #[test]
    fn landmarks_are_not_crossed_in_flight() {
        let mut pace = pace("landmark:1h", Kind::Bloom, "vertical:4");
        pace.begin(UnitNumber(7));
        assert_eq!(pace.unit_max(once(UnitNumber(8))), UnitNumber(7));
    }

    #[test]
    fn slices_that_share_no_events_need_no_pace() {
        let mut pace = pace("128s", Kind::Timing, "horizontal:4");
        pace.begin(UnitNumber(1));
        assert_eq!((pace.holds_back(), pace.unit_max(once(UnitNumber(900)))), (false, UnitNumber::NEVER));
    }
}
