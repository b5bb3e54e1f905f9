//! Parses loads as users write them: `1G/day`, `5000/s`. A parsed load is greater than zero. This module does not
//! depend on filters.

use std::fmt;
use std::str::FromStr;

use crate::text::size::Count;

/// A number of events in a period of time.
///
/// ```
/// use firstseen_cli::plan::EventRate;
/// let rate: EventRate = "1G/day".parse().unwrap();
/// assert_eq!(rate.events_in(3_600_000), 41_666_667);
/// assert!("1G".parse::<EventRate>().unwrap_err().contains("5000/s"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRate {
    events: u64,
    period_ms: u64,
}

impl EventRate {
    /// Returns the number of events that come in `ms` milliseconds, rounded up.
    pub fn events_in(self, ms: u64) -> u64 {
        let events = (u128::from(self.events) * u128::from(ms)).div_ceil(u128::from(self.period_ms));
        u64::try_from(events).unwrap_or(u64::MAX)
    }
}

impl FromStr for EventRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (events, period) = text.split_once('/').ok_or_else(|| invalid_rate(text))?;
        let Count(events) = events.trim().parse().map_err(|_| invalid_rate(text))?;
        let period_ms = match period.trim().to_ascii_lowercase().as_str() {
            "s" | "sec" | "second" => 1_000,
            "m" | "min" | "minute" => 60_000,
            "h" | "hour" => 3_600_000,
            "d" | "day" => 86_400_000,
            "w" | "week" => 604_800_000,
            _ => return Err(invalid_rate(text)),
        };
        Ok(Self { events, period_ms })
    }
}

fn invalid_rate(text: &str) -> String {
    format!("`{text}` is not a load: write events and a time, such as 1G/day, 20M/h or 5000/s")
}

impl fmt::Display for EventRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = match self.period_ms {
            1_000 => "s",
            60_000 => "min",
            3_600_000 => "h",
            86_400_000 => "day",
            _ => "week",
        };
        write!(f, "{}/{period}", self.events)
    }
}
