//! Local memory of the client for events that received the verdict first-seen. The client answers duplicates of these
//! events itself, without asking a node. In a tree of filters, the local memory acts as the lowest level.
//!
//! - An event counts as a duplicate in the local memory only if this client received first-seen for the same event
//!   within the filter's window.
//! - Keys are compared by all 128 bits of their digests, so different keys are not confused.
//! - The memory is bounded. When it is full, the oldest keys are dropped.
//!
//! This module does not depend on streams, retries or a clock. Callers pass in the time of day.

use std::collections::HashMap;
use std::mem;

use firstseen_filter::{Digest, Unit, UnitNumber, WindowClock, WindowRule};
use firstseen_routing::{ClockSource, FilterRecord, Tick};

/// Memory for one remembered event, in bytes: its digest, its time unit, and its share of the hash table.
const EVENT_BYTES: usize = 48;

/// Recent events with the verdict first-seen.
#[derive(Debug)]
pub(crate) struct LocalFilter {
    rule: WindowRule,
    /// Clock for filters whose nodes stamp events on arrival.
    wall: Option<WindowClock>,
    /// Time unit of each recent event, by digest. When this map is full, it replaces `old`, and a new map begins.
    young: HashMap<Digest, UnitNumber>,
    /// Events that were in `young` before the last exchange.
    old: HashMap<Digest, UnitNumber>,
    half_events_max: usize,
    hits: u64,
}

impl LocalFilter {
    /// Creates an empty memory of at most `bytes_max` bytes. Returns `None` if the window of the filter spans a number
    /// of events. Such a window counts the events of all producers, but this client sees only its own, so it cannot
    /// tell when an event leaves the window.
    pub(crate) fn new(record: &FilterRecord, bytes_max: usize) -> Option<Self> {
        let group = &record.definition.group;
        if let Unit::Events(_) = group.unit {
            return None;
        }
        let is_wall = record.policies.clock == ClockSource::Wall && group.unit.needs_time();
        Some(Self {
            rule: group.rule,
            wall: is_wall.then(|| WindowClock::new(group.unit.clone(), group.rule, u64::MAX)),
            young: HashMap::new(),
            old: HashMap::new(),
            half_events_max: (bytes_max / EVENT_BYTES / 2).max(1),
            hits: 0,
        })
    }

    /// Returns the place in time of an event that occurs at `wall_ms`, if the filter's nodes stamp events. Otherwise
    /// returns `tick` unchanged.
    pub(crate) fn tick(&mut self, tick: Tick, wall_ms: impl FnOnce() -> u64) -> Tick {
        let Some(clock) = &mut self.wall else { return tick };
        let (clock_unit, unit) = clock.place_tick(Some(wall_ms())).unwrap_or_default();
        Tick { clock_unit, unit }
    }

    /// Returns whether the event repeats an event whose verdict was first-seen, and which is still within the window.
    pub(crate) fn knows(&mut self, digest: Digest, tick: Tick) -> bool {
        let Some(unit) = self.young.get(&digest).or_else(|| self.old.get(&digest)) else { return false };
        let stamp = self.rule.stamp(tick.unit, tick.clock_unit);
        let is_alive = stamp.is_some_and(|stamp| self.rule.expiry(*unit) > stamp.judged);
        self.hits += u64::from(is_alive);
        is_alive
    }

    /// Remembers an event whose verdict was first-seen.
    pub(crate) fn remember(&mut self, digest: Digest, unit: UnitNumber) {
        if self.young.len() >= self.half_events_max {
            mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(digest, unit);
    }

    /// Returns the number of duplicates found in this memory.
    pub(crate) fn hits(&self) -> u64 {
        self.hits
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};
    use firstseen_routing::{Epoch, FilterPolicies, SlicedDefinition, Slicing};

    use super::*;

    fn filter(window: &str, clock: ClockSource, events: usize) -> Option<LocalFilter> {
        let spec = FilterSpec {
            capacity_events: Some(1000),
            ..FilterSpec::new(Kind::Timing, window.parse().expect("a window"))
        };
        let record = FilterRecord {
            name: "clicks".to_owned(),
            epoch: Epoch::FIRST,
            definition: SlicedDefinition::new(&spec, Slicing::NONE).expect("a definition"),
            policies: FilterPolicies { clock, ..FilterPolicies::default() },
            owners: Vec::new(),
            copies: Vec::new(),
            generations: Vec::new(),
            branch: None,
            line: Default::default(),
        };
        LocalFilter::new(&record, events * EVENT_BYTES)
    }

    fn digest(lo: u64) -> Digest {
        Digest { lo, hi: 1 }
    }

    fn at(unit: u64) -> Tick {
        let unit = UnitNumber(unit);
        Tick { clock_unit: unit, unit }
    }

    #[test]
    fn what_was_told_counts_until_its_window_is_over() {
        let mut filter = filter("10s", ClockSource::Event, 100).expect("a window of time");
        let span = filter.rule.span_units;
        assert!(!filter.knows(digest(1), at(50)));
        filter.remember(digest(1), UnitNumber(50));
        assert!(filter.knows(digest(1), at(50)) && filter.knows(digest(1), at(50 + span - 1)));
        assert!(!filter.knows(digest(1), at(50 + span)) && !filter.knows(digest(2), at(50)));
        assert_eq!(filter.hits(), 2);
    }

    #[test]
    fn the_time_of_day_counts_where_nodes_stamp_events() {
        let mut filter = filter("10s", ClockSource::Wall, 100).expect("a window of time");
        let start_ms = 1_790_000_000_000;
        let mut tick = |after_ms: u64| filter.tick(Tick::default(), || start_ms + after_ms);
        let [first, later, over] = [0, 9_000, 11_000].map(&mut tick);
        filter.remember(digest(1), first.unit);
        assert!(filter.knows(digest(1), later) && !filter.knows(digest(1), over));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_newest_stay() {
        let mut filter = filter("10s", ClockSource::Event, 100).expect("a window of time");
        (0..1_000).for_each(|key| filter.remember(digest(key), UnitNumber(50)));
        assert!(filter.young.len() + filter.old.len() <= 100);
        assert!((950..1_000).all(|key| filter.knows(digest(key), at(50))));
        assert!(!filter.knows(digest(0), at(50)));
    }

    #[test]
    fn windows_that_count_all_events_are_not_known_here() {
        assert!(filter("1000events", ClockSource::Event, 100).is_none());
    }
}
