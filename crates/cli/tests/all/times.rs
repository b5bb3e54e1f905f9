//! Tests numbers and texts that are times. Each record must be placed at the time that it contains, or be reported as a
//! record without a time.

use crate::run::{Folder, dedup, number};

/// Runs `dedup` on `input` with flags that are separated by blanks, and one further flag that may contain blanks.
fn kept(input: &str, flags: &str, format: &str) -> String {
    let folder = Folder::with(input);
    let mut command = dedup(flags);
    command.args(["--time-format", format, "input"]).current_dir(folder.path("."));
    let output = command.output().expect("the binary");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

const CSV: &str = "--format csv --key k --time t";

#[test]
fn records_of_different_days_are_no_duplicates() {
    // A daily export had dates such as 20240101. The records of the second day were dropped, because both dates were
    // read as seconds in 1970.
    for times in [
        ["20240101", "20240105"],
        ["2024010100", "2024010500"],
        ["202401010000", "202401050000"],
        ["20240101000000", "20240105000000"],
        ["20240101000000000", "20240105000000000"],
        ["20240101T000000Z", "20240105T000000Z"],
        ["2024-01-01", "2024-01-05"],
        ["1.7040672e9", "1.7044128e9"],
        ["1704067200000.5", "1704412800000.5"],
        ["01/Jan/2024:00:00:00", "05/Jan/2024:00:00:00"],
        ["\"Mon, 01 Jan 2024 00:00:00 GMT\"", "\"Fri, 05 Jan 2024 00:00:00 GMT\""],
        ["2024-01-01 00:00:00.123 UTC", "2024-01-05 00:00:00.123 UTC"],
        ["2024-01-01 00:00:00+00", "2024-01-05 00:00:00+00"],
    ] {
        let input = format!("k,t\na,{}\na,{}\na,{}\n", times[0], times[0], times[1]);
        let expected = format!("k,t\na,{}\na,{}\n", times[0], times[1]);
        let ran = Folder::with(&input).dedup(&format!("{CSV} --window 1d --strict input")).ok();
        assert_eq!(ran.out, expected, "{times:?}");
    }
}

#[test]
fn a_form_is_described_by_a_flag() {
    let american = "k,t\na,10/11/2024 01:55 PM\na,10/11/2024 01:56 PM\na,11/10/2024 01:55 PM\n";
    let out = kept(american, &format!("{CSV} --window 1d --strict"), "%m/%d/%Y %I:%M %p");
    assert_eq!(out, "k,t\na,10/11/2024 01:55 PM\na,11/10/2024 01:55 PM\n");
    // These numbers are seconds that look like dates: 20240101 and 20240105 are four seconds apart.
    let seconds = "k,t\na,20240101\na,20240105\n";
    assert_eq!(kept(seconds, &format!("{CSV} --window 1d --strict"), "epoch"), "k,t\na,20240101\n");
    // These log lines have another form of time than usual.
    let log = "h - - [2024-10-11 13:55] \"GET / HTTP/1.1\" 200 1\nh - - [2024-10-13 13:56] \"GET / HTTP/1.1\" 200 1\n";
    assert_eq!(kept(log, "--format clf --window 1d --strict", "%Y-%m-%d %H:%M"), log);
}

#[test]
fn a_form_that_cannot_be_used_is_refused_at_the_start() {
    let folder = Folder::with("k,t\na,20240101\n");
    for (format, word) in [
        ("%H:%M", "no year"),
        ("%d.%m.%H", "no year"),
        ("%Y-%m", "no day"),
        ("%Y-%m-%dT%K", "%K"),
        ("seconds", "epoch-ms"),
    ] {
        let ran = folder.dedup(&format!("{CSV} --window 1d --time-format {format} --out out input"));
        ran.fails(2, &[word, "--time-format"]);
        assert!(!folder.has("out"), "{format}");
    }
    folder.dedup("--time-format epoch input").fails(2, &["--time-format", "--time"]);
    folder.dedup("--clock wall --window 1d --time-format epoch input").fails(2, &["--time-format"]);
}

#[test]
fn a_time_may_stand_in_two_fields() {
    let input = "k,date,time\na,2024-10-10,23:30:00\na,2024-10-11,00:10:00\na,2024-10-11,01:10:00\n";
    let flags = "--format csv --key k --window 1h --strict";
    let out = "k,date,time\na,2024-10-10,23:30:00\na,2024-10-11,01:10:00\n";
    let folder = Folder::with(input);
    assert_eq!(folder.dedup(&format!("{flags} --time date,time input")).ok().out, out);
    assert_eq!(folder.dedup(&format!("{flags} --time 2,3 input")).ok().out, out);
    folder.dedup(&format!("{flags} --time date,tme input")).fails(2, &["`tme`", "did you mean `time`"]);
    let json = input.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        format!("{{\"k\":\"{}\",\"at\":{{\"d\":\"{}\",\"t\":\"{}\"}}}}\n", fields[0], fields[1], fields[2])
    });
    let json: String = json.collect();
    let out = Folder::with(&json).dedup("--format jsonl --key k --window 1h --strict --time at.d,at.t input").ok().out;
    assert_eq!(out.lines().count(), 2, "{out}");
}

#[test]
fn a_comma_may_belong_to_the_name_of_a_field() {
    let input = "k,\"day, UTC\",\"a,b\"\na,2024-10-10,23:30:00\na,2024-10-11,00:10:00\na,2024-10-11,01:10:00\n";
    let folder = Folder::with(input);
    let mut command = dedup("--format csv --key k --window 1h --strict --time");
    command.arg(r"day\, UTC,a\,b").arg("input").current_dir(folder.path("."));
    let output = command.output().expect("the binary");
    let out = String::from_utf8(output.stdout).expect("text");
    assert_eq!(out.lines().count(), 3, "{out}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_second_of_two_equal_hours_is_not_late() {
    // The hour from 02:00 to 03:00 occurred twice in Berlin. A click at the end of the first hour and a click at the
    // beginning of the second hour are a minute apart. The second click used to be read as 59 minutes older.
    let mut input = "k,t\n".to_owned();
    for minute in 0..120 {
        input.push_str(&format!("{minute},2024-10-27 02:{:02}:00\n", minute % 60));
    }
    input.push_str("118,2024-10-27 03:01:00\n");
    let folder = Folder::with(&input);
    let flags = format!("{CSV} --tz Europe/Berlin --window 10m --lateness 0 --capacity 1k --late duplicate");
    let ran = folder.dedup(&format!("{flags} --report json input")).ok();
    assert_eq!(number(&ran.report(), "first_seen"), 120, "{}", ran.err);
    assert_eq!(number(&ran.report(), "duplicates"), 1, "{}", ran.err);
}

#[test]
fn a_text_that_is_no_time_is_named_with_the_cure() {
    for (text, words) in [
        ("10/11/2024", "`10/11/2024`, which may begin with its day or with its month: say which with --time-format"),
        ("Nov 15 08:12:31", "`Nov 15 08:12:31`, which has no year"),
        ("2024-10-10 03:00:00 XYZ", "`2024-10-10 03:00:00 XYZ`, which ends in the abbreviation of a zone"),
        ("so\u{1b}on", "`so\\u{1b}on`, which is no time in any known form: describe the form with --time-format"),
    ] {
        let ran =
            Folder::with(format!("k,t\na,2024-10-10\nb,{text}\n")).dedup(&format!("{CSV} --window 1d input")).ok();
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}

#[test]
fn spellings_of_a_number_are_one_key() {
    let input = "{\"id\":1000}\n{\"id\":1e3}\n{\"id\":1000.0}\n{\"id\":1000.5}\n{\"id\":9007199254740993}\n{\"id\":9007199254740992}\n";
    let ran = Folder::with(input).dedup("--format jsonl --key id --window unbounded input").ok();
    assert_eq!(ran.out, "{\"id\":1000}\n{\"id\":1000.5}\n{\"id\":9007199254740993}\n{\"id\":9007199254740992}\n");
}

/// When clocks are set back in autumn, the local times of one hour occur twice. This test reads the same log in two
/// runs of `dedup`, once for each occurrence of the hour.
///
/// The second run used to take its times for the first occurrence of the hour again, because it did not know which
/// times the first run had read. It therefore dropped records that a single run over both hours would have
/// passed on.
#[test]
fn a_state_knows_which_of_the_two_hours_it_has_read() {
    let hour = "k,t\nx,2024-10-27 02:10:00\ncron,2024-10-27 02:30:00\ny,2024-10-27 02:50:00\n";
    let folder = Folder::with(hour);
    let flags = "--format csv --key k --time t --tz Europe/Berlin --window 30m --report none --state state --out out";
    for _ in 0..2 {
        folder.dedup(&format!("{flags} input")).ok();
    }
    assert_eq!(folder.read("out"), hour.to_owned() + &hour[4..]);
}
