//! A date and a time of day as they are written in a text, together with the time zone that is written after them. This
//! module checks the values and computes days, but it does not parse texts.

use crate::TimeError;

pub(super) const SECOND_MS: i64 = 1_000;
const DAY_MS: i64 = 86_400 * SECOND_MS;

/// The fields of a time as a calendar and a clock show them. [`Self::as_utc_ms`] checks their values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LocalTime {
    pub(super) year: i32,
    pub(super) month: i32,
    pub(super) day: i32,
    pub(super) hour: i32,
    pub(super) minute: i32,
    /// The second, which may be 60. A leap second is treated as the first second of the next minute.
    pub(super) second: i32,
    pub(super) fraction_ms: i64,
}

/// A zone as it is written after a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenZone<'a> {
    /// No zone is written, so the time is in the zone of the parser.
    Missing,
    /// Offset in milliseconds east of Greenwich.
    Offset(i64),
    /// An abbreviation in letters, such as `CEST`.
    Abbreviation(&'a [u8]),
}

impl WrittenZone<'_> {
    pub(super) const UTC: Self = Self::Offset(0);
}

/// A time as it is written, with its zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<'a> {
    pub(super) local: LocalTime,
    pub(super) zone: WrittenZone<'a>,
}

impl LocalTime {
    /// Returns the milliseconds since 1970 of this time, as if its fields were in UTC.
    ///
    /// # Errors
    /// Returns [`TimeError::NoSuchTime`] if the date or the time of day does not exist.
    pub(super) fn as_utc_ms(&self) -> Result<i64, TimeError> {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let month_days = match self.month {
            2 => 28 + i32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return Err(TimeError::NoSuchTime),
        };
        if !(1..=month_days).contains(&self.day) || self.hour > 23 || self.minute > 59 || self.second > 60 {
            return Err(TimeError::NoSuchTime);
        }
        let seconds = (self.hour * 60 + self.minute) * 60 + self.second;
        Ok(self.days() * DAY_MS + i64::from(seconds) * SECOND_MS + self.fraction_ms)
    }

    /// Returns the number of days from 1970-01-01 to this date in the Gregorian calendar. The calculation uses years
    /// that begin in March. The leap day is then the last day of a year, so it does not shift the beginning of any
    /// month. In such a year, the month with index `m` begins on day `(153 m + 2) / 5`, where March has index 0. The
    /// first of January is day 306.
    fn days(&self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month < 3);
        let month = (i64::from(self.month) + 9) % 12;
        const MARCH_OF_YEAR_0: i64 = 719_468;
        365 * year + year.div_euclid(4) - year.div_euclid(100)
            + year.div_euclid(400)
            + (153 * month + 2) / 5
            + i64::from(self.day - 1)
            - MARCH_OF_YEAR_0
    }
}
