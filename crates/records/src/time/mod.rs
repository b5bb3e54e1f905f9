//! Converts the text of a time field to milliseconds since 1970-01-01 00:00 UTC. The result depends only on the text,
//! the zone of the parser and the previous times, and never on the present time.

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

/// The greatest supported time, in milliseconds since 1970: 9999-12-31 23:59:59.999 UTC.
pub const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// Parses times. A time without a zone is in the parser's zone.
///
/// # Numbers
///
/// The number of digits in the whole part determines the meaning of a number:
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
/// A number may have decimals after a dot or a comma, an exponent (`1.7e9`) and a plus sign. Fractions of a millisecond
/// are ignored.
///
/// A number whose decimals are not all zero is not read as a date, unless it has 14 digits before the decimals. It
/// counts seconds since 1970 if it is below 253402300800, because this range covers all times up to the year 9999.
///
/// # Other texts
///
/// | text | means |
/// |---|---|
/// | `2000-10-10T13:55:36.5-07:00`, `2000/10/10 13:55:36,250`, `2000.10.10 13:55` | a date with the year first, and a time of day after a `T`, a `t` or a blank |
/// | `20001010T135536Z`, `20001010 13:55:36` | the same without separators |
/// | `2000-10-10` | midnight |
/// | `[10/Oct/2000:13:55:36 -0700]`, `10/Oct/2000:13:55:36.250` | the common log format, with or without brackets |
/// | `Tue, 10 Oct 2000 13:55:36 GMT`, `Tue Oct 10 13:55:36.5 2000`, `10-OCT-2000 13:55` | dates with the English name of a month |
/// | `10/11/2000`, `5.6.00`, `10-Oct-00` | rejected, because day, month and year can be confused |
/// | `Oct 10 13:55:36` | rejected, because the year would be a guess |
///
/// # Zones
///
/// An offset from UTC may follow a time of day, for example `Z`, `UTC`, `GMT`, `+02`, `+0200` or `+02:00`. Instead of
/// an offset, the abbreviation of a zone may follow. An abbreviation is accepted if the parser's zone uses it at that
/// time, or if it means the same everywhere, such as `CEST` or `PST`. A time that has neither an offset nor an
/// abbreviation is in the parser's zone. Numbers that are dates have neither, so they are in the parser's zone too.
///
/// # Special cases
///
/// Whitespace around the text is ignored. A leap second (`:60`) is treated as the first second of the next minute.
/// Times before 1970 or after 9999 are rejected, because in logs they are errors.
///
/// If clocks are set back, a local time occurs twice. [`parse`](Self::parse) then returns the first occurrence, and
/// [`parse_next`](Self::parse_next) returns the occurrence that is closer to the previous times. If clocks are set
/// forward, some local times are skipped. Such a local time is moved forward by the length of the gap.
#[derive(Clone, Debug)]
pub struct TimeParser {
    zone: Option<TimeZone>,
    format: Option<TimeFormat>,
    recent: Recent,
}

impl TimeParser {
    /// Creates a parser whose times are in `zone`, unless the text of a time contains its own zone. `zone` is an IANA
    /// name such as `UTC` or `Europe/Berlin`. The table of zones is compiled into the program, so the same input gives
    /// the same times on every machine.
    ///
    /// # Errors
    /// Returns [`ConfigError::UnknownTimeZone`] with the most similar name.
    pub fn new(zone: &str) -> Result<Self, ConfigError> {
        let utc = Self { zone: None, format: None, recent: Recent::default() };
        if zone.eq_ignore_ascii_case("UTC") {
            return Ok(utc);
        }
        let zones = jiff::tz::db();
        zones.get(zone).map(|zone| Self { zone: Some(zone), ..utc }).map_err(|_| {
            let names: Vec<String> = zones.available().map(|name| name.as_str().to_owned()).collect();
            let suggestion = crate::names::nearest_name(zone, names.iter().map(String::as_str)).map(str::to_owned);
            ConfigError::UnknownTimeZone { zone: zone.into(), suggestion }
        })
    }

    /// Returns the same parser, restricted to texts in this form.
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
    /// Returns a [`TimeError`] that says why the text is not a time.
    pub fn parse(&self, text: &[u8]) -> Result<i64, TimeError> {
        self.read(text, &Recent::default())
    }

    /// Parses the next time of an input. This function differs from [`parse`](Self::parse) only for a local time that
    /// occurs twice because clocks were set back. It compares the two occurrences with up to four previous times, and
    /// returns the occurrence that fits better.
    ///
    /// The comparison uses the most recent previous time that is within an hour of one of the occurrences. The function
    /// returns the occurrence that is closer to this previous time, or the second occurrence if both are equally close.
    /// If no previous time is within an hour, it returns the first occurrence.
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
    /// Returns the same errors as [`parse`](Self::parse).
    #[inline]
    pub fn parse_next(&mut self, text: &[u8]) -> Result<i64, TimeError> {
        let time_ms = self.read(text, &self.recent)?;
        if self.zone.is_some() {
            self.recent.push(time_ms);
        }
        Ok(time_ms)
    }

    /// Records that an earlier process has read the time `time_ms`, in milliseconds since 1970. It then counts as the
    /// time before the next time.
    pub fn continue_from(&mut self, time_ms: i64) {
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
