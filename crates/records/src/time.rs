//! From the text of a time field to milliseconds since 1970-01-01 00:00 UTC. Must not know: the clock, windows, where
//! the text came from.

use crate::error::{ConfigError, TimeError};
use jiff::civil;
use jiff::tz::TimeZone;

const SECOND_MS: i64 = 1_000;
const DAY_MS: i64 = 86_400 * SECOND_MS;
/// 9999-12-31 23:59:59.999 UTC.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// Reads times; those without a zone of their own are in the parser's.
///
/// | text | means |
/// |---|---|
/// | integer below 10^11 | seconds |
/// | 10^11 and more, at most 13 digits | milliseconds |
/// | 14 digits | `YYYYMMDDhhmmss`, UTC (index lines of web archives) |
/// | 15 and 16 digits | microseconds |
/// | 18 and 19 digits | nanoseconds |
/// | digits, a dot, digits | seconds and decimals; what is below a millisecond is cut off |
/// | `2000-10-10T13:55:36.5-07:00`, `...Z` | RFC 3339; a space or `t` may replace the `T` |
/// | `2000-10-10 13:55:36`, `...,250` | local time of the parser's zone; the fraction may follow a dot or a comma |
/// | `[10/Oct/2000:13:55:36 -0700]` | the common log format, with or without brackets |
///
/// Blanks around the text do not count. A leap second `:60` is the first second of the next minute. A local time that
/// a change of clocks repeats is its first occurrence; one that it skips is moved on by the length of the gap. Times
/// before 1970 and after 9999 are refused: in logs they are errors.
#[derive(Clone, Debug)]
pub struct TimeParser {
    zone: Option<TimeZone>,
}

impl TimeParser {
    /// A parser for `zone`, an IANA name such as `Europe/Berlin`; `UTC` is the usual one. The table of zones is built
    /// in, so that the same input means the same times on every machine.
    ///
    /// # Errors
    /// [`ConfigError::UnknownTimeZone`], with the nearest name.
    pub fn new(zone: &str) -> Result<Self, ConfigError> {
        if zone.eq_ignore_ascii_case("UTC") {
            return Ok(Self { zone: None });
        }
        let zones = jiff::tz::db();
        zones.get(zone).map(|zone| Self { zone: Some(zone) }).map_err(|_| {
            let names: Vec<String> = zones.available().map(|name| name.as_str().to_owned()).collect();
            let suggestion = crate::names::nearest(zone, names.iter().map(String::as_str));
            ConfigError::UnknownTimeZone { zone: zone.into(), suggestion }
        })
    }

    /// Milliseconds since 1970-01-01 00:00 UTC, from 0 to the end of the year 9999.
    ///
    /// ```
    /// use firstseen_records::{TimeError, TimeParser};
    /// let utc = TimeParser::new("UTC")?;
    /// assert_eq!(utc.parse(b"971211336"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"971211336000"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"971211336.0429"), Ok(971_211_336_042));
    /// assert_eq!(utc.parse(b"20001010205536"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"2000-10-10T13:55:36-07:00"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"[10/Oct/2000:13:55:36 -0700]"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"2000-10-10 20:55:36"), Ok(971_211_336_000));
    /// assert_eq!(TimeParser::new("Europe/Berlin")?.parse(b"2000-10-10 22:55:36"), Ok(971_211_336_000));
    /// assert_eq!(utc.parse(b"-5"), Err(TimeError::OutOfRange));
    /// # Ok::<(), firstseen_records::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`TimeError`] says why the text is no time.
    pub fn parse(&self, text: &[u8]) -> Result<i64, TimeError> {
        let text = text.trim_ascii();
        let time_ms = match text {
            [b'-', digits @ ..] if number(digits).is_some() || parse_decimal(digits).is_ok() => {
                return Err(TimeError::OutOfRange);
            }
            [_, _, _, _, b'-', ..] => self.parse_civil(text)?,
            [b'[', inside @ .., b']'] => parse_clf(inside)?,
            [_, _, b'/', ..] => parse_clf(text)?,
            _ => parse_number(text)?,
        };
        if (0..=TIME_MS_MAX).contains(&time_ms) { Ok(time_ms) } else { Err(TimeError::OutOfRange) }
    }

    /// `YYYY-MM-DD hh:mm:ss`, a fraction, an offset: the last two may be missing.
    fn parse_civil(&self, text: &[u8]) -> Result<i64, TimeError> {
        let (head, rest) = text.split_first_chunk::<19>().ok_or(TimeError::Unrecognised)?;
        let [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b't' | b' ', _, _, b':', _, _, b':', _, _] = head else {
            return Err(TimeError::Unrecognised);
        };
        let local = LocalTime {
            year: field(&head[0..4])?,
            month: field(&head[5..7])?,
            day: field(&head[8..10])?,
            hour: field(&head[11..13])?,
            minute: field(&head[14..16])?,
            second: field(&head[17..19])?,
        };
        let (fraction_ms, offset) = match rest {
            [b'.' | b',', rest @ ..] => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                (fraction_ms(&rest[..digits])?, &rest[digits..])
            }
            _ => (0, rest),
        };
        let local_ms = local.to_utc_ms()? + fraction_ms;
        match offset {
            [b'Z' | b'z'] => Ok(local_ms),
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => Ok(local_ms - offset_ms(*sign, &[*h1, *h2, *m1, *m2])?),
            [] => match &self.zone {
                None => Ok(local_ms),
                Some(zone) => Ok(local.in_zone_ms(zone)? + fraction_ms),
            },
            _ => Err(TimeError::Unrecognised),
        }
    }
}

/// `10/Oct/2000:13:55:36 -0700`
fn parse_clf(text: &[u8]) -> Result<i64, TimeError> {
    let text: &[u8; 26] = text.try_into().map_err(|_| TimeError::Unrecognised)?;
    let [_, _, b'/', _, _, _, b'/', _, _, _, _, b':', _, _, b':', _, _, b':', _, _, b' ', sign, offset @ ..] = text
    else {
        return Err(TimeError::Unrecognised);
    };
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let month = MONTHS.iter().zip(1..).find(|(name, _)| name[..] == text[3..6]).ok_or(TimeError::Unrecognised)?.1;
    let local = LocalTime {
        year: field(&text[7..11])?,
        month,
        day: field(&text[0..2])?,
        hour: field(&text[12..14])?,
        minute: field(&text[15..17])?,
        second: field(&text[18..20])?,
    };
    Ok(local.to_utc_ms()? - offset_ms(*sign, offset)?)
}

fn parse_number(text: &[u8]) -> Result<i64, TimeError> {
    let Some(value) = number(text) else { return parse_decimal(text) };
    match text.len() {
        14 => {
            let local = LocalTime {
                year: field(&text[0..4])?,
                month: field(&text[4..6])?,
                day: field(&text[6..8])?,
                hour: field(&text[8..10])?,
                minute: field(&text[10..12])?,
                second: field(&text[12..14])?,
            };
            local.to_utc_ms()
        }
        ..=13 if value < 100_000_000_000 => Ok(value * SECOND_MS),
        ..=13 => Ok(value),
        15 | 16 => Ok(value / 1_000),
        18 | 19 => Ok(value / 1_000_000),
        _ => Err(TimeError::OutOfRange),
    }
}

/// Seconds and decimals.
fn parse_decimal(text: &[u8]) -> Result<i64, TimeError> {
    let dot = text.iter().position(|&byte| byte == b'.').ok_or(TimeError::Unrecognised)?;
    let seconds = number(&text[..dot]).ok_or(TimeError::Unrecognised)?;
    let fraction_ms = fraction_ms(&text[dot + 1..])?;
    seconds.checked_mul(SECOND_MS).and_then(|ms| ms.checked_add(fraction_ms)).ok_or(TimeError::OutOfRange)
}

/// The first three decimals as milliseconds.
fn fraction_ms(digits: &[u8]) -> Result<i64, TimeError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(TimeError::Unrecognised);
    }
    let mut weight = SECOND_MS;
    Ok(digits.iter().take(3).fold(0, |sum, digit| {
        weight /= 10;
        sum + i64::from(digit - b'0') * weight
    }))
}

/// `-0700` is seven hours west of Greenwich.
fn offset_ms(sign: u8, digits: &[u8; 4]) -> Result<i64, TimeError> {
    let (hours, minutes) = (field(&digits[..2])?, field(&digits[2..])?);
    if hours > 23 || minutes > 59 {
        return Err(TimeError::NoSuchTime);
    }
    let offset_ms = i64::from(hours * 60 + minutes) * 60 * SECOND_MS;
    match sign {
        b'+' => Ok(offset_ms),
        b'-' => Ok(-offset_ms),
        _ => Err(TimeError::Unrecognised),
    }
}

fn field(digits: &[u8]) -> Result<i32, TimeError> {
    number(digits).and_then(|value| i32::try_from(value).ok()).ok_or(TimeError::Unrecognised)
}

/// Digits only, and a value that fits.
fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut value = 0i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(value)
}

struct LocalTime {
    year: i32,
    month: i32,
    day: i32,
    hour: i32,
    minute: i32,
    second: i32,
}

impl LocalTime {
    /// The time as if its fields were in UTC.
    fn to_utc_ms(&self) -> Result<i64, TimeError> {
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
        Ok(self.days() * DAY_MS + i64::from(seconds) * SECOND_MS)
    }

    /// Days since 1970-01-01 in the Gregorian calendar. The year begins in March here, so that the leap day is its
    /// last: month `m` of it begins on day `(153 m + 2) / 5`, and 306 days after a March follows the January.
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

    fn in_zone_ms(&self, zone: &TimeZone) -> Result<i64, TimeError> {
        let second = self.second.min(59);
        let fields = [self.month, self.day, self.hour, self.minute, second].map(|value| value as i8);
        let [month, day, hour, minute, _] = fields;
        let local = civil::DateTime::new(self.year as i16, month, day, hour, minute, fields[4], 0)
            .map_err(|_| TimeError::NoSuchTime)?;
        let timestamp = zone.to_ambiguous_timestamp(local).compatible().map_err(|_| TimeError::OutOfRange)?;
        Ok(timestamp.as_millisecond() + i64::from(self.second - second) * SECOND_MS)
    }
}
