//! The form of times that a user describes. This module does not depend on the zone of the parser.

use super::local::{LocalTime, Written, WrittenZone};
use super::number::Unit;
use crate::{ConfigError, TimeError, printable};
use jiff::civil;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Names for numbers that count from 1970.
const UNITS: [(&str, Unit); 4] = [
    ("epoch", Unit::Seconds),
    ("epoch-ms", Unit::Milliseconds),
    ("epoch-us", Unit::Microseconds),
    ("epoch-ns", Unit::Nanoseconds),
];

/// The form in which all times of an input are written. For numbers since 1970, the form is `epoch`, `epoch-ms`,
/// `epoch-us` or `epoch-ns`. For other times, it is a `strftime` pattern such as `%d.%m.%Y %H:%M:%S`.
///
/// A pattern must contain a year and a day. It may also contain an offset (`%z`, `%:z`) or the name of a time zone
/// (`%Q`). If it contains neither, the times are local times in the parser's zone. The page [`jiff::fmt::strtime`]
/// lists all elements of a pattern.
///
/// ```
/// use firstseen_records::{TimeFormat, TimeParser};
/// let american: TimeFormat = "%m/%d/%Y %I:%M:%S %p".parse()?;
/// let parser = TimeParser::new("UTC")?.with_format(american);
/// assert_eq!(parser.parse(b"10/11/2024 01:55:36 PM"), Ok(1_728_654_936_000));
/// assert!("%d/%m %H:%M".parse::<TimeFormat>().is_err(), "it has no year");
/// # Ok::<(), firstseen_records::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeFormat(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Number(&'static str, Unit),
    Pattern(Arc<str>),
}

/// Content of a text in the form of a [`TimeFormat`].
pub(super) enum Formatted {
    /// Milliseconds since 1970.
    Epoch(i64),
    /// A date and time, with an offset or in the zone of the parser.
    Written(Written<'static>),
}

impl TimeFormat {
    pub(super) fn read(&self, text: &[u8]) -> Result<Formatted, TimeError> {
        let pattern = match &self.0 {
            Form::Number(_, unit) => return unit.parse(text).map(Formatted::Epoch),
            Form::Pattern(pattern) => pattern,
        };
        let time = strtime::parse(pattern.as_bytes(), text).map_err(|_| TimeError::NotInFormat)?;
        if let Some(instant) = time.timestamp() {
            return Ok(Formatted::Epoch(instant.as_millisecond()));
        }
        let date = time.to_date().map_err(|_| TimeError::NoSuchTime)?;
        let clock = time.to_time().map_err(|_| TimeError::NoSuchTime)?;
        if time.offset().is_none() && time.iana_time_zone().is_some() {
            let instant = time.to_zoned().map_err(|_| TimeError::UnknownZone)?;
            return Ok(Formatted::Epoch(instant.timestamp().as_millisecond()));
        }
        let local = LocalTime {
            year: date.year().into(),
            month: date.month().into(),
            day: date.day().into(),
            hour: clock.hour().into(),
            minute: clock.minute().into(),
            second: clock.second().into(),
            fraction_ms: i64::from(clock.subsec_nanosecond()) / 1_000_000,
        };
        let zone = match time.offset() {
            Some(offset) => WrittenZone::Offset(i64::from(offset.seconds()) * 1_000),
            None => WrittenZone::Missing,
        };
        Ok(Formatted::Written(Written { local, zone }))
    }
}

impl FromStr for TimeFormat {
    type Err = ConfigError;

    /// Parses the description of a form. Checks that times in this form can be read without losing a part of them.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if let Some((name, unit)) = UNITS.iter().find(|(name, _)| *name == text) {
            return Ok(Self(Form::Number(name, *unit)));
        }
        match defect(text) {
            None => Ok(Self(Form::Pattern(text.into()))),
            Some(reason) => Err(ConfigError::BadTimeFormat { format: printable(text), reason }),
        }
    }
}

/// Returns what is wrong with a pattern. To find out, an example is written with the pattern and read again.
fn defect(pattern: &str) -> Option<String> {
    if !pattern.contains('%') {
        return Some("it is none of epoch, epoch-ms, epoch-us, epoch-ns, and has no part of a time such as %Y".into());
    }
    if pattern.contains("%Z") {
        return Some("%Z (an abbreviation such as CET) cannot be read; without --time-format many can".into());
    }
    // The example has a day above 12 and an hour after noon, and all of its fields differ. No field can be mistaken for
    // another.
    const DAY: civil::Date = civil::date(2023, 11, 29);
    const HOUR: i8 = 15;
    let zone = TimeZone::fixed(Offset::from_seconds(19_800).unwrap_or(Offset::UTC));
    let example = match DAY.at(HOUR, 4, 5, 678_000_000).to_zoned(zone) {
        Ok(example) => example,
        Err(error) => return Some(error.to_string()),
    };
    let written = strtime::format(pattern, &example);
    let read = written.and_then(|text| strtime::parse(pattern, text));
    let read = match read {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    if read.timestamp().is_some() {
        return None;
    }
    if read.year().is_none() && read.iso_week_year().is_none() {
        return Some("it has no year (%Y), and a year is not guessed".into());
    }
    match (read.to_date(), read.to_time()) {
        (Ok(DAY), Ok(time)) if read.hour().is_none() || time.hour() == HOUR => None,
        (Ok(DAY), Ok(_)) => Some("it does not tell morning from afternoon: use %H, or %I with %p".into()),
        (Ok(DAY), Err(error)) => Some(error.to_string()),
        (Ok(_), _) => Some("its parts contradict each other".into()),
        (Err(_), _) => Some("it has no day (%m and %d, or %j)".into()),
    }
}

impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Number(name, _) => f.write_str(name),
            Form::Pattern(pattern) => f.write_str(pattern),
        }
    }
}
