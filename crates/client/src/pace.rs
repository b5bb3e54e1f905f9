//! How far apart in time the events may be that are in flight together.
//!
//! Where slices share events, the slices of one group on different nodes each have a clock, and an event moves the
//! clock of those that it visits. A log is read much faster than it was written: with a day of it in flight, some
//! clocks would be a day ahead of events that have yet to come, and call them late. So events in flight stay within
//! half of the lateness, which leaves the other half for events that are out of order; then every event is judged as it
//! would be in one process. Events as they happen are never that far apart.
//!
//! Promises: an event is held back only while older ones of its filter are unanswered. Must not know: which node is
//! asked, why an answer takes its time.

use firstseen_filter::UnitNumber;
use firstseen_routing::SlicedDefinition;

/// Follows the events in flight of one filter; does nothing where its slices share no events, and it has no levels.
pub(crate) struct Pace {
    skew_units_max: Option<u64>,
    /// The clock at the first event of each batch in flight.
    inflight_units: Vec<UnitNumber>,
}

impl Pace {
    /// For a filter whose events bring their times or not, and visit several slices or levels of a tree (`has_flights`) or
    /// one slice only.
    pub(crate) fn of(definition: &SlicedDefinition, has_flights: bool, has_clock: bool) -> Self {
        let is_paced = has_clock && has_flights;
        let skew_units_max = is_paced.then_some(definition.group.rule.lateness_units / 2);
        Self { skew_units_max, inflight_units: Vec::new() }
    }

    /// Whether the end of a batch may allow events of other nodes.
    pub(crate) fn holds_back(&self) -> bool {
        self.skew_units_max.is_some()
    }

    /// A batch is sent that begins at this clock.
    pub(crate) fn begin(&mut self, unit: UnitNumber) {
        if self.holds_back() {
            self.inflight_units.push(unit);
        }
    }

    /// A batch that began at this clock is answered.
    pub(crate) fn end(&mut self, unit: UnitNumber) {
        if let Some(place) = self.inflight_units.iter().position(|began| *began == unit) {
            self.inflight_units.swap_remove(place);
        }
    }

    /// The clock up to which events may be sent, where those that wait begin at `queued_units`.
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

    /// A window of 128 s has units of 1 s and a lateness of 16.
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
