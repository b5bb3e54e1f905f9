//! Parses times that are written as numbers. Such a number is either a count of units since 1970, for example seconds,
//! or a date whose digits are written without separators, such as `20240101`.

use super::digits::{self, number};
use super::local::{LocalTime, SECOND_MS, Written, WrittenZone};
use crate::TimeError;
use std::ops::Range;

/// Years in which a number of 8, 10 or 12 digits can be a date.
const YEARS: Range<i64> = 1970..2200;

/// Limit between seconds and milliseconds for integers. Smaller integers count seconds, and greater integers count
/// milliseconds.
const SECONDS_END: i64 = 100_000_000_000;

/// Limit between seconds and milliseconds for numbers with decimals. All seconds up to the year 9999 are below it.
const SECONDS_END_WITH_POINT: i64 = 253_402_300_800;

/// Greatest absolute value of an exponent that is stored. A greater exponent gives a result that is not a time.
const EXPONENT_MAX: i64 = 100_000;

/// Unit of a number that counts from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

/// Time that a number stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbered {
    /// Milliseconds since 1970.
    Epoch(i64),
    /// A date whose digits were written as a number.
    Calendar(LocalTime),
}

impl Numbered {
    /// Returns a time in the zone of the parser, which applies to dates written as numbers.
    pub(super) fn local(local: LocalTime) -> Written<'static> {
        Written { local, zone: WrittenZone::Missing }
    }
}

/// A number that is not negative, with its whole part and its decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    whole: i64,
    /// Decimals in thousandths.
    thousandths: i64,
    /// Whether the number is written with decimals, which may be zeros, and without an exponent.
    has_point: bool,
    has_fraction: bool,
}

impl Decimal {
    fn integer(whole: i64) -> Self {
        Self { whole, thousandths: 0, has_point: false, has_fraction: false }
    }
}

/// Reads `digits` or `digits . digits`, the form of most numbers. Returns `None` if the text has another form.
#[inline]
pub(super) fn parse_plain(text: &[u8]) -> Option<Result<Numbered, TimeError>> {
    let mut whole = 0u64;
    let mut digits = 0;
    // An integer of 19 digits fits into 64 bits.
    for byte in text.iter().take(19) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        whole = whole * 10 + u64::from(digit);
        digits += 1;
    }
    match &text[digits..] {
        [] if digits > 0 => {
            Some(i64::try_from(whole).map_or(Err(TimeError::OutOfRange), |whole| by_digits(whole, digits)))
        }
        [b'.', fraction @ ..] if digits > 0 => {
            let decimal = with_fraction(i64::try_from(whole).ok()?, fraction)?;
            Some(by_size(decimal, digits))
        }
        _ => None,
    }
}

/// Returns the number with this whole part and these decimals. Returns `None` if the decimals are not digits.
fn with_fraction(whole: i64, fraction: &[u8]) -> Option<Decimal> {
    let mut thousandths = 0;
    let mut weight = 100;
    let mut any = 0;
    for digit in fraction {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        thousandths += i64::from(digit) * weight;
        weight /= 10;
        any |= digit;
    }
    (!fraction.is_empty()).then_some(Decimal { whole, thousandths, has_point: true, has_fraction: any != 0 })
}

/// Reads a number with decimals, with an exponent, or with a sign.
///
/// # Errors
/// Returns [`TimeError::Unrecognised`] if the text is not a number, and [`TimeError::OutOfRange`] if it is negative or
/// too large.
pub(super) fn parse_decimal(text: &[u8]) -> Result<Numbered, TimeError> {
    let decimal = read_decimal(text)?;
    by_size(decimal, decimal.whole.checked_ilog10().map_or(1, |log| log as usize + 1))
}

/// Returns the time of a number whose whole part has `digits` digits. The documentation of
/// [`TimeParser`](super::TimeParser) has the rule.
fn by_size(decimal: Decimal, digits: usize) -> Result<Numbered, TimeError> {
    if !decimal.has_fraction {
        if let Some(local) = date(decimal.whole, digits)? {
            return Ok(Numbered::Calendar(local));
        }
    } else if digits == 14 {
        let fraction_ms = decimal.thousandths;
        return Ok(Numbered::Calendar(LocalTime { fraction_ms, ..calendar(decimal.whole, digits)? }));
    } else if digits == 17 {
        return Err(TimeError::Unrecognised);
    }
    let unit = if decimal.has_point && decimal.whole < SECONDS_END_WITH_POINT {
        Unit::Seconds
    } else {
        unit(decimal.whole, digits)?
    };
    unit.time_ms(decimal).map(Numbered::Epoch)
}

/// Returns the time of an integer with `digits` digits. The documentation of [`TimeParser`](super::TimeParser) has the
/// rule.
#[inline]
fn by_digits(value: i64, digits: usize) -> Result<Numbered, TimeError> {
    match date(value, digits)? {
        Some(local) => Ok(Numbered::Calendar(local)),
        None => unit(value, digits)?.time_ms(Decimal::integer(value)).map(Numbered::Epoch),
    }
}

/// Returns the date whose digits an integer has. Returns `None` if the integer counts from 1970.
#[inline]
fn date(value: i64, digits: usize) -> Result<Option<LocalTime>, TimeError> {
    match digits {
        8 if is_in_years(value, 10_000) || looks_like_day(value) => calendar(value, 8).map(Some),
        10 if is_in_years(value, 1_000_000) => Ok(real_date(value, 10)),
        12 if is_in_years(value, 100_000_000) => Ok(real_date(value, 12)),
        14 | 17 => calendar(value, digits).map(Some),
        _ => Ok(None),
    }
}

/// Returns whether a number of eight digits is probably a date in a year outside the usual range, for example a
/// birthday, or `99991231`, which some programs write for a time without end.
///
/// The same number could also mean seconds since 1970. It would then be a time between 1970 and 1973, which is unlikely
/// in a log.
fn looks_like_day(value: i64) -> bool {
    const YEAR_MIN: i64 = 1800;
    let year = value / 10_000;
    let month = value / 100 % 100;
    let day = value % 100;
    year >= YEAR_MIN && (1..=12).contains(&month) && (1..=31).contains(&day)
}

/// Returns whether the digits of a number begin with a plausible year. `year` is the weight of the digits of the year.
#[inline]
fn is_in_years(value: i64, year: i64) -> bool {
    (YEARS.start * year..YEARS.end * year).contains(&value)
}

/// Returns the date whose digits a number has, if the date and the time of day exist.
fn real_date(value: i64, digits: usize) -> Option<LocalTime> {
    calendar(value, digits).ok().filter(|local| local.as_utc_ms().is_ok())
}

/// Returns the fields of a number of at most 17 digits, the first four of which are a year. Missing fields are zero.
fn calendar(value: i64, digits: usize) -> Result<LocalTime, TimeError> {
    let mut rest = value;
    for _ in digits..17 {
        rest = rest.checked_mul(10).ok_or(TimeError::OutOfRange)?;
    }
    let mut take = [1_000, 100, 100, 100, 100, 100].map(|range| {
        let part = rest % range;
        rest /= range;
        part as i32
    });
    take.reverse();
    let [month, day, hour, minute, second, fraction_ms] = take;
    let year = rest as i32;
    if year < 1970 {
        return Err(TimeError::OutOfRange);
    }
    Ok(LocalTime { year, month, day, hour, minute, second, fraction_ms: fraction_ms.into() })
}

/// Returns the unit of a number since 1970, based on its size.
#[inline]
fn unit(value: i64, digits: usize) -> Result<Unit, TimeError> {
    match digits {
        ..=13 if value < SECONDS_END => Ok(Unit::Seconds),
        ..=13 => Ok(Unit::Milliseconds),
        15 | 16 => Ok(Unit::Microseconds),
        18 | 19 => Ok(Unit::Nanoseconds),
        _ => Err(TimeError::OutOfRange),
    }
}

impl Unit {
    /// Parses a text that counts in this unit, and returns milliseconds since 1970.
    ///
    /// # Errors
    /// Returns [`TimeError::NotInFormat`] if the text is not a number, and [`TimeError::OutOfRange`] if it is negative
    /// or too large.
    pub(super) fn parse(self, text: &[u8]) -> Result<i64, TimeError> {
        let decimal = match number(text) {
            Some(whole) => Decimal::integer(whole),
            None => read_decimal(text).map_err(|error| match error {
                TimeError::Unrecognised => TimeError::NotInFormat,
                error => error,
            })?,
        };
        self.time_ms(decimal)
    }

    #[inline]
    fn time_ms(self, count: Decimal) -> Result<i64, TimeError> {
        match self {
            Self::Seconds => {
                let whole_ms = count.whole.checked_mul(SECOND_MS).ok_or(TimeError::OutOfRange)?;
                whole_ms.checked_add(count.thousandths).ok_or(TimeError::OutOfRange)
            }
            Self::Milliseconds => Ok(count.whole),
            Self::Microseconds => Ok(count.whole / 1_000),
            Self::Nanoseconds => Ok(count.whole / 1_000_000),
        }
    }
}

/// Reads `[+|-] digits [(.|,) digits] [(e|E) [+|-] digits]`.
fn read_decimal(text: &[u8]) -> Result<Decimal, TimeError> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut cursor = digits::Cursor::new(text);
    let whole = take_digits(&mut cursor)?;
    let has_point = cursor.skip(b'.') || cursor.skip(b',');
    let fraction = if has_point { take_digits(&mut cursor)? } else { b"" };
    let exponent = if cursor.skip(b'e') || cursor.skip(b'E') { read_exponent(&mut cursor)? } else { 0 };
    if !cursor.is_at_end() {
        return Err(TimeError::Unrecognised);
    }
    if is_negative {
        return Err(TimeError::OutOfRange);
    }
    let has_point = has_point && exponent == 0;
    Ok(Decimal { has_point, ..shifted(whole, fraction, exponent)? })
}

/// Reads at least one digit.
fn take_digits<'a>(cursor: &mut digits::Cursor<'a>) -> Result<&'a [u8], TimeError> {
    let (digits, rest) = cursor.rest.split_at(cursor.digits_ahead());
    cursor.rest = rest;
    if digits.is_empty() { Err(TimeError::Unrecognised) } else { Ok(digits) }
}

fn read_exponent(cursor: &mut digits::Cursor) -> Result<i64, TimeError> {
    let is_negative = cursor.skip(b'-');
    if !is_negative {
        cursor.skip(b'+');
    }
    let digits = take_digits(cursor)?;
    // An exponent that does not fit is replaced with the maximum, because it is too large in any case.
    let size = digits.iter().fold(0, |sum: i64, digit| (sum * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Ok(if is_negative { -size } else { size })
}

/// Returns the number with these digits, with its decimal point moved by `exponent` places to the right.
fn shifted(whole: &[u8], fraction: &[u8], exponent: i64) -> Result<Decimal, TimeError> {
    let mut result = Decimal::integer(0);
    // The place of a digit is the exponent of its power of ten.
    let mut place = whole.len() as i64 - 1 + exponent;
    for digit in whole.iter().chain(fraction) {
        let digit = i64::from(digit - b'0');
        match place {
            0.. => {
                result.whole = result.whole.checked_mul(10).ok_or(TimeError::OutOfRange)?;
                result.whole = result.whole.checked_add(digit).ok_or(TimeError::OutOfRange)?;
            }
            -3..=-1 => result.thousandths += digit * [100, 10, 1][(-1 - place) as usize],
            _ => {}
        }
        result.has_fraction |= place < 0 && digit != 0;
        place -= 1;
    }
    // The places down to the decimal point that have no written digit are filled with zeros.
    if result.whole != 0 {
        for _ in 0..=place {
            result.whole = result.whole.checked_mul(10).ok_or(TimeError::OutOfRange)?;
        }
    }
    Ok(result)
}
