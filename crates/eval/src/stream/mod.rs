//! Synthetic streams, which determine the keys of events, their times, their sites, and how far they are out of order.
//!
//! A specification and a seed determine every event of a stream, on every machine. The memory that is needed does not
//! grow with the length of the stream.
//!
//! This module does not depend on filters, windows or the clock.

mod events;
mod keys;
mod log;
mod text;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use events::Events;
pub use log::Log;
pub use text::TextFormat;

/// Event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time at which the event occurred, in milliseconds since 1970. These times need not increase along the stream,
    /// because events are in the order of their arrival and may arrive late.
    pub time_ms: u64,
    /// Key of the event. Equal keys are repeats of one event.
    pub key: u64,
    /// Site from which the event comes, counted from 0.
    pub site: u32,
}

/// Distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// Every event is new.
    Distinct,
    /// All keys have the same probability.
    Uniform {
        /// Number of different keys.
        keys: u64,
    },
    /// The key of rank r occurs with a probability proportional to `r^-exponent`.
    Zipf {
        /// Number of different keys.
        keys: u64,
        /// Exponent of the distribution. 0 is uniform, and Koloniari et al. 2011 use 1.
        exponent: f64,
    },
    /// New keys, and repeats of earlier keys.
    Repeats {
        /// Probability that an event is new. The first event is always new.
        distinct_share: f64,
        /// Number of the most recent new keys that a repeat can have, all with the same probability.
        recent_keys: u64,
    },
}

/// Period with a higher or lower rate of events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Start of the period, in milliseconds after the start of the stream.
    pub from_ms: u64,
    /// End of the period (exclusive), in milliseconds after the start of the stream.
    pub to_ms: u64,
    /// Factor of the rate. The factors of overlapping bursts are multiplied.
    pub factor: f64,
}

/// Specification of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSpec {
    /// Total number of events.
    pub events: u64,
    /// Distribution of keys.
    pub keys: Keys,
    /// Time at which the first event arrives, in milliseconds since 1970.
    pub start_ms: u64,
    /// Number of events per second outside of bursts. Events arrive at equal distances.
    pub events_per_second: f64,
    /// Periods with other rates.
    pub bursts: Vec<Burst>,
    /// Number of sites from which events come.
    pub sites: u32,
    /// Share of a key's events that come from the home site of the key. All other sites share the remaining events of
    /// the key equally. If the value is `1 / sites`, every site gets the same share, so the key has no preferred site.
    pub home_share: f64,
    /// Share of the events that arrive later than they occurred.
    pub late_share: f64,
    /// Maximum delay of these events in milliseconds. All delays from 0 to the maximum have the same probability.
    pub late_ms_max: u64,
}

/// Error for a stream that cannot be created.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("`{field}` of the stream is {value}: {rule}")]
pub struct StreamError {
    /// Name of the field.
    pub field: &'static str,
    /// Value of the field.
    pub value: String,
    /// Valid values of the field.
    pub rule: &'static str,
}

/// Maximum number of keys. The 53 bits of the generator do not distinguish more ranks.
const KEYS_MAX: u64 = 1 << 53;

/// Latest time of an event. From the year 2286 on, milliseconds have more than 13 digits, and readers take them for
/// another unit.
const TIME_MS_MAX: u64 = 9_999_999_999_999;

impl StreamSpec {
    /// Creates a stream of `events` events with the given keys. The events arrive in order, one per millisecond, from a
    /// single site.
    pub fn new(events: u64, keys: Keys) -> Self {
        Self {
            events,
            keys,
            start_ms: 1_000_000,
            events_per_second: 1000.0,
            bursts: Vec::new(),
            sites: 1,
            home_share: 1.0,
            late_share: 0.0,
            late_ms_max: 0,
        }
    }

    /// Returns the events, in the order of their arrival.
    ///
    /// ```
    /// use firstseen_eval::stream::{Keys, StreamSpec};
    /// let spec = StreamSpec::new(1000, Keys::Zipf { keys: 50, exponent: 1.0 });
    /// assert!(spec.events(7).unwrap().eq(spec.events(7).unwrap()));
    /// let empty = StreamSpec::new(1000, Keys::Uniform { keys: 0 });
    /// assert!(empty.events(7).err().unwrap().to_string().starts_with("`keys`"));
    /// ```
    ///
    /// # Errors
    /// Returns [`StreamError`], which names the invalid field.
    pub fn events(&self, seed: u64) -> Result<Events, StreamError> {
        self.check()?;
        Events::new(self, seed)
    }

    fn check(&self) -> Result<(), StreamError> {
        match self.keys {
            Keys::Distinct => Ok(()),
            Keys::Uniform { keys } => key_count(keys),
            Keys::Zipf { keys, exponent } => {
                key_count(keys)?;
                rule("exponent", exponent, exponent >= 0.0 && exponent.is_finite(), "choose a finite number, 0 or more")
            }
            Keys::Repeats { distinct_share, recent_keys } => {
                share("distinct_share", distinct_share)?;
                rule("recent_keys", recent_keys, recent_keys > 0, "choose at least 1")
            }
        }?;
        let rate = self.events_per_second;
        rule("events_per_second", rate, rate > 0.0 && rate.is_finite(), "choose a finite number above 0")?;
        for burst in &self.bursts {
            rule(
                "bursts",
                burst.factor,
                burst.factor > 0.0 && burst.factor.is_finite(),
                "a factor is a finite number above 0",
            )?;
            rule("bursts", burst.to_ms, burst.to_ms > burst.from_ms, "a burst ends after its start")?;
        }
        rule("sites", self.sites, self.sites > 0, "choose at least 1")?;
        share("home_share", self.home_share)?;
        share("late_share", self.late_share)?;
        let is_late = self.late_ms_max <= self.start_ms;
        rule("late_ms_max", self.late_ms_max, is_late, "no event can have occurred before 1970; start later")?;
        let has_start = self.start_ms <= TIME_MS_MAX;
        rule("start_ms", self.start_ms, has_start, "choose at most 9999999999999, in the year 2286")?;
        let is_over = self.start_ms as f64 + self.length_ms() <= TIME_MS_MAX as f64;
        let ends = "the last event would come after the year 2286; choose more a second, or fewer events";
        rule("events_per_second", format!("{rate:?}"), is_over, ends)
    }

    /// Returns the time between two events at `after_ms` after the start, in milliseconds.
    fn step_ms(&self, after_ms: f64) -> f64 {
        let during = self.bursts.iter().filter(|burst| (burst.from_ms..burst.to_ms).contains(&(after_ms as u64)));
        let factor: f64 = during.map(|burst| burst.factor).product();
        1000.0 / (self.events_per_second * factor)
    }

    /// Returns the time from the first event to the last one in milliseconds. The rate changes only at the start and
    /// the end of a burst.
    fn length_ms(&self) -> f64 {
        let mut changes: Vec<u64> = self.bursts.iter().flat_map(|burst| [burst.from_ms, burst.to_ms]).collect();
        changes.sort_unstable();
        let mut at_ms = 0.0;
        let mut left = self.events.saturating_sub(1) as f64;
        for change in changes.into_iter().map(|change| change as f64) {
            let step_ms = self.step_ms(at_ms);
            let steps = ((change - at_ms) / step_ms).ceil();
            if steps >= left {
                break;
            }
            if steps > 0.0 {
                left -= steps;
                at_ms = change.max(at_ms + steps * step_ms);
            }
        }
        if left > 0.0 { at_ms + left * self.step_ms(at_ms) } else { at_ms }
    }
}

fn key_count(keys: u64) -> Result<(), StreamError> {
    rule("keys", keys, (1..=KEYS_MAX).contains(&keys), "choose 1 to 2^53")
}

fn share(field: &'static str, value: f64) -> Result<(), StreamError> {
    rule(field, value, (0.0..=1.0).contains(&value), "a share is from 0 to 1")
}

fn rule(field: &'static str, value: impl ToString, holds: bool, rule: &'static str) -> Result<(), StreamError> {
    if holds { Ok(()) } else { Err(StreamError { field, value: value.to_string(), rule }) }
}
