//! Windows as users write them, and the units into which windows are divided.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Calendar, CalendarError};

/// Window as a user specifies it: how long the filter remembers an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Window {
    /// No end.
    Unbounded,
    /// A number of milliseconds.
    Duration(u64),
    /// A number of events.
    Events(u64),
    /// Until the next multiple of a number of milliseconds since 1970.
    LandmarkDuration(u64),
    /// Until a number of events have passed since the last landmark.
    LandmarkEvents(u64),
    /// Until the next hour, day or week of a calendar.
    LandmarkCalendar(Calendar),
}

impl Window {
    /// Range of the default for how far a single unconfirmed event can advance the clock.
    const FUTURE_DEFAULT_MS: RangeInclusive<u64> = 1_000..=300_000;

    /// Returns the default of the distance by which a single unconfirmed event can advance the clock, in milliseconds.
    /// The default is a sixteenth of the window, or of the time between two landmarks, but at least one second and at
    /// most five minutes.
    ///
    /// ```
    /// use firstseen_filter::Window;
    /// let default_ms = |window: &str| window.parse::<Window>().unwrap().future_default_ms();
    /// assert_eq!((default_ms("8m"), default_ms("5s"), default_ms("landmark:day@UTC")), (30_000, 1_000, 300_000));
    /// ```
    pub fn future_default_ms(&self) -> u64 {
        let whole_ms = match self {
            Self::Duration(ms) | Self::LandmarkDuration(ms) => *ms,
            Self::LandmarkCalendar(calendar) => calendar.period_ms(),
            Self::Unbounded | Self::Events(_) | Self::LandmarkEvents(_) => u64::MAX,
        };
        (whole_ms / 16).clamp(*Self::FUTURE_DEFAULT_MS.start(), *Self::FUTURE_DEFAULT_MS.end())
    }
}

/// Reason why the text of a window is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    /// The window is empty.
    #[error("window `{0}` is empty: it must cover at least 1 ms or 1 event")]
    Empty(String),
    /// The text has none of the valid forms.
    #[error(
        "window `{0}` is not understood: write a duration (90s, 1h30m, 24h, 7d), a number of events (10000000events), \
         `unbounded`, or `landmark:` and a duration, a number of events, or hour, day or week with a time zone \
         (landmark:day@Europe/Athens)"
    )]
    Form(String),
    /// The window has more milliseconds than a 64-bit number can hold.
    #[error("window `{0}` is longer than 584 million years: choose a shorter one, or `unbounded`")]
    TooLong(String),
    /// The calendar or the time zone is unknown.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
}

impl FromStr for Window {
    type Err = WindowError;

    /// ```
    /// use firstseen_filter::Window;
    /// assert_eq!("24h".parse(), Ok(Window::Duration(86_400_000)));
    /// assert_eq!("1h30m".parse(), Ok(Window::Duration(5_400_000)));
    /// assert_eq!("1000events".parse(), Ok(Window::Events(1000)));
    /// assert!("0s".parse::<Window>().is_err() && "-1h".parse::<Window>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, WindowError> {
        if text == "unbounded" {
            return Ok(Self::Unbounded);
        }
        let (landmark, length) = match text.strip_prefix("landmark:") {
            Some(length) => (true, length),
            None => (false, text),
        };
        if landmark && let Some(calendar) = Calendar::parse(length)? {
            return Ok(Self::LandmarkCalendar(calendar));
        }
        let events = length.strip_suffix("events").or_else(|| length.strip_suffix("event"));
        let number = match events {
            Some(events) => number(events, text)?,
            None => duration_ms(length, text)?,
        };
        match (number, landmark, events.is_some()) {
            (0, ..) => Err(WindowError::Empty(text.to_owned())),
            (events, false, true) => Ok(Self::Events(events)),
            (events, true, true) => Ok(Self::LandmarkEvents(events)),
            (window_ms, false, false) => Ok(Self::Duration(window_ms)),
            (window_ms, true, false) => Ok(Self::LandmarkDuration(window_ms)),
        }
    }
}

fn number(digits: &str, text: &str) -> Result<u64, WindowError> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(WindowError::Form(text.to_owned()));
    }
    // The text consists of digits only, so parsing can only fail because the number is too large.
    digits.parse().map_err(|_| WindowError::TooLong(text.to_owned()))
}

/// Parses a duration such as `90s` or `1h30m`. The duration is the sum of numbers with units.
fn duration_ms(mut length: &str, text: &str) -> Result<u64, WindowError> {
    let mut total_ms = 0u64;
    if length.is_empty() {
        return Err(WindowError::Form(text.to_owned()));
    }
    while !length.is_empty() {
        let (digits, rest) =
            length.split_at(length.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(length.len()));
        let (unit, rest) = rest.split_at(rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len()));
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(WindowError::Form(text.to_owned())),
        };
        let part_ms = number(digits, text)?.checked_mul(unit_ms);
        let sum_ms = part_ms.and_then(|part_ms| total_ms.checked_add(part_ms));
        total_ms = sum_ms.ok_or_else(|| WindowError::TooLong(text.to_owned()))?;
        length = rest;
    }
    Ok(total_ms)
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbounded => f.write_str("unbounded"),
            Self::Duration(ms) => write_duration(f, *ms),
            Self::Events(events) => write!(f, "{events}events"),
            Self::LandmarkDuration(ms) => f.write_str("landmark:").and_then(|()| write_duration(f, *ms)),
            Self::LandmarkEvents(events) => write!(f, "landmark:{events}events"),
            Self::LandmarkCalendar(calendar) => write!(f, "landmark:{calendar}"),
        }
    }
}

fn write_duration(f: &mut fmt::Formatter<'_>, ms: u64) -> fmt::Result {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let (name, unit_ms) = units.into_iter().find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms)).unwrap_or(("ms", 1));
    write!(f, "{}{name}", ms / unit_ms)
}

impl TryFrom<String> for Window {
    type Error = WindowError;

    fn try_from(text: String) -> Result<Self, WindowError> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> Self {
        window.to_string()
    }
}

/// Unit in which the time of a window is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A single unit that never ends.
    Endless,
    /// Units of a number of milliseconds, counted from 1970.
    Milliseconds(u64),
    /// Units of a number of events.
    Events(u64),
    /// Hours, days or weeks of a calendar.
    Calendar(Calendar),
}

impl Unit {
    /// Returns whether an event needs a time to be placed.
    pub fn needs_time(&self) -> bool {
        matches!(self, Self::Milliseconds(_) | Self::Calendar(_))
    }

    /// Returns the length of `units` units in milliseconds. The length is 0 if units are not measured in time.
    pub(super) fn ms(&self, units: u64) -> u64 {
        match self {
            Self::Endless | Self::Events(_) => 0,
            Self::Milliseconds(unit_ms) => units.saturating_mul(*unit_ms),
            Self::Calendar(calendar) => units.saturating_mul(calendar.period_ms()),
        }
    }

    /// Returns the maximum number of units between two times that are at most `future_max_ms` apart. The result is
    /// exact unless a time zone changes its offset by more than an hour between the two times. If units are not
    /// measured in time, there is no maximum.
    ///
    /// ```
    /// use firstseen_filter::Unit;
    /// assert_eq!(Unit::Milliseconds(1000).future_units(60_500), 61);
    /// assert_eq!(Unit::Events(10).future_units(60_500), u64::MAX);
    /// ```
    pub fn future_units(&self, future_max_ms: u64) -> u64 {
        let (ahead_ms, unit_ms) = match self {
            Self::Endless | Self::Events(_) => return u64::MAX,
            Self::Milliseconds(unit_ms) => (future_max_ms, *unit_ms),
            Self::Calendar(calendar) => (future_max_ms.saturating_add(CLOCK_CHANGE_MS), calendar.period_ms()),
        };
        ahead_ms.div_ceil(unit_ms.max(1))
    }
}

/// Time by which a zone sets its clocks forward in spring. It matters because units are counted in local time.
const CLOCK_CHANGE_MS: u64 = 3_600_000;
