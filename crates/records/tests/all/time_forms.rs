//! Tests each form of a time together with similar texts: numbers that are dates, offsets, names of months, and
//! abbreviations.

use firstseen_records::{TimeError, TimeParser};
use jiff::Timestamp;

fn ms(instant: &str) -> i64 {
    instant.parse::<Timestamp>().unwrap().as_millisecond()
}

/// Checks that each text, parsed in `zone`, is the given instant.
fn check(zone: &str, cases: &[(&str, &str)]) {
    let parser = TimeParser::new(zone).unwrap();
    for (text, instant) in cases {
        assert_eq!(parser.parse(text.as_bytes()), Ok(ms(instant)), "{text} in {zone}");
    }
}

/// Checks that each text is rejected for the given reason.
fn check_refused(zone: &str, cases: &[(&str, TimeError)]) {
    let parser = TimeParser::new(zone).unwrap();
    for (text, error) in cases {
        assert_eq!(parser.parse(text.as_bytes()), Err(*error), "{text} in {zone}");
    }
}

#[test]
fn dates_as_numbers_are_days_apart() {
    // Daily exports have dates such as 20240101. They used to be read as seconds of August 1970, so records of
    // different days lay within one window and were dropped as duplicates.
    check(
        "UTC",
        &[
            ("20240101", "2024-01-01T00:00:00Z"),
            ("20240105", "2024-01-05T00:00:00Z"),
            ("19700101", "1970-01-01T00:00:00Z"),
            ("21991231", "2199-12-31T00:00:00Z"),
            ("20240229", "2024-02-29T00:00:00Z"),
            ("20240101.0", "2024-01-01T00:00:00Z"),
            ("2.0240101e7", "2024-01-01T00:00:00Z"),
            ("2024010113", "2024-01-01T13:00:00Z"),
            ("2024123123", "2024-12-31T23:00:00Z"),
            ("202401011305", "2024-01-01T13:05:00Z"),
            ("197604151200", "1976-04-15T12:00:00Z"),
            ("20240101130507", "2024-01-01T13:05:07Z"),
            ("20240101130507.25", "2024-01-01T13:05:07.25Z"),
            ("20240101130507,25", "2024-01-01T13:05:07.25Z"),
            ("20240101130507123", "2024-01-01T13:05:07.123Z"),
        ],
    );
    check(
        "Europe/Berlin",
        &[
            ("20240701", "2024-06-30T22:00:00Z"),
            ("2024070113", "2024-07-01T11:00:00Z"),
            ("20240101130507", "2024-01-01T12:05:07Z"),
        ],
    );
    check_refused(
        "UTC",
        &[
            ("20240230", TimeError::NoSuchTime),
            ("20241301", TimeError::NoSuchTime),
            ("20230229000000", TimeError::NoSuchTime),
            ("20240101250000000", TimeError::NoSuchTime),
            ("19691231000000", TimeError::OutOfRange),
        ],
    );
}

#[test]
fn numbers_that_cannot_be_dates_count_from_1970() {
    check(
        "UTC",
        &[
            // The year or the day does not exist.
            ("12345678", "1970-05-23T21:21:18Z"),
            ("22001301", "1970-09-12T15:28:21Z"),
            // The month, the day or the hour does not exist.
            ("1700000000", "2023-11-14T22:13:20Z"),
            ("2000000000", "2033-05-18T03:33:20Z"),
            ("2024023013", "2034-02-20T04:36:53Z"),
            ("2024010124", "2034-02-20T01:02:04Z"),
            ("197013010000", "1976-03-30T05:50:10Z"),
            ("999999999999", "2001-09-09T01:46:39.999Z"),
            ("1700000000123", "2023-11-14T22:13:20.123Z"),
            ("1700000000123456", "2023-11-14T22:13:20.123Z"),
            ("1700000000123456789", "2023-11-14T22:13:20.123Z"),
        ],
    );
}

#[test]
fn numbers_may_have_fractions_exponents_and_a_plus() {
    check(
        "UTC",
        &[
            ("1.7e9", "2023-11-14T22:13:20Z"),
            ("1.7E9", "2023-11-14T22:13:20Z"),
            ("1.7E+12", "2023-11-14T22:13:20Z"),
            ("1.7e15", "2023-11-14T22:13:20Z"),
            ("1.7e+18", "2023-11-14T22:13:20Z"),
            ("17e8", "2023-11-14T22:13:20Z"),
            ("17000000000000e-4", "2023-11-14T22:13:20Z"),
            ("0.17e10", "2023-11-14T22:13:20Z"),
            ("1.7000000005e9", "2023-11-14T22:13:20.5Z"),
            ("1.700000000123456e9", "2023-11-14T22:13:20.123Z"),
            ("1700000000.123456", "2023-11-14T22:13:20.123Z"),
            ("1700000000,5", "2023-11-14T22:13:20.5Z"),
            ("1700000000.0", "2023-11-14T22:13:20Z"),
            // With decimals, numbers up to the year 9999 are seconds, because milliseconds of 1976 with decimals do not
            // occur in practice.
            ("100000000000.5", "5138-11-16T09:46:40.5Z"),
            ("253402207200.0", "9999-12-30T22:00:00Z"),
            ("253402300800.0", "1978-01-11T21:31:40.800Z"),
            ("1700000000123.5", "2023-11-14T22:13:20.123Z"),
            ("1700000000123456.75", "2023-11-14T22:13:20.123Z"),
            ("1700000000123456789.5", "2023-11-14T22:13:20.123Z"),
            ("+1700000000", "2023-11-14T22:13:20Z"),
            ("+1700000000.5", "2023-11-14T22:13:20.5Z"),
            ("5e-1", "1970-01-01T00:00:00.5Z"),
            ("0e999999999", "1970-01-01T00:00:00Z"),
        ],
    );
    check_refused(
        "UTC",
        &[
            ("1e99", TimeError::OutOfRange),
            ("1e999999999999999999999", TimeError::OutOfRange),
            ("99999999999999999999", TimeError::OutOfRange),
            ("-1.7e9", TimeError::OutOfRange),
            ("1.7e", TimeError::Unrecognised),
            ("1.7e+", TimeError::Unrecognised),
            ("1.7e9s", TimeError::Unrecognised),
            ("1.7.901", TimeError::Unrecognised),
            ("++1", TimeError::Unrecognised),
            ("+", TimeError::Unrecognised),
            ("0x10", TimeError::Unrecognised),
            ("12345678901234567.5", TimeError::Unrecognised),
        ],
    );
}

#[test]
fn offsets_may_be_short_and_stand_behind_a_blank() {
    let zones = [
        ("+0200", 2),
        ("+02", 2),
        ("+02:00", 2),
        ("-0200", -2),
        ("-02", -2),
        ("+0000", 0),
        ("-00:00", 0),
        ("Z", 0),
        ("z", 0),
        ("UTC", 0),
        ("GMT", 0),
        ("GMT+0200", 2),
        ("UTC+02:00", 2),
        ("+0000 UTC", 0),
        ("+0200 CEST", 2),
        ("+0200 (CEST)", 2),
        ("+02:00[Europe/Berlin]", 2),
    ];
    // 15:00 in Berlin is 13:00 in UTC. A written zone takes precedence over the zone of the parser.
    let parser = TimeParser::new("Asia/Tokyo").unwrap();
    let whole = ms("2024-07-01T13:00:00Z");
    for (zone, hours) in zones {
        for blank in ["", " ", "  "] {
            for (text, fraction_ms) in [
                ("2024-07-01T13:00:00", 0),
                ("2024-07-01 13:00:00.25", 250),
                ("2024-07-01t13:00:00,25", 250),
                ("2024-07-01T13:00", 0),
                ("20240701T130000", 0),
                ("20240701T130000.25", 250),
                ("20240701T1300", 0),
                ("20240701 13:00:00", 0),
                ("20240701130000", 0),
                ("2024/07/01 13:00:00", 0),
            ] {
                let text = format!("{text}{blank}{zone}");
                assert_eq!(parser.parse(text.as_bytes()), Ok(whole + fraction_ms - hours * 3_600_000), "{text}");
            }
        }
    }
    for text in
        ["2024-07-01 13:00:00+2", "2024-07-01 13:00:00 GMT+2", "2024-07-01 13:00:00+020", "2024-07-01 13:00:00 PM"]
    {
        assert_eq!(parser.parse(text.as_bytes()), Err(TimeError::Unrecognised), "{text}");
    }
}

#[test]
fn a_year_in_front_leaves_no_doubt() {
    check(
        "UTC",
        &[
            ("2024-01-01", "2024-01-01T00:00:00Z"),
            ("2024/01/01", "2024-01-01T00:00:00Z"),
            ("2024-1-5", "2024-01-05T00:00:00Z"),
            ("2024/10/10 13:55:36", "2024-10-10T13:55:36Z"),
            ("2024.10.10 13:55:36.5", "2024-10-10T13:55:36.5Z"),
            ("2024-10-10 9:05:07", "2024-10-10T09:05:07Z"),
            ("2024-10-10  13:55", "2024-10-10T13:55:00Z"),
            ("2024-10-10 13", "2024-10-10T13:00:00Z"),
            ("2024-10-10T135536", "2024-10-10T13:55:36Z"),
            ("2024-10-10 03:00:00.123 UTC", "2024-10-10T03:00:00.123Z"),
            ("[2024-10-10 03:00:00]", "2024-10-10T03:00:00Z"),
            ("20241010 135536", "2024-10-10T13:55:36Z"),
        ],
    );
    check(
        "Europe/Berlin",
        &[
            ("2024-01-01", "2023-12-31T23:00:00Z"),
            ("2024-07-01", "2024-06-30T22:00:00Z"),
            ("2024-07-01T13:00", "2024-07-01T11:00:00Z"),
        ],
    );
    check_refused(
        "UTC",
        &[
            ("2024-01", TimeError::Unrecognised),
            ("2024-01/01", TimeError::Unrecognised),
            ("2024-001", TimeError::Unrecognised),
            ("2024-01-01_13:00:00", TimeError::Unrecognised),
            ("2024-01-01T", TimeError::Unrecognised),
            ("2024-01-01 13:0", TimeError::Unrecognised),
            ("2024-01-01 13:00:60.", TimeError::Unrecognised),
            ("2024-02-30", TimeError::NoSuchTime),
            ("2024/13/01 00:00:00", TimeError::NoSuchTime),
            ("20240101T250000Z", TimeError::NoSuchTime),
        ],
    );
}

#[test]
fn months_may_have_english_names() {
    check(
        "UTC",
        &[
            ("Tue, 15 Nov 1994 08:12:31 GMT", "1994-11-15T08:12:31Z"),
            ("Tue, 15 Nov 1994 08:12:31 +0200", "1994-11-15T06:12:31Z"),
            ("Tue, 15 Nov 1994 08:12:31 +0200 (EET)", "1994-11-15T06:12:31Z"),
            ("15 Nov 1994 08:12 EST", "1994-11-15T13:12:00Z"),
            ("Tue Nov 15 08:12:31 1994", "1994-11-15T08:12:31Z"),
            ("Sat Nov  5 08:12:31 1994", "1994-11-05T08:12:31Z"),
            ("[Tue Nov 15 08:12:31.123456 1994]", "1994-11-15T08:12:31.123Z"),
            ("Tue Nov 15 08:12:31 CET 1994", "1994-11-15T07:12:31Z"),
            ("Tue Nov 15 08:12:31 +0000 1994", "1994-11-15T08:12:31Z"),
            ("Tue Nov 15 1994 08:12:31 GMT+0100 (Central European Standard Time)", "1994-11-15T07:12:31Z"),
            ("Nov 15, 1994 08:12:31", "1994-11-15T08:12:31Z"),
            ("15 November 1994", "1994-11-15T00:00:00Z"),
            ("10/Oct/2000:13:55:36", "2000-10-10T13:55:36Z"),
            ("10/Oct/2000:13:55:36.250", "2000-10-10T13:55:36.25Z"),
            ("[10/Oct/2000:13:55:36.250]", "2000-10-10T13:55:36.25Z"),
            ("10/Oct/2000:13:55:36 +0200", "2000-10-10T11:55:36Z"),
            ("10/Oct/2000:13:55:36.5 -0700", "2000-10-10T20:55:36.5Z"),
            ("10/Oct/2000:13:55:36 Z", "2000-10-10T13:55:36Z"),
            ("10/Oct/2000 13:55:36", "2000-10-10T13:55:36Z"),
            ("01-OCT-2024 13:55:36,250", "2024-10-01T13:55:36.25Z"),
            ("1-oct-2024", "2024-10-01T00:00:00Z"),
        ],
    );
    check(
        "Europe/Berlin",
        &[
            ("10/Oct/2000:13:55:36", "2000-10-10T11:55:36Z"),
            ("Tue Nov 15 08:12:31 1994", "1994-11-15T07:12:31Z"),
            ("15 Nov 1994 08:12:31 GMT", "1994-11-15T08:12:31Z"),
        ],
    );
    check_refused(
        "UTC",
        &[
            ("Nov 15 08:12:31", TimeError::NoYear),
            ("Tue Nov  5 08:12:31", TimeError::NoYear),
            ("15 Nov 08:12:31.5", TimeError::NoYear),
            ("Sunday, 06-Nov-94 08:49:37 GMT", TimeError::Ambiguous),
            ("31 Nov 1994 00:00:00 GMT", TimeError::NoSuchTime),
            ("29/Feb/2023:00:00:00", TimeError::NoSuchTime),
            ("Tue, 15 Nov 1994 Nov", TimeError::Unrecognised),
            ("15 16 Nov 1994", TimeError::Unrecognised),
            ("Nov 1994", TimeError::Unrecognised),
            ("Tue", TimeError::Unrecognised),
            ("15 Nov 1994 GMT", TimeError::Unrecognised),
            ("10/Oct/2000-13:55:36", TimeError::Unrecognised),
            ("15 Nov 1994 08:12:31 (GMT", TimeError::Unrecognised),
        ],
    );
}

#[test]
fn abbreviations_mean_one_offset_or_are_refused() {
    check(
        "UTC",
        &[
            ("2024-10-10 03:00:00 CET", "2024-10-10T02:00:00Z"),
            ("2024-10-10 03:00:00.5 CEST", "2024-10-10T01:00:00.5Z"),
            ("2024-10-10 03:00:00 PST", "2024-10-10T11:00:00Z"),
            ("2024-10-10 03:00 EDT", "2024-10-10T07:00:00Z"),
            ("2024-10-10 03:00:00 JST", "2024-10-09T18:00:00Z"),
        ],
    );
    // The zone of the parser decides between several meanings, also in an hour that occurs twice.
    check(
        "America/Chicago",
        &[
            ("2024-01-10 03:00:00 CST", "2024-01-10T09:00:00Z"),
            ("2024-07-10 03:00:00 CDT", "2024-07-10T08:00:00Z"),
            ("2024-11-03 01:30:00 CDT", "2024-11-03T06:30:00Z"),
            ("2024-11-03 01:30:00 CST", "2024-11-03T07:30:00Z"),
            ("2024-01-10 03:00:00 CET", "2024-01-10T02:00:00Z"),
        ],
    );
    check("Asia/Shanghai", &[("2024-01-10 03:00:00 CST", "2024-01-09T19:00:00Z")]);
    check("Asia/Kolkata", &[("2024-01-10 03:00:00 IST", "2024-01-09T21:30:00Z")]);
    check("Europe/Dublin", &[("2024-07-10 03:00:00 IST", "2024-07-10T02:00:00Z")]);
    check(
        "Europe/Berlin",
        &[("2024-10-27 02:30:00 CEST", "2024-10-27T00:30:00Z"), ("2024-10-27 02:30:00 CET", "2024-10-27T01:30:00Z")],
    );
    let unknown = ["CST", "IST", "BST", "XYZ", "ABCDE"];
    for zone in ["UTC", "Europe/Berlin"] {
        for name in unknown {
            check_refused(zone, &[(&format!("2024-01-10 03:00:00 {name}"), TimeError::UnknownZone)]);
        }
    }
    check_refused("America/Chicago", &[("2024-07-10 03:00:00 CST", TimeError::UnknownZone)]);
    check_refused(
        "UTC",
        &[
            ("2024-01-10 03:00:00 cet", TimeError::Unrecognised),
            ("2024-01-10 03:00:00 ABCDEF", TimeError::Unrecognised),
            ("2024-01-10 03:00:00 C3T", TimeError::Unrecognised),
        ],
    );
}

#[test]
fn what_can_be_read_in_several_ways_is_refused() {
    for text in [
        "10/11/2024",
        "25/12/2024",
        "10/11/2024 13:55:36",
        "10/11/2024, 1:55:36 PM",
        "1.2.2024",
        "01.02.2024 13:00",
        "10-11-2024 13:00",
        "10/11/24",
        "10/11/2024:13:00:00",
    ] {
        check_refused("UTC", &[(text, TimeError::Ambiguous)]);
    }
    for text in ["13:55:36", "9:05", "13:55:36.250", "13:55:36Z"] {
        check_refused("UTC", &[(text, TimeError::NoDate)]);
    }
    for text in ["10/11", "10.11-2024", "10/11/202", "1.2.3.4", "10.0.0.1", "::1", "a:b", "2024-W05-1"] {
        check_refused("UTC", &[(text, TimeError::Unrecognised)]);
    }
}

/// Birthdays and the end of time used to be read as seconds of 1970 to 1973, so different days lay within one window.
#[test]
fn eight_digits_of_a_day_are_a_date_in_any_year() {
    check("UTC", &[("22000105", "2200-01-05T00:00:00Z"), ("99991230", "9999-12-30T00:00:00Z")]);
    let before_1970 = ["19690101", "19000105", "1969-01-01"];
    check_refused("UTC", &before_1970.map(|text| (text, TimeError::OutOfRange)));
}
