//! Tests times that are split over several fields, and the messages about times that cannot be read.

use firstseen_records::{ParserConfig, RecordFormat};

use crate::common::{config, read_text};

fn with_times(format: RecordFormat, key: &[&str], times: &[&str]) -> ParserConfig {
    let rest = times[1..].iter().map(|name| (*name).to_owned()).collect();
    ParserConfig { time: Some(times[0].to_owned()), time_rest: rest, ..config(format, key) }
}

fn times_ms(text: &str, config: ParserConfig) -> Vec<Option<i64>> {
    let outcome = read_text(text, config);
    assert!(outcome.rejections.is_empty(), "{:?}", outcome.complaints());
    outcome.events.iter().map(|event| event.time_ms).collect()
}

#[test]
fn date_and_time_of_day_may_be_two_fields() {
    // IIS and CloudFront write date and time in two columns. A window over such times was not possible before.
    let expected = [Some(1_728_568_536_000), Some(1_728_568_537_250)];
    let csv = "k,date,time\na,2024-10-10,13:55:36\nb,\"2024-10-10\",\"13:55:37.25\"\n";
    assert_eq!(times_ms(csv, with_times(RecordFormat::Csv, &["k"], &["date", "time"])), expected);
    let swapped = "k,time,date\na,13:55:36,2024-10-10\nb,13:55:37.25,2024-10-10\n";
    assert_eq!(times_ms(swapped, with_times(RecordFormat::Csv, &["k"], &["date", "time"])), expected);
    let tsv = "20241010\t135536\ta\n10/Oct/2024\t13:55:37.25\tb\n";
    let numbers = ParserConfig { no_header: true, ..with_times(RecordFormat::Tsv, &["3"], &["1", "2"]) };
    assert_eq!(times_ms(tsv, numbers), expected);
    let json = "{\"k\":1,\"at\":{\"d\":20241010,\"t\":\"13:55:36\"}}\n{\"k\":2,\"at\":{\"d\":\"2024-10-10\",\"t\":\"13:55:37.25\"}}\n";
    assert_eq!(times_ms(json, with_times(RecordFormat::Jsonl, &["k"], &["at.d", "at.t"])), expected);
    let zones = "k,d,t,z\na,2024-10-10,15:55:36,+0200\nb,2024-10-10,13:55:37.25,UTC\n";
    assert_eq!(times_ms(zones, with_times(RecordFormat::Csv, &["k"], &["d", "t", "z"])), expected);
}

#[test]
fn several_fields_have_one_form() {
    let fields = ParserConfig {
        time_format: Some("%d/%m/%Y %H:%M".parse().unwrap()),
        ..with_times(RecordFormat::Csv, &["k"], &["d", "t"])
    };
    assert_eq!(times_ms("k,d,t\na,10/11/2024,13:55\n", fields), [Some(1_731_246_900_000)]);
}

#[test]
fn a_part_that_is_missing_is_no_midnight() {
    let fields = with_times(RecordFormat::Csv, &["k"], &["d", "t"]);
    let outcome = read_text("k,d,t\na,2024-10-10,\nb,,13:55\nc,2024-10-10\nd,2024-10-10,25:00\n", fields);
    assert_eq!(
        outcome.complaints(),
        [
            "2: \"a,2024-10-10,\\n\": it has no field `t`",
            "3: \"b,,13:55\\n\": it has no field `d`",
            "4: \"c,2024-10-10\\n\": it has 2 fields, and the header has 3 (--ragged pad takes such rows)",
            "5: \"d,2024-10-10,25:00\\n\": the time field `d,t` has `2024-10-10 25:00 `, which names a date or a time of \
             day that does not exist: if it is meant in another form, describe that with --time-format",
        ]
    );
}

#[test]
fn a_text_that_is_no_time_is_shown_with_a_remedy() {
    let long = "x".repeat(1_000);
    for (text, shown, remedy) in [
        ("soon", "soon", "--time-format"),
        (&*long, &*format!("{}...", "x".repeat(40)), "--time-format"),
        ("a\u{1b}[31mb", "a\\u{1b}[31mb", "--time-format"),
        ("10/11/2024", "10/11/2024", "%d/%m/%Y"),
        ("99999999999999", "99999999999999", "--time-format"),
        ("2024-01-01 00:00:00 CST", "2024-01-01 00:00:00 CST", "--tz"),
        ("Nov 15 08:12:31", "Nov 15 08:12:31", "--clock wall"),
        ("13:55:36", "13:55:36", "--time DATE,TIME"),
        ("-5", "-5", "epoch-ms"),
    ] {
        let outcome = read_text(&format!("k,t\na,{text}\n"), with_times(RecordFormat::Csv, &["k"], &["t"]));
        let message = outcome.rejections[0].2.to_string();
        assert!(message.starts_with(&format!("the time field `t` has `{shown}`, which ")), "{message}");
        assert!(message.contains(remedy), "{message}");
    }
}

#[test]
fn index_lines_are_in_utc_in_any_zone() {
    let line = "org,example)/ 20240101120000 {\"status\":\"200\"}\n";
    let fields = ParserConfig { zone: "Europe/Athens".to_owned(), ..ParserConfig::new(RecordFormat::Cdxj) };
    assert_eq!(
        times_ms(line, ParserConfig { time: Some("timestamp".to_owned()), ..fields }),
        [Some(1_704_110_400_000)]
    );
}
