//! A clock in units of a window. It places events whose times were turned into units by a [`super::WindowClock`] on
//! another node.
//!
//! A unit clock that receives all units of a window clock places every event exactly as that window clock does. The
//! events may also be divided over several unit clocks, for example on several nodes. A unit clock then lacks the
//! events that confirmed a time far ahead. It still places its events in the same way, provided that the other clocks
//! tell it that the time was confirmed.
//!
//! This module does not depend on how long a unit is, or on which client sends which event.

use std::ops::RangeInclusive;

use super::confirmation::TimeConfirmation;
use super::{Placed, WindowRule};

use crate::unit_number::UnitNumber;

/// Step of a unit clock that needs confirmation by other clocks. All times are in the units of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Unit that enough of the other clocks must have reached.
    pub from: UnitNumber,
    /// Unit that was confirmed before.
    pub anchor: Option<UnitNumber>,
    /// Unit that the clock shows.
    pub now: Option<UnitNumber>,
    /// Number of units by which a correct event may be earlier than other correct events.
    pub tolerance_units: u64,
}

/// Event clock of a node that owns a part of a filter. The clock counts time in units of the filter's window, and
/// decides whether an event is still in the window.
///
/// Each producer has a clock of its own and sends the readings of this clock with its events. A run is a sequence of
/// events from one producer. The node passes these readings to the unit clock at two points:
///
/// - Before a run, it calls [`Self::catch_up`] with the reading at the beginning of the run.
/// - For each event of the run, it calls [`Self::place`] with two units: the reading at this event, and the unit in
///   which the event occurred.
///
/// The reading of a producer's clock is only a hint. If the reading is far ahead and not confirmed, the unit clock
/// ignores it and uses only the unit in which the event occurred.
///
/// The time of day limits how far this clock advances ([`Self::show_present`]). It also confirms units that are close
/// to it. A unit is close if it is earlier than the time of day by at most `step_units` or at most the lateness,
/// whichever is greater.
///
/// The time of day cannot confirm units that are further back, for example while old events are replayed. If such a
/// unit is more than one step ahead of the anchor, which is the greatest confirmed unit, other clocks must confirm it.
/// The unit clock then calls the function `confirms_jump` with a [`Jump`]. The function returns whether enough of the
/// other clocks have reached that unit.
///
/// ```
/// use firstseen_filter::{Jump, Placed, Stamp, UnitClock, UnitNumber, WindowRule};
/// let (alone, nobody) = (|_: Jump| true, |_: Jump| false);
/// let at = |unit| Placed::At(Stamp::on_time(UnitNumber(unit)));
/// let mut clock = UnitClock::new(WindowRule { span_units: 10, lateness_units: 0 }, 60);
/// clock.show_present(UnitNumber(4990)..=UnitNumber(5060), true);
/// assert_eq!(clock.place(UnitNumber(100), UnitNumber(100), alone), at(100));
/// let behind = Stamp { unit: UnitNumber(98), judged: UnitNumber(105) };
/// assert_eq!(clock.place(behind.judged, behind.unit, nobody), Placed::At(behind));
/// assert_eq!(clock.place(UnitNumber(110), behind.unit, nobody), Placed::Late);
/// let far = UnitNumber(171);
/// assert_eq!(clock.place(far, far, nobody), Placed::Refused);
/// assert_eq!(clock.place(far, UnitNumber(110), nobody), at(110));
/// clock.catch_up(UnitNumber::FIRST, nobody);
/// assert_eq!(clock.place(far, far, |jump: Jump| jump.from <= far), at(171));
/// let mut place_alike = |unit| clock.place(UnitNumber(unit), UnitNumber(unit), nobody);
/// assert_eq!([place_alike(4929), place_alike(4930), place_alike(5060)], [Placed::Refused, at(4930), at(5060)]);
/// assert_eq!(clock.place(UnitNumber(5061), UnitNumber(5061), alone), Placed::Refused);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitClock {
    rule: WindowRule,
    step_units: u64,
    borne: TimeConfirmation,
    /// Greatest unit that has been accepted. `None` before the first.
    now_unit: Option<UnitNumber>,
    /// Earliest unit in which the time of day can be. The value never decreases.
    earliest_unit: Option<UnitNumber>,
    /// Value of `earliest_unit` when the anchor last moved. `None` if the time of day was not shown since.
    earliest_at_anchor: Option<UnitNumber>,
    /// Greatest unit that the clock accepts, regardless of the sender.
    latest_unit: UnitNumber,
    /// Whether the time of day alone confirms units near it.
    present_counts: bool,
    /// Smallest unit of the current run that the other clocks do not confirm. Later units of the run are not checked
    /// again.
    doubtful_unit: Option<UnitNumber>,
}

impl UnitClock {
    /// Creates a clock that has seen no event. `step_units` is the result of [`super::Unit::future_units`].
    pub fn new(rule: WindowRule, step_units: u64) -> Self {
        Self {
            rule,
            step_units,
            borne: TimeConfirmation::new(step_units, rule.lateness_units),
            now_unit: None,
            earliest_unit: None,
            earliest_at_anchor: None,
            latest_unit: UnitNumber::LAST,
            present_counts: false,
            doubtful_unit: None,
        }
    }

    /// Tells the clock the time of day. The time of day is given as a range of units, because the clocks of nodes
    /// differ and none of them is exact. The actual time of day is never before the first unit of `units`. The unit
    /// clock never advances beyond the last unit of `units`.
    ///
    /// If `counts` is `true`, the time of day alone confirms units near it. While old events are replayed, `counts`
    /// must be `false`. The recent events of other producers then show that the stream is still far from the time of
    /// day, so a unit near the time of day is probably wrong.
    pub fn show_present(&mut self, units: RangeInclusive<UnitNumber>, counts: bool) {
        let (earliest, latest) = units.into_inner();
        // Before the first call the clock has no upper bound. Afterwards the time of day never goes back for this
        // clock, even if the clock of the node does.
        self.latest_unit = match self.earliest_unit {
            None => latest.min(UnitNumber::LAST),
            Some(_) => self.latest_unit.max(latest.min(UnitNumber::LAST)),
        };
        self.earliest_unit = self.earliest_unit.max(Some(earliest));
        self.earliest_at_anchor = self.earliest_at_anchor.or(self.earliest_unit);
        self.present_counts = counts;
    }

    /// Returns whether the clock is near the time of day. If so, no event can advance it far.
    pub fn is_live(&self) -> bool {
        self.earliest_unit.is_some_and(|earliest| self.now_unit().after(self.step_units) >= earliest)
    }

    /// Returns the greatest unit that was confirmed.
    pub fn anchor_unit(&self) -> Option<UnitNumber> {
        self.borne.anchor().map(UnitNumber)
    }

    /// Begins a run of events of one producer. The parameter `unit` is the unit that the producer's clock showed before
    /// the run. If `unit` is confirmed, this clock advances to at least `unit`. A `unit` of 0 has no effect, because it
    /// means that the producer's clock has seen no event yet.
    pub fn catch_up(&mut self, unit: UnitNumber, confirms_jump: impl Fn(Jump) -> bool) {
        self.doubtful_unit = None;
        if unit > UnitNumber::FIRST {
            self.moves_to(unit, &confirms_jump);
        }
    }

    /// Advances the clock to at least `unit`, which another clock of the same events has shown before.
    pub fn restore(&mut self, unit: UnitNumber) {
        if unit > UnitNumber::FIRST && unit <= UnitNumber::LAST {
            self.now_unit = self.now_unit.max(Some(unit));
            self.borne.restore(unit.0);
            self.earliest_at_anchor = self.earliest_unit;
        }
    }

    /// Returns the place of an event of `unit`. The producer's clock showed `clock_unit` at this event.
    #[inline]
    pub fn place(&mut self, clock_unit: UnitNumber, unit: UnitNumber, confirms_jump: impl Fn(Jump) -> bool) -> Placed {
        if !self.moves_to(unit, &confirms_jump) {
            return Placed::Refused;
        }
        if clock_unit > unit {
            self.moves_to(clock_unit, &confirms_jump);
        }
        self.rule.stamp(unit, self.now_unit()).map_or(Placed::Late, Placed::At)
    }

    /// Returns the place of an event that is only looked up. The event occurred in `unit`, and the producer's clock
    /// showed `clock_unit` at this event. The lookup does not advance this clock. The event is judged at its own unit,
    /// even if that unit is later than all recorded events.
    pub fn look_up(&self, clock_unit: UnitNumber, unit: UnitNumber) -> Placed {
        if unit > UnitNumber::LAST {
            return Placed::Refused;
        }
        let shown_unit = if clock_unit <= self.latest_unit { clock_unit } else { UnitNumber::FIRST };
        let now_unit = self.now_unit();
        self.rule.stamp_lookup(unit, now_unit.max(shown_unit), now_unit).map_or(Placed::Late, Placed::At)
    }

    /// Returns the greatest unit accepted so far.
    pub fn now_unit(&self) -> UnitNumber {
        self.now_unit.unwrap_or_default()
    }

    /// Advances the clock to `unit`, if that is later and permitted. Returns `false` if it is not permitted.
    #[inline]
    fn moves_to(&mut self, unit: UnitNumber, confirms_jump: &impl Fn(Jump) -> bool) -> bool {
        if self.now_unit.is_some_and(|now_unit| unit <= now_unit) {
            return true;
        }
        let moves = unit <= self.latest_unit && (self.is_free(unit) || self.confirms(unit, confirms_jump));
        if moves {
            self.now_unit = Some(unit);
        }
        moves
    }

    #[inline]
    fn is_free(&self, unit: UnitNumber) -> bool {
        let passed_units = match (self.earliest_at_anchor, self.earliest_unit) {
            (Some(then), Some(now)) => now.since(then),
            _ => 0,
        };
        self.borne.is_free_after(passed_units, unit.0)
    }

    #[cold]
    fn confirms(&mut self, unit: UnitNumber, confirms_jump: &impl Fn(Jump) -> bool) -> bool {
        let before = self.borne.anchor();
        let is_confirmed = self.is_confirmed(unit, confirms_jump);
        if self.borne.anchor() > before {
            self.earliest_at_anchor = self.earliest_unit;
        }
        is_confirmed
    }

    fn is_confirmed(&mut self, unit: UnitNumber, confirms_jump: &impl Fn(Jump) -> bool) -> bool {
        if self.present_counts
            && self.earliest_unit.is_some_and(|earliest| self.borne.is_no_earlier(unit.0, earliest.0))
        {
            self.borne.trust(unit.0);
            return true;
        }
        if self.doubtful_unit.is_some_and(|doubtful_unit| unit >= doubtful_unit) {
            return false;
        }
        let anchor = self.anchor_unit();
        let now = self.now_unit;
        let tolerance_units = self.borne.tolerance();
        let is_confirmed = self.borne.follow(unit.0, |from| {
            let from = UnitNumber(from);
            confirms_jump(Jump { from, anchor, now, tolerance_units })
        });
        if !is_confirmed {
            self.doubtful_unit = Some(unit);
        }
        is_confirmed
    }
}
