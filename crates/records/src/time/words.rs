//! Parses times that contain the name of a month. Such times occur in web server logs, in e-mail and HTTP headers, and
//! in the output of `asctime` and `date`.

use super::civil::read_clock;
use super::digits::{Cursor, field};
use super::local::{LocalTime, Written, WrittenZone};
use super::zone::{read_offset, read_zone};
use crate::TimeError;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Reads `10/Oct/2000:13:55:36 -0700`, the form of web servers, by the positions of its bytes. Returns `None` if the
/// text has another form.
#[inline]
pub(super) fn parse_log_time(text: &[u8]) -> Option<Result<Written<'static>, TimeError>> {
    let text: &[u8; 26] = text.try_into().ok()?;
    let [_, _, b'/', m1, m2, m3, b'/', _, _, _, _, b':', _, _, b':', _, _, b':', _, _, b' ', sign, offset @ ..] = text
    else {
        return None;
    };
    let sign = [b'+', b'-'].contains(sign).then_some(*sign)?;
    let month = match &[*m1, *m2, *m3] {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    };
    Some(read_log_time(text, month, sign, offset))
}

fn read_log_time(text: &[u8; 26], month: i32, sign: u8, offset: &[u8; 4]) -> Result<Written<'static>, TimeError> {
    let local = LocalTime {
        year: field(&text[7..11])?,
        month,
        day: field(&text[0..2])?,
        hour: field(&text[12..14])?,
        minute: field(&text[15..17])?,
        second: field(&text[18..20])?,
        fraction_ms: 0,
    };
    Ok(Written { local, zone: read_offset(sign, &offset[..2], &offset[2..])? })
}

/// Parts of a time that were found so far.
#[derive(Default)]
struct Found<'a> {
    year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    clock: Option<LocalTime>,
    zone: Option<WrittenZone<'a>>,
    has_weekday: bool,
}

/// Parses a time that contains the name of a month. The words and numbers may come in any order that is not ambiguous.
/// Examples are `Tue, 15 Nov 1994 08:12:31 GMT`, `Tue Nov 15 08:12:31 CET 1994`, `10/Oct/2000:13:55:36.5` and
/// `01-OCT-2024 13:55`.
///
/// # Errors
/// Returns [`TimeError::NoYear`] for such a time without a year, [`TimeError::Ambiguous`] for a year of two digits, and
/// [`TimeError::Unrecognised`] for any other text.
pub(super) fn parse(text: &[u8]) -> Result<Written<'_>, TimeError> {
    let mut found = Found::default();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let word = rest[..end].strip_suffix(b",").unwrap_or(&rest[..end]);
        if word.starts_with(b"(") {
            // A comment after the offset, as in mail, must be the last part.
            return if rest.ends_with(b")") && found.zone.is_some() {
                found.finish()
            } else {
                Err(TimeError::Unrecognised)
            };
        }
        found.take(word)?;
        rest = rest[end..].trim_ascii_start();
    }
    found.finish()
}

impl<'a> Found<'a> {
    fn take(&mut self, word: &'a [u8]) -> Result<(), TimeError> {
        let Some(first) = word.first() else { return Err(TimeError::Unrecognised) };
        match first {
            b'+' | b'-' => self.take_zone(word),
            _ if first.is_ascii_alphabetic() => self.take_name(word),
            _ if !first.is_ascii_digit() => Err(TimeError::Unrecognised),
            _ if word.iter().all(u8::is_ascii_digit) => self.take_number(word),
            _ => match word.iter().find(|byte| !byte.is_ascii_digit()) {
                Some(b':') => self.take_clock(word),
                _ => self.take_date(word),
            },
        }
    }

    fn take_name(&mut self, word: &'a [u8]) -> Result<(), TimeError> {
        let name = word.strip_suffix(b".").unwrap_or(word);
        match (place_in(&MONTHS, name), place_in(&WEEKDAYS, name)) {
            (Some(month), _) => put(&mut self.month, month),
            (None, Some(_)) if !self.has_weekday => {
                self.has_weekday = true;
                Ok(())
            }
            _ => self.take_zone(word),
        }
    }

    /// Reads a zone, which must follow the time of day.
    fn take_zone(&mut self, word: &'a [u8]) -> Result<(), TimeError> {
        match (self.clock, self.zone) {
            // In `+0000 UTC`, the offset already determines the time.
            (Some(_), Some(WrittenZone::Offset(_))) if word.iter().all(u8::is_ascii_alphabetic) => Ok(()),
            (Some(_), _) => put(&mut self.zone, read_zone(word)?),
            (None, _) => Err(TimeError::Unrecognised),
        }
    }

    fn take_number(&mut self, word: &[u8]) -> Result<(), TimeError> {
        match word.len() {
            4 => put(&mut self.year, field(word)?),
            1 | 2 => put(&mut self.day, field(word)?),
            _ => Err(TimeError::Unrecognised),
        }
    }

    /// Reads a time of day such as `13:55:36.5`, and a zone that follows directly.
    fn take_clock(&mut self, word: &'a [u8]) -> Result<(), TimeError> {
        let mut cursor = Cursor::new(word);
        let mut clock = LocalTime::default();
        read_clock(&mut cursor, &mut clock)?;
        put(&mut self.clock, clock)?;
        if cursor.is_at_end() { Ok(()) } else { self.take_zone(cursor.rest) }
    }

    /// Reads `10/Oct/2000` or `10-Oct-2000`, and a time of day after a colon or a `T`.
    fn take_date(&mut self, word: &'a [u8]) -> Result<(), TimeError> {
        let mut cursor = Cursor::new(word);
        put(&mut self.day, cursor.short_number()?)?;
        let separator = cursor.rest.first().copied().filter(|byte| b"-/".contains(byte));
        let separator = separator.ok_or(TimeError::Unrecognised)?;
        cursor.skip(separator);
        let letters = cursor.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (name, rest) = cursor.rest.split_at(letters);
        cursor.rest = rest;
        put(&mut self.month, place_in(&MONTHS, name).ok_or(TimeError::Unrecognised)?)?;
        if !cursor.skip(separator) {
            return Err(TimeError::Unrecognised);
        }
        match cursor.digits_ahead() {
            4 => put(&mut self.year, cursor.number(4)?)?,
            2 => return Err(TimeError::Ambiguous),
            _ => return Err(TimeError::Unrecognised),
        }
        if cursor.is_at_end() {
            Ok(())
        } else if cursor.skip(b':') || cursor.skip(b'T') {
            self.take_clock(cursor.rest)
        } else {
            Err(TimeError::Unrecognised)
        }
    }

    fn finish(self) -> Result<Written<'a>, TimeError> {
        let (Some(month), Some(day)) = (self.month, self.day) else { return Err(TimeError::Unrecognised) };
        let year = self.year.ok_or(TimeError::NoYear)?;
        let local = LocalTime { year, month, day, ..self.clock.unwrap_or_default() };
        Ok(Written { local, zone: self.zone.unwrap_or(WrittenZone::Missing) })
    }
}

/// Sets a part of a time. Returns an error if the part was already set.
fn put<T>(part: &mut Option<T>, value: T) -> Result<(), TimeError> {
    match part.replace(value) {
        None => Ok(()),
        Some(_) => Err(TimeError::Unrecognised),
    }
}

/// Returns the position of a name among `names`, starting at 1. The name is written in full or as its first three
/// letters, in any case.
fn place_in(names: &[&str], word: &[u8]) -> Option<i32> {
    let found = names
        .iter()
        .map(|name| name.as_bytes())
        .zip(1..)
        .find(|(name, _)| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(&name[..3]));
    found.map(|(_, place)| place)
}
