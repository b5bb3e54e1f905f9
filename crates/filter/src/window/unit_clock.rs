//! A clock in units: places events whose times were turned into units by a [`super::WindowClock`] elsewhere.
//!
//! Promises: fed what one window clock tells, alone or as one of several that share its events, it places every event
//! where that clock does, as far as it is told what bears the clock's jumps out. Must not know: how long a unit is, who sends
//! what.

use std::ops::RangeInclusive;

use super::borne::Borne;
use super::clock::COUNT_MAX;
use super::{Placed, WindowRule};

/// The clock of whoever owns a part of the events of a filter.
///
/// Producers send, for a run of events, what their clock showed before it ([`Self::catch_up`]), and for each event what
/// it shows at the event and the event's unit ([`Self::place`]). What a producer's clock shows is a hint: where it is far
/// ahead and not borne out it counts for nothing, and the event is placed by its own unit.
///
/// Nothing moves this clock more than `future_max_units` beyond the present ([`Self::show_present`]). What is no earlier than so
/// long, or the lateness, before the present is borne out by it. What is more than that ahead of the clock, but before the present, as where old events are replayed, is
/// borne out if `is_said_from` says of a unit that enough others are of it or later: it is asked then and only then.
///
/// ```
/// use firstseen_filter::{Placed, Stamp, UnitClock, WindowRule};
/// let (alone, nobody) = (|_: u64| true, |_: u64| false);
/// let mut clock = UnitClock::new(WindowRule { span_units: 10, lateness_units: 0 }, 60);
/// clock.show_present(4990..=5000);
/// assert_eq!(clock.place(100, 100, alone), Placed::At(Stamp::on_time(100)));
/// assert_eq!(clock.place(105, 98, nobody), Placed::At(Stamp { unit: 98, judged: 105 }));
/// assert_eq!(clock.place(110, 98, nobody), Placed::Late);
/// assert_eq!(clock.place(171, 171, nobody), Placed::Refused);
/// assert_eq!(clock.place(171, 110, nobody), Placed::At(Stamp::on_time(110)));
/// assert_eq!(clock.place(171, 171, |from| from <= 171), Placed::At(Stamp::on_time(171)));
/// assert_eq!(clock.place(4929, 4929, nobody), Placed::Refused);
/// assert_eq!(clock.place(4930, 4930, nobody), Placed::At(Stamp::on_time(4930)));
/// assert_eq!(clock.place(5060, 5060, nobody), Placed::At(Stamp::on_time(5060)));
/// assert_eq!(clock.place(5061, 5061, alone), Placed::Refused);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitClock {
    rule: WindowRule,
    future_max_units: u64,
    borne: Borne,
    /// The greatest unit that has been accepted; none before the first.
    now_unit: Option<u64>,
    /// The greatest units that were shown to be the earliest and the latest in which the present may be; nothing is bounded by
    /// them before.
    present_units: Option<(u64, u64)>,
    /// What a producer's clock showed last that was not borne out: it is not looked into again at every event.
    doubtful_unit: Option<u64>,
}

impl UnitClock {
    /// A clock that has seen nothing. `future_max_units` is what [`super::Unit::future_units`] tells.
    pub fn new(rule: WindowRule, future_max_units: u64) -> Self {
        let borne = Borne::new(future_max_units, rule.lateness_units);
        Self { rule, future_max_units, borne, now_unit: None, present_units: None, doubtful_unit: None }
    }

    /// The time of day is in one of `units`: which, is not known where clocks may differ. This clock may be far behind, where
    /// events are replayed.
    pub fn show_present(&mut self, units: RangeInclusive<u64>) {
        let (earliest, latest) = self.present_units.unwrap_or_default();
        self.present_units = Some((earliest.max(*units.start()), latest.max(*units.end())));
    }

    /// Whether it is near the present: then nothing can take it far.
    pub fn is_live(&self) -> bool {
        let reaches = |latest: u64| self.now_unit().saturating_add(self.future_max_units) >= latest;
        self.present_units.is_some_and(|(_, latest)| reaches(latest))
    }

    /// A producer's clock has shown `unit` before a run of events: this one shows at least that, where it is borne out. A
    /// clock that has seen nothing shows unit 0, so that says nothing.
    pub fn catch_up(&mut self, unit: u64, is_said_from: impl Fn(u64) -> bool) {
        self.doubtful_unit = None;
        if unit > 0 {
            self.hear(unit, is_said_from);
        }
    }

    /// Shows at least `unit`, which a clock of the same events has shown before.
    pub fn restore(&mut self, unit: u64) {
        if (1..=COUNT_MAX).contains(&unit) {
            self.now_unit = self.now_unit.max(Some(unit));
            self.borne.trust(unit);
        }
    }

    /// The place of an event of `unit`, at which its producer's clock showed `clock_unit`.
    #[inline]
    pub fn place(&mut self, clock_unit: u64, unit: u64, is_said_from: impl Fn(u64) -> bool) -> Placed {
        if !self.moves_to(unit, &is_said_from) {
            return Placed::Refused;
        }
        if clock_unit > unit {
            self.hear(clock_unit, is_said_from);
        }
        self.rule.stamp(unit, self.now_unit()).map_or(Placed::Late, Placed::At)
    }

    /// The place of an event of `unit` that is only looked up, at which its producer's clock showed `clock_unit`: it moves
    /// nothing, and is judged at its own unit also where that is ahead of all that was recorded.
    pub fn look_up(&self, clock_unit: u64, unit: u64) -> Placed {
        if unit > COUNT_MAX {
            return Placed::Refused;
        }
        let shown_unit = if clock_unit <= self.latest() { clock_unit } else { 0 };
        let now_unit = self.now_unit();
        self.rule.stamp_lookup(unit, now_unit.max(shown_unit), now_unit).map_or(Placed::Late, Placed::At)
    }

    /// The greatest unit accepted so far.
    pub fn now_unit(&self) -> u64 {
        self.now_unit.unwrap_or(0)
    }

    /// Beyond this nothing is taken, whoever says it.
    fn latest(&self) -> u64 {
        let bound = |latest: u64| latest.saturating_add(self.future_max_units);
        self.present_units.map_or(COUNT_MAX, |(_, latest)| bound(latest)).min(COUNT_MAX)
    }

    #[inline]
    fn hear(&mut self, clock_unit: u64, is_said_from: impl Fn(u64) -> bool) {
        if self.doubtful_unit != Some(clock_unit) && !self.moves_to(clock_unit, &is_said_from) {
            self.doubtful_unit = Some(clock_unit);
        }
    }

    /// Moves to `unit` if it is later and may be; `false` where it may not.
    #[inline]
    fn moves_to(&mut self, unit: u64, is_said_from: &impl Fn(u64) -> bool) -> bool {
        if self.now_unit.is_some_and(|now_unit| unit <= now_unit) {
            return true;
        }
        let moves = unit <= self.latest() && (self.borne.is_free(unit) || self.bears_out(unit, is_said_from));
        if moves {
            self.now_unit = Some(unit);
        }
        moves
    }

    #[cold]
    fn bears_out(&mut self, unit: u64, is_said_from: &impl Fn(u64) -> bool) -> bool {
        if self.present_units.is_some_and(|(earliest, _)| self.borne.is_no_earlier(unit, earliest)) {
            self.borne.trust(unit);
            return true;
        }
        self.borne.follow(unit, is_said_from)
    }
}
