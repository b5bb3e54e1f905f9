//! Tests that a run which cannot judge any record writes nothing, and prints what the input looks like.

use std::io::{BufRead, BufReader, Write};

use crate::run::{Folder, Watchdog};

/// Inputs in which no record can be judged, with their flags and with words of the message.
const NOTHING: &[(&str, &str, &[&str])] = &[
    ("--format jsonl --key id", "x\n", &["1 invalid_json", "input:1"]),
    ("--format jsonl --key id", "[{\"id\":1},\n{\"id\":2}]\n", &["invalid_json", "JSON array", "jq -c '.[]'"]),
    ("--format jsonl --key id", "[{\"id\":1},{\"id\":2}]", &["not_an_object", "jq -c '.[]'"]),
    ("--format jsonl --key id", "{\"Id\":1}\n{\"Id\":2}\n", &["no record has the field `id`", "did you mean `Id`?"]),
    ("--format clf", "{\"a\":1}\n{\"a\":2}\n", &["2 not_a_log_line", "this looks like jsonl: --format jsonl"]),
    ("--format cdxj", "no index\n\nat all\n", &["2 not_an_index_line"]),
    ("--format csv --no-header --key 2", "x\ny\n", &["no record has the field `2`"]),
    ("--format csv --key k --time t --window 1h", "k,t\na,soon\nb,later\n", &["2 bad_time", "--time", "--tz"]),
    ("--format csv --key id", "{\"id\":1}\n{\"id\":2}\n", &["there is no field `id`", "--format jsonl"]),
];

/// Such a run used to end with exit code 0 and an empty output, which users mistook for a result.
#[test]
fn a_run_that_judges_nothing_writes_nothing() {
    for (flags, input, words) in NOTHING {
        let folder = Folder::with(input);
        let outputs = "--out out --duplicates again --rejected aside --state state";
        folder.dedup(&format!("{flags} {outputs} input")).fails(2, words);
        assert_eq!(folder.names(), ["input"], "{flags}");
        folder.write("older", "kept\n");
        let outputs = "--out older --duplicates again --rejected aside";
        let ran = folder.dedup(&format!("{flags} {outputs} input")).fails(2, words);
        assert_eq!(ran.err.lines().count(), 1, "{flags}: {}", ran.err);
        assert_eq!(folder.read("older"), "kept\n", "{flags}");
        assert_eq!(folder.names(), ["input", "older"], "{flags}");
        for more in ["--unjudged drop", "--unjudged fail", "--strict", ""] {
            let ran = folder.dedup(&format!("{flags} {more} input"));
            assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{flags} {more}: {}", ran.err);
        }
        let ran = folder.dedup_from(flags, input.as_bytes());
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{flags}: {}", ran.err);
    }
}

#[test]
fn times_that_cannot_be_judged_are_no_exception() {
    let flags = "--format csv --no-header --key 2 --time 1 --window 1h --state state";
    let folder = Folder::with("1700000000,a\n");
    folder.dedup(&format!("{flags} input")).ok();
    let saved = std::fs::read(folder.path("state")).expect("a state");
    for (input, reason) in [("1600000000,b\n1600000001,c\n", "2 late"), ("99999999999,b\n", "1 future")] {
        folder.write("input", input);
        let ran = folder.dedup(&format!("{flags} --out out input")).fails(2, &[reason]);
        assert!(!folder.has("out"), "{}", ran.err);
        assert!(std::fs::read(folder.path("state")).expect("a state") == saved, "{reason}");
    }
    // If the user has chosen what happens to late records, this counts as a judgement.
    folder.write("input", "1600000000,b\n1600000001,c\n");
    assert_eq!(folder.dedup(&format!("{flags} --late duplicate input")).ok().out, "");
    assert_eq!(folder.dedup(&format!("{flags} --late first-seen input")).ok().out, "1600000000,b\n1600000001,c\n");
}

#[test]
fn one_judged_record_in_the_first_mebibyte_is_enough() {
    let noise = "no json\n".repeat((1 << 20) / 8 - 100);
    let folder = Folder::with(format!("{noise}{{\"id\":1}}\n"));
    let ran = folder.dedup("--format jsonl --key id --report none input").ok();
    assert!(ran.out == folder.read("input"));
    // The record after this limit comes too late, because the run has ended.
    folder.write("input", format!("{noise}{noise}{{\"id\":1}}\n"));
    let ran =
        folder.dedup("--format jsonl --key id --out out input").fails(2, &["invalid_json", "nothing was written"]);
    assert!(!folder.has("out"), "{}", ran.err);
}

#[test]
fn an_empty_input_is_no_mistake() {
    for (flags, input) in [
        ("--format jsonl --key id", ""),
        ("--format jsonl --key id", "\n\n"),
        ("--format csv --key k", ""),
        ("--format csv --key k", "k,v\n"),
        ("--format csv --key k", "k,v\n\n"),
    ] {
        let folder = Folder::with(input);
        folder.write("out", "older\n");
        folder.dedup(&format!("{flags} --strict --out out input")).ok();
        assert_eq!(folder.read("out"), input, "{flags}");
        assert_eq!(folder.dedup_from(flags, input.as_bytes()).ok().out, input, "{flags}");
    }
}

/// A stream that does not fit its flags ends after a second, even if its writer continues.
#[test]
fn a_stream_is_given_a_second() {
    for first in ["x\n", "x\ny\n\nz\n"] {
        let folder = Folder::new();
        let mut child = folder.start("--format jsonl --key id --out out --state state");
        let _watchdog = Watchdog::of(&child);
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(first.as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
        assert_eq!(child.wait().expect("an end").code(), Some(2));
        assert_eq!(folder.names(), [""; 0], "nothing is left, and nothing was written");
        drop(stdin);
    }
}

#[test]
fn the_first_judged_record_of_a_stream_comes_at_once_with_those_before_it() {
    for (before, first) in [("", "{\"id\":1}\n"), ("x\n\ny\n", "{\"id\":1}\n")] {
        let mut child = Folder::new().start("--format jsonl --key id --report none");
        let _watchdog = Watchdog::of(&child);
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(before.as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
        stdin.write_all(first.as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
        for expected in (before.to_owned() + first).lines() {
            let mut line = String::new();
            output.read_line(&mut line).expect("a line");
            assert_eq!(line.trim_end(), expected, "the input is still open");
        }
        // From then on, records that cannot be judged are written at once.
        stdin.write_all(b"z\n").and_then(|()| stdin.flush()).expect("a run that listens");
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "z\n");
        drop(stdin);
        assert_eq!(child.wait().expect("an end").code(), Some(0));
    }
}

/// A reader that waits for the header must not have to wait for the first record.
#[test]
fn a_header_comes_though_no_record_does() {
    let mut child = Folder::new().start("--format csv --key k --report none");
    let _watchdog = Watchdog::of(&child);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut stdin = child.stdin.take().expect("a pipe");
    for part in ["k,v\n", "a,1\n", "b,2\n"] {
        stdin.write_all(part.as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, part);
    }
    drop(stdin);
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

/// CloudTrail writes one object that contains all records. The message used to name its only member instead of the
/// command that helps.
#[test]
fn an_object_with_all_records_in_it_is_named_with_the_command_that_helps() {
    for (input, words) in [
        ("{\"Records\":[{\"id\":1},{\"id\":2}]}", "jq -c '.Records[]'"),
        ("{\n  \"Records\": [\n    {\n      \"id\": 1\n    }\n  ]\n}\n", "jq -c '.Records[]'"),
        ("[{\"id\":1},{\"id\":2}]\n", "jq -c '.[]'"),
    ] {
        let ran = Folder::with(input).dedup("--format jsonl --key id input").fails(2, &[words]);
        assert_eq!(ran.out, "", "{input}");
    }
}
