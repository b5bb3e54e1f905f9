//! The clock of a group: from the times of a batch to the place of each event in the window.
//!
//! Promises: one clock for the group, never stepping back. An event in order is placed as an engine in one place would
//! place it, because producers send what their clock shows with every time. Must not know: cells, other groups.

mod event_clock;
mod lately;

use firstseen_filter::{FilterDefinition, Placed, Stamp, TtlUnits, Unit, UnitNumber, WindowClock};

use super::limits::OwnerLimits;
use crate::map::ClockSource;
use crate::protocol::{ClockReading, Times};
use event_clock::EventClock;
pub(super) use event_clock::Heading;

/// This node's clock for a group.
pub(crate) struct HeadClock {
    source: Source,
    /// Where events can be remembered for less than the window.
    ttl_units: Option<TtlUnits>,
}

/// What a clock follows.
enum Source {
    /// There is one unit that never ends.
    Endless,
    /// Producers send the units of their events.
    Event(Box<EventClock>),
    /// The owner's own: the time of day, or the count of events.
    Own { clock: Box<WindowClock>, wall_ms: Option<u64> },
}

impl HeadClock {
    /// A clock that has seen nothing, for slices of `definition`.
    pub(crate) fn new(definition: &FilterDefinition, source: ClockSource, limits: &OwnerLimits) -> Self {
        let FilterDefinition { unit, rule, .. } = definition;
        // The owner's own time is never too far ahead.
        let clock = WindowClock::new(unit.clone(), *rule, u64::MAX);
        let source = match (unit, source) {
            (Unit::Endless, _) => Source::Endless,
            (Unit::Events(_), _) => Source::Own { clock: Box::new(clock), wall_ms: None },
            (_, ClockSource::Wall) => Source::Own { clock: Box::new(clock), wall_ms: Some(0) },
            (_, ClockSource::Event) => Source::Event(Box::new(EventClock::new(definition, limits))),
        };
        Self { source, ttl_units: definition.ttl_units().ok() }
    }

    /// Whether the clock rests on the node's time of day: events are stamped by that, or may not be far ahead of it.
    pub(crate) fn follows_time(&self) -> bool {
        matches!(self.source, Source::Event { .. } | Source::Own { wall_ms: Some(_), .. })
    }

    /// Whether `times` can be those of `events` events.
    pub(crate) fn is_valid(&self, times: &Times, events: usize) -> bool {
        if times.ttl_ms.is_some_and(|ttl_ms| self.ttl_units.is_none_or(|ttl_units| !ttl_units.fits(ttl_ms))) {
            return false;
        }
        match &self.source {
            Source::Event(_) => times.ticks.is_empty() || times.ticks.len() == events,
            Source::Endless | Source::Own { .. } => true,
        }
    }

    /// Before the events of a batch.
    pub(crate) fn open_batch(&mut self, heading: Heading, times: &Times, now_wall_ms: u64) {
        match &mut self.source {
            Source::Event(clock) => clock.open_batch(heading, times, now_wall_ms),
            Source::Own { wall_ms: Some(wall_ms), .. } => *wall_ms = now_wall_ms.max(*wall_ms),
            Source::Own { wall_ms: None, .. } | Source::Endless => {}
        }
    }

    /// The place that all events of the open batch share, where they do.
    pub(crate) fn common_place(&mut self, heading: Heading, times: &Times) -> Option<Placed> {
        let placed = match &mut self.source {
            Source::Endless => Placed::At(Stamp::on_time(UnitNumber::FIRST)),
            Source::Event(clock) if times.ticks.is_empty() => clock.place(heading, times, 0),
            Source::Event(_) | Source::Own { .. } => return None,
        };
        Some(self.with_ttl(placed, times))
    }

    /// The place of event `index` of the open batch. An event that is recorded, or claimed, moves the clock, and is counted where
    /// the window counts events; one that is only looked up does neither.
    #[inline]
    pub(crate) fn place(&mut self, heading: Heading, times: &Times, index: usize) -> Placed {
        let placed = match &mut self.source {
            Source::Endless => Placed::At(Stamp::on_time(UnitNumber::FIRST)),
            Source::Event(clock) => clock.place(heading, times, index),
            // The owner's own time passes by itself, whatever is asked.
            Source::Own { clock, wall_ms } if heading.moves_clock || wall_ms.is_some() => clock.place(*wall_ms),
            Source::Own { clock, .. } => clock.place_lookup(None),
        };
        self.with_ttl(placed, times)
    }

    /// The place of an event that is remembered for less than the window: its cells expire as if it had come earlier.
    fn with_ttl(&self, placed: Placed, times: &Times) -> Placed {
        match (placed, times.ttl_ms) {
            (Placed::At(Stamp { judged, .. }), Some(ttl_ms)) => {
                let stamp = self.ttl_units.and_then(|ttl_units| ttl_units.stamp(ttl_ms, judged));
                stamp.map_or(Placed::Refused, Placed::At)
            }
            (placed, _) => placed,
        }
    }

    /// After the events of a batch.
    pub(crate) fn close_batch(&mut self, heading: Heading, times: &Times) {
        if let Source::Event(clock) = &mut self.source {
            clock.close_batch(heading, times);
        }
    }

    /// A producer has ended: the events that it has sent no longer hold back the times of others.
    pub(crate) fn end_producer(&mut self, producer: u128) {
        if let Source::Event(clock) = &mut self.source {
            clock.end_producer(producer);
        }
    }

    /// The greatest time accepted, in milliseconds since 1970, if any.
    pub(crate) fn clock_ms(&self) -> Option<u64> {
        match &self.source {
            Source::Endless => None,
            Source::Event(clock) => clock.clock_ms(),
            Source::Own { wall_ms, .. } => wall_ms.filter(|wall_ms| *wall_ms > 0),
        }
    }

    /// The unit of this time of day; where units are no times, one that the clock has shown.
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

    /// The unit of the present: time passes by itself only where it is the owner's own.
    pub(crate) fn present_unit(&self, wall_ms: u64) -> UnitNumber {
        match &self.source {
            Source::Own { wall_ms: Some(_), .. } => self.unit_at(wall_ms),
            Source::Endless | Source::Event(_) | Source::Own { .. } => self.now_unit(),
        }
    }

    /// `unit`, but not after this time of day where units are times.
    pub(crate) fn not_after(&self, wall_ms: u64, unit: UnitNumber) -> UnitNumber {
        match &self.source {
            Source::Event(_) => unit.min(self.unit_at(wall_ms)),
            Source::Endless | Source::Own { .. } => unit,
        }
    }

    /// What the clock shows.
    pub(crate) fn reading(&self) -> ClockReading {
        let events = match &self.source {
            Source::Own { clock, .. } => clock.events(),
            Source::Endless | Source::Event(_) => 0,
        };
        ClockReading { unit: self.now_unit(), time_ms: self.clock_ms(), events }
    }

    /// From now on the clock shows at least what a clock of this group has shown before.
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

    /// The greatest unit placed so far.
    pub(crate) fn now_unit(&self) -> UnitNumber {
        match &self.source {
            Source::Endless => UnitNumber::FIRST,
            Source::Event(clock) => clock.now_unit(),
            Source::Own { clock, .. } => clock.now_unit(),
        }
    }
}
