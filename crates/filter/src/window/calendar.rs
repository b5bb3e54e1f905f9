//! Landmarks of a calendar: the hours, days and weeks of a time zone.
//!
//! The unit of a time never decreases as time goes on, even when a time zone sets its clocks back. Time zones come from
//! the bundled database, so the time zone of the machine has no effect.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::unit_number::UnitNumber;

/// Time between two landmarks of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// A landmark at every full hour.
    Hour,
    /// A landmark at every midnight.
    Day,
    /// A landmark at every midnight before a Monday.
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

    /// Returns how many milliseconds of local time before 1970 the first unit starts. Units are counted from 0, and in
    /// zones west of Greenwich the local date was still in 1969 when 1970 began in UTC. The first unit therefore starts
    /// at least a day earlier. Weeks begin on a Monday, and 1970 began on a Thursday, so the first week starts three
    /// days earlier.
    const fn phase_ms(self) -> i64 {
        match self {
            Self::Hour | Self::Day => 86_400_000,
            Self::Week => 3 * 86_400_000,
        }
    }
}

/// Landmarks at the full hours, days or weeks of a time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Calendar {
    period: Period,
    zone: TimeZone,
    zone_name: String,
}

/// Error for a time zone that is not in the database.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("time zone `{0}` is not in the database: write a name such as UTC or Europe/Athens")]
pub struct CalendarError(String);

impl Calendar {
    /// Creates a calendar with landmarks of `period` in the zone called `zone_name`.
    pub fn new(period: Period, zone_name: &str) -> Result<Self, CalendarError> {
        let zone = TimeZone::get(zone_name).map_err(|_| CalendarError(zone_name.to_owned()))?;
        Ok(Self { period, zone, zone_name: zone_name.to_owned() })
    }

    /// Returns the same landmarks in another time zone.
    pub fn in_zone(&self, zone_name: &str) -> Result<Self, CalendarError> {
        Self::new(self.period, zone_name)
    }

    /// Parses the name of a calendar unit, which is `hour`, `day` or `week`, optionally followed by `@` and a time
    /// zone. The default time zone is UTC. Returns `None` if the name is not one of these three.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, CalendarError> {
        let (name, zone_name) = text.split_once('@').unwrap_or((text, "UTC"));
        let period = Period::ALL.into_iter().find(|(known, _)| *known == name);
        period.map(|(_, period)| Self::new(period, zone_name)).transpose()
    }

    /// Returns the unit that contains `time_ms`, and a range of times around `time_ms` that belong to the same unit.
    /// The start of the range is inclusive, and its end is exclusive. A caller can assign all times in the range to
    /// this unit without another calculation. The range is at most a quarter of an hour long, so it may be smaller than
    /// the unit.
    pub(super) fn unit_of(&self, time_ms: u64) -> (UnitNumber, u64, u64) {
        let time_ms = i64::try_from(time_ms).unwrap_or(i64::MAX);
        let local_ms = time_ms.saturating_add(self.offset_ms(time_ms));
        let phased_ms = local_ms.saturating_add(self.period.phase_ms());
        let unit = phased_ms.div_euclid(self.period.ms());
        let into_ms = phased_ms.rem_euclid(self.period.ms());
        // Time zones change their offsets only at full quarters of an hour, so the unit does not change within a
        // quarter.
        const STEP_MS: i64 = 900_000;
        let from_ms = (time_ms - time_ms.rem_euclid(STEP_MS)).max(time_ms - into_ms);
        let to_ms = (time_ms - time_ms.rem_euclid(STEP_MS) + STEP_MS).min(time_ms + (self.period.ms() - into_ms));
        let [unit, from_ms, to_ms] = [unit, from_ms, to_ms].map(|number| u64::try_from(number).unwrap_or(0));
        (UnitNumber(unit), from_ms, to_ms)
    }

    /// Returns the local time between two landmarks in milliseconds.
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
        // Ten hours pass, and one local hour occurs twice, so the units differ by nine.
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
