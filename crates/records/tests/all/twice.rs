//! Tests the hour that occurs twice when clocks are set back.

use firstseen_records::{RecordFormat, TimeParser};

use crate::common::{config, read_files};

const MINUTE_MS: i64 = 60_000;

/// Returns minutes since 00:00 UTC of the night in which clocks were set back in Berlin. 02:00 occurred at minute 0 and
/// at minute 60.
fn minutes_after(texts: &[&str]) -> Vec<i64> {
    let mut berlin = TimeParser::new("Europe/Berlin").unwrap();
    let change_ms = TimeParser::new("UTC").unwrap().parse(b"2024-10-27T00:00:00Z").unwrap();
    let time_ms = |text: &&str| berlin.parse_next(format!("2024-10-27 {text}:00").as_bytes()).unwrap();
    texts.iter().map(time_ms).map(|time_ms| (time_ms - change_ms) / MINUTE_MS).collect()
}

#[test]
fn the_second_hour_comes_after_the_first() {
    // A log in local time had 7,200 lines between 02:00 and 03:00. All lines of the second hour used to be read as an
    // hour late, and a window of minutes compared them with the first hour.
    for (texts, minutes) in [
        (
            &["01:50", "02:00", "02:30", "02:59", "02:00", "02:30", "02:59", "03:00"][..],
            &[-10, 0, 30, 59, 60, 90, 119, 120][..],
        ),
        // Records that are slightly out of order stay in their hour.
        (&["02:10", "02:05", "02:12", "02:03"], &[10, 5, 12, 3]),
        (&["02:55", "02:01", "02:58", "02:03"], &[55, 61, 58, 63]),
        // A log that begins within the hour does not show which of the two hours it is.
        (&["02:10", "02:20"], &[10, 20]),
        (&["03:05", "02:50"], &[125, 110]),
        // A wrong time is no evidence.
        (&["02:59", "23:00", "02:01", "02:05"], &[59, 1_320, 61, 65]),
        // A time that occurs once has only one meaning, whatever came before.
        (&["02:59", "02:00", "01:59", "03:00"], &[59, 60, -1, 120]),
    ] {
        assert_eq!(minutes_after(texts), minutes, "{texts:?}");
    }
}

#[test]
fn a_log_of_the_whole_night_never_falls_back() {
    // In Lord Howe clocks are set back by half an hour, so steps must be shorter.
    for (zone, steps_seconds) in [
        ("Europe/Berlin", [1, 7, 60, 600, 1_500]),
        ("America/New_York", [1, 7, 60, 600, 1_500]),
        ("Australia/Lord_Howe", [1, 7, 60, 600, 800]),
    ] {
        for step_seconds in steps_seconds {
            let mut parser = TimeParser::new(zone).unwrap();
            let zone = jiff::tz::TimeZone::get(zone).unwrap();
            let changes = zone.following("2024-01-01T00:00:00Z".parse().unwrap());
            for change in changes.take(2) {
                let start = change.timestamp().as_second() - 9_000;
                for second in (start..start + 18_000).step_by(step_seconds) {
                    let instant = jiff::Timestamp::from_second(second).unwrap();
                    let local = zone.to_datetime(instant).strftime("%Y-%m-%d %H:%M:%S").to_string();
                    assert_eq!(
                        parser.parse_next(local.as_bytes()),
                        Ok(second * 1_000),
                        "{local}, every {step_seconds}"
                    );
                }
            }
        }
    }
}

#[test]
fn without_the_times_before_it_is_the_first() {
    let berlin = TimeParser::new("Europe/Berlin").unwrap();
    let change_ms = berlin.parse(b"2024-10-27T00:00:00Z").unwrap();
    for _ in 0..2 {
        assert_eq!(berlin.parse(b"2024-10-27 02:59:00"), Ok(change_ms + 59 * MINUTE_MS));
        assert_eq!(berlin.parse(b"2024-10-27 02:00:00"), Ok(change_ms));
    }
}

#[test]
fn a_file_that_goes_on_goes_on_in_its_hour() {
    let fields = firstseen_records::ParserConfig {
        time: Some("1".to_owned()),
        zone: "Europe/Berlin".to_owned(),
        no_header: true,
        ..config(RecordFormat::Csv, &["2"])
    };
    let minutes = |files: &[&str]| {
        let outcome = read_files(files, fields.clone()).unwrap();
        let times_ms: Vec<i64> = outcome.events.iter().filter_map(|event| event.time_ms).collect();
        times_ms.iter().map(|time_ms| (time_ms - times_ms[0]) / MINUTE_MS).collect::<Vec<_>>()
    };
    let first = "2024-10-27 02:10:00,a\n2024-10-27 02:59:00,b\n2024-10-27 02:20:00,c\n";
    assert_eq!(minutes(&[first, "2024-10-27 02:25:00,d\n"]), [0, 49, 70, 75]);
    // This is a file of another machine whose records begin much earlier or later, so its first occurrence of the hour
    // is the first hour.
    let late = "2024-10-27 02:10:00,a\n2024-10-27 05:00:00,b\n";
    assert_eq!(minutes(&[late, "2024-10-27 02:10:00,d\n"]), [0, 230, 0]);
}
