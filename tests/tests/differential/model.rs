//! Exact model of `firstseen dedup`, with which random runs are compared. It remembers every key and when its record
//! was passed on. The model relies only on the guarantees in docs/reference/kinds.md, so that it does not repeat
//! mistakes of the program.
//!
//! Some guarantees are ranges, because a window is divided into ticks or jumps. The model leaves open what happens
//! within such a range.

use std::collections::HashMap;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Distance from which a time counts as wrong. No stream jumps ahead so far.
const BROKEN_AHEAD_MS: u64 = 10 * 365 * DAY_MS;

/// Window, as a user understands it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    /// The only guarantee is that no record is lost.
    Fading,
    Unbounded,
    /// A key that was passed on less than `length` ago is a duplicate. After `slack` more it no longer is.
    Sliding {
        by_time: bool,
        length: u64,
        slack: u64,
        lateness_ms: u64,
        /// Whether duplicates restart the window.
        refresh: bool,
    },
    /// Each key is passed on once between two landmarks.
    Landmark(Landmark),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Landmark {
    Events(u64),
    Duration(u64),
    Calendar(Period, Zone),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Period {
    Hour,
    Day,
    Week,
}

/// Time zones whose offsets are easy to compute.
#[derive(Clone, Copy, Debug)]
pub(super) enum Zone {
    /// Zone with the same offset from UTC all year.
    Fixed { ahead_ms: i64 },
    /// Athens between March 2023 and March 2024. Summer time ends at [`ATHENS_FALLS_BACK_MS`].
    Athens,
}

/// End of summer time in Athens: 2023-10-29 01:00 UTC.
pub(super) const ATHENS_FALLS_BACK_MS: u64 = 1_698_541_200_000;

impl Zone {
    fn ahead_ms(self, time_ms: u64) -> i64 {
        let hour_ms = HOUR_MS.cast_signed();
        match self {
            Self::Fixed { ahead_ms } => ahead_ms,
            Self::Athens if time_ms < ATHENS_FALLS_BACK_MS => 3 * hour_ms,
            Self::Athens => 2 * hour_ms,
        }
    }
}

impl Landmark {
    /// Returns the number of the period between landmarks that an event is in.
    fn stretch(self, time_ms: u64, number: u64) -> u64 {
        match self {
            Self::Events(length) => number / length,
            Self::Duration(length_ms) => time_ms / length_ms,
            Self::Calendar(period, zone) => {
                let local_ms = time_ms.saturating_add_signed(zone.ahead_ms(time_ms));
                match period {
                    Period::Hour => local_ms / HOUR_MS,
                    Period::Day => local_ms / DAY_MS,
                    // 1970 began on a Thursday.
                    Period::Week => (local_ms + 3 * DAY_MS) / (7 * DAY_MS),
                }
            }
        }
    }

    fn is_by_time(self) -> bool {
        !matches!(self, Self::Events(_))
    }
}

/// Value of `--late`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    PassedOn,
    Dropped,
}

/// Output that a record goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    New,
    Again,
    Rejected,
}

/// Time until which a key counts as seen, from its latest occurrence that counts. There is a certain and a possible
/// time.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    surely: Option<u64>,
    maybe: Option<u64>,
}

/// Place of an event in time: the unit that it is counted in, the earliest and latest unit at which it may be judged,
/// and whether it is late.
#[derive(Clone, Copy, Debug)]
struct Place {
    own: u64,
    judged: (u64, u64),
    /// Whether the event is late. `None` if the guarantee leaves that open.
    is_late: Option<bool>,
}

#[derive(Debug)]
pub(super) struct Model {
    window: Window,
    late: Late,
    clock_ms: u64,
    events: u64,
    keys: HashMap<u64, Known>,
}

impl Model {
    pub(super) fn new(window: Window, late: Late) -> Self {
        Self { window, late, clock_ms: 0, events: 0, keys: HashMap::new() }
    }

    /// Returns whether times matter for a window.
    pub(super) fn is_by_time(window: Window) -> bool {
        match window {
            Window::Fading | Window::Unbounded => false,
            Window::Sliding { by_time, .. } => by_time,
            Window::Landmark(landmark) => landmark.is_by_time(),
        }
    }

    fn place(&self, time_ms: u64) -> Place {
        let on_time = |own| Place { own, judged: (own, own), is_late: Some(false) };
        let clock_ms = self.clock_ms.max(time_ms);
        match self.window {
            Window::Fading | Window::Unbounded => on_time(0),
            Window::Sliding { by_time: false, .. } => on_time(self.events),
            Window::Sliding { length, slack, lateness_ms, .. } => {
                let edge = clock_ms - lateness_ms;
                let is_late = match () {
                    () if time_ms + length > edge => Some(false),
                    () if time_ms + length + 2 * slack <= edge => Some(true),
                    () => None,
                };
                Place { own: time_ms, judged: (time_ms.max(edge - slack), time_ms.max(edge)), is_late }
            }
            Window::Landmark(landmark) => {
                let own = landmark.stretch(time_ms, self.events);
                let now = landmark.stretch(clock_ms, self.events);
                Place { own, judged: (now, now), is_late: Some(own < now) }
            }
        }
    }

    /// Returns whether a key seen at `seen` is known at both ends of `judged`. Returns `None` if it is known at only
    /// one of them.
    fn counts(&self, seen: Known, (earliest, latest): (u64, u64)) -> Option<bool> {
        let (length, slack) = match self.window {
            Window::Fading => return None,
            Window::Unbounded => (u64::MAX / 2, 0),
            Window::Sliding { length, slack, .. } => (length, slack),
            Window::Landmark(_) => (1, 0),
        };
        match seen {
            Known { surely: Some(seen), .. } if seen + length > latest => Some(true),
            Known { maybe: Some(seen), .. } if seen + length + slack > earliest => None,
            _ => Some(false),
        }
    }

    /// Returns the output that the next record must go to, or `None` if the guarantee allows either verdict.
    pub(super) fn expects(&self, key: u64, time_ms: u64) -> Option<Fate> {
        if Self::is_by_time(self.window) && time_ms > self.clock_ms + BROKEN_AHEAD_MS && self.clock_ms > 0 {
            return Some(Fate::Rejected);
        }
        let place = self.place(time_ms);
        if place.is_late? {
            return Some(if self.late == Late::Dropped { Fate::Again } else { Fate::New });
        }
        let known = self.keys.get(&key).copied().unwrap_or_default();
        let is_known = self.counts(known, place.judged);
        if self.is_beyond_window(time_ms) && is_known != Some(false) {
            // The event is late if the known occurrence is more than a window newer. In a filter that has grown, the
            // event may also be late.
            return match (self.late, is_known) {
                (Late::Dropped, Some(_)) => Some(Fate::Again),
                (Late::Dropped, None) => None,
                _ => self.is_apart(known, time_ms).then_some(Fate::New),
            };
        }
        is_known.map(|is_known| if is_known { Fate::Again } else { Fate::New })
    }

    /// Returns whether an event is older than a time-based window, by the clock.
    fn is_beyond_window(&self, time_ms: u64) -> bool {
        matches!(self.window, Window::Sliding { by_time: true, length, .. } if time_ms + length < self.clock_ms)
    }

    /// Returns whether the last occurrence of a key is certainly more than a window newer than an event.
    fn is_apart(&self, known: Known, time_ms: u64) -> bool {
        let Window::Sliding { length, slack, .. } = self.window else { return false };
        known.surely.is_some_and(|seen_ms| seen_ms > time_ms + length + 2 * slack)
    }

    /// Records the output of the next record.
    pub(super) fn note(&mut self, key: u64, time_ms: u64, fate: Fate) {
        if fate == Fate::Rejected {
            return;
        }
        let place = self.place(time_ms);
        let refreshes = matches!(self.window, Window::Sliding { refresh: true, .. });
        if place.is_late != Some(true) && (fate == Fate::New || refreshes) {
            let is_beyond_window = self.is_beyond_window(time_ms);
            let known = self.keys.entry(key).or_default();
            known.maybe = known.maybe.max(Some(place.own));
            if place.is_late == Some(false) && !is_beyond_window {
                known.surely = known.surely.max(Some(place.own));
            }
        }
        self.events += 1;
        self.clock_ms = self.clock_ms.max(time_ms);
    }
}
