//! Compares times with the calendar of the `jiff` crate, and tests the forms that are rejected. `time_forms.rs` tests
//! the individual forms.

use firstseen_records::{TimeError, TimeFormat, TimeParser};
use jiff::{Timestamp, tz::TimeZone};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_form_of_an_instant_is_the_same(time_ms in 0..253_402_214_400_000i64, offset_minutes in -1_439..1_440i32) {
        let instant = Timestamp::from_millisecond(time_ms).unwrap();
        let offset = jiff::tz::Offset::from_seconds(offset_minutes * 60).unwrap();
        let there = offset.to_datetime(instant);
        let sign = if offset_minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset_minutes.abs() / 60, offset_minutes.abs() % 60);
        let whole_seconds = time_ms / 1_000 * 1_000;
        let utc = TimeParser::new("UTC").unwrap();
        let parse = |text: String| utc.parse(text.as_bytes());
        prop_assert_eq!(parse(format!("{instant:.3}")), Ok(time_ms));
        if (0..=9_999).contains(&there.year()) {
            let there_rfc = there.strftime("%Y-%m-%dT%H:%M:%S%.3f");
            prop_assert_eq!(parse(format!("{there_rfc}{sign}{hours:02}:{minutes:02}")), Ok(time_ms));
            let there_log = there.strftime("%d/%b/%Y:%H:%M:%S");
            prop_assert_eq!(parse(format!("[{there_log} {sign}{hours:02}{minutes:02}]")), Ok(whole_seconds));
        }
        prop_assert_eq!(parse(format!("{}", instant.strftime("%Y%m%d%H%M%S"))), Ok(whole_seconds));
        prop_assert_eq!(parse(format!("{}", instant.strftime("%Y%m%d%H%M%S%3f"))), Ok(time_ms));
        prop_assert_eq!(parse(format!("{}", instant.strftime("%Y%m%dT%H%M%S,%3fZ"))), Ok(time_ms));
        prop_assert_eq!(parse(format!("{}", instant.strftime("%a, %d %b %Y %H:%M:%S GMT"))), Ok(whole_seconds));
        prop_assert_eq!(parse(format!("{}", instant.strftime("%a %b %e %H:%M:%S%.3f %Y"))), Ok(time_ms));
        prop_assert_eq!(parse(format!("{}.{:03}", time_ms / 1_000, time_ms % 1_000)), Ok(time_ms));
    }

    #[test]
    fn local_times_are_those_of_the_zone(time_ms in 0..4_102_444_800_000i64) {
        let instant = Timestamp::from_millisecond(time_ms).unwrap();
        let zone = TimeZone::get("America/New_York").unwrap();
        let local = zone.to_datetime(instant);
        let parsed = TimeParser::new("America/New_York").unwrap().parse(local.strftime("%Y-%m-%d %H:%M:%S,%3f").to_string().as_bytes());
        let expected = zone.to_ambiguous_timestamp(local).compatible().unwrap().as_millisecond();
        prop_assert_eq!(parsed, Ok(expected));
        prop_assert!(expected == time_ms || expected == time_ms - 3_600_000, "a repeated hour is its first occurrence");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000, rng_seed: RngSeed::Fixed(12), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_a_time_in_range_or_refused(
        text in "([0-9]{1,20}|[-+.,:/ TZe()\\[\\]%]|Oct|Nov|Tue|CET|UTC|1994|[0-9]{2}){0,9}",
        pattern in "(%[-_0]?[a-zA-Z.:]|%Y|%m|%d|%H|%f|[ /:T])*",
    ) {
        for zone in ["UTC", "Australia/Lord_Howe"] {
            let mut parser = TimeParser::new(zone).unwrap();
            let parsed = parser.parse_next(text.as_bytes());
            prop_assert!(parsed.is_err() || (0..=253_402_300_799_999).contains(&parsed.unwrap()), "{text}");
            if let Ok(format) = pattern.parse::<TimeFormat>() {
                let parsed = parser.with_format(format).parse(text.as_bytes());
                prop_assert!(parsed.is_err() || (0..=253_402_300_799_999).contains(&parsed.unwrap()), "{text}");
            }
        }
    }
}

#[test]
fn the_magnitude_of_an_integer_decides() {
    let utc = TimeParser::new("UTC").unwrap();
    for (text, time_ms) in [
        ("0", 0),
        ("99999999999", 99_999_999_999_000),
        ("100000000000", 100_000_000_000),
        ("1700000000123", 1_700_000_000_123),
        ("1700000000123456", 1_700_000_000_123),
        ("1700000000123456789", 1_700_000_000_123),
        ("20240229120000", 1_709_208_000_000),
        ("1.9999", 1_999),
    ] {
        assert_eq!(utc.parse(text.as_bytes()), Ok(time_ms), "{text}");
    }
}

#[test]
fn a_text_that_is_no_time_has_a_reason() {
    let utc = TimeParser::new("UTC").unwrap();
    for (text, error) in [
        ("", TimeError::Unrecognised),
        ("soon", TimeError::Unrecognised),
        ("1.", TimeError::Unrecognised),
        (".5", TimeError::Unrecognised),
        ("1e", TimeError::Unrecognised),
        ("2000-10", TimeError::Unrecognised),
        ("2000-10-10T13:55:36.Z", TimeError::Unrecognised),
        ("2000-10-10T13:55:36+7", TimeError::Unrecognised),
        ("10/Okt/2000:13:55:36 -0700", TimeError::Unrecognised),
        ("-1", TimeError::OutOfRange),
        ("-1.5", TimeError::OutOfRange),
        ("1969-12-31 23:59:59", TimeError::OutOfRange),
        ("9999-12-31T23:59:59-01:00", TimeError::OutOfRange),
        ("12345678901234567", TimeError::OutOfRange),
        ("2023-02-29 00:00:00", TimeError::NoSuchTime),
        ("1900-02-29 00:00:00", TimeError::NoSuchTime),
        ("2023-13-01 00:00:00", TimeError::NoSuchTime),
        ("2023-01-01 24:00:00", TimeError::NoSuchTime),
        ("20240230000000", TimeError::NoSuchTime),
        ("2000-10-10T13:55:36+24:00", TimeError::NoSuchTime),
    ] {
        assert_eq!(utc.parse(text.as_bytes()), Err(error), "{text}");
    }
}

#[test]
fn changes_of_clocks_and_leap_seconds_have_an_answer() {
    let new_york = TimeParser::new("America/New_York").unwrap();
    let ms = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
    assert_eq!(
        new_york.parse(b"2021-03-14 02:30:00"),
        Ok(ms("2021-03-14T07:30:00Z")),
        "a skipped time is moved forward"
    );
    assert_eq!(
        new_york.parse(b"2021-11-07 01:30:00"),
        Ok(ms("2021-11-07T05:30:00Z")),
        "a repeated time is its first occurrence"
    );
    assert_eq!(new_york.parse(b"2016-12-31 18:59:60"), Ok(ms("2017-01-01T00:00:00Z")));
    assert_eq!(TimeParser::new("utc").unwrap().parse(b"2016-12-31T23:59:60Z"), Ok(ms("2017-01-01T00:00:00Z")));
}
