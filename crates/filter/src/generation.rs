//! One generation of cells: the memory of a slice, or one of several where the slice has grown.
//!
//! Promises: the generation counts its live events without reading its cells. Must not know: what a cell means.

use std::collections::{BTreeMap, VecDeque};

use crate::memory::CellMemory;
use crate::unit_number::UnitNumber;
use crate::{Geometry, Stamp, WindowRule};

/// Cells of one geometry, the number of their live events, and how far the background sweep has come.
pub(crate) struct Generation {
    pub(crate) geometry: Geometry,
    pub(crate) memory: CellMemory,
    pub(crate) live: LiveEvents,
    /// Cells in use, where the kind keeps count.
    pub(crate) used_cells: u64,
    /// Bytes from the start of the memory that the sweep of the current period has passed.
    pub(crate) swept_bytes: usize,
}

impl Generation {
    pub(crate) fn new(geometry: Geometry) -> std::io::Result<Self> {
        let bytes = usize::try_from(geometry.bytes()).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        let memory = CellMemory::zeroed(bytes)?;
        Ok(Self { geometry, memory, live: LiveEvents::default(), used_cells: 0, swept_bytes: 0 })
    }

    /// Back to the state of a new generation.
    pub(crate) fn clear(&mut self) {
        self.memory.clear();
        self.live = LiveEvents::default();
        self.used_cells = 0;
        self.swept_bytes = 0;
    }
}

/// Events recorded and not yet expired, by the unit in which they occurred.
///
/// Better than K11's cardinality, which cannot be decremented as events expire: a number a unit can. A slice counts its
/// own events; where the cells of one event lie in several slices, the owner of their group counts for all.
///
/// ```
/// use firstseen_filter::{LiveEvents, UnitNumber, WindowRule};
/// let rule = WindowRule { span_units: 10, lateness_units: 0 };
/// let mut live = LiveEvents::default();
/// live.record(UnitNumber(5), 2);
/// live.record(UnitNumber(7), 1);
/// live.advance(&rule, UnitNumber(15));
/// assert_eq!((live.total(), live.newest_unit()), (1, Some(UnitNumber(7))));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveEvents {
    by_unit: VecDeque<(UnitNumber, u64)>,
    total: u64,
    newest_unit: Option<UnitNumber>,
}

impl LiveEvents {
    /// Counts `events` recorded in units up to `unit`.
    pub fn record(&mut self, unit: UnitNumber, events: u64) {
        if events == 0 {
            return;
        }
        self.total += events;
        self.newest_unit = self.newest_unit.max(Some(unit));
        match self.by_unit.back_mut() {
            // Units never step back here: a late event counts with the newest unit, so it is counted a little too long.
            Some((newest, count)) if *newest >= unit => *count += events,
            _ => self.by_unit.push_back((unit, events)),
        }
    }

    /// Counts `events` recorded in `unit` no longer, as they are counted in another one now.
    pub(crate) fn take_back(&mut self, unit: UnitNumber, events: u64) {
        let mut left = events;
        // An event that came late was counted in a later unit than its own.
        for (_, count) in self.by_unit.iter_mut().filter(|(counted, _)| *counted >= unit) {
            let taken = left.min(*count);
            *count -= taken;
            left -= taken;
        }
        self.total -= events - left;
        self.by_unit.retain(|(_, count)| *count > 0);
    }

    /// Notes that events recorded before live on from `unit`.
    pub fn refresh(&mut self, unit: UnitNumber) {
        self.newest_unit = self.newest_unit.max(Some(unit));
    }

    /// Counts the events of `stamps`, each in the greatest unit up to then, `now` before the first of them; `found` are
    /// those that were not recorded.
    pub(crate) fn record_each(&mut self, now: UnitNumber, stamps: &[Stamp], found: &[bool]) {
        let mut unit = now;
        let mut events = 0;
        for (stamp, found) in stamps.iter().zip(found) {
            if stamp.unit > unit {
                self.record(unit, events);
                unit = stamp.unit;
                events = 0;
            }
            events += u64::from(!found);
        }
        self.record(unit, events);
    }

    /// The counts of a copy whose cells were merged into these. Which events both hold is unknown: the larger number of
    /// each unit is certain, and merging twice must not count twice.
    pub(crate) fn merge(&mut self, other: &Self) {
        let mut merged: BTreeMap<UnitNumber, u64> = self.by_unit().collect();
        for (unit, events) in other.by_unit() {
            merged.entry(unit).and_modify(|most| *most = events.max(*most)).or_insert(events);
        }
        self.total = merged.values().sum();
        self.by_unit = merged.into_iter().collect();
        self.newest_unit = self.newest_unit.max(other.newest_unit);
    }

    /// Forgets events that have expired when the greatest unit is `now`.
    pub fn advance(&mut self, rule: &WindowRule, now: UnitNumber) {
        while let Some(&(unit, events)) = self.by_unit.front() {
            if rule.expiry(unit) > now {
                break;
            }
            self.total -= events;
            self.by_unit.pop_front();
        }
    }

    /// The same counts, with `factor` times as many events in each unit.
    pub fn times(&self, factor: f64) -> Self {
        let by_unit: VecDeque<(UnitNumber, u64)> = self
            .by_unit()
            .map(|(unit, events)| (unit, (events as f64 * factor).round() as u64))
            .filter(|(_, events)| *events > 0)
            .collect();
        let total = by_unit.iter().map(|(_, events)| events).sum();
        Self { by_unit, total, newest_unit: self.newest_unit }
    }

    /// Events alive.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The greatest unit in which an event was recorded or refreshed, expired or not.
    pub fn newest_unit(&self) -> Option<UnitNumber> {
        self.newest_unit
    }

    /// The same, with the greatest unit ever recorded.
    pub(crate) fn with_newest_unit(self, newest_unit: Option<UnitNumber>) -> Self {
        Self { newest_unit, ..self }
    }

    /// Pairs of (unit, events) in rising order of units.
    pub(crate) fn by_unit(&self) -> impl ExactSizeIterator<Item = (UnitNumber, u64)> + '_ {
        self.by_unit.iter().copied()
    }
}
