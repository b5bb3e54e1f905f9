//! Tests of `firstseen estimate`, which estimates how often each key has occurred recently.

use serde_json::Value;

use crate::run::{Folder, Ran, example, example_text, number};

const TIMED: &str = "--format tsv --no-header --time 1 --key 2 --epoch 10s --lambda 0.5 --capacity 1000 --seed 1";

fn estimate(folder: &Folder, flags: &str) -> Ran {
    folder.run(&format!("estimate {flags}"))
}

/// Returns records with these keys, at the given number of seconds after a multiple of ten.
fn at(events: &[(u64, &str)]) -> String {
    events.iter().map(|(second, key)| format!("{}\t{key}\n", 1_700_000_000 + second)).collect()
}

fn top(report: &Value) -> Vec<(&str, f64)> {
    let keys = report["top_keys"].as_array().expect("top_keys");
    keys.iter().map(|key| (key["key"].as_str().expect("a key"), key["estimate"].as_f64().expect("a number"))).collect()
}

#[test]
fn occurrences_count_half_after_an_epoch_wherever_in_it_they_were() {
    let input = at(&[(0, "a"), (9, "a"), (10, "a"), (30, "b"), (49, "a"), (35, "a"), (49, "c")]);
    for storage in ["basic", "extended"] {
        let folder = Folder::with(&input);
        let flags = format!("{TIMED} --storage {storage} --per-event - --report json input");
        let ran = estimate(&folder, &flags).ok();
        let estimates: Vec<&str> = ran.out.lines().filter_map(|line| line.split('\t').next()).collect();
        // The sixth occurrence is one epoch late, so it counts one half.
        assert_eq!(estimates, ["1", "2", "2", "1", "1.25", "1.75", "1"], "{storage}");
        let without: String =
            ran.out.lines().filter_map(|line| line.split_once('\t')).map(|(_, record)| format!("{record}\n")).collect();
        assert_eq!(without, input);
        let report = ran.report();
        assert_eq!(top(&report), [("a", 1.75), ("c", 1.0), ("b", 0.5)]);
        assert_eq!((number(&report, "events"), number(&report, "late"), number(&report, "degraded")), (7, 1, 0));
    }
}

#[test]
fn epochs_may_be_counted_in_events() {
    let folder = Folder::with("a\na\na\nb\na");
    let ran = estimate(&folder, "--epoch 2events --capacity 100 --per-event - --report none input").ok();
    assert_eq!(ran.out, "1\ta\n2\ta\n2\ta\n1\tb\n2\ta\n");
    assert_eq!(ran.err, "");
}

#[test]
fn frequent_records_are_passed_on_unchanged() {
    let folder = Folder::with("time,user\r\n1700000000,\"a\nb\"\r\n1700000001,c\r\n1700000002,\"a\nb\"\r\n");
    folder.write("more", "time,user\n1700000003,\"a\nb\"");
    let flags = "--format csv --key user --time time --capacity 100 --min-estimate 2 --report json input more";
    let ran = estimate(&folder, flags).ok();
    assert_eq!(ran.out, "time,user\r\n1700000002,\"a\nb\"\r\n1700000003,\"a\nb\"");
    assert_eq!(number(&ran.report(), "chosen"), 2);
    let ran = estimate(&folder, &format!("{flags} --out chosen --per-event -")).ok();
    assert_eq!(folder.read("chosen"), "time,user\r\n1700000002,\"a\nb\"\r\n1700000003,\"a\nb\"");
    assert_eq!(
        ran.out,
        "1\t1700000000,\"a\nb\"\r\n1\t1700000001,c\r\n2\t1700000002,\"a\nb\"\r\n3\t1700000003,\"a\nb\"\n"
    );
}

#[test]
fn json_lines_name_the_parts_of_the_key() {
    let folder = Folder::with("x,\"a \"\"b\"\"\"\nx,y\nx,\"a \"\"b\"\"\"\n");
    let flags =
        "--format csv --no-header --key 1,2 --epoch 9events --capacity 100 --report none --per-event events input";
    estimate(&folder, &format!("{flags} --per-event-format json")).ok();
    let lines: Vec<Value> =
        folder.read("events").lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    let expected = [r#"{"estimate":1.0,"key":["x","a \"b\""]}"#, r#"{"estimate":1.0,"key":["x","y"]}"#];
    assert_eq!(lines[0].to_string(), expected[0]);
    assert_eq!(lines[1].to_string(), expected[1]);
    assert_eq!((lines.len(), lines[2]["estimate"].as_f64()), (3, Some(2.0)));
}

/// Checks every rule and storage on a real log, with hardly more memory than its keys need.
#[test]
fn estimates_keep_their_bounds_on_a_real_log() {
    let log = example("nasa_19950801.tsv.gz");
    for rule in [
        "--lambda 0.5",
        "--lambda 0.9 --fraction-bits 5 --storage basic",
        "--lambda 0.3 --epoch 10m",
        "--lambda 0.97 --epoch 1m",
        "--rule literal --lambda 0.9 --storage basic",
        "--rule literal --lambda 0.5",
    ] {
        for (key, capacity) in [("host", 2600), ("host,url", 26_500)] {
            let flags = format!("--format tsv --time time --key {key} --capacity {capacity} {rule} --seed 3");
            let ran = estimate(&Folder::new(), &format!("{flags} --verify exact --report json {log}")).ok();
            let report = ran.report();
            let verify = &report["verify"];
            assert_eq!((number(verify, "compared"), number(&report, "degraded")), (33_996, 0), "{flags}");
            assert_eq!(number(verify, "undercounts_beyond_epsilon"), 0, "{flags}: {verify}");
            let unseen = number(verify, "unseen");
            assert!(unseen > 2500 && number(verify, "unseen_above_zero") <= unseen / 100, "{flags}: {verify}");
            let is_full = rule.contains("basic") && key == "host,url";
            assert!(!is_full || number(verify, "unseen_above_zero") > 10, "{flags} would not show a broken bound");
            let below = verify["max_undercount"].as_f64().expect("a number");
            assert!(below <= report["epsilon"].as_f64().expect("a number"), "{flags}: {verify}");
            assert_eq!(rule.contains("literal"), below == 0.0, "{flags}: {verify}");
        }
    }
}

#[test]
fn too_many_keys_and_full_counters_are_reported() {
    let folder = Folder::with((0..3000).map(|key| format!("{key}\n")).collect::<String>());
    let flags = "--epoch 1000000events --seed 1 --report json input";
    let ran = estimate(&folder, &format!("--capacity 1000 {flags}")).ok();
    assert!(ran.err.contains("more keys than --capacity"), "{}", ran.err);
    assert!(!estimate(&folder, &format!("--capacity 3000 {flags}")).ok().err.contains("--capacity"));
    // The greatest count is 65,535 sixteenths.
    folder.write("input", "a\n".repeat(4100));
    let ran = estimate(&folder, &format!("--capacity 10 --storage basic {flags}")).ok();
    assert!(ran.err.contains("were not counted in full") && number(&ran.report(), "degraded") > 0, "{}", ran.err);
    assert_eq!(top(&estimate(&folder, &format!("--capacity 10 {flags}")).ok().report()), [("a", 4100.0)]);
}

#[test]
fn two_runs_equal_one_over_the_joined_files() {
    let lines: Vec<String> =
        example_text("nasa_19950801.tsv.gz").lines().skip(1).take(9000).map(|line| format!("{line}\n")).collect();
    for filter in ["", "--storage basic --lambda 0.9", "--rule literal", "--epoch 700events"] {
        let flags = format!("--format tsv --no-header --key 1 --time 3 --capacity 500 --epoch 20m {filter}");
        let flags = if filter.contains("--epoch") { flags.replace("--epoch 20m ", "") } else { flags };
        let flags = format!("{flags} --seed 5 --report none --per-event -");
        let folder = Folder::with(lines.concat());
        let whole = estimate(&folder, &format!("{flags} --state whole input")).ok();
        folder.write("head", lines[..4321].concat());
        folder.write("tail", lines[4321..].concat());
        let first = estimate(&folder, &format!("{flags} --state parts head")).ok();
        let second = estimate(&folder, &format!("{flags} --state parts tail")).ok();
        assert!(first.out + &second.out == whole.out, "{filter}");
        assert!(std::fs::read(folder.path("whole")).ok() == std::fs::read(folder.path("parts")).ok(), "{filter}");
    }
}

#[test]
fn lookup_changes_nothing() {
    let folder = Folder::with(at(&[(0, "a"), (1, "a"), (2, "b"), (12, "a")]));
    estimate(&folder, &format!("{TIMED} --state state --report none input")).ok();
    let saved = std::fs::read(folder.path("state")).expect("a state");
    // Lookups in a later epoch do not move the clock. The last lookup is late, and gets the estimate that remains at
    // the time of the clock.
    folder.write("asked", at(&[(15, "a"), (15, "a"), (25, "a"), (25, "b"), (25, "c"), (5, "a")]));
    let flags = format!("{TIMED} --state state --lookup --per-event - --report json asked");
    let ran = estimate(&folder, &flags).ok();
    let estimates: Vec<&str> = ran.out.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(estimates, ["2", "2", "1", "0.25", "0", "2"]);
    assert_eq!(top(&ran.report()), [("a", 2.0), ("b", 0.5)]);
    assert!(std::fs::read(folder.path("state")).expect("a state") == saved);
}

#[test]
fn only_its_own_state_is_taken() {
    let folder = Folder::with(at(&[(0, "a")]));
    estimate(&folder, &format!("{TIMED} --state state input")).ok();
    let other = TIMED.replace("--lambda 0.5", "--lambda 0.6");
    estimate(&folder, &format!("{other} --state state input"))
        .fails(2, &["another filter", "lambda 0.5", "lambda 0.6"]);
    estimate(&folder, &format!("{TIMED} --state state --verify exact input")).fails(2, &["--verify", "--state"]);
    folder.dedup("--state state input").fails(1, &["state"]);
    let mut bytes = std::fs::read(folder.path("state")).expect("a state");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    folder.write("state", &bytes);
    estimate(&folder, &format!("{TIMED} --state state input")).fails(1, &["damaged"]);
    assert!(std::fs::read(folder.path("state")).expect("a state") == bytes);
}

#[test]
fn records_without_a_place_in_time_are_rejected() {
    let broken = at(&[(0, "a"), (3_000_000, "a"), (1, "a")]) + "noon\ta\n";
    let folder = Folder::with(&broken);
    let ran = estimate(&folder, &format!("{TIMED} --rejected bad --report json input")).ok();
    assert_eq!(folder.read("bad"), at(&[(3_000_000, "a")]) + "noon\ta\n");
    assert!(ran.err.contains("input:2: rejected") && ran.err.contains("input:4: rejected"), "{}", ran.err);
    let report = ran.report();
    assert_eq!((number(&report, "events"), number(&report, "rejected")), (2, 2));
    assert_eq!(top(&report), [("a", 2.0)]);
    assert_eq!(estimate(&folder, &format!("{TIMED} --strict --report none input")).code, Some(2));
}

#[test]
fn the_report_names_as_many_keys_as_were_asked_for() {
    let keys: String = (0..300).flat_map(|key| vec![format!("key-{key:03}\n"); key]).collect();
    let folder = Folder::with(keys);
    let flags = "--epoch 1000000events --capacity 2000 --seed 2 --report json input --top";
    for count in [0, 1, 299, 300] {
        let report = estimate(&folder, &format!("{flags} {count}")).ok().report();
        let expected: Vec<(String, f64)> =
            (1..300).rev().take(count).map(|key| (format!("key-{key:03}"), f64::from(key))).collect();
        let found: Vec<(String, f64)> = top(&report).into_iter().map(|(key, count)| (key.to_owned(), count)).collect();
        assert_eq!(found, expected);
    }
    let text = estimate(&folder, "--epoch 1000000events --capacity 2000 --top 1 input").ok().err;
    assert!(text.contains("greatest estimates\n        299.00  key-299\n"), "{text}");
}

#[test]
fn impossible_flags_are_an_error_before_anything_is_read() {
    let folder = Folder::with("a\n");
    for (flags, words) in [
        ("", &["--epoch 1h", "--time", "--epoch 1000000events"][..]),
        ("--epoch 0s", &["empty"]),
        ("--epoch unbounded", &["unbounded", "1h"]),
        ("--epoch 9events --lambda 1", &["decay factor", "1"]),
        ("--epoch 9events --lambda -0.5", &["decay factor"]),
        ("--epoch 9events --lambda nan", &["decay factor"]),
        ("--epoch 9events --fpr 0", &["0"]),
        ("--epoch 9events --fpr 1", &["1"]),
        ("--epoch 9events --capacity -5", &["negative"]),
        ("--epoch 9events --fraction-bits 13", &["13"]),
        ("--epoch 9events --hashes 17", &["17"]),
        ("--epoch 9events --top 10001", &["10000"]),
        ("--epoch 9events --min-estimate -1", &["--min-estimate"]),
        ("--epoch 9events --min-estimate nan", &["--min-estimate"]),
        ("--epoch 9events --min-estimate 1 --per-event -", &["standard output", "--out"]),
        ("--epoch 9events --per-event input", &["input", "read too"]),
        ("--epoch 9events --out x", &["--min-estimate"]),
        ("--epoch 9events --lookup", &["--state"]),
        ("--epoch 9events --source 1", &["--source", "--key"]),
    ] {
        let ran = estimate(&folder, &format!("{flags} input")).fails(2, words);
        assert_eq!((ran.out.as_str(), folder.names()), ("", vec!["input".to_owned()]), "{flags}");
    }
}

#[test]
fn no_input_is_no_error() {
    let folder = Folder::with("");
    let report = estimate(&folder, "--epoch 9events --capacity 10 --verify exact --report json input").ok().report();
    assert_eq!((number(&report, "events"), top(&report).len()), (0, 0));
}
