//! The event clock: from the time that an event carries to its stamp.
//!
//! The clock shows the greatest time accepted so far and never steps back. Times too far ahead of it are refused, so
//! that one broken record cannot end everybody's window.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::{Stamp, Unit, WindowRule};
use crate::body::{invalid, read_u64, write_u64};

/// Times and counts beyond this are none: sums must not overflow.
pub(super) const COUNT_MAX: u64 = 1 << 62;

/// Where an event falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// In the window.
    At(Stamp),
    /// So long ago that its own window, and the lateness, are over: nothing is set, the filter's `late` rule answers.
    Late,
    /// Further ahead of the clock than allowed, or without the time that the window needs: refused.
    Refused,
}

/// Places events in a window, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowClock {
    unit: Unit,
    rule: WindowRule,
    future_max_ms: u64,
    /// The greatest time accepted; none before the first event.
    now_ms: Option<u64>,
    now_unit: u64,
    events: u64,
    /// The unit placed last and the times that fall into it.
    #[serde(skip)]
    recent: Option<(u64, u64, u64)>,
}

impl WindowClock {
    /// A clock that has seen nothing. The first event sets it, whatever its time.
    pub fn new(unit: Unit, rule: WindowRule, future_max_ms: u64) -> Self {
        Self { unit, rule, future_max_ms, now_ms: None, now_unit: 0, events: 0, recent: None }
    }

    /// The place of the next event. `time_ms` is ignored where the window does not need it.
    ///
    /// ```
    /// use firstseen_filter::{Placed, Stamp, Unit, WindowClock, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 0 };
    /// let mut clock = WindowClock::new(Unit::Milliseconds(1000), rule, 60_000);
    /// assert_eq!(clock.place(Some(100_500)), Placed::At(Stamp::on_time(100)));
    /// assert_eq!(clock.place(Some(98_000)), Placed::At(Stamp { unit: 98, judged: 100 }));
    /// assert_eq!(clock.place(Some(90_000)), Placed::Late);
    /// assert_eq!(clock.place(Some(161_000)), Placed::Refused);
    /// ```
    #[inline]
    pub fn place(&mut self, time_ms: Option<u64>) -> Placed {
        match self.unit {
            Unit::Endless => Placed::At(Stamp::on_time(0)),
            Unit::Events(events_per_unit) => {
                let unit = self.events / events_per_unit;
                self.events += 1;
                self.now_unit = unit;
                Placed::At(Stamp::on_time(unit))
            }
            Unit::Milliseconds(_) | Unit::Calendar(_) => time_ms.map_or(Placed::Refused, |ms| self.place_at(ms)),
        }
    }

    /// The place of an event that is only looked up: a time moves the clock as in [`Self::place`], but where events
    /// are counted it is not counted.
    #[inline]
    pub fn place_lookup(&mut self, time_ms: Option<u64>) -> Placed {
        match self.unit {
            Unit::Events(events_per_unit) => Placed::At(Stamp::on_time(self.events / events_per_unit)),
            _ => self.place(time_ms),
        }
    }

    /// What the clock shows at the next event, and the unit in which the event occurred, which is not above it: what a
    /// [`crate::UnitClock`] elsewhere needs to place the event as [`Self::place`] does here. An event that is late is
    /// told like any other; `None` where `place` refuses.
    ///
    /// ```
    /// use firstseen_filter::{Unit, WindowClock, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 0 };
    /// let mut clock = WindowClock::new(Unit::Milliseconds(1000), rule, 60_000);
    /// assert_eq!(clock.place_tick(Some(100_500)), Some((100, 100)));
    /// assert_eq!(clock.place_tick(Some(20_000)), Some((100, 20)));
    /// assert_eq!(clock.place_tick(Some(161_000)), None);
    /// ```
    #[inline]
    pub fn place_tick(&mut self, time_ms: Option<u64>) -> Option<(u64, u64)> {
        match self.unit {
            Unit::Milliseconds(_) | Unit::Calendar(_) => {
                let unit = self.accept(time_ms?)?;
                Some((self.now_unit, unit))
            }
            Unit::Endless | Unit::Events(_) => match self.place(time_ms) {
                Placed::At(stamp) => Some((stamp.unit, stamp.unit)),
                Placed::Late | Placed::Refused => None,
            },
        }
    }

    /// Lets the clock show at least `now_ms`, as if an event of that time had been accepted: what another clock of the
    /// same filter shows. Nothing where the window needs no time.
    pub fn catch_up_ms(&mut self, now_ms: u64) {
        if self.unit.needs_time() && now_ms <= COUNT_MAX && self.now_ms.is_none_or(|shown_ms| now_ms > shown_ms) {
            self.now_unit = self.unit_of(now_ms).max(self.now_unit);
            self.now_ms = Some(now_ms);
        }
    }

    /// Events counted so far, where the window is made of them.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Counts at least `events` events, as another clock of the same filter has; nothing where the window is not made of
    /// them.
    pub fn catch_up_events(&mut self, events: u64) {
        if let Unit::Events(events_per_unit) = self.unit
            && (self.events + 1..=COUNT_MAX).contains(&events)
        {
            self.events = events;
            self.now_unit = (events - 1) / events_per_unit;
        }
    }

    #[inline]
    fn place_at(&mut self, time_ms: u64) -> Placed {
        match self.accept(time_ms) {
            Some(unit) => self.rule.stamp(unit, self.now_unit).map_or(Placed::Late, Placed::At),
            None => Placed::Refused,
        }
    }

    /// The unit of a time, which moves the clock; `None` if it is too far ahead.
    #[inline]
    fn accept(&mut self, time_ms: u64) -> Option<u64> {
        if time_ms > COUNT_MAX {
            return None;
        }
        let mut unit = self.unit_of(time_ms);
        match self.now_ms {
            Some(now_ms) if time_ms <= now_ms => {}
            Some(now_ms) if time_ms - now_ms > self.future_max_ms => return None,
            _ => {
                // Where a zone sets its clocks back over midnight, the day that has begun goes on.
                unit = unit.max(self.now_unit);
                self.now_ms = Some(time_ms);
                self.now_unit = unit;
            }
        }
        Some(unit)
    }

    #[inline]
    fn unit_of(&mut self, time_ms: u64) -> u64 {
        if let Some((unit, start_ms, end_ms)) = self.recent
            && (start_ms..end_ms).contains(&time_ms)
        {
            return unit;
        }
        let found = match &self.unit {
            Unit::Milliseconds(unit_ms) => {
                let unit = time_ms / unit_ms;
                (unit, unit * unit_ms, (unit + 1).saturating_mul(*unit_ms))
            }
            Unit::Calendar(calendar) => calendar.unit_of(time_ms),
            Unit::Endless | Unit::Events(_) => (0, 0, u64::MAX),
        };
        self.recent = Some(found);
        found.0
    }

    /// Writes what the clock shows.
    ///
    /// # Errors
    /// What the sink says.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        write_u64(sink, u64::from(self.now_ms.is_some()))?;
        write_u64(sink, self.now_ms.unwrap_or(0))?;
        write_u64(sink, self.events)
    }

    /// Goes on where a clock of the same window was written.
    ///
    /// # Errors
    /// `InvalidData` where no such clock shows this; what the source says.
    pub fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        let (is_set, time_ms, events) = (read_u64(source)?, read_u64(source)?, read_u64(source)?);
        let now_ms = match (is_set, time_ms) {
            (0, 0) => None,
            (1, time_ms) if time_ms <= COUNT_MAX => Some(time_ms),
            _ => return Err(invalid("a clock that shows no time")),
        };
        if events > COUNT_MAX {
            return Err(invalid("a clock that has counted too many events"));
        }
        let now_unit = match self.unit {
            Unit::Events(events_per_unit) => events.saturating_sub(1) / events_per_unit,
            _ => now_ms.map_or(0, |now_ms| self.unit_of(now_ms)),
        };
        (self.now_ms, self.events, self.now_unit) = (now_ms, events, now_unit);
        Ok(())
    }

    /// The greatest unit placed so far.
    pub fn now_unit(&self) -> u64 {
        self.now_unit
    }

    /// The greatest time accepted so far, in milliseconds since 1970.
    pub fn now_ms(&self) -> Option<u64> {
        self.now_ms
    }
}
