//! A clock in units: places events whose times were turned into units by a [`super::WindowClock`] elsewhere.
//!
//! Promises: fed what one window clock tells, alone or as one of several that share its events, it places every event
//! where that clock does. Must not know: how long a unit is.

use super::clock::COUNT_MAX;
use super::{Placed, WindowRule};

/// The clock of whoever owns a part of the events of a filter.
///
/// Producers send, for a run of events, what their clock showed before it ([`Self::catch_up`]), and for each event what
/// it shows at the event and the event's unit ([`Self::place`]). A clock that shows too far ahead both of this one and
/// of the present ([`Self::show_present`]) is refused, so that one broken producer cannot end everybody's window.
/// Events of other owners move a producer's clock too, so a producer must begin another run before its clock goes
/// further ahead than `future_max_units` of where the run began: then nothing that its own clock accepted is refused
/// here.
///
/// ```
/// use firstseen_filter::{Placed, Stamp, UnitClock, WindowRule};
/// let mut clock = UnitClock::new(WindowRule { span_units: 10, lateness_units: 0 }, 60);
/// clock.show_present(100);
/// assert_eq!(clock.place(100, 100), Placed::At(Stamp::on_time(100)));
/// assert_eq!(clock.place(105, 98), Placed::At(Stamp { unit: 98, judged: 105 }));
/// assert_eq!(clock.place(110, 98), Placed::Late);
/// assert_eq!(clock.place(171, 171), Placed::Refused);
/// clock.catch_up(120);
/// assert_eq!(clock.place(171, 171), Placed::At(Stamp::on_time(171)));
/// clock.catch_up(300);
/// assert_eq!(clock.place(300, 300), Placed::Refused);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitClock {
    rule: WindowRule,
    future_max_units: u64,
    /// The greatest unit that any producer's clock has shown; none before the first.
    now_unit: Option<u64>,
    /// The greatest unit that was shown to be the present.
    present_unit: u64,
}

impl UnitClock {
    /// A clock that has seen nothing. The first event sets it, unless it is too far ahead of the present.
    /// `future_max_units` is what [`super::Unit::future_units`] tells.
    pub fn new(rule: WindowRule, future_max_units: u64) -> Self {
        Self { rule, future_max_units, now_unit: None, present_unit: 0 }
    }

    /// The time of day is in `unit`. This clock may be far behind, where events are replayed.
    pub fn show_present(&mut self, unit: u64) {
        self.present_unit = self.present_unit.max(unit);
    }

    /// Lets the clock show at least `unit`, unless that is too far ahead. A clock that has seen nothing shows unit 0, so
    /// that says nothing.
    pub fn catch_up(&mut self, unit: u64) {
        let latest = self.now_unit().max(self.present_unit).saturating_add(self.future_max_units);
        if (1..=COUNT_MAX.min(latest)).contains(&unit) {
            self.now_unit = self.now_unit.max(Some(unit));
        }
    }

    /// The place of an event of `unit`, at which its producer's clock showed `clock_unit`.
    #[inline]
    pub fn place(&mut self, clock_unit: u64, unit: u64) -> Placed {
        // An event is never ahead of the clock that it has moved.
        let clock_unit = clock_unit.max(unit);
        let shown_unit = self.now_unit().max(self.present_unit);
        if clock_unit > COUNT_MAX || clock_unit.saturating_sub(shown_unit) > self.future_max_units {
            return Placed::Refused;
        }
        let now_unit = self.now_unit().max(clock_unit);
        self.now_unit = Some(now_unit);
        self.rule.stamp(unit, now_unit).map_or(Placed::Late, Placed::At)
    }

    /// The greatest unit shown so far.
    pub fn now_unit(&self) -> u64 {
        self.now_unit.unwrap_or(0)
    }
}
