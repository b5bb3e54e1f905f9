//! The event clock, which turns the time that an event carries into the event's stamp.
//!
//! The clock shows the greatest time that it has accepted so far, and never goes back. If a time is far ahead of the
//! clock, the clock rejects it unless other events or the time of day confirm it (`confirmation.rs`). Without this
//! rule, a single broken record could end the window for all other events.

use std::io::{self, Read, Write};

use super::confirmation::TimeConfirmation;
use super::disorder::{Disorder, FORESEEN_EVENTS_MAX};
use super::{Stamp, Unit, WindowRule};
use crate::body::{invalid, read_u64, write_u64};
use crate::unit_number::UnitNumber;

/// Largest valid time or count. The limit ensures that sums cannot overflow.
const COUNT_MAX: u64 = 1 << 62;

/// Result of placing an event in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The event lies in the window.
    At(Stamp),
    /// The event is so old that its own window and the allowed lateness have ended. The filter sets no cell for it, and
    /// its `late` rule determines the verdict.
    Late,
    /// The event is rejected. Its time is far ahead of the clock and not confirmed, or the event lacks the time that
    /// the window needs.
    Refused,
}

/// Clock that places events in a window, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowClock {
    unit: Unit,
    rule: WindowRule,
    borne: TimeConfirmation,
    /// Time of day, if it is known.
    present_ms: Option<u64>,
    /// Greatest time accepted so far. `None` before the first event.
    now_ms: Option<u64>,
    now_unit: UnitNumber,
    events: u64,
    /// Number of events whose times this clock has examined.
    timed_events: u64,
    /// Times that were in doubt recently. `None` before the first doubtful time.
    disorder: Option<Box<Disorder>>,
    /// Unit that was placed last, and the range of times that fall into it.
    recent: Option<(UnitNumber, u64, u64)>,
}

impl WindowClock {
    /// Creates a clock that has seen no event. A single unconfirmed event can advance the clock by at most
    /// `future_max_ms`.
    pub fn new(unit: Unit, rule: WindowRule, future_max_ms: u64) -> Self {
        let borne = TimeConfirmation::new(future_max_ms, unit.ms(rule.lateness_units));
        Self {
            unit,
            rule,
            borne,
            present_ms: None,
            now_ms: None,
            now_unit: UnitNumber::FIRST,
            events: 0,
            timed_events: 0,
            disorder: None,
            recent: None,
        }
    }

    /// Tells the clock that the time of day is `present_ms`, in milliseconds since 1970. The clock uses the time of day
    /// as evidence when the time of an event is far ahead of the clock. If the event time is near the time of day,
    /// fewer following events must confirm it. If the event time is later than the time of day, it is probably wrong,
    /// so more following events must confirm it.
    pub fn show_present_ms(&mut self, present_ms: u64) {
        self.present_ms = self.present_ms.max(Some(present_ms));
    }

    /// Returns whether an event of this time is placed without a comparison with the time of day or with following
    /// events.
    #[inline]
    pub fn takes_freely(&self, time_ms: u64) -> bool {
        self.now_ms.is_some_and(|now_ms| time_ms <= now_ms) || self.borne.is_free(time_ms)
    }

    /// Returns the place of the next event without knowledge of the events that follow it. `time_ms` is ignored if the
    /// window does not need it.
    ///
    /// ```
    /// use firstseen_filter::{Placed, Stamp, Unit, UnitNumber, WindowClock, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 0 };
    /// let mut clock = WindowClock::new(Unit::Milliseconds(1000), rule, 60_000);
    /// assert_eq!(clock.place(Some(100_500)), Placed::At(Stamp::on_time(UnitNumber(100))));
    /// let behind = Stamp { unit: UnitNumber(98), judged: UnitNumber(100) };
    /// assert_eq!(clock.place(Some(98_000)), Placed::At(behind));
    /// assert_eq!(clock.place(Some(90_000)), Placed::Late);
    /// ```
    #[inline]
    pub fn place(&mut self, time_ms: Option<u64>) -> Placed {
        match self.unit {
            Unit::Milliseconds(_) | Unit::Calendar(_) => time_ms.map_or(Placed::Refused, |ms| self.place_at(ms, &[])),
            Unit::Endless | Unit::Events(_) => self.place_counted(),
        }
    }

    /// Returns the place of the event with index `event` among events whose times are in `times_ms`.
    ///
    /// If the time of the event is far ahead of the clock, the clock accepts it only if the events after it confirm it.
    /// An event confirms the time if its own time is the same, later, or only slightly earlier. At least half of the
    /// next [`super::AHEAD_EVENTS_MAX`] events must do so. A quarter of them is enough if the confirming events are
    /// spread over all of these events ([`super::Spread`]).
    ///
    /// ```
    /// use firstseen_filter::{Placed, Stamp, Unit, UnitNumber, WindowClock, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 0 };
    /// let mut clock = WindowClock::new(Unit::Milliseconds(1000), rule, 60_000);
    /// let times_ms = [100_500, 900_000, 101_000, 102_000, 300_000, 301_000];
    /// let placed: Vec<Placed> = (0..6).map(|event| clock.place_nth(&times_ms, event)).collect();
    /// let at = |unit| Placed::At(Stamp::on_time(UnitNumber(unit)));
    /// assert_eq!(placed, [at(100), Placed::Refused, at(101), at(102), at(300), at(301)]);
    /// ```
    #[inline]
    pub fn place_nth(&mut self, times_ms: &[u64], event: usize) -> Placed {
        match (&self.unit, times_ms.get(event)) {
            (Unit::Endless | Unit::Events(_), _) => self.place_counted(),
            (_, Some(time_ms)) => self.place_at(*time_ms, &times_ms[event + 1..]),
            (_, None) => Placed::Refused,
        }
    }

    /// Counts an event that the caller has placed without this clock. A caller may do so if the event has the same time
    /// as the event before it. The clock must still count the event, because it measures the share of events with a
    /// doubtful time among all events of the stream.
    #[inline]
    pub fn pass(&mut self) {
        self.timed_events += 1;
    }

    #[inline]
    fn place_counted(&mut self) -> Placed {
        if let Unit::Events(events_per_unit) = self.unit {
            self.now_unit = UnitNumber(self.events / events_per_unit);
            self.events += 1;
        }
        Placed::At(Stamp::on_time(self.now_unit))
    }

    /// Returns the place of an event that is only looked up. The lookup does not advance the clock, and does not count
    /// as an event in windows that count events. If the time of the event is ahead of the clock, the event is judged at
    /// that time. It therefore does not match earlier events that will have expired by then.
    ///
    /// ```
    /// use firstseen_filter::{Placed, Stamp, Unit, UnitNumber, WindowClock, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 2 };
    /// let mut clock = WindowClock::new(Unit::Milliseconds(1000), rule, 60_000);
    /// clock.place(Some(100_000));
    /// let mut place = |ms| clock.place_lookup(Some(ms));
    /// let at = |unit, judged| Placed::At(Stamp { unit: UnitNumber(unit), judged: UnitNumber(judged) });
    /// assert_eq!([place(105_000), place(95_000)], [at(100, 105), at(95, 98)]);
    /// assert_eq!(clock.now_unit(), UnitNumber(100));
    /// ```
    #[inline]
    pub fn place_lookup(&mut self, time_ms: Option<u64>) -> Placed {
        match (&self.unit, time_ms) {
            (Unit::Endless, _) => Placed::At(Stamp::on_time(UnitNumber::FIRST)),
            (Unit::Events(events_per_unit), _) => Placed::At(Stamp::on_time(UnitNumber(self.events / events_per_unit))),
            (_, Some(time_ms)) if time_ms <= COUNT_MAX => {
                let unit = self.unit_of(time_ms);
                self.rule.stamp_lookup(unit, self.now_unit, self.now_unit).map_or(Placed::Late, Placed::At)
            }
            _ => Placed::Refused,
        }
    }

    /// Returns two units for an event that is only looked up: the unit that the clock shows, and the unit in which the
    /// event occurred. A lookup does not advance the clock, so the second unit may be greater than the first one.
    /// Returns `None` if [`Self::place_lookup`] rejects the event.
    pub fn look_up_tick(&mut self, time_ms: Option<u64>) -> Option<(UnitNumber, UnitNumber)> {
        match self.unit {
            Unit::Milliseconds(_) | Unit::Calendar(_) => {
                let unit = self.unit_of(time_ms.filter(|time_ms| *time_ms <= COUNT_MAX)?);
                Some((self.now_unit, unit))
            }
            Unit::Endless | Unit::Events(_) => Some((self.now_unit, self.now_unit)),
        }
    }

    /// Returns two units for the event with index `event` of `times_ms`: the unit that the clock shows at this event,
    /// and the unit in which the event occurred. The event advances the clock if it is the latest one, so the second
    /// unit is never greater than the first one.
    ///
    /// A [`crate::UnitClock`] on another node can place the event from these two units, in the same way as
    /// [`Self::place_nth`] places it on this node. A late event has two units as well, because the other node decides
    /// by itself that the event is late. The result is `None` only if `place_nth` rejects the event.
    ///
    /// ```
    /// use firstseen_filter::{Unit, UnitNumber, WindowClock, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 0 };
    /// let mut clock = WindowClock::new(Unit::Milliseconds(1000), rule, 60_000);
    /// let times_ms = [100_500, 20_000, 900_000, 100_900];
    /// let ticks: Vec<_> = (0..4).map(|event| clock.tick_nth(&times_ms, event)).collect();
    /// let (now, former) = (UnitNumber(100), UnitNumber(20));
    /// assert_eq!(ticks, [Some((now, now)), Some((now, former)), None, Some((now, now))]);
    /// ```
    #[inline]
    pub fn tick_nth(&mut self, times_ms: &[u64], event: usize) -> Option<(UnitNumber, UnitNumber)> {
        match self.unit {
            Unit::Milliseconds(_) | Unit::Calendar(_) => {
                let unit = self.accept(*times_ms.get(event)?, &times_ms[event + 1..])?;
                Some((self.now_unit, unit))
            }
            Unit::Endless | Unit::Events(_) => match self.place_counted() {
                Placed::At(stamp) => Some((stamp.unit, stamp.unit)),
                Placed::Late | Placed::Refused => None,
            },
        }
    }

    /// Returns the two units of [`Self::tick_nth`] for a single event that [`Self::place`] would place.
    #[inline]
    pub fn place_tick(&mut self, time_ms: Option<u64>) -> Option<(UnitNumber, UnitNumber)> {
        self.tick_nth(time_ms.as_slice(), 0)
    }

    /// Advances the clock to at least `now_ms`, as if an event of that time had been accepted. Use this method with a
    /// time that another clock of the same filter shows. The call has no effect if the window does not depend on time.
    pub fn catch_up_ms(&mut self, now_ms: u64) {
        if self.unit.needs_time() && now_ms <= COUNT_MAX && self.now_ms.is_none_or(|shown_ms| now_ms > shown_ms) {
            self.borne.restore(now_ms);
            self.now_unit = self.unit_of(now_ms).max(self.now_unit);
            self.now_ms = Some(now_ms);
        }
    }

    /// Returns the number of events counted so far, if the window consists of a number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Raises the count of events to at least `events`. Use this method with the count of another clock of the same
    /// filter. The call has no effect if the window does not consist of a number of events.
    pub fn catch_up_events(&mut self, events: u64) {
        if let Unit::Events(events_per_unit) = self.unit
            && (self.events + 1..=COUNT_MAX).contains(&events)
        {
            self.events = events;
            self.now_unit = UnitNumber((events - 1) / events_per_unit);
        }
    }

    #[inline]
    fn place_at(&mut self, time_ms: u64, ahead_ms: &[u64]) -> Placed {
        match self.accept(time_ms, ahead_ms) {
            Some(unit) => self.rule.stamp(unit, self.now_unit).map_or(Placed::Late, Placed::At),
            None => Placed::Refused,
        }
    }

    /// Accepts the time of an event and returns its unit. The time may advance the clock. Returns `None` if the time is
    /// too far ahead of the clock and is not confirmed.
    #[inline]
    fn accept(&mut self, time_ms: u64, ahead_ms: &[u64]) -> Option<UnitNumber> {
        self.timed_events += 1;
        if self.now_ms.is_some_and(|now_ms| time_ms <= now_ms) {
            return Some(self.unit_of(time_ms));
        }
        if !self.borne.is_free(time_ms) && !self.confirms(time_ms, ahead_ms) {
            return None;
        }
        // If a time zone sets its clocks back over midnight, the day that has already begun continues.
        let unit = self.unit_of(time_ms).max(self.now_unit);
        self.now_ms = Some(time_ms);
        self.now_unit = unit;
        Some(unit)
    }

    #[cold]
    fn confirms(&mut self, time_ms: u64, ahead_ms: &[u64]) -> bool {
        if time_ms > COUNT_MAX {
            return false;
        }
        if self.disorder.as_mut().is_some_and(|disorder| disorder.ends_at(self.timed_events)) {
            self.borne.widen(0);
        }
        if self.borne.confirm(time_ms, ahead_ms, self.present_ms) {
            return true;
        }
        // A time after the time of day is wrong, even if many events agree on it.
        if self.present_ms.is_some_and(|present_ms| self.borne.is_after(time_ms, present_ms)) {
            return false;
        }
        if self.borne.is_in_distance(time_ms) {
            return true;
        }
        let known_ms = self.borne.distance();
        let Some(distance_ms) =
            self.distance_ms(time_ms, ahead_ms).filter(|ms| known_ms.is_none_or(|known| *ms > known))
        else {
            return false;
        };
        self.borne.widen(distance_ms);
        self.borne.is_in_distance(time_ms) || self.borne.confirm(time_ms, ahead_ms, self.present_ms)
    }

    /// Returns how far the clocks of this stream's producers are apart. Returns `None` if the events do not show that
    /// these clocks are apart. The clock calls this method whenever it doubts an event time.
    ///
    /// An event is doubtful if its time is too far ahead of the clock and is not confirmed by other events. The method
    /// first computes the result from the doubtful events among the recent ones. If these are too few, it examines the
    /// events that follow, which the caller has passed in `ahead_ms`. This is possible only if the caller has passed at
    /// least `FORESEEN_EVENTS_MIN` events.
    fn distance_ms(&mut self, time_ms: u64, ahead_ms: &[u64]) -> Option<u64> {
        let disorder = self.disorder.get_or_insert_with(|| Box::new(Disorder::new()));
        let anchor_ms = self.borne.anchor();
        let shown_ms =
            anchor_ms.and_then(|anchor_ms| disorder.note(self.timed_events, time_ms.saturating_sub(anchor_ms)));
        if shown_ms.is_some() || !disorder.is_look_due(self.timed_events, ahead_ms.len()) {
            return shown_ms;
        }
        let mut later = self.clone();
        later.disorder.iter_mut().for_each(|disorder| disorder.look_no_more());
        let foreseen_ms = later.foresee(&ahead_ms[..ahead_ms.len().min(FORESEEN_EVENTS_MAX)])?;
        self.disorder.iter_mut().for_each(|disorder| disorder.hold_from(self.timed_events));
        Some(foreseen_ms)
    }

    /// Returns how far apart the following events show times to be, or `None` if they do not show it.
    fn foresee(&mut self, next_ms: &[u64]) -> Option<u64> {
        let known_ms = self.borne.distance();
        for (event, time_ms) in next_ms.iter().enumerate() {
            self.timed_events += 1;
            if self.now_ms.is_some_and(|now_ms| *time_ms <= now_ms) {
                continue;
            }
            if self.borne.is_free(*time_ms) || self.confirms(*time_ms, &next_ms[event + 1..]) {
                self.now_ms = Some(*time_ms);
            }
        }
        self.borne.distance().filter(|_| self.borne.distance() > known_ms)
    }

    #[inline]
    fn unit_of(&mut self, time_ms: u64) -> UnitNumber {
        if let Some((unit, start_ms, end_ms)) = self.recent
            && (start_ms..end_ms).contains(&time_ms)
        {
            return unit;
        }
        let found = match &self.unit {
            Unit::Milliseconds(unit_ms) => {
                let unit = time_ms / unit_ms;
                (UnitNumber(unit), unit * unit_ms, (unit + 1).saturating_mul(*unit_ms))
            }
            Unit::Calendar(calendar) => calendar.unit_of(time_ms),
            Unit::Endless | Unit::Events(_) => (UnitNumber::FIRST, 0, u64::MAX),
        };
        self.recent = Some(found);
        found.0
    }

    /// Writes the state of the clock.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        write_u64(sink, u64::from(self.now_ms.is_some()))?;
        write_u64(sink, self.now_ms.unwrap_or(0))?;
        write_u64(sink, self.events)
    }

    /// Replaces the state of this clock by the saved state of a clock of the same window.
    ///
    /// # Errors
    /// Returns `InvalidData` if no such clock can have this state, and the errors of `source`.
    pub fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        let is_set = read_u64(source)?;
        let time_ms = read_u64(source)?;
        let events = read_u64(source)?;
        let now_ms = match (is_set, time_ms) {
            (0, 0) => None,
            (1, time_ms) if time_ms <= COUNT_MAX => Some(time_ms),
            _ => return Err(invalid("a clock with an invalid time")),
        };
        if events > COUNT_MAX {
            return Err(invalid("a clock that has counted too many events"));
        }
        let now_unit = match self.unit {
            Unit::Events(events_per_unit) => UnitNumber(events.saturating_sub(1) / events_per_unit),
            _ => now_ms.map_or(UnitNumber::FIRST, |now_ms| self.unit_of(now_ms)),
        };
        self.now_ms = now_ms;
        self.events = events;
        self.now_unit = now_unit;
        if let Some(now_ms) = now_ms {
            self.borne.restore(now_ms);
        }
        Ok(())
    }

    /// Returns the greatest unit placed so far.
    pub fn now_unit(&self) -> UnitNumber {
        self.now_unit
    }

    /// Returns the greatest time accepted so far, in milliseconds since 1970.
    pub fn now_ms(&self) -> Option<u64> {
        self.now_ms
    }
}
