//! Parses times that begin with the year, and the time of day, which all forms share. This module does not depend on
//! the names of months.

use super::digits::{Cursor, field};
use super::local::{LocalTime, Written, WrittenZone};
use super::zone::read_zone;
use crate::TimeError;

/// Parses a time in the form `YYYY-MM-DD hh:mm:ss`, with an optional fraction of a second and an optional zone. Most
/// logs have this form, so each part is read at a fixed offset, which is fast. Returns `None` if the text has another
/// form.
#[inline]
pub(super) fn parse_usual(text: &[u8]) -> Option<Result<Written<'_>, TimeError>> {
    let (head, rest) = text.split_first_chunk::<19>()?;
    let [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b't' | b' ', _, _, b':', _, _, b':', _, _] = head else {
        return None;
    };
    Some(read_usual(head, rest))
}

fn read_usual<'a>(head: &[u8; 19], rest: &'a [u8]) -> Result<Written<'a>, TimeError> {
    let mut local = LocalTime {
        year: field(&head[0..4])?,
        month: field(&head[5..7])?,
        day: field(&head[8..10])?,
        hour: field(&head[11..13])?,
        minute: field(&head[14..16])?,
        second: field(&head[17..19])?,
        fraction_ms: 0,
    };
    let mut cursor = Cursor::new(rest);
    local.fraction_ms = cursor.fraction_ms()?;
    let zone = match cursor.rest {
        [] => WrittenZone::Missing,
        [b'Z' | b'z'] => WrittenZone::UTC,
        zone => read_zone(zone)?,
    };
    Ok(Written { local, zone })
}

/// Parses a time that begins with a year of four digits. Examples are `2024-01-01`, `2024/1/1 9:05`,
/// `20240101T130000Z`, `20240101 13:00:00` and `20240101130000.5Z`. The time of day and the zone may be missing.
///
/// # Errors
/// Returns [`TimeError::Unrecognised`] if the text has another form.
pub(super) fn parse(text: &[u8]) -> Result<Written<'_>, TimeError> {
    let mut cursor = Cursor::new(text);
    let digits = cursor.digits_ahead();
    let mut local = LocalTime { year: cursor.number(4)?, ..LocalTime::default() };
    match digits {
        4 => {
            let separator = cursor.rest.first().copied().filter(|byte| b"-/.".contains(byte));
            let separator = separator.ok_or(TimeError::Unrecognised)?;
            cursor.skip(separator);
            local.month = cursor.short_number()?;
            if !cursor.skip(separator) {
                return Err(TimeError::Unrecognised);
            }
            local.day = cursor.short_number()?;
        }
        8 | 14 => (local.month, local.day) = (cursor.number(2)?, cursor.number(2)?),
        _ => return Err(TimeError::Unrecognised),
    }
    if digits == 14 {
        read_compact_clock(&mut cursor, &mut local)?;
        return Ok(Written { local, zone: read_zone(cursor.rest)? });
    }
    if cursor.is_at_end() {
        return Ok(Written { local, zone: WrittenZone::Missing });
    }
    let has_blank = cursor.rest.starts_with(b" ");
    if has_blank {
        cursor.rest = cursor.rest.trim_ascii_start();
    } else if !cursor.skip(b'T') && !cursor.skip(b't') {
        return Err(TimeError::Unrecognised);
    }
    read_clock(&mut cursor, &mut local)?;
    Ok(Written { local, zone: read_zone(cursor.rest)? })
}

/// Reads a time of day: `13:00:00.5`, `9:05`, `130000.5`, `1300` or `13`.
///
/// # Errors
/// Returns [`TimeError::Unrecognised`] if the text has another form.
pub(super) fn read_clock(cursor: &mut Cursor, local: &mut LocalTime) -> Result<(), TimeError> {
    match cursor.digits_ahead() {
        1 | 2 => read_clock_with_colons(cursor, local),
        4 | 6 => read_compact_clock(cursor, local),
        _ => Err(TimeError::Unrecognised),
    }
}

fn read_clock_with_colons(cursor: &mut Cursor, local: &mut LocalTime) -> Result<(), TimeError> {
    local.hour = cursor.short_number()?;
    if !cursor.skip(b':') {
        return Ok(());
    }
    local.minute = two_digits(cursor)?;
    if !cursor.skip(b':') {
        return Ok(());
    }
    local.second = two_digits(cursor)?;
    local.fraction_ms = cursor.fraction_ms()?;
    Ok(())
}

/// Reads `hhmmss` with or without a fraction, or `hhmm`.
fn read_compact_clock(cursor: &mut Cursor, local: &mut LocalTime) -> Result<(), TimeError> {
    let has_seconds = cursor.digits_ahead() == 6;
    (local.hour, local.minute) = (cursor.number(2)?, cursor.number(2)?);
    if has_seconds {
        local.second = cursor.number(2)?;
        local.fraction_ms = cursor.fraction_ms()?;
    }
    Ok(())
}

fn two_digits(cursor: &mut Cursor) -> Result<i32, TimeError> {
    if cursor.digits_ahead() == 2 { cursor.number(2) } else { Err(TimeError::Unrecognised) }
}

/// Returns whether the text begins with a date whose day and month cannot be distinguished, such as `10/11/2024` or
/// `5.6.24`.
pub(super) fn has_ambiguous_date(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    let Ok(_) = cursor.short_number() else { return false };
    let Some(separator) = cursor.rest.first().copied().filter(|byte| b"-/.".contains(byte)) else { return false };
    cursor.skip(separator);
    if cursor.short_number().is_err() || !cursor.skip(separator) {
        return false;
    }
    let year_digits = cursor.digits_ahead();
    let is_over = matches!(cursor.rest.get(year_digits), None | Some(b' ' | b',' | b':' | b'T'));
    matches!(year_digits, 2 | 4) && is_over
}

/// Returns whether the text consists only of a time of day.
pub(super) fn is_clock_alone(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    let is_clock = text.contains(&b':') && read_clock_with_colons(&mut cursor, &mut LocalTime::default()).is_ok();
    is_clock && read_zone(cursor.rest).is_ok()
}
