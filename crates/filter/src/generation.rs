//! One generation of cells. A slice has one generation at first, and several after it has grown.
//!
//! A generation counts its live events without reading its cells.
//!
//! This module does not depend on the meaning of a cell.

use std::collections::{BTreeMap, VecDeque};

use crate::memory::CellMemory;
use crate::unit_number::UnitNumber;
use crate::{Geometry, Stamp, WindowRule};

/// Generation of cells: cells of one geometry, the counts of their live events, and the progress of the background
/// sweep.
pub(crate) struct Generation {
    pub(crate) geometry: Geometry,
    pub(crate) memory: CellMemory,
    pub(crate) live: LiveEvents,
    /// Number of used cells, if the kind counts them.
    pub(crate) used_cells: u64,
    /// Number of bytes from the start of the memory that the sweep of the current period has passed.
    pub(crate) swept_bytes: usize,
}

impl Generation {
    pub(crate) fn new(geometry: Geometry) -> std::io::Result<Self> {
        let bytes = usize::try_from(geometry.bytes()).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        let memory = CellMemory::zeroed(bytes)?;
        Ok(Self { geometry, memory, live: LiveEvents::default(), used_cells: 0, swept_bytes: 0 })
    }

    /// Resets the generation to the state of a new one.
    pub(crate) fn clear(&mut self) {
        self.memory.clear();
        self.live = LiveEvents::default();
        self.used_cells = 0;
        self.swept_bytes = 0;
    }
}

/// Number of recorded events that have not expired, counted by the unit in which they occurred.
///
/// This type has one number per unit, because the events of a unit expire together and their number must then be
/// subtracted. Koloniari et al. 2011 use a single number for the live events of a generation, which they call its
/// cardinality. A single number could not be decremented, because it does not tell how many of its events have expired.
///
/// A slice counts its own events. If the cells of an event lie in several slices, none of these slices can tell whether
/// the event was new. In that case the owner of the slice group counts the event for all of them.
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
    /// Counts `events` events that were recorded in units up to `unit`.
    pub fn record(&mut self, unit: UnitNumber, events: u64) {
        if events == 0 {
            return;
        }
        self.total += events;
        self.newest_unit = self.newest_unit.max(Some(unit));
        match self.by_unit.back_mut() {
            // Units never decrease in this list. A late event is counted in the newest unit, so it is counted for
            // slightly too long.
            Some((newest, count)) if *newest >= unit => *count += events,
            _ => self.by_unit.push_back((unit, events)),
        }
    }

    /// Stops counting `events` events in `unit`, because they are now counted in another unit.
    pub(crate) fn take_back(&mut self, unit: UnitNumber, events: u64) {
        let mut left = events;
        // A late event was counted in a later unit than its own.
        for (_, count) in self.by_unit.iter_mut().filter(|(counted, _)| *counted >= unit) {
            let taken = left.min(*count);
            *count -= taken;
            left -= taken;
        }
        self.total -= events - left;
        self.by_unit.retain(|(_, count)| *count > 0);
    }

    /// Records that events which were recorded earlier restart their window at `unit`.
    pub fn refresh(&mut self, unit: UnitNumber) {
        self.newest_unit = self.newest_unit.max(Some(unit));
    }

    /// Counts the events of `stamps` that `found` marks as new. Each event is counted in the greatest unit up to that
    /// event, starting with `now`.
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

    /// Merges the counts of live events with those of another copy of this generation. The cells of the two copies are
    /// merged as well. The result has, for each unit, the larger of the two counts. The sum could be too large, because
    /// an event that both copies have recorded would be counted twice.
    pub(crate) fn merge(&mut self, other: &Self) {
        let mut merged: BTreeMap<UnitNumber, u64> = self.by_unit().collect();
        for (unit, events) in other.by_unit() {
            merged.entry(unit).and_modify(|most| *most = events.max(*most)).or_insert(events);
        }
        self.total = merged.values().sum();
        self.by_unit = merged.into_iter().collect();
        self.newest_unit = self.newest_unit.max(other.newest_unit);
    }

    /// Removes the counts of events that have expired when the greatest unit is `now`.
    pub fn advance(&mut self, rule: &WindowRule, now: UnitNumber) {
        while let Some(&(unit, events)) = self.by_unit.front() {
            if rule.expiry(unit) > now {
                break;
            }
            self.total -= events;
            self.by_unit.pop_front();
        }
    }

    /// Returns the same counts with `factor` times the events in each unit.
    pub fn times(&self, factor: f64) -> Self {
        let by_unit: VecDeque<(UnitNumber, u64)> = self
            .by_unit()
            .map(|(unit, events)| (unit, (events as f64 * factor).round() as u64))
            .filter(|(_, events)| *events > 0)
            .collect();
        let total = by_unit.iter().map(|(_, events)| events).sum();
        Self { by_unit, total, newest_unit: self.newest_unit }
    }

    /// Returns the number of live events.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the greatest unit in which an event was recorded or refreshed, even if that event has expired.
    pub fn newest_unit(&self) -> Option<UnitNumber> {
        self.newest_unit
    }

    /// Returns the same counts with another value for the greatest unit ever recorded.
    pub(crate) fn with_newest_unit(self, newest_unit: Option<UnitNumber>) -> Self {
        Self { newest_unit, ..self }
    }

    /// Returns the pairs of (unit, events) in ascending order of units.
    pub(crate) fn by_unit(&self) -> impl ExactSizeIterator<Item = (UnitNumber, u64)> + '_ {
        self.by_unit.iter().copied()
    }
}
