//! Compares the windows of filters with a simple exact model that remembers every key. The input files and windows are
//! random. The filters are so large that no false positives occur, so every difference is an error.

use std::collections::HashMap;

use crate::run::{Folder, Random};

const START_MS: u64 = 1_700_000_000_000;

/// Event, as its time and its key.
type Event = (u64, u64);

fn csv(events: &[Event]) -> String {
    events.iter().map(|(time_ms, key)| format!("{key},{time_ms}\n")).collect()
}

/// Returns for each event whether the binary passed it on.
fn passed_on(events: &[Event], flags: &str) -> Vec<bool> {
    let numbered: String =
        events.iter().enumerate().map(|(number, (time_ms, key))| format!("{key},{time_ms},{number}\n")).collect();
    let ran =
        Folder::with(numbered).dedup(&format!("--format csv --no-header --key 1 --time 2 --seed 3 {flags} input"));
    let mut passed = vec![false; events.len()];
    for line in ran.ok().out.lines() {
        let number: usize = line.rsplit(',').next().and_then(|text| text.parse().ok()).expect("a number");
        passed[number] = true;
    }
    passed
}

fn random_events(random: &mut Random, jitter_ms: u64) -> Vec<Event> {
    let keys = 20 + random.below(200);
    let step_ms = 1 + random.below(500);
    let mut now_ms = START_MS + 1_000_000;
    let mut event = || {
        now_ms += random.below(2 * step_ms);
        if random.below(200) == 0 {
            now_ms += random.below(60_000);
        }
        (now_ms - random.below(jitter_ms + 1), random.below(keys))
    };
    (0..1500).map(|_| event()).collect()
}

/// Checks that landmark windows are exact: each key is passed on once in each period of `landmark_ms`, counted from
/// 1970.
#[test]
fn landmarks_by_duration_are_exact() {
    let mut random = Random(1);
    for _ in 0..12 {
        let events = random_events(&mut random, 0);
        let landmark_ms = 1 + random.below(40_000);
        let mut last = HashMap::new();
        let expected: Vec<bool> = events
            .iter()
            .map(|(time_ms, key)| last.insert(*key, time_ms / landmark_ms) != Some(time_ms / landmark_ms))
            .collect();
        assert_eq!(passed_on(&events, &format!("--window landmark:{landmark_ms}ms --capacity 10000")), expected);
    }
}

#[test]
fn landmarks_by_count_are_exact() {
    let mut random = Random(2);
    for _ in 0..12 {
        let events = random_events(&mut random, 0);
        let length = 1 + random.below(400);
        let mut last = HashMap::new();
        let stretch = |number: usize| number as u64 / length;
        let expected: Vec<bool> = events
            .iter()
            .enumerate()
            .map(|(number, event)| last.insert(event.1, stretch(number)) != Some(stretch(number)))
            .collect();
        assert_eq!(passed_on(&events, &format!("--window landmark:{length}events --capacity 10000")), expected);
    }
}

#[test]
fn unbounded_passes_each_key_once() {
    let mut random = Random(3);
    for slicing in ["none", "horizontal:8", "vertical:8", "horizontal-vertical:2x4"] {
        let events = random_events(&mut random, 900_000);
        let mut seen = HashMap::new();
        let expected: Vec<bool> = events.iter().map(|event| seen.insert(event.1, ()).is_none()).collect();
        assert_eq!(
            passed_on(&events, &format!("--capacity 10000 --fpr 1e-6 --slicing {slicing}")),
            expected,
            "{slicing}"
        );
    }
}

/// Guarantee about when a key may be passed on again: never before the window has passed, and always after the window
/// plus a tolerance.
struct Promise {
    window_ms: u64,
    slack_ms: u64,
    refresh: bool,
}

impl Promise {
    fn check(&self, events: &[Event], passed: &[bool], name: &str) {
        let mut starts: HashMap<u64, u64> = HashMap::new();
        let mut undetermined = 0;
        for (number, ((time_ms, key), passed)) in events.iter().zip(passed).enumerate() {
            match starts.get(key) {
                None => assert!(passed, "{name}: event {number} is the first of its key"),
                Some(start) if *time_ms < start + self.window_ms => {
                    assert!(!passed, "{name}: event {number} comes {} ms after, and is passed on", time_ms - start);
                }
                Some(start) if *time_ms >= start + self.window_ms + self.slack_ms => {
                    assert!(passed, "{name}: event {number} comes {} ms after, and is dropped", time_ms - start);
                }
                Some(_) => undetermined += 1,
            }
            if *passed || self.refresh {
                starts.insert(*key, *time_ms);
            }
        }
        assert!(undetermined < events.len() / 3, "{name}: {undetermined} events prove nothing");
    }
}

#[test]
fn sliding_and_jumping_windows_keep_their_promise() {
    let mut random = Random(4);
    for _ in 0..6 {
        let events = random_events(&mut random, 0);
        let window_ms = 3000 + random.below(50_000);
        for (flags, slack_part, refresh) in [
            // The default kind is cuckoo.
            ("", 25, false),
            ("--kind timing", 32, false),
            ("--kind cuckoo", 25, false),
            ("--kind cuckoo --ticks 60", 55, false),
            ("--kind cuckoo --rule refresh", 25, true),
            ("--cell-bits 16", 1000, false),
            ("--kind timing --rule refresh", 32, true),
            ("--kind generations", 6, false),
            ("--kind generations --cell-bits 16", 14, false),
            ("--kind counting --sub-windows 10", 10, false),
            ("--slicing horizontal:4 --kind timing", 32, false),
            ("--slicing horizontal:4 --kind cuckoo", 25, false),
            ("--slicing vertical:4", 32, false),
            ("--slicing vertical:4 --kind generations", 6, false),
        ] {
            let flags = format!("--window {window_ms}ms {flags} --capacity 20000 --fpr 1e-6");
            let slack_ms = window_ms / slack_part + 20;
            Promise { window_ms, slack_ms, refresh }.check(&events, &passed_on(&events, &flags), &flags);
        }
    }
}

/// Checks windows of a number of events. The event `window` places later is the first that may be passed on again.
#[test]
fn windows_by_count_keep_their_promise() {
    let mut random = Random(5);
    for _ in 0..6 {
        let keys = 20 + random.below(300);
        let window = 60 + random.below(600);
        let events: Vec<Event> = (0..2000).map(|number| (number, random.below(keys))).collect();
        for (flags, slack_part) in [
            ("--kind timing --capacity 20000", 30),
            ("--kind counting", u64::MAX),
            ("--kind generations --capacity 20000", 6),
            ("--kind cuckoo --capacity 20000 --fpr 1e-8", 20),
            ("--kind counting --sub-windows 6 --capacity 1000", 6),
        ] {
            let rate = if flags.contains("--fpr") { "" } else { "--fpr 1e-9" };
            let flags = format!("--window {window}events {flags} {rate}");
            let slack_ms = if slack_part == u64::MAX { 0 } else { window / slack_part + 6 };
            let promise = Promise { window_ms: window, slack_ms, refresh: false };
            promise.check(&events, &passed_on(&events, &flags), &flags);
        }
    }
}

/// Checks records that arrive out of order but within the lateness. If a key occurs twice within the window, the record
/// that arrives second must be a duplicate, even if it has the earlier time.
#[test]
fn order_does_not_matter_within_the_lateness() {
    let mut random = Random(6);
    for _ in 0..6 {
        let events = random_events(&mut random, 4000);
        for kind in ["--kind timing", "--kind cuckoo", "--kind generations --sub-windows 4"] {
            let flags = format!("--window 20s --lateness 5s {kind} --capacity 20000 --fpr 1e-6");
            let passed = passed_on(&events, &flags);
            let mut delivered: HashMap<u64, Vec<u64>> = HashMap::new();
            for (number, ((time_ms, key), passed)) in events.iter().zip(&passed).enumerate() {
                let times = delivered.entry(*key).or_default();
                let within = times.iter().any(|start| time_ms >= start && time_ms - start < 20_000);
                assert!(!(within && *passed), "{flags}: event {number} of\n{}", csv(&events[..=number]));
                if *passed {
                    times.push(*time_ms);
                }
            }
            assert!(passed.iter().filter(|passed| !**passed).count() > 100, "{flags}");
        }
    }
}

/// Checks the limits of a sliding window. A key of age W - 1 ms is a duplicate, and a window and two ticks later the
/// key is new again.
#[test]
fn the_edges_of_a_sliding_window() {
    let window_ms = 128_000;
    for (age_ms, passes) in
        [(0, false), (1, false), (window_ms - 1, false), (window_ms + 2000, true), (2 * window_ms, true)]
    {
        let events = [(START_MS, 1), (START_MS + age_ms, 1)];
        assert_eq!(passed_on(&events, "--window 128s --capacity 1000"), [true, passes], "age {age_ms} ms");
    }
}
