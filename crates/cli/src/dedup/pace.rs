//! How far apart in time events may be that a cluster is asked about at once.
//!
//! Where slices share events, the slices of one group on different nodes each have a clock, and an event moves the clock
//! of those that it visits. A log is read much faster than it was written: with a day of it in flight, some clocks
//! would be a day ahead of events that have yet to come, and call them late. So what is in flight stays within half of
//! the lateness, which leaves the other half for events that are out of order; then every event is judged as it would be
//! in one process.
//!
//! Promises: events of a range, and those before them that are in flight, are within the bound. Must not know: who is
//! asked.

use std::ops::Range;

use firstseen_filter::{FilterDefinition, WindowClock};

/// Follows the clock that the nodes will have.
pub(super) struct Pace {
    clock: WindowClock,
    skew_units_max: u64,
}

/// A batch, cut into ranges each of which must be answered before the next.
pub(super) struct Cut {
    pub(super) ranges: Vec<Range<usize>>,
    /// The clock at the first event, and after the last.
    pub(super) units: Range<u64>,
}

impl Pace {
    /// For a filter whose slices share events, which bring their times.
    pub(super) fn of(group: &FilterDefinition) -> Self {
        Self {
            clock: WindowClock::new(group.unit.clone(), group.rule, group.future_max_ms),
            skew_units_max: group.rule.lateness_units / 2,
        }
    }

    /// Cuts a batch of events with these times.
    pub(super) fn cut(&mut self, times_ms: &[u64]) -> Cut {
        let (mut ranges, mut from, mut from_unit, mut first) = (Vec::new(), 0, 0, None);
        for (index, time_ms) in times_ms.iter().enumerate() {
            self.clock.place(Some(*time_ms));
            let unit = self.clock.now_unit();
            first = first.or(Some(unit));
            if index == 0 {
                from_unit = unit;
            } else if unit - from_unit > self.skew_units_max {
                ranges.push(from..index);
                (from, from_unit) = (index, unit);
            }
        }
        if from < times_ms.len() {
            ranges.push(from..times_ms.len());
        }
        let last = self.clock.now_unit();
        Cut { ranges, units: first.unwrap_or(last)..last }
    }

    /// Whether a batch must wait until one that is in flight, whose clock began at `unit`, is answered.
    pub(super) fn must_wait(&self, cut: &Cut, unit: u64) -> bool {
        cut.ranges.len() > 1 || cut.units.end.saturating_sub(unit) > self.skew_units_max
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind, Window};

    use super::*;

    fn pace(window: &str) -> Pace {
        let window: Window = window.parse().unwrap();
        let kind = if matches!(window, Window::Duration(_)) { Kind::Timing } else { Kind::Bloom };
        let spec = FilterSpec { capacity_events: Some(100), ..FilterSpec::new(kind, window) };
        Pace::of(&spec.resolve().unwrap())
    }

    /// A window of 128 s has units of 1 s and a lateness of 16.
    #[test]
    fn ranges_span_half_the_lateness() {
        let mut pace = pace("128s");
        let skew_s = pace.skew_units_max;
        assert!((7..=9).contains(&skew_s), "{skew_s}");
        let times = |seconds: &[u64]| seconds.iter().map(|second| (1_000_000 + second) * 1000).collect::<Vec<_>>();
        let cut = pace.cut(&times(&[0, skew_s, 1, skew_s + 1, skew_s + 2, 0]));
        assert_eq!(cut.ranges, [0..3, 3..6]);
        assert!(pace.must_wait(&cut, cut.units.start));
        let next = pace.cut(&times(&[skew_s + 2, skew_s + 3]));
        assert_eq!((next.ranges.len(), pace.must_wait(&next, cut.units.end)), (1, false));
        assert!(pace.must_wait(&next, cut.units.start));
    }

    #[test]
    fn a_broken_time_moves_nothing() {
        let mut pace = pace("128s");
        let cut = pace.cut(&[1_000_000_000, 1_000_000_000 + 8 * 86_400_000, 1_000_000_000]);
        assert_eq!((cut.ranges.len(), cut.units.start), (1, cut.units.end));
    }

    #[test]
    fn landmarks_are_not_crossed_in_flight() {
        let mut pace = pace("landmark:1h");
        let cut = pace.cut(&[3_600_000, 7_199_999, 7_200_000, 7_200_001]);
        assert_eq!(cut.ranges, [0..2, 2..4]);
        assert!(pace.cut(&[]).ranges.is_empty());
    }
}
