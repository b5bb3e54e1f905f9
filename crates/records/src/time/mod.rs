//! From the text of a time field to milliseconds since 1970-01-01 00:00 UTC. Must not know: the clock, windows, where
//! the text came from.

mod civil;
mod digits;
mod format;
mod local;
mod number;
mod recent;
mod words;
mod zone;

use crate::error::{ConfigError, TimeError};
use format::Formatted;
use jiff::tz::TimeZone;
use local::{Written, WrittenZone};
use number::Numbered;
use recent::Recent;

pub use format::TimeFormat;

/// 9999-12-31 23:59:59.999 UTC.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// Reads times; those without a zone of their own are in the parser's.
///
/// Numbers, by the digits of their whole part:
///
/// | digits | means |
/// |---|---|
/// | 8 | the date `YYYYMMDD` if the year is 1970 to 2199, or is 1800 or later and the month and the day can be such, otherwise seconds |
/// | 10 | the hour `YYYYMMDDhh` if the year is 1970 to 2199 and there is such an hour, otherwise seconds. Seconds of 2032 to 2039 can look like an hour (1 in 120 does): [`TimeFormat`] `epoch` rules that out |
/// | 12 | the minute `YYYYMMDDhhmm` if the year is 1970 to 2199 and there is such a minute, otherwise as below. Milliseconds of 1976 can look like a minute: [`TimeFormat`] `epoch-ms` rules that out |
/// | 14 | `YYYYMMDDhhmmss`, with a fraction or without |
/// | 17 | `YYYYMMDDhhmmssfff`, the last three are milliseconds |
/// | 13 at most, below 10^11 | seconds since 1970 |
/// | 13 at most, 10^11 and more | milliseconds since 1970 |
/// | 15 and 16 | microseconds since 1970 |
/// | 18 and 19 | nanoseconds since 1970 |
///
/// A number may have decimals behind a dot or a comma, an exponent (`1.7e9`) and a plus sign. One that has decimals other
/// than zero is no date, unless it has 14 digits. With decimals all seconds up to the year 9999 are seconds, so numbers
/// below 253402300800. What is below a millisecond is cut off.
///
/// Other texts:
///
/// | text | means |
/// |---|---|
/// | `2000-10-10T13:55:36.5-07:00`, `2000/10/10 13:55:36,250`, `2000.10.10 13:55` | a date with the year first, and a time of day behind a `T`, a `t` or a blank |
/// | `20001010T135536Z`, `20001010 13:55:36` | the same without separators |
/// | `2000-10-10` | midnight |
/// | `[10/Oct/2000:13:55:36 -0700]`, `10/Oct/2000:13:55:36.250` | the common log format, with or without brackets |
/// | `Tue, 10 Oct 2000 13:55:36 GMT`, `Tue Oct 10 13:55:36.5 2000`, `10-OCT-2000 13:55` | dates with the English name of a month |
/// | `10/11/2000`, `5.6.00`, `10-Oct-00` | refused, as day, month and year can be confused |
/// | `Oct 10 13:55:36` | refused, as the year would be a guess |
///
/// Behind a time of day may stand an offset (`Z`, `UTC`, `GMT`, `+02`, `+0200`, `+02:00`, with blanks before it or
/// without) or an abbreviation: one that the parser's zone has at that time, or one that means the same everywhere, such
/// as `CEST` or `PST`. A time without them is in the parser's zone, also a number that is a date.
///
/// Whitespace around the text is ignored. A leap second (`:60`) is the first second of the next minute. If a local time
/// occurs twice because of a clock change, [`parse`](Self::parse) returns the first occurrence, and
/// [`parse_next`](Self::parse_next) the one that is closer to the times before. A local time that a clock change skips
/// is moved forward by the length of the gap. Times before 1970 or after 9999 are rejected, because in logs they are
/// errors.
#[derive(Clone, Debug)]
pub struct TimeParser {
    zone: Option<TimeZone>,
    format: Option<TimeFormat>,
    recent: Recent,
}

impl TimeParser {
    /// A parser for `zone`, an IANA name such as `Europe/Berlin`; `UTC` is the usual one. The table of zones is built
    /// in, so that the same input means the same times on every machine.
    ///
    /// # Errors
    /// [`ConfigError::UnknownTimeZone`], with the nearest name.
    pub fn new(zone: &str) -> Result<Self, ConfigError> {
        let utc = Self { zone: None, format: None, recent: Recent::default() };
        if zone.eq_ignore_ascii_case("UTC") {
            return Ok(utc);
        }
        let zones = jiff::tz::db();
        zones.get(zone).map(|zone| Self { zone: Some(zone), ..utc }).map_err(|_| {
            let names: Vec<String> = zones.available().map(|name| name.as_str().to_owned()).collect();
            let suggestion = crate::names::nearest(zone, names.iter().map(String::as_str));
            ConfigError::UnknownTimeZone { zone: zone.into(), suggestion }
        })
    }

    /// The same parser, for texts in this form only.
    #[must_use]
    pub fn with_format(self, format: TimeFormat) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Returns the milliseconds since 1970-01-01 00:00 UTC, from 0 to the end of the year 9999.
    ///
    /// ```
    /// use firstseen_records::{TimeError, TimeParser};
    /// let utc = TimeParser::new("UTC")?;
    /// assert_eq!(utc.parse(b"971211336"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"971211336000"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"971211336.0429"), Ok(971_211_336_042));
    /// assert_eq!(utc.parse(b"9.71211336e8"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"20001010205536"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"20001010"), Ok(971_136_000_000));
    /// assert_eq!(utc.parse(b"2000-10-10T13:55:36-07:00"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"[10/Oct/2000:13:55:36 -0700]"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"Tue, 10 Oct 2000 20:55:36 GMT"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"2000-10-10 20:55:36"), Ok(971_211_336_000));
    /// assert_eq!(TimeParser::new("Europe/Berlin")?.parse(b"2000-10-10 22:55:36"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"10/11/2000"), Err(TimeError::Ambiguous));
    /// assert_eq!(utc.parse(b"-5"), Err(TimeError::OutOfRange));
    /// # Ok::<(), firstseen_records::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`TimeError`] says why the text is no time.
    pub fn parse(&self, text: &[u8]) -> Result<i64, TimeError> {
        self.read(text, &Recent::default())
    }

    /// Parses the times of one input in their order, like [`parse`](Self::parse). If a local time occurs twice, it
    /// returns the occurrence that is closer to the time before, or the second one if both are equally close. A time
    /// before that is more than an hour from both occurrences is ignored, and the last four times are considered. If
    /// none of them counts, it returns the first occurrence.
    ///
    /// ```
    /// use firstseen_records::TimeParser;
    /// let mut berlin = TimeParser::new("Europe/Berlin")?;
    /// let minutes = [58, 59, 0, 1].map(|minute| {
    ///     let time_ms = berlin.parse_next(format!("2024-10-27 02:{minute:02}:00").as_bytes()).unwrap();
    ///     time_ms / 60_000
    /// });
    /// assert_eq!(minutes.map(|minute| minute - minutes[0]), [0, 1, 2, 3]);
    /// # Ok::<(), firstseen_records::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    #[inline]
    pub fn parse_next(&mut self, text: &[u8]) -> Result<i64, TimeError> {
        let time_ms = self.read(text, &self.recent)?;
        if self.zone.is_some() {
            self.recent.push(time_ms);
        }
        Ok(time_ms)
    }

    /// Takes `time_ms`, in milliseconds since 1970, for the time before the next one: an earlier process has read it.
    pub(crate) fn continue_from(&mut self, time_ms: i64) {
        self.recent.push(time_ms);
    }

    fn read(&self, text: &[u8], recent: &Recent) -> Result<i64, TimeError> {
        let text = text.trim_ascii();
        let time_ms = match &self.format {
            None => self.read_any(text, recent)?,
            Some(format) => match format.read(text)? {
                Formatted::Epoch(time_ms) => time_ms,
                Formatted::Written(written) => self.place(written, recent)?,
            },
        };
        if (0..=TIME_MS_MAX).contains(&time_ms) { Ok(time_ms) } else { Err(TimeError::OutOfRange) }
    }

    fn read_any(&self, text: &[u8], recent: &Recent) -> Result<i64, TimeError> {
        match text {
            [_, _, _, _, b'-', ..] => {
                if let Some(written) = civil::parse_usual(text) {
                    return self.place(written?, recent);
                }
            }
            [_, _, b'/', ..] => {
                if let Some(written) = words::parse_log_time(text) {
                    return self.place(written?, recent);
                }
            }
            _ => {
                if let Some(numbered) = number::parse_plain(text) {
                    return self.place_number(numbered?, recent);
                }
            }
        }
        self.read_unusual(text, recent)
    }

    #[cold]
    fn read_unusual(&self, text: &[u8], recent: &Recent) -> Result<i64, TimeError> {
        match number::parse_decimal(text) {
            Err(TimeError::Unrecognised) => {}
            numbered => return self.place_number(numbered?, recent),
        }
        let text = text.strip_prefix(b"[").and_then(|inside| inside.strip_suffix(b"]")).unwrap_or(text);
        if civil::has_ambiguous_date(text) {
            return Err(TimeError::Ambiguous);
        }
        if civil::is_clock_alone(text) {
            return Err(TimeError::NoDate);
        }
        match civil::parse(text) {
            Err(TimeError::Unrecognised) => self.place(words::parse(text)?, recent),
            written => self.place(written?, recent),
        }
    }

    #[inline]
    fn place_number(&self, numbered: Numbered, recent: &Recent) -> Result<i64, TimeError> {
        match numbered {
            Numbered::Epoch(time_ms) => Ok(time_ms),
            Numbered::Calendar(local) => self.place(Numbered::local(local), recent),
        }
    }

    #[inline]
    fn place(&self, Written { local, zone }: Written, recent: &Recent) -> Result<i64, TimeError> {
        match (zone, &self.zone) {
            (WrittenZone::Offset(offset_ms), _) => Ok(local.as_utc_ms()? - offset_ms),
            (WrittenZone::Missing, None) => local.as_utc_ms(),
            (WrittenZone::Missing, Some(zone)) => zone::in_zone_ms(&local, zone, recent),
            (WrittenZone::Abbreviation(name), own) => zone::by_abbreviation_ms(&local, name, own.as_ref()),
        }
    }
}
