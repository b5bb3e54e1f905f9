//! Tests records whose times are far apart, late, or in the wrong order. None of these records may be lost because of
//! its time, and a message must tell the user how to sort the input.
//!
//! Two reports from users led to these tests. In the first report, the logs of three sources were merged, and two of
//! the sources were 15 minutes behind, so all records of the third source were lost. In the second report, rotated logs
//! were read in the order of their names. No record was lost, but most duplicates were passed on, and no message
//! explained why.

use std::collections::{HashMap, HashSet};

use super::run::{Folder, Ran, number};

const START_S: u64 = 1_431_000_000;
const CSV: &str = "--format csv --no-header --key 2 --time 1 --report json --capacity 100k --fpr 1e-8";

fn csv(records: impl Iterator<Item = (u64, String)>) -> String {
    records.map(|(time_s, key)| format!("{time_s},{key}\n")).collect()
}

/// Returns a log with the same number of lines every second. Every key occurs twice in a row.
fn log(from_s: u64, lines: u64, name: &str) -> String {
    csv((0..lines).map(|line| (START_S + from_s + line, format!("{name}{}", line / 2))))
}

fn counts(ran: &Ran) -> [u64; 4] {
    let report = ran.report();
    ["first_seen", "duplicates", "late", "rejected"].map(|name| number(&report, name))
}

/// Returns the lines of stderr that say what is wrong with the order of the input.
fn said(ran: &Ran) -> Vec<&str> {
    let is_about_order = |line: &&str| ["sort ", "oldest file first"].iter().any(|words| line.contains(words));
    ran.err.lines().filter(is_about_order).collect()
}

/// Returns a merged log with the events of `count` sources, which take turns. Each turn consists of `block` events of
/// one source, and every source sends each of its keys twice in a row. Only the last source has the right time. The
/// times of all other sources are 15 minutes behind.
fn shippers(count: u64, block: u64, events: u64) -> String {
    csv((0..events).map(|event| {
        let (shipper, round) = (event / block % count, event / block / count * block + event % block);
        let behind_s = if shipper == count - 1 { 0 } else { 900 };
        (START_S + event - behind_s, format!("{shipper}-{}", round / 2))
    }))
}

#[test]
fn the_shipper_that_is_on_time_is_judged() {
    for (count, block) in [(3, 1), (3, 10), (3, 30), (3, 50), (3, 100), (3, 200), (2, 7), (4, 20), (5, 1)] {
        let folder = Folder::with(shippers(count, block, 9_000));
        let ran = folder.dedup(&format!("{CSV} --window 10m --duplicates twice --out out input")).ok();
        let last = format!(",{}-", count - 1);
        let judged = folder.read("twice").lines().filter(|line| line.contains(&last)).count() as u64;
        let twice = 9_000 / count / 2;
        assert!(
            judged * 10 >= twice * 8,
            "{judged} of {twice} repeats, {count} shippers, blocks of {block}: {}",
            ran.err
        );
        let lines = said(&ran);
        assert!(lines.len() == 1 && lines[0].contains("--lateness 1"), "{count} {block}: {lines:?}");
    }
}

#[test]
fn shippers_are_judged_with_the_lateness_that_is_named() {
    let folder = Folder::with(shippers(3, 20, 9_000));
    let ran = folder.dedup(&format!("{CSV} --window 10m --lateness 16m --duplicates twice --out out input")).ok();
    assert_eq!(counts(&ran), [4_500, 4_500, 0, 0], "{}", ran.err);
    assert_eq!(said(&ran), [""; 0]);
}

#[test]
fn records_that_are_delivered_late_are_judged_or_passed_on() {
    let late = |event: u64| (START_S + event - event * 7_919 % 601, format!("k{event}"));
    let folder = Folder::with(csv((700..20_700).map(late)));
    let ran = folder.dedup(&format!("{CSV} --window 10m --out out input")).ok();
    let [_, duplicates, _, rejected] = counts(&ran);
    assert!(duplicates == 0 && rejected < 1_000, "{}", ran.err);
    assert!(said(&ran).len() == 1 && said(&ran)[0].contains("--lateness 1"), "{}", ran.err);
}

#[test]
fn a_log_that_goes_backwards_is_recognised() {
    for (lines, window, helps) in [
        (3, "1s", "use --lateness 2s"),
        (5, "1s", "twice the window"),
        (120, "10s", "twice the window"),
        (4_000, "1h", "use --lateness 67m"),
    ] {
        let text = log(0, lines, "k");
        let backwards: String = text.lines().rev().map(|line| format!("{line}\n")).collect();
        let folder = Folder::with(backwards);
        let ran = folder.dedup(&format!("{CSV} --window {window} --out out input")).ok();
        let lines_said = said(&ran);
        assert_eq!(lines_said.len(), 1, "{lines}: {}", ran.err);
        for words in ["input:", "times go backwards: sort oldest first (`tac input", helps] {
            assert!(lines_said[0].contains(words), "{lines}: {words}: {}", ran.err);
        }
    }
}

#[test]
fn an_export_that_is_sorted_by_user_is_recognised() {
    let record = |user: u64, visit: u64| (START_S + visit * 1_800 + user * 7, format!("{user}-{visit}"));
    let folder = Folder::with(csv((0..60).flat_map(|user| (0..48).map(move |visit| record(user, visit)))));
    let ran = folder.dedup(&format!("{CSV} --window 1h --out out input")).ok();
    assert!(said(&ran).len() == 1 && said(&ran)[0].contains("times are in no order"), "{}", ran.err);
}

#[test]
fn files_that_are_named_newest_first_are_recognised() {
    for window in ["1m", "10m", "landmark:1m --kind bloom"] {
        let folder = Folder::new();
        for (file, from_s) in [("access.log", 8_000), ("access.log.1", 4_000), ("access.log.2", 0)] {
            folder.write(file, log(from_s, 4_000, file));
        }
        let ran = folder.dedup(&format!("{CSV} --window {window} --out out access.log access.log.1 access.log.2")).ok();
        let lines = said(&ran);
        assert_eq!(lines.len(), 1, "{}", ran.err);
        assert!(lines[0].contains("access.log.1:1: late") && lines[0].contains("`ls -tr`"), "{}", ran.err);
        let sorted =
            folder.dedup(&format!("{CSV} --window {window} --out out access.log.2 access.log.1 access.log")).ok();
        assert_eq!((counts(&sorted), said(&sorted)), ([6_000, 6_000, 0, 0], Vec::new()));
    }
}

/// Files that were concatenated to one stream have no visible borders.
#[test]
fn joined_files_that_are_newest_first_are_recognised() {
    let joined = [log(80, 40, "c"), log(40, 40, "b"), log(0, 40, "a")].concat();
    let ran = Folder::new().dedup_from(&format!("{CSV} --window 10s --out out"), joined.as_bytes()).ok();
    assert_eq!(said(&ran).len(), 1, "{}", ran.err);
}

#[test]
fn a_log_in_order_and_single_broken_times_have_no_such_line() {
    let mut lines: Vec<String> = log(0, 5_000, "k").lines().map(ToOwned::to_owned).collect();
    let folder = Folder::with(lines.join("\n"));
    assert_eq!(said(&folder.dedup(&format!("{CSV} --window 10m --out out input")).ok()), [""; 0]);
    (50..5_000)
        .step_by(100)
        .for_each(|line| lines[line] = format!("{},broken{line}", START_S + 1_000_000 + line as u64));
    folder.write("input", lines.join("\n"));
    assert_eq!(said(&folder.dedup(&format!("{CSV} --window 10m --out out input"))), [""; 0]);
}

#[test]
fn a_lateness_is_measured_at_the_first_records() {
    let folder = Folder::with(shippers(3, 20, 9_000));
    let auto = format!("{CSV} --lateness auto --duplicates twice --out out");
    let ran = folder.dedup(&format!("{auto} --window 1h input")).ok();
    assert_eq!(counts(&ran), [4_500, 4_500, 0, 0], "{}", ran.err);
    assert!(ran.err.contains("records come up to 15m late; --lateness 23m"), "{}", ran.err);
    // The lateness is also measured on a pipe, and never exceeds what the window allows.
    let ran = folder.dedup_from(&format!("{auto} --window 5m"), shippers(3, 20, 9_000).as_bytes()).ok();
    assert!(ran.err.contains("the latest comes 15m late; --lateness 10m is the most"), "{}", ran.err);
    folder.write("input", log(0, 3_000, "k"));
    let ran = folder.dedup(&format!("{auto} --window 1h input")).ok();
    assert!(ran.err.contains("none of the first 3,000 records is late; --lateness 450s"), "{}", ran.err);
    folder.write("input", "");
    assert_eq!(counts(&folder.dedup(&format!("{auto} --window 1h input")).ok()), [0; 4]);
    folder.dedup("--window 1h --time 1 --lateness sometimes input").fails(2, &["90s, 15m, 24h or 7d, or auto"]);
}

#[test]
fn a_saved_filter_keeps_its_lateness() {
    let folder = Folder::with(shippers(3, 20, 9_000));
    let flags = format!("{CSV} --window 1h --lateness auto --state state --out out");
    folder.dedup(&format!("{flags} input")).ok();
    folder.write("next", log(9_000, 3_000, "next"));
    let ran = folder.dedup(&format!("{flags} next")).ok();
    assert!(!ran.err.contains("--lateness auto"), "{}", ran.err);
    assert_eq!(counts(&ran), [1_500, 1_500, 0, 0], "{}", ran.err);
    let same = CSV.to_owned() + " --window 1h --lateness 23m --state state --out out next";
    assert_eq!(counts(&folder.dedup(&same).ok()), [0, 3_000, 0, 0]);
}

/// A late record used to be dropped as the duplicate of an equal record whose time is more than one window later. This
/// happened if two log sources sent the same keys, and one of the sources was more than a window behind the other.
#[test]
fn no_record_is_dropped_for_one_further_away_than_the_window() {
    const WINDOW_S: u64 = 600;
    // Filters measure time in steps, so a record that comes up to two steps after the window may be dropped.
    const STEP_S: u64 = 140;
    for behind_s in [648, 900, 1_150] {
        let times: Vec<u64> =
            (0..3_000).map(|event| START_S + event - if event % 2 == 1 { behind_s } else { 0 }).collect();
        let keys: Vec<String> = (0..3_000).map(|event| (event / 2 * 7_919 % 250).to_string()).collect();
        let folder = Folder::with(csv(times.iter().copied().zip(keys.iter().cloned())));
        for flags in [
            "",
            "--lateness auto",
            "--lateness 20m",
            "--kind timing",
            "--kind timing --lateness 20m",
            "--kind cuckoo --lateness 10m",
            "--kind generations",
            "--kind generations --cell-bits 16 --lateness 5m",
            "--kind counting",
            "--rule refresh",
            "--kind timing --layout classic --slicing vertical:3 --lateness 20m",
            "--kind timing --slicing horizontal:3 --lateness 20m",
        ] {
            let flags = format!("{CSV} --window 10m --duplicates twice --out out {flags}");
            let ran = folder.dedup(&format!("{flags} input")).ok();
            let dropped: HashSet<String> = folder.read("twice").lines().map(str::to_owned).collect();
            let mut passed: HashMap<&str, Vec<u64>> = HashMap::new();
            for (time_s, key) in times.iter().zip(&keys) {
                let seen = passed.entry(key).or_default();
                let is_dropped = dropped.contains(&format!("{time_s},{key}"));
                let is_near = seen.iter().any(|seen_s| seen_s.abs_diff(*time_s) <= WINDOW_S + STEP_S);
                assert!(!is_dropped || is_near, "{time_s},{key} {flags} {behind_s}: {}", ran.err);
                // With `--rule refresh`, a duplicate starts the window again.
                if !is_dropped || flags.contains("refresh") {
                    seen.push(*time_s);
                }
            }
            assert!(!dropped.is_empty(), "{flags} {behind_s}");
        }
    }
}
