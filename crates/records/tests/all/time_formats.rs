//! Tests forms of times that the user describes.

use firstseen_records::{TimeError, TimeFormat, TimeParser};
use jiff::Timestamp;

fn parser(zone: &str, format: &str) -> TimeParser {
    let format: TimeFormat = format.parse().unwrap_or_else(|error| panic!("{format}: {error}"));
    TimeParser::new(zone).unwrap().with_format(format)
}

fn ms(instant: &str) -> i64 {
    instant.parse::<Timestamp>().unwrap().as_millisecond()
}

#[test]
fn a_pattern_reads_what_it_describes() {
    for (zone, format, text, instant) in [
        ("UTC", "%d.%m.%Y %H:%M:%S", "10.11.2024 13:55:36", "2024-11-10T13:55:36Z"),
        ("UTC", "%m/%d/%Y %H:%M:%S", "10/11/2024 13:55:36", "2024-10-11T13:55:36Z"),
        ("UTC", "%d/%m/%Y", "10/11/2024", "2024-11-10T00:00:00Z"),
        ("UTC", "%d/%m/%y %H:%M", " 10/11/24 13:55 ", "2024-11-10T13:55:00Z"),
        ("UTC", "%m/%d/%Y %I:%M:%S %p", "10/11/2024 01:55:36 PM", "2024-10-11T13:55:36Z"),
        ("UTC", "%m/%d/%Y %I:%M:%S %p", "10/11/2024 12:05:00 AM", "2024-10-11T00:05:00Z"),
        ("UTC", "%Y-%m-%d_%H:%M:%S%.f", "2024-11-10_13:55:36.25", "2024-11-10T13:55:36.25Z"),
        ("UTC", "%Y-%m-%d %H:%M:%S,%f", "2024-11-10 13:55:36,250", "2024-11-10T13:55:36.25Z"),
        ("UTC", "%Y-%j", "2024-060", "2024-02-29T00:00:00Z"),
        ("UTC", "%G-W%V-%u", "2024-W05-1", "2024-01-29T00:00:00Z"),
        ("UTC", "%Y%m%d%H", "2024010113", "2024-01-01T13:00:00Z"),
        ("UTC", "%s", "1700000000", "2023-11-14T22:13:20Z"),
        ("UTC", "%d %b %Y %H:%M %z", "10 Nov 2024 13:55 +0200", "2024-11-10T11:55:00Z"),
        ("UTC", "%Y-%m-%d %H:%M %Q", "2024-11-10 13:55 Europe/Berlin", "2024-11-10T12:55:00Z"),
        ("Europe/Berlin", "%d.%m.%Y %H:%M", "10.07.2024 13:55", "2024-07-10T11:55:00Z"),
        ("Europe/Berlin", "%d.%m.%Y %H:%M %:z", "10.07.2024 13:55 +00:00", "2024-07-10T13:55:00Z"),
    ] {
        assert_eq!(parser(zone, format).parse(text.as_bytes()), Ok(ms(instant)), "{text} as {format}");
    }
}

#[test]
fn a_name_says_what_a_number_counts() {
    for (format, text, time_ms) in [
        ("epoch", "1700000000", 1_700_000_000_000),
        ("epoch", "20240101", 20_240_101_000),
        ("epoch", "2024010113", 2_024_010_113_000),
        ("epoch", "1.7e9", 1_700_000_000_000),
        ("epoch", "1700000000.25", 1_700_000_000_250),
        ("epoch", "253402300799", 253_402_300_799_000),
        ("epoch-ms", "1700000000123", 1_700_000_000_123),
        ("epoch-ms", "5", 5),
        ("epoch-ms", "202401011305", 202_401_011_305),
        ("epoch-ms", "+1700000000123.9", 1_700_000_000_123),
        ("epoch-us", "1700000000123456", 1_700_000_000_123),
        ("epoch-us", "1700000", 1_700),
        ("epoch-ns", "1700000000123456789", 1_700_000_000_123),
    ] {
        assert_eq!(parser("Europe/Berlin", format).parse(text.as_bytes()), Ok(time_ms), "{text} as {format}");
    }
    for (format, text, error) in [
        ("epoch", "253402300800", TimeError::OutOfRange),
        ("epoch", "-1", TimeError::OutOfRange),
        ("epoch", "1700000000123456", TimeError::OutOfRange),
        ("epoch", "2024-01-01", TimeError::NotInFormat),
        ("epoch-ms", "", TimeError::NotInFormat),
        ("epoch-ns", "soon", TimeError::NotInFormat),
        ("epoch-ns", "99999999999999999999", TimeError::OutOfRange),
    ] {
        assert_eq!(parser("UTC", format).parse(text.as_bytes()), Err(error), "{text} as {format}");
    }
}

#[test]
fn another_form_than_the_described_one_is_refused() {
    for (format, text, error) in [
        ("%d.%m.%Y", "2024-11-10", TimeError::NotInFormat),
        ("%d.%m.%Y", "10.11.2024 13:00", TimeError::NotInFormat),
        ("%d.%m.%Y", "1731196800", TimeError::NotInFormat),
        ("%d.%m.%Y", "", TimeError::NotInFormat),
        ("%d.%m.%Y", "\u{1b}\u{0}", TimeError::NotInFormat),
        ("%d.%m.%Y", "31.11.2024", TimeError::NoSuchTime),
        ("%d.%m.%Y", "10.11.1969", TimeError::OutOfRange),
        ("%Y-%m-%d %Q", "2024-11-10 Mars/Olympus", TimeError::UnknownZone),
    ] {
        assert_eq!(parser("UTC", format).parse(text.as_bytes()), Err(error), "{text:?} as {format}");
    }
    assert_eq!(parser("UTC", "%d.%m.%Y").parse(b"10.11.20\xff4"), Err(TimeError::NotInFormat));
}

#[test]
fn a_form_that_loses_something_is_refused_at_the_start() {
    for (format, word) in [
        ("%d.%m. %H:%M:%S", "no year"),
        ("%b %e %H:%M:%S", "no year"),
        ("%H:%M:%S", "no year"),
        ("%Y-%m", "no day"),
        ("%Y", "no day"),
        ("%Y-%m-%d %I:%M", "morning from afternoon"),
        ("%Y-%m-%d %M:%S", "hour"),
        ("%Y-%m-%d %H:%M:%S %Z", "%Z"),
        ("%Y-%m-%d %K", "%K"),
        ("%Y-%m-%", "%"),
        ("%c", "locale"),
        ("", "none of epoch"),
        ("iso8601", "none of epoch"),
        ("epoch_ms", "none of epoch"),
        ("Epoch", "none of epoch"),
        ("YYYY-MM-DD", "none of epoch"),
    ] {
        let error = format.parse::<TimeFormat>().expect_err(format).to_string();
        assert!(error.contains(word) && error.contains("epoch-ms"), "{format}: {error}");
        assert!(error.contains(&format!("`{format}`")), "{error}");
    }
}

#[test]
fn a_form_shows_itself() {
    for format in ["epoch", "epoch-ns", "%d.%m.%Y"] {
        assert_eq!(format.parse::<TimeFormat>().unwrap().to_string(), format);
    }
}

#[test]
fn the_hour_that_comes_twice_is_known_in_a_form() {
    let mut berlin = parser("Europe/Berlin", "%d.%m.%Y %H:%M");
    let times_ms = ["27.10.2024 02:59", "27.10.2024 02:00"].map(|text| berlin.parse_next(text.as_bytes()).unwrap());
    assert_eq!(times_ms[1] - times_ms[0], 60_000);
}
