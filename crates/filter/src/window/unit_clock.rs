//! A clock in units: places events whose times were turned into units by a [`super::WindowClock`] elsewhere.
//!
//! Promises: given the units of one window clock, alone or as one of several that share its events, this clock places
//! every event where that clock does, as far as it is given what bears that clock's jumps out. Must not know: how long
//! a unit is, who sends which event.

use std::ops::RangeInclusive;

use super::borne::Borne;
use super::{Placed, WindowRule};

use crate::unit_number::UnitNumber;

/// A step of a clock that others are to bear out, in the clock's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Enough of the others must be of this unit or later.
    pub from: UnitNumber,
    /// The unit that was borne out before.
    pub anchor: Option<UnitNumber>,
    /// The clock's unit.
    pub now: Option<UnitNumber>,
    /// Events that are right may be so much earlier than others.
    pub tolerance_units: u64,
}

/// The clock of an owner of a part of a filter's events.
///
/// Producers send, for a run of events, the reading of their clock before it ([`Self::catch_up`]), and for each event
/// the reading at the event and the event's unit ([`Self::place`]). The reading of a producer's clock is a hint: where
/// it is far ahead and not borne out it counts for nothing, and the event is placed by its own unit.
///
/// Nothing moves this clock beyond what the present allows ([`Self::show_present`]). A unit that is no more than
/// `step_units`, or the lateness, before the present is borne out by the present. An earlier unit may still be more
/// than a step, and the time that has passed since, ahead of the anchor, as where old events are replayed: it is borne
/// out if `is_said` says of a [`Jump`] that enough others have come as far, which is asked then and only then.
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
    borne: Borne,
    /// The greatest unit that has been accepted; none before the first.
    now_unit: Option<UnitNumber>,
    /// The greatest unit that was shown to be the earliest in which the present may be.
    earliest_unit: Option<UnitNumber>,
    /// That when the anchor was moved last; none where nothing was shown since.
    earliest_at_anchor: Option<UnitNumber>,
    /// No unit beyond this is accepted, whoever sends it.
    latest_unit: UnitNumber,
    /// Whether the present alone bears out units near it.
    present_counts: bool,
    /// The least unit of the present run that others do not bear out: later ones are not checked again.
    doubtful_unit: Option<UnitNumber>,
}

impl UnitClock {
    /// A clock that has seen nothing. `step_units` is what [`super::Unit::future_units`] tells.
    pub fn new(rule: WindowRule, step_units: u64) -> Self {
        Self {
            rule,
            step_units,
            borne: Borne::new(step_units, rule.lateness_units),
            now_unit: None,
            earliest_unit: None,
            earliest_at_anchor: None,
            latest_unit: UnitNumber::LAST,
            present_counts: false,
            doubtful_unit: None,
        }
    }

    /// The time of day is in the first of `units` or later: how much later is not known where clocks may differ.
    /// Nothing moves the clock beyond the last. This clock may be far behind, where events are replayed; `counts` says
    /// whether the present alone bears out units near it nevertheless.
    pub fn show_present(&mut self, units: RangeInclusive<UnitNumber>, counts: bool) {
        let (earliest, latest) = units.into_inner();
        // Before the first reading nothing is bounded; after it the time of day does not go back here, also where a
        // node's clock does.
        self.latest_unit = match self.earliest_unit {
            None => latest.min(UnitNumber::LAST),
            Some(_) => self.latest_unit.max(latest.min(UnitNumber::LAST)),
        };
        self.earliest_unit = self.earliest_unit.max(Some(earliest));
        self.earliest_at_anchor = self.earliest_at_anchor.or(self.earliest_unit);
        self.present_counts = counts;
    }

    /// Whether the clock is near the present: then nothing can take it far.
    pub fn is_live(&self) -> bool {
        self.earliest_unit.is_some_and(|earliest| self.now_unit().after(self.step_units) >= earliest)
    }

    /// The greatest unit that was borne out.
    pub fn anchor_unit(&self) -> Option<UnitNumber> {
        self.borne.anchor().map(UnitNumber)
    }

    /// A run of events begins, before which the producer's clock has shown `unit`: this one shows at least that, where it is
    /// borne out. A clock that has seen nothing shows unit 0, so that says nothing.
    pub fn catch_up(&mut self, unit: UnitNumber, is_said: impl Fn(Jump) -> bool) {
        self.doubtful_unit = None;
        if unit > UnitNumber::FIRST {
            self.moves_to(unit, &is_said);
        }
    }

    /// Shows at least `unit`, which a clock of the same events has shown before.
    pub fn restore(&mut self, unit: UnitNumber) {
        if unit > UnitNumber::FIRST && unit <= UnitNumber::LAST {
            self.now_unit = self.now_unit.max(Some(unit));
            self.borne.restore(unit.0);
            self.earliest_at_anchor = self.earliest_unit;
        }
    }

    /// The place of an event of `unit`, at which its producer's clock showed `clock_unit`.
    #[inline]
    pub fn place(&mut self, clock_unit: UnitNumber, unit: UnitNumber, is_said: impl Fn(Jump) -> bool) -> Placed {
        if !self.moves_to(unit, &is_said) {
            return Placed::Refused;
        }
        if clock_unit > unit {
            self.moves_to(clock_unit, &is_said);
        }
        self.rule.stamp(unit, self.now_unit()).map_or(Placed::Late, Placed::At)
    }

    /// The place of an event of `unit` that is only looked up, at which its producer's clock showed `clock_unit`: it moves
    /// nothing, and is judged at its own unit also where that is ahead of all that was recorded.
    pub fn look_up(&self, clock_unit: UnitNumber, unit: UnitNumber) -> Placed {
        if unit > UnitNumber::LAST {
            return Placed::Refused;
        }
        let shown_unit = if clock_unit <= self.latest_unit { clock_unit } else { UnitNumber::FIRST };
        let now_unit = self.now_unit();
        self.rule.stamp_lookup(unit, now_unit.max(shown_unit), now_unit).map_or(Placed::Late, Placed::At)
    }

    /// The greatest unit accepted so far.
    pub fn now_unit(&self) -> UnitNumber {
        self.now_unit.unwrap_or_default()
    }

    /// Moves to `unit` if it is later and may be; `false` where it may not.
    #[inline]
    fn moves_to(&mut self, unit: UnitNumber, is_said: &impl Fn(Jump) -> bool) -> bool {
        if self.now_unit.is_some_and(|now_unit| unit <= now_unit) {
            return true;
        }
        let moves = unit <= self.latest_unit && (self.is_free(unit) || self.bears_out(unit, is_said));
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
    fn bears_out(&mut self, unit: UnitNumber, is_said: &impl Fn(Jump) -> bool) -> bool {
        let before = self.borne.anchor();
        let is_borne_out = self.is_borne_out(unit, is_said);
        if self.borne.anchor() > before {
            self.earliest_at_anchor = self.earliest_unit;
        }
        is_borne_out
    }

    fn is_borne_out(&mut self, unit: UnitNumber, is_said: &impl Fn(Jump) -> bool) -> bool {
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
        let is_borne_out = self.borne.follow(unit.0, |from| {
            let from = UnitNumber(from);
            is_said(Jump { from, anchor, now, tolerance_units })
        });
        if !is_borne_out {
            self.doubtful_unit = Some(unit);
        }
        is_borne_out
    }
}
