//! Landmarks of a calendar: the hours, days and weeks of a time zone.
//!
//! Promises: units never step back as time goes on, also where a zone sets its clocks back. Must not know: the zone of
//! this machine; zones come from the bundled database.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::unit_number::UnitNumber;

/// The time from one landmark of a calendar to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// At every full hour.
    Hour,
    /// At every midnight.
    Day,
    /// At every midnight before a Monday.
    Week,
}

impl Period {
    const ALL: [(&'static str, Self); 3] = [("hour", Self::Hour), ("day", Self::Day), ("week", Self::Week)];

    const fn ms(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
            Self::Week => 7 * 86_400_000,
        }
    }

    /// Local milliseconds that the first unit starts before 1970: a day at least, as west of Greenwich 1970 began while it
    /// was 1969 there, and units are counted from 0. That year began on a Thursday, weeks on a Monday.
    const fn phase_ms(self) -> i64 {
        match self {
            Self::Hour | Self::Day => 86_400_000,
            Self::Week => 3 * 86_400_000,
        }
    }
}

/// Landmarks at the full periods of a time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Calendar {
    period: Period,
    zone: TimeZone,
    zone_name: String,
}

/// A time zone that is not in the database.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("time zone `{0}` is not in the database: write a name such as UTC or Europe/Athens")]
pub struct CalendarError(String);

impl Calendar {
    /// Landmarks of `period` in the zone called `zone_name`.
    pub fn new(period: Period, zone_name: &str) -> Result<Self, CalendarError> {
        let zone = TimeZone::get(zone_name).map_err(|_| CalendarError(zone_name.to_owned()))?;
        Ok(Self { period, zone, zone_name: zone_name.to_owned() })
    }

    /// The same landmarks in another zone.
    pub fn in_zone(&self, zone_name: &str) -> Result<Self, CalendarError> {
        Self::new(self.period, zone_name)
    }

    /// `hour`, `day` or `week`, with `@` and a zone (UTC without); `None` if it is none of the three.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, CalendarError> {
        let (name, zone_name) = text.split_once('@').unwrap_or((text, "UTC"));
        let period = Period::ALL.into_iter().find(|(known, _)| *known == name);
        period.map(|(_, period)| Self::new(period, zone_name)).transpose()
    }

    /// The unit that `time_ms` falls into, with times around it that certainly do too: from (inclusive), to
    /// (exclusive).
    pub(super) fn unit_of(&self, time_ms: u64) -> (UnitNumber, u64, u64) {
        let time_ms = i64::try_from(time_ms).unwrap_or(i64::MAX);
        let local_ms = time_ms.saturating_add(self.offset_ms(time_ms));
        let phased_ms = local_ms.saturating_add(self.period.phase_ms());
        let unit = phased_ms.div_euclid(self.period.ms());
        let into_ms = phased_ms.rem_euclid(self.period.ms());
        // Offsets change on whole quarters of an hour, so within one of them the unit holds.
        const STEP_MS: i64 = 900_000;
        let from_ms = (time_ms - time_ms.rem_euclid(STEP_MS)).max(time_ms - into_ms);
        let to_ms = (time_ms - time_ms.rem_euclid(STEP_MS) + STEP_MS).min(time_ms + (self.period.ms() - into_ms));
        let [unit, from_ms, to_ms] = [unit, from_ms, to_ms].map(|number| u64::try_from(number).unwrap_or(0));
        (UnitNumber(unit), from_ms, to_ms)
    }

    /// Milliseconds of local time from one landmark to the next.
    pub(super) fn period_ms(&self) -> u64 {
        self.period.ms().unsigned_abs()
    }

    fn offset_ms(&self, time_ms: i64) -> i64 {
        let offset = Timestamp::from_millisecond(time_ms).map_or(Offset::UTC, |time| self.zone.to_offset(time));
        i64::from(offset.seconds()) * 1000
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Period::ALL.into_iter().find(|(_, period)| *period == self.period).map_or("", |(name, _)| name);
        write!(f, "{name}@{}", self.zone_name)
    }
}

impl FromStr for Calendar {
    type Err = CalendarError;

    fn from_str(text: &str) -> Result<Self, CalendarError> {
        Self::parse(text)?.ok_or_else(|| CalendarError(text.to_owned()))
    }
}

impl TryFrom<String> for Calendar {
    type Error = CalendarError;

    fn try_from(text: String) -> Result<Self, CalendarError> {
        text.parse()
    }
}

impl From<Calendar> for String {
    fn from(calendar: Calendar) -> Self {
        calendar.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: &str) -> u64 {
        time.parse::<Timestamp>().unwrap().as_millisecond() as u64
    }

    fn unit(calendar: &str, time: &str) -> u64 {
        calendar.parse::<Calendar>().unwrap().unit_of(ms(time)).0.0
    }

    #[test]
    fn days_begin_at_local_midnight() {
        assert_eq!(unit("day@UTC", "2026-03-01T23:59:59Z") + 1, unit("day@UTC", "2026-03-02T00:00:00Z"));
        assert_eq!(
            unit("day@Europe/Athens", "2026-01-10T21:59:59Z") + 1,
            unit("day@Europe/Athens", "2026-01-10T22:00:00Z")
        );
        assert_eq!(
            unit("day@Europe/Athens", "2026-07-10T20:59:59Z") + 1,
            unit("day@Europe/Athens", "2026-07-10T21:00:00Z")
        );
    }

    #[test]
    fn weeks_begin_on_monday() {
        assert_eq!(unit("week", "2026-11-15T23:59:59Z") + 1, unit("week", "2026-11-16T00:00:00Z"));
        assert_eq!(unit("week", "2026-11-16T00:00:00Z"), unit("week", "2026-11-22T23:59:59Z"));
    }

    #[test]
    fn units_never_step_back_where_clocks_do() {
        let calendar: Calendar = "hour@Europe/Athens".parse().unwrap();
        let start = ms("2026-10-24T20:00:00Z");
        let units: Vec<u64> = (0..600).map(|minute| calendar.unit_of(start + minute * 60_000).0.0).collect();
        assert!(units.is_sorted());
        // Ten hours, one of which comes twice.
        assert_eq!(units[599] - units[0] + 1, 9);
    }

    #[test]
    fn the_times_given_around_a_unit_belong_to_it() {
        for calendar in ["hour@Asia/Kathmandu", "day@America/St_Johns", "week@Europe/Athens"] {
            let calendar: Calendar = calendar.parse().unwrap();
            for step in 0..5000 {
                let time_ms = ms("2026-03-20T00:00:00Z") + step * 777_777;
                let (unit, from_ms, to_ms) = calendar.unit_of(time_ms);
                assert!((from_ms..to_ms).contains(&time_ms));
                assert_eq!(calendar.unit_of(from_ms).0, unit);
                assert_eq!(calendar.unit_of(to_ms - 1).0, unit);
            }
        }
    }

    #[test]
    fn the_first_hours_of_1970_are_units_of_their_own_in_every_zone() {
        for zone in ["UTC", "America/New_York", "Pacific/Pago_Pago", "Etc/GMT+12", "Pacific/Kiritimati"] {
            let hours: Calendar = format!("hour@{zone}").parse().unwrap();
            for hour in 0..48 {
                assert_eq!(hours.unit_of(hour * 3_600_000).0, hours.unit_of(0).0.after(hour), "{zone}, hour {hour}");
            }
            for period in ["day", "week"] {
                let calendar: Calendar = format!("{period}@{zone}").parse().unwrap();
                let units: Vec<u64> = (0..24 * 21).map(|hour| calendar.unit_of(hour * 3_600_000).0.0).collect();
                let longest = units.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
                assert_eq!(longest, Some(calendar.period_ms() as usize / 3_600_000), "{period} in {zone}");
            }
        }
    }

    #[test]
    fn unknown_zones_are_told() {
        assert!("day@Mars/Olympus".parse::<Calendar>().unwrap_err().to_string().contains("Mars/Olympus"));
    }
}
