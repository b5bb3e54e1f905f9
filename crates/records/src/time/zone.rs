//! Parses the time zone that is written after a time, and converts local times to milliseconds since 1970. A local time
//! without a written zone is in the zone of the parser.

use super::digits::field;
use super::local::{LocalTime, SECOND_MS, WrittenZone};
use super::recent::Recent;
use crate::TimeError;
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

const MINUTE_MS: i64 = 60 * SECOND_MS;

/// Abbreviations of time zones that mean the same offset wherever they are widely used. The offset is in minutes east
/// of Greenwich. Abbreviations with several meanings are not included. Examples are CST (America, China, Cuba), IST
/// (India, Ireland, Israel), BST (Britain, Bangladesh) and AST (the Atlantic, Arabia).
const ABBREVIATIONS: [(&str, i32); 31] = [
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("MEZ", 60),
    ("MESZ", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("SAST", 120),
    ("EST", -300),
    ("EDT", -240),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
    ("AKST", -540),
    ("AKDT", -480),
    ("HST", -600),
    ("BRT", -180),
    ("JST", 540),
    ("KST", 540),
    ("HKT", 480),
    ("SGT", 480),
    ("AWST", 480),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
];

/// Parses the optional time zone after a time of day. The zone is `Z`, `UTC`, `GMT`, a numeric offset or an
/// abbreviation, and blanks may precede it. Some programs write the name of the zone after a numeric offset, as in
/// `+0000 UTC`, `+0100 (CET)` or `+01:00[Europe/Berlin]`. Such a name is ignored, because the offset already says the
/// same.
///
/// # Errors
/// Returns [`TimeError::Unrecognised`] for any other text, and [`TimeError::NoSuchTime`] for an offset of a day or
/// more.
pub(super) fn read_zone(text: &[u8]) -> Result<WrittenZone<'_>, TimeError> {
    let text = text.trim_ascii();
    match text {
        [] => return Ok(WrittenZone::Missing),
        [b'Z' | b'z'] => return Ok(WrittenZone::UTC),
        [b'+' | b'-', ..] => return read_written_offset(text),
        _ => {}
    }
    let letters = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (name, rest) = text.split_at(letters);
    let is_utc = [&b"UTC"[..], b"GMT", b"UT"].iter().any(|utc| name.eq_ignore_ascii_case(utc));
    match rest {
        [] if is_utc => Ok(WrittenZone::UTC),
        // `GMT+1` is not accepted, because some programs mean one hour east of Greenwich and others mean west.
        [b'+' | b'-', offset @ ..] if is_utc && offset.len() >= 4 => read_written_offset(rest),
        [] if (3..=5).contains(&letters) && name.iter().all(u8::is_ascii_uppercase) => {
            Ok(WrittenZone::Abbreviation(name))
        }
        _ => Err(TimeError::Unrecognised),
    }
}

/// Reads `+hh`, `+hhmm` or `+hh:mm`, and an optional name after it.
fn read_written_offset(text: &[u8]) -> Result<WrittenZone<'_>, TimeError> {
    let (zone, rest) = match text {
        [sign, h1, h2, b':', m1, m2, rest @ ..] => (read_offset(*sign, &[*h1, *h2], &[*m1, *m2])?, rest),
        [sign, h1, h2, m1, m2, rest @ ..] if m1.is_ascii_digit() => {
            (read_offset(*sign, &[*h1, *h2], &[*m1, *m2])?, rest)
        }
        [sign, h1, h2, rest @ ..] => (read_offset(*sign, &[*h1, *h2], b"00")?, rest),
        _ => return Err(TimeError::Unrecognised),
    };
    let is_repetition = match rest {
        [] | [b'[', .., b']'] | [b' ', b'(', .., b')'] => true,
        [b' ', name @ ..] => (2..=5).contains(&name.len()) && name.iter().all(u8::is_ascii_uppercase),
        _ => false,
    };
    if is_repetition { Ok(zone) } else { Err(TimeError::Unrecognised) }
}

/// Returns the offset with this sign, hours and minutes. For example, `-`, `07` and `00` are seven hours west of
/// Greenwich.
///
/// # Errors
/// Returns [`TimeError::NoSuchTime`] for an offset of a day or more, and [`TimeError::Unrecognised`] for bytes that are
/// not digits.
pub(super) fn read_offset(sign: u8, hours: &[u8], minutes: &[u8]) -> Result<WrittenZone<'static>, TimeError> {
    let hours = field(hours)?;
    let minutes = field(minutes)?;
    if hours > 23 || minutes > 59 {
        return Err(TimeError::NoSuchTime);
    }
    let offset_ms = i64::from(hours * 60 + minutes) * MINUTE_MS;
    Ok(WrittenZone::Offset(if sign == b'-' { -offset_ms } else { offset_ms }))
}

/// Returns a local time in `zone` as milliseconds since 1970. If clocks are set back and the local time occurs twice,
/// `recent` chooses the occurrence. If clocks are set forward and the local time is skipped, it is moved forward by the
/// length of the gap.
///
/// # Errors
/// Returns [`TimeError::NoSuchTime`] if the date or the time of day does not exist.
pub(super) fn in_zone_ms(local: &LocalTime, zone: &TimeZone, recent: &Recent) -> Result<i64, TimeError> {
    let as_utc_ms = local.as_utc_ms()?;
    let ambiguous = zone.to_ambiguous_timestamp(civil_time(local)?);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => Ok(as_utc_ms - milliseconds(offset)),
        // The skipped time is interpreted with the offset before the change.
        AmbiguousOffset::Gap { before, .. } => Ok(as_utc_ms - milliseconds(before)),
        AmbiguousOffset::Fold { before, after } => {
            Ok(recent.choose(as_utc_ms - milliseconds(before), as_utc_ms - milliseconds(after)))
        }
    }
}

/// Returns a local time with the abbreviation of a zone, such as `CET`, as milliseconds since 1970. If `zone`, which is
/// the zone of the parser, uses this abbreviation at that time, the offset of `zone` applies. Otherwise the offset in
/// [`ABBREVIATIONS`] applies.
///
/// # Errors
/// Returns [`TimeError::UnknownZone`] if the abbreviation has no meaning, and [`TimeError::NoSuchTime`] if the date or
/// the time of day does not exist.
pub(super) fn by_abbreviation_ms(local: &LocalTime, name: &[u8], zone: Option<&TimeZone>) -> Result<i64, TimeError> {
    let as_utc_ms = local.as_utc_ms()?;
    if let Some(zone) = zone {
        let (first, second) = match zone.to_ambiguous_timestamp(civil_time(local)?).offset() {
            AmbiguousOffset::Unambiguous { offset } => (offset, offset),
            AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => (before, after),
        };
        for offset in [first, second] {
            let time_ms = as_utc_ms - milliseconds(offset);
            let instant = Timestamp::from_millisecond(time_ms).map_err(|_| TimeError::OutOfRange)?;
            if zone.to_offset_info(instant).abbreviation().as_bytes() == name {
                return Ok(time_ms);
            }
        }
    }
    let known = ABBREVIATIONS.iter().find(|(known, _)| known.as_bytes() == name);
    known.map(|(_, minutes)| as_utc_ms - i64::from(*minutes) * MINUTE_MS).ok_or(TimeError::UnknownZone)
}

fn milliseconds(offset: Offset) -> i64 {
    i64::from(offset.seconds()) * SECOND_MS
}

/// Returns the time in the form that the tables of zones need, where every minute has 60 seconds.
fn civil_time(local: &LocalTime) -> Result<civil::DateTime, TimeError> {
    let [month, day, hour, minute, second] =
        [local.month, local.day, local.hour, local.minute, local.second.min(59)].map(|value| value as i8);
    let year = i16::try_from(local.year).map_err(|_| TimeError::OutOfRange)?;
    civil::DateTime::new(year, month, day, hour, minute, second, 0).map_err(|_| TimeError::NoSuchTime)
}
