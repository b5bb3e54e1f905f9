//! The clock of a group converts the event times of a batch to the place of each event in the filter's window.
//!
//! # Guarantees
//!
//! - A group has one clock, which never moves backwards.
//! - An event that arrives in order gets the same place that an engine in a single process would give it. This works
//!   because producers send the reading of their own clock together with every time.
//!
//! This module does not depend on cells or on other groups.

mod event_clock;
mod recent_times;

use firstseen_filter::{FilterDefinition, Placed, Stamp, TtlUnits, Unit, UnitNumber, WindowClock};

use super::limits::OwnerLimits;
use crate::map::ClockSource;
use crate::protocol::{ClockReading, Times};
use event_clock::EventClock;
pub(super) use event_clock::Heading;

/// This node's clock for one group.
pub(crate) struct HeadClock {
    source: Source,
    /// The time to live of an event that is remembered for less than the full window, counted in units of the window.
    /// `None` if the filter does not support times shorter than the window.
    ttl_units: Option<TtlUnits>,
}

/// The source of time that a clock follows.
enum Source {
    /// The filter's window never ends, so there is only one unit.
    Endless,
    /// Producers send the units of their events.
    Event(Box<EventClock>),
    /// The owner provides the time itself: the time of day, or the number of events counted so far.
    Own { clock: Box<WindowClock>, wall_ms: Option<u64> },
}

impl HeadClock {
    /// Creates a clock that has not seen any event yet, for slices of `definition`.
    pub(crate) fn new(definition: &FilterDefinition, source: ClockSource, limits: &OwnerLimits) -> Self {
        let FilterDefinition { unit, rule, .. } = definition;
        // The owner's own time cannot be too far ahead, so there is no limit.
        let clock = WindowClock::new(unit.clone(), *rule, u64::MAX);
        let source = match (unit, source) {
            (Unit::Endless, _) => Source::Endless,
            (Unit::Events(_), _) => Source::Own { clock: Box::new(clock), wall_ms: None },
            (_, ClockSource::Wall) => Source::Own { clock: Box::new(clock), wall_ms: Some(0) },
            (_, ClockSource::Event) => Source::Event(Box::new(EventClock::new(definition, limits))),
        };
        Self { source, ttl_units: definition.ttl_units().ok() }
    }

    /// Returns whether the clock depends on the node's time of day. That is the case if the node stamps events with its
    /// time of day, or if the time of day limits how far ahead the times of producers may be.
    pub(crate) fn follows_time(&self) -> bool {
        matches!(self.source, Source::Event { .. } | Source::Own { wall_ms: Some(_), .. })
    }

    /// Returns whether `times` can belong to a batch of `events` events.
    pub(crate) fn is_valid(&self, times: &Times, events: usize) -> bool {
        if times.ttl_ms.is_some_and(|ttl_ms| self.ttl_units.is_none_or(|ttl_units| !ttl_units.fits(ttl_ms))) {
            return false;
        }
        match &self.source {
            Source::Event(_) => times.ticks.is_empty() || times.ticks.len() == events,
            Source::Endless | Source::Own { .. } => true,
        }
    }

    /// Prepares the clock for the events of a batch.
    pub(crate) fn open_batch(&mut self, heading: Heading, times: &Times, now_wall_ms: u64) {
        match &mut self.source {
            Source::Event(clock) => clock.open_batch(heading, times, now_wall_ms),
            Source::Own { wall_ms: Some(wall_ms), .. } => *wall_ms = now_wall_ms.max(*wall_ms),
            Source::Own { wall_ms: None, .. } | Source::Endless => {}
        }
    }

    /// Returns the place in the window that all events of the open batch share, or `None` if each event has its own
    /// place.
    pub(crate) fn common_place(&mut self, heading: Heading, times: &Times) -> Option<Placed> {
        let placed = match &mut self.source {
            Source::Endless => Placed::At(Stamp::on_time(UnitNumber::FIRST)),
            Source::Event(clock) if times.ticks.is_empty() => clock.place(heading, times, 0),
            Source::Event(_) | Source::Own { .. } => return None,
        };
        Some(self.with_ttl(placed, times))
    }

    /// Returns the place of event `index` of the current batch in the window, and advances the clock.
    ///
    /// Whether the clock moves depends on the operation. An event that is recorded or claimed always advances the
    /// clock, and it is counted if the window counts events. A lookup is never counted. It advances the clock only if
    /// the clock follows the node's time of day, because that time passes regardless of the operations.
    #[inline]
    pub(crate) fn place(&mut self, heading: Heading, times: &Times, index: usize) -> Placed {
        let placed = match &mut self.source {
            Source::Endless => Placed::At(Stamp::on_time(UnitNumber::FIRST)),
            Source::Event(clock) => clock.place(heading, times, index),
            // The time of day passes regardless of the operation, so even a lookup moves this clock.
            Source::Own { clock, wall_ms } if heading.moves_clock || wall_ms.is_some() => clock.place(*wall_ms),
            Source::Own { clock, .. } => clock.place_lookup(None),
        };
        self.with_ttl(placed, times)
    }

    /// Adjusts the place of an event that is remembered for less than the full window. Its cells expire as if the event
    /// had arrived earlier.
    fn with_ttl(&self, placed: Placed, times: &Times) -> Placed {
        match (placed, times.ttl_ms) {
            (Placed::At(Stamp { judged, .. }), Some(ttl_ms)) => {
                let stamp = self.ttl_units.and_then(|ttl_units| ttl_units.stamp(ttl_ms, judged));
                stamp.map_or(Placed::Refused, Placed::At)
            }
            (placed, _) => placed,
        }
    }

    /// Completes the clock's work on a batch, after all of its events were placed.
    pub(crate) fn close_batch(&mut self, heading: Heading, times: &Times) {
        if let Source::Event(clock) = &mut self.source {
            clock.close_batch(heading, times);
        }
    }

    /// Notes that a producer has ended, so that its events no longer hold back the times of other producers.
    pub(crate) fn end_producer(&mut self, producer: u128) {
        if let Source::Event(clock) = &mut self.source {
            clock.end_producer(producer);
        }
    }

    /// Returns the greatest event time accepted so far, in milliseconds since 1970, if there is one.
    pub(crate) fn clock_ms(&self) -> Option<u64> {
        match &self.source {
            Source::Endless => None,
            Source::Event(clock) => clock.clock_ms(),
            Source::Own { wall_ms, .. } => wall_ms.filter(|wall_ms| *wall_ms > 0),
        }
    }

    /// Returns the unit of this time of day. If units are not times, the result is the unit that the clock shows now.
    pub(crate) fn unit_at(&self, wall_ms: u64) -> UnitNumber {
        match &self.source {
            Source::Event(clock) => clock.unit_at(wall_ms),
            Source::Own { clock, wall_ms: Some(_) } => {
                let mut clock = clock.clone();
                clock.catch_up_ms(wall_ms);
                clock.now_unit()
            }
            Source::Endless | Source::Own { .. } => self.now_unit(),
        }
    }

    /// Returns the unit of the present. Only the owner's own time of day advances without events. Other clocks show the
    /// unit of the last event.
    pub(crate) fn present_unit(&self, wall_ms: u64) -> UnitNumber {
        match &self.source {
            Source::Own { wall_ms: Some(_), .. } => self.unit_at(wall_ms),
            Source::Endless | Source::Event(_) | Source::Own { .. } => self.now_unit(),
        }
    }

    /// Returns `unit`, limited to the unit of this time of day if units are times that producers send.
    pub(crate) fn not_after(&self, wall_ms: u64, unit: UnitNumber) -> UnitNumber {
        match &self.source {
            Source::Event(_) => unit.min(self.unit_at(wall_ms)),
            Source::Endless | Source::Own { .. } => unit,
        }
    }

    /// Returns the current reading of the clock, for the journal.
    pub(crate) fn reading(&self) -> ClockReading {
        let events = match &self.source {
            Source::Own { clock, .. } => clock.events(),
            Source::Endless | Source::Event(_) => 0,
        };
        ClockReading { unit: self.now_unit(), time_ms: self.clock_ms(), events }
    }

    /// Moves the clock forward to at least an earlier reading of this group's clock.
    pub(crate) fn restore(&mut self, reading: ClockReading) {
        if reading.unit > UnitNumber::LAST {
            return;
        }
        match &mut self.source {
            Source::Endless => {}
            Source::Event(clock) => clock.restore(reading),
            Source::Own { clock, wall_ms } => {
                if let Some(time_ms) = reading.time_ms {
                    *wall_ms = wall_ms.map(|wall_ms| wall_ms.max(time_ms));
                    clock.catch_up_ms(time_ms);
                }
                clock.catch_up_events(reading.events);
            }
        }
    }

    /// Returns the greatest unit in which an event was placed so far.
    pub(crate) fn now_unit(&self) -> UnitNumber {
        match &self.source {
            Source::Endless => UnitNumber::FIRST,
            Source::Event(clock) => clock.now_unit(),
            Source::Own { clock, .. } => clock.now_unit(),
        }
    }
}
