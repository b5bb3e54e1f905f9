//! Checks that single producers, or single records, with wrong times cannot end the windows of others.
//!
//! The test repeats a sequence that failed in an earlier version, with default flags and `--window 1h`:
//!
//! - A producer sends the events k1 to k5 with the current time. If it sends them again, they are duplicates.
//! - Another event arrives whose time is 6 days and 23 hours ahead. The earlier version accepted this event, which
//!   moved the clock of the filter.
//! - The producer sends k1 to k5 again with the current time. The earlier version took them for late events and passed
//!   them on as first-seen.
//!
//! The earlier version then even accepted an event that was 13 days ahead, because its time was less than a week after
//! the moved clock. A lookup whose time was in the future moved the clock in the same way as an event.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use firstseen_client::{Client, ConnectOptions, Event, Filter, Reason, Verdict, Wait};

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::{Folder, number};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Times ahead, in milliseconds. Each of them is less than a week ahead of the previous one.
const RATCHET_MS: [u64; 4] = [6 * DAY_MS + 23 * HOUR_MS, 13 * DAY_MS, 19 * DAY_MS, HOUR_MS / 2];
const HOURLY: &str = "--window 1h";
const FLAGS: &str = "--format csv --no-header --key 2 --time 1 --report json";

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn keys(time_ms: u64) -> String {
    (1..=5).map(|key| format!("{time_ms},k{key}\n")).collect()
}

fn counts(folder: &Folder, flags: &str) -> [u64; 4] {
    let report = folder.dedup(&format!("{FLAGS} {flags} --out out input")).ok().report();
    ["first_seen", "duplicates", "late", "rejected"].map(|name| number(&report, name))
}

#[test]
fn records_from_the_future_end_no_window_of_a_log() {
    let now_ms = now_ms();
    let broken: String = RATCHET_MS.iter().map(|ahead_ms| format!("{},x{ahead_ms}\n", now_ms + ahead_ms)).collect();
    let folder = Folder::with([keys(now_ms), keys(now_ms), broken.clone(), keys(now_ms)].concat());
    assert_eq!(counts(&folder, HOURLY), [5, 10, 0, 4]);
    assert_eq!(counts(&folder, "--window landmark:week --kind bloom --capacity 1000"), [5, 10, 0, 4]);
    // Across runs, a record with a time in the future is not accepted on its own, without a later record that confirms
    // the time.
    let last = format!("{},x\n", now_ms + RATCHET_MS[0]);
    for (input, expected) in [(keys(now_ms), [5, 0, 0, 0]), (keys(now_ms) + &last, [0, 5, 0, 1])] {
        folder.write("input", input);
        assert_eq!(counts(&folder, "--window 1h --state state"), expected);
    }
    folder.write("input", last);
    folder.dedup(&format!("{FLAGS} --window 1h --state state input")).fails(2, &["future", "nothing was written"]);
    folder.write("input", keys(now_ms));
    assert_eq!(counts(&folder, "--window 1h --state state"), [0, 5, 0, 0]);
    // A lookup with a time ahead is answered as if that time had come, and the cells stay unchanged.
    folder.write("input", format!("{},k1\n{now_ms},k1\n", now_ms + 13 * DAY_MS));
    assert_eq!(counts(&folder, "--window 1h --state state --lookup"), [1, 1, 0, 0]);
}

/// Returns the lines of a log of the year 2015 in which one line in a hundred has a wrong time. Keys repeat within the
/// hour, so wrong times would lead to wrong verdicts. The lines are long, so that the program reads the log in several
/// blocks.
fn log(lines: u64, broken: impl Fn(u64) -> bool, ahead_ms: u64) -> (String, String) {
    let (mut right, mut all) = (String::new(), String::new());
    for line in 0..lines {
        let time_ms = 1_431_000_000_000 + line * 700;
        if broken(line) {
            all += &format!("{},broken{line},{line:0200}\n", time_ms + ahead_ms + line * 90);
        } else {
            let text = format!("{time_ms},key{},{line:0200}\n", (line * 7919) % 3001);
            right += &text;
            all += &text;
        }
    }
    (right, all)
}

fn assert_same(kept: &str, expected: &str, what: &str) {
    let mut differ = kept.lines().zip(expected.lines()).filter(|(one, other)| one != other);
    assert!(kept == expected, "{what}: {} and {} bytes, {:?} differ first", kept.len(), expected.len(), differ.next());
}

/// Checks a log with different positions of the wrong lines, so that each wrong line is at the end of a block in one of
/// the cases.
#[test]
fn a_hundredth_of_a_log_changes_no_verdict_of_the_rest() {
    let folder = Folder::new();
    let kept = |input: String| {
        folder.write("input", input);
        let flags = "--seed 1 --capacity 100k --fpr 0.000001 --unjudged drop";
        folder.dedup(&format!("{FLAGS} {HOURLY} {flags} --out out input")).ok();
        folder.read("out")
    };
    for shift in 0..100 {
        let ahead_ms = [HOUR_MS / 2, HOUR_MS, 3 * DAY_MS, 4000 * DAY_MS][shift as usize % 4];
        let (right, all) = log(8_000, |line| line % 100 == shift && line < 7_990, ahead_ms);
        assert_same(&kept(all), &kept(right), &format!("shift {shift}, {ahead_ms} ms ahead"));
    }
    for start in (0..15_000).step_by(997) {
        let (right, all) = log(16_000, |line| (start..start + 100).contains(&line), 5 * HOUR_MS);
        assert_same(&kept(all), &kept(right), &format!("a burst at {start}"));
    }
}

#[test]
fn logs_with_gaps_and_tiny_logs_lose_nothing() {
    for gap_ms in [2 * HOUR_MS, 3 * DAY_MS, 40 * DAY_MS] {
        let tiny: String = (0..9).map(|line| format!("{},k\n", 1_431_000_000_000 + line * gap_ms)).collect();
        let folder = Folder::with(&tiny);
        assert_eq!(counts(&folder, HOURLY), [9, 0, 0, 0], "{gap_ms} ms between lines");
        // The log is processed in batches of one line.
        for (line, text) in tiny.lines().enumerate() {
            folder.write("input", format!("{text}\n"));
            assert_eq!(
                counts(&folder, "--window 1h --state state"),
                [1, 0, 0, 0],
                "line {line}, {gap_ms} ms between lines"
            );
        }
        let (before, _) = log(5_000, |_| false, 0);
        let after: String = (0..5_000)
            .map(|line| format!("{},key{line}\n", 1_431_000_000_000 + gap_ms + 5_000 * 700 + line * 700))
            .collect();
        folder.write("input", before + &after);
        let counts = counts(&folder, HOURLY);
        assert_eq!((counts[0] + counts[1], counts[2], counts[3]), (10_000, 0, 0), "{gap_ms} ms in the middle");
    }
}

/// Processes four days of a log, with one file for each day. `days` is the order in which the files are named.
fn counts_of_days(days: [u64; 4], broken_ends_ms: Option<u64>, flags: &str) -> [u64; 4] {
    let folder = Folder::new();
    let start_ms = 1_431_000_000_000;
    for day in 0..4 {
        let line = |line: u64| format!("{},day{day}-key{line}\n", start_ms + day * DAY_MS + line * 43_000);
        let end = broken_ends_ms.map(|ahead_ms| format!("{},broken{day}\n", start_ms + day * DAY_MS + ahead_ms));
        folder.write(&format!("day{day}"), (0..2000).map(line).chain(end).collect::<String>());
    }
    let files = days.map(|day| format!("day{day}")).join(" ");
    let report = folder.dedup(&format!("{FLAGS} {flags} --out out {files}")).ok().report();
    ["first_seen", "duplicates", "undecided", "rejected"].map(|name| number(&report, name))
}

/// Checks that no record is lost if rotated log files are named on the command line in the wrong order, for example the
/// file of the last day first. In an earlier version, up to 128 records of each file except the last one were rejected
/// in this case.
#[test]
fn files_in_a_wrong_order_lose_nothing() {
    for days in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 3, 2, 1], [2, 0, 3, 1]] {
        for flags in [
            "--window 24h --capacity 10k --fpr 1e-6",
            "--window 1h --capacity 10k --fpr 1e-6",
            "--window 1h --future-max 44s --capacity 10k --fpr 1e-6",
        ] {
            assert_eq!(counts_of_days(days, None, flags), [8000, 0, 0, 0], "{days:?} {flags}");
        }
    }
}

#[test]
fn a_broken_time_at_the_end_of_a_file_ends_no_window() {
    let hourly = "--window 1h --fpr 1e-6";
    // In the right order, the next file contradicts the wrong time. Only the last file has no file after it.
    assert_eq!(counts_of_days([0, 1, 2, 3], Some(40 * DAY_MS), hourly), [8001, 0, 0, 3]);
    let burst = |line: u64| (1_950..2_000).contains(&line);
    let (right, all) = log(2_000, burst, 5 * HOUR_MS);
    let (next, _) = log(4_000, |line| line < 2_000, 0);
    let folder = Folder::new();
    let kept = |first: &str| {
        folder.write("first", first);
        folder.write("next", &next);
        let flags = format!("{FLAGS} {hourly} --seed 1 --capacity 100k --unjudged drop");
        folder.dedup(&format!("{flags} --out out first next")).ok();
        folder.read("out")
    };
    assert_same(&kept(&all), &kept(&right), "a burst at the end of a file");
    // In the wrong order, no file contradicts the time. The record is passed on, and the clock does not move.
    let folder = Folder::new();
    let file =
        |start_ms: u64| (0..200).map(|line| format!("{},key{line}\n", start_ms + line * 1000)).collect::<String>();
    let (start_ms, early_ms) = (1_431_000_000_000, 1_431_000_000_000 - 60_000);
    folder.write("newer", file(start_ms) + &format!("{},broken\n", start_ms + 40 * DAY_MS));
    folder.write("older", file(early_ms));
    let ran = folder.dedup(&format!("{FLAGS} {hourly} --out out newer older")).ok();
    let report = ran.report();
    let counts = ["first_seen", "duplicates", "undecided", "late", "rejected"].map(|name| number(&report, name));
    assert_eq!(counts, [200, 200, 1, 0, 0]);
    assert!(
        ran.err.contains("newer:201: passed on unjudged: undecided") && ran.err.contains("oldest file first"),
        "{}",
        ran.err
    );
    assert!(folder.read("out").contains("broken"));
    folder
        .dedup(&format!("{FLAGS} {hourly} --strict --out out newer older"))
        .fails(2, &["newer:201: passed on unjudged: undecided"]);
}

/// Checks the logs of two hosts, processed one after the other.
#[test]
fn logs_of_the_same_hours_lose_nothing() {
    let folder = Folder::new();
    for (host, shift_ms) in [("a", 0), ("b", 20_000)] {
        let line = |line: u64| format!("{},{host}{line}\n", 1_431_000_000_000 + shift_ms + line * 43_000);
        folder.write(host, (0..2000).map(line).collect::<String>());
    }
    for files in ["a b", "b a"] {
        let report = folder.dedup(&format!("{FLAGS} --window 24h --fpr 1e-6 --out out {files}")).ok().report();
        let counts = ["first_seen", "undecided", "rejected"].map(|name| number(&report, name));
        assert_eq!(counts, [4000, 0, 0], "{files}");
    }
}

fn node() -> OwnNode {
    let node = OwnNode::start("here", "");
    let init = format!("cluster init --addr {}", node.address);
    eventually("a cluster", || node.folder.run(&init).code == Some(0));
    node
}

fn create(node: &OwnNode, name: &str, flags: &str) {
    let create = format!("filter create {name} --window 1h --capacity 10k {flags} --cluster {}", node.address);
    eventually("the filter", || node.folder.run(&create).code == Some(0));
}

fn filter(node: &OwnNode, name: &str) -> (Client, Filter) {
    let client = Client::connect(ConnectOptions::from([node.address.clone()])).wait().expect("a client");
    let filter = opened(&client, name);
    (client, filter)
}

fn verdicts(filter: &Filter) -> Vec<Verdict> {
    (1..=5)
        .map(|key| filter.observe(Event::from(format!("k{key}").as_bytes()).at(now_ms())).wait().expect("a call"))
        .collect()
}

const DUPLICATES: [Verdict; 5] = [Verdict::Duplicate; 5];
const FIRST_SEEN: [Verdict; 5] = [Verdict::FirstSeen; 5];

#[test]
fn producers_from_the_future_end_no_window_of_a_cluster() {
    let node = node();
    for (name, flags) in [("together", "--slicing horizontal:2"), ("divided", "--slicing vertical:3")] {
        create(&node, name, flags);
        let (_client, producer) = filter(&node, name);
        let (_other, broken) = filter(&node, name);
        assert_eq!(verdicts(&producer), FIRST_SEEN);
        assert_eq!(verdicts(&producer), DUPLICATES);
        for ahead_ms in RATCHET_MS {
            let refused = broken.observe(Event::from(b"x").at(now_ms() + ahead_ms)).wait().expect("a call");
            assert_eq!(refused, Verdict::Undecided(Reason::Future), "{name}: {ahead_ms} ms ahead");
            let looked_up = broken.test(Event::from(b"k1").at(now_ms() + ahead_ms)).wait().expect("a call");
            let left = if ahead_ms < HOUR_MS { Verdict::Duplicate } else { Verdict::FirstSeen };
            assert_eq!(looked_up, left, "{name}: {ahead_ms} ms ahead");
            assert_eq!((verdicts(&producer), verdicts(&broken)), (DUPLICATES.to_vec(), DUPLICATES.to_vec()), "{name}");
        }
        let ahead = format!("{},x\n", now_ms() + 13 * DAY_MS);
        node.folder.write("input", [keys(now_ms()), ahead.clone(), keys(now_ms())].concat());
        let flags = format!("{FLAGS} --cluster {} --filter {name}", node.address);
        let ran = node.folder.dedup(&format!("{flags} --out {name} input")).ok();
        assert!(ran.err.contains("input:6 is undecided (future: its time is ahead"), "{}", ran.err);
        let report = ran.report();
        let counted = ["duplicates", "undecided", "rejected"].map(|count| number(&report, count));
        let reason = number(&report["undecided_reasons"], "future");
        assert_eq!((counted, reason), ([10, 1, 0], 1), "{name}: {report}");
        assert_eq!(node.folder.read(name), ahead, "{name}: what is not taken is passed on");
        node.folder.dedup(&format!("{flags} --strict input")).fails(2, &["undecided (future"]);
    }
}

/// Checks that a node notices the end of a process. The next process then need not wait until the previous one counts
/// as silent.
#[test]
fn old_times_that_one_process_has_replayed_do_not_hold_back_the_next() {
    let node = node();
    for (name, flags) in [("together", "--slicing horizontal:2"), ("divided", "--slicing vertical:3")] {
        create(&node, name, flags);
        let flags = format!("{FLAGS} --cluster {} --filter {name} --out out --strict input", node.address);
        // The test replays 30-day-old records, a day with few lines, a day with one line, and current events.
        for (days, lines) in [(30, 3_000), (29, 100), (27, 1), (0, 20)] {
            let from_ms = now_ms() - days * DAY_MS;
            let log: String = (0..lines).map(|line| format!("{},k{days}-{line}\n", from_ms + line * 10)).collect();
            node.folder.write("input", log);
            let report = node.folder.dedup(&flags).ok().report();
            let counted = ["undecided", "late", "rejected"].map(|count| number(&report, count));
            assert_eq!(counted, [0; 3], "{name}, {days} d ago: {report}");
        }
    }
}

#[test]
fn a_clock_that_went_wrong_is_set_back_by_one_command() {
    let node = node();
    // A filter that accepts any single event up to a month ahead can get a wrong clock.
    create(&node, "clicks", "--future-max 30d --slicing horizontal:2");
    let (_client, producer) = filter(&node, "clicks");
    assert_eq!((verdicts(&producer), verdicts(&producer)), (FIRST_SEEN.to_vec(), DUPLICATES.to_vec()));
    for key in 0..20 {
        let taken = producer
            .observe(Event::from(format!("x{key}").as_bytes()).at(now_ms() + 20 * DAY_MS))
            .wait()
            .expect("a call");
        assert_eq!(taken, Verdict::FirstSeen);
    }
    assert_eq!(verdicts(&producer), [Verdict::Undecided(Reason::Late); 5]);
    let set = |flags: &str| node.folder.run(&format!("filter set-clock clicks {flags} --cluster {}", node.address));
    set("").fails(2, &["first-seen once more", "--yes"]);
    let done = set("--yes");
    assert!(done.code == Some(0) && done.out.contains("sets its clock"), "{}{}", done.out, done.err);
    // Running producers find the new filter without being restarted.
    eventually("the filter that has followed", || {
        let seen: BTreeSet<String> = verdicts(&producer).iter().map(|verdict| format!("{verdict:?}")).collect();
        seen.iter().all(|verdict| verdict == "FirstSeen" || verdict == "Duplicate")
    });
    assert_eq!(verdicts(&producer), DUPLICATES);
    assert!(node.log().contains("the clock of a filter begins anew"), "{}", node.log());
}

/// Checks that a run rejects a saved state whose time is years in the future. Such a state is left behind if the clock
/// of the machine was wrong when the state was saved. The check applies to runs that use the time of arrival as the
/// time of a record. In an earlier version, such a run accepted the state, and would have remembered the saved events
/// for years.
#[test]
fn a_state_from_the_future_is_refused_where_arrivals_are_timed() {
    for (window, command) in [("--window 1h", "dedup"), ("--epoch 1h --per-event -", "estimate")] {
        let flags = format!("{command} --format csv --no-header --key 2 --report none {window} --state");
        // This creates the state that a wrong clock would leave: the same definition, and a time far ahead of the
        // present.
        let aged = |ahead_ms: u64, state: &str| {
            let folder = Folder::with(format!("{},a\n", now_ms() + ahead_ms));
            let timed = format!("{flags} {state} --time 1 --future-max {}ms input", u64::MAX);
            folder.run(&timed).ok();
            folder
        };
        let folder = aged(34 * 365 * DAY_MS, "wrong");
        let ran = folder.run(&format!("{flags} wrong --clock wall input"));
        let ran = ran.fails(2, &["the state was saved when the clock of this machine said 20", "--state"]);
        assert_eq!(ran.out, "", "{command}");
        let folder = aged(2 * 60_000, "near");
        folder.run(&format!("{flags} near --clock wall input")).ok();
    }
}
