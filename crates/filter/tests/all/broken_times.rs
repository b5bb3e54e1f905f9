//! Tests with streams in which up to a hundredth of all events have a wrong time. The tests compare a filter with an
//! exact model that never receives the wrong events. Every correct event must have the same place and the same verdict
//! as without the wrong events.

use crate::common::TestRng;
use firstseen_filter::{
    Digest, ExactWindow, FilterDefinition, FilterSecret, FilterSlice, FilterSpec, Kind, Layout, Placed, Stamp, Verdict,
    WindowClock,
};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const START_MS: u64 = 1_431_000_000_000; // 2015: far from any present.

/// How the wrong times are made.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// Any time from 1970 to long after the present, except times that are nearly correct.
    Anyhow,
    /// A fixed time ahead, in milliseconds.
    By(u64),
    /// A time that is further and further ahead.
    Drifting,
}

const BREAKS: [Break; 6] = [
    Break::Anyhow,
    Break::By(HOUR_MS / 2),
    Break::By(HOUR_MS),
    Break::By(6 * DAY_MS + 23 * HOUR_MS),
    Break::By(400 * DAY_MS),
    Break::Drifting,
];

#[derive(Clone, Copy)]
struct Event {
    key: u64,
    time_ms: u64,
    is_broken: bool,
}

/// Parameters of a stream.
#[derive(Clone, Copy, Debug)]
struct Shape {
    breaks: Break,
    /// Number of wrong times in a row. In any case a hundredth of all events is wrong.
    burst: u64,
    late_max_ms: u64,
    /// Whether the stream has several gaps of days without events.
    has_gaps: bool,
}

/// Maximum distance in milliseconds by which an event may advance the clock without being confirmed by other events,
/// for the window of an hour that these tests use. The clock cannot recognize a wrong time that is ahead by less than
/// this distance. The test streams therefore contain only wrong times that are further away.
const NEAR_MS: u64 = 20 * 60_000;

fn stream(rng: &mut TestRng, events: u64, shape: Shape) -> Vec<Event> {
    let (mut front_ms, mut broken_left, mut drift_ms) = (START_MS, 0, NEAR_MS);
    let (mut broken, mut quiet) = (0, 0_u64);
    let mut stream = Vec::new();
    for number in 0..events {
        front_ms += rng.below(4000);
        if shape.has_gaps && number % 2500 == 2000 {
            front_ms += DAY_MS * (1 + rng.below(40));
        }
        // A wrong time that falls into a gap is confirmed by the events after the gap, because it could be correct
        // there. The stream therefore has no wrong times near gaps.
        let is_near_gap = shape.has_gaps && (1500..2010).contains(&(number % 2500));
        quiet = quiet.saturating_sub(1).max(u64::from(is_near_gap));
        let is_due = (broken + shape.burst) * 100 <= events && rng.below(10 * shape.burst) == 0;
        if broken_left == 0 && quiet == 0 && is_due {
            (broken_left, quiet) = (shape.burst, 4 * (shape.burst - 1));
        }
        let is_broken = broken_left > 0;
        let time_ms = if is_broken {
            (broken_left, broken, drift_ms) = (broken_left - 1, broken + 1, drift_ms + 7000);
            match shape.breaks {
                Break::By(ms) => front_ms + ms,
                Break::Drifting => front_ms + drift_ms,
                Break::Anyhow => match rng.below(4 * START_MS) {
                    near_ms if near_ms.abs_diff(front_ms) < NEAR_MS => 0,
                    time_ms => time_ms,
                },
            }
        } else {
            front_ms - if rng.below(8) == 0 { rng.below(shape.late_max_ms + 1) } else { 0 }
        };
        // Wrong events have keys of their own, so no other event finds the cells that they leave behind.
        let key = if is_broken { (1 << 40) + number } else { rng.below(900) };
        stream.push(Event { key, time_ms, is_broken });
    }
    assert!(broken * 100 >= events * 8 / 10 && broken * 100 <= events, "{broken} of {events} are broken");
    stream
}

fn definition(kind: Kind, window: &str) -> FilterDefinition {
    let layout = (kind == Kind::Bloom).then_some(Layout::Classic);
    let spec =
        FilterSpec { cells: Some(1 << 18), hashes: Some(7), layout, ..FilterSpec::new(kind, window.parse().unwrap()) };
    spec.resolve().unwrap()
}

/// Runs a stream, placing its events with `place`, and compares each verdict with the model.
fn check(kind: Kind, window: &str, seed: u64, shape: Shape) {
    let definition = definition(kind, window);
    let clock = || WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
    let (mut placing, mut right) = (clock(), clock());
    let mut slice = FilterSlice::build(&definition).unwrap();
    let mut exact = ExactWindow::of(&definition);
    let events = stream(&mut TestRng(seed), 20_000, shape);
    let times_ms: Vec<u64> = events.iter().map(|event| event.time_ms).collect();
    let secret = FilterSecret::from_seed(7);
    let (mut refused, mut known) = (0, 0);
    for (number, event) in events.iter().enumerate() {
        let what = format!("seed {seed}, {kind} {window}, {shape:?}, event {number}");
        let digest = secret.digest(&event.key.to_le_bytes());
        let placed = placing.place_nth(&times_ms, number);
        if event.is_broken {
            refused += u64::from(placed == Placed::Refused);
            if let Placed::At(stamp) = placed {
                ask(&mut slice, digest, stamp);
            }
            continue;
        }
        assert_eq!(placed, right.place(Some(event.time_ms)), "{what}");
        let Placed::At(stamp) = placed else { continue };
        let is_known = exact.knows(digest, stamp);
        let verdict = ask(&mut slice, digest, stamp);
        assert_eq!(verdict == Verdict::Duplicate, is_known, "{what}");
        exact.observe(digest, stamp, verdict);
        known += u64::from(is_known);
    }
    assert!(known > 5000, "seed {seed}, {kind} {window}, {shape:?}: only {known} duplicates");
    let is_ahead = !matches!(shape.breaks, Break::Anyhow);
    assert!(!is_ahead || refused == events.iter().filter(|event| event.is_broken).count() as u64, "{shape:?}");
}

fn ask(slice: &mut FilterSlice, digest: Digest, stamp: Stamp) -> Verdict {
    let mut verdict = [Verdict::Undecided];
    slice.observe_batch(&[digest], &[stamp], &mut verdict);
    verdict[0]
}

#[test]
fn broken_times_change_no_verdict_of_others() {
    let mut seed = 1;
    for (kind, window) in [(Kind::Timing, "1h"), (Kind::Generations, "1h"), (Kind::Bloom, "landmark:1h")] {
        // Landmark windows have no lateness, so an event from before the landmark is late.
        let late_max_ms = if kind == Kind::Bloom { 0 } else { 5 * 60_000 };
        for breaks in BREAKS {
            for (burst, has_gaps) in [(1, false), (1, true), (100, false), (100, true)] {
                check(kind, window, seed, Shape { breaks, burst, late_max_ms, has_gaps });
                seed += 1;
            }
        }
    }
}

/// Checks a stream in which each wrong time is slightly further ahead than the wrong time before. The clock may follow
/// wrong times up to one tolerance, which is about the lateness, but it must never be further ahead of the correct
/// events.
#[test]
fn times_that_are_nearly_right_lead_a_clock_by_one_tolerance_at_most() {
    for seed in 1..=40 {
        let definition = definition(Kind::Timing, "1h");
        let mut clock = WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
        let tolerance_ms = HOUR_MS / 8 + 60_000;
        let rng = &mut TestRng(seed);
        let mut front_ms = START_MS;
        let events: Vec<(u64, bool)> = (0..10_000)
            .map(|number| {
                front_ms += rng.below(4000);
                // Each wrong time is slightly ahead of the one before. A clock that accepted them would run away.
                let is_broken = number % 100 == 50;
                (front_ms + if is_broken { number * 20_000 } else { 0 }, is_broken)
            })
            .collect();
        let times_ms: Vec<u64> = events.iter().map(|(time_ms, _)| *time_ms).collect();
        let mut right_ms = 0;
        for (number, (time_ms, is_broken)) in events.iter().enumerate() {
            right_ms = if *is_broken { right_ms } else { right_ms.max(*time_ms) };
            let placed = clock.place_nth(&times_ms, number);
            assert!(*is_broken || matches!(placed, Placed::At(_)), "seed {seed}, event {number}: {placed:?}");
            let ahead_ms = clock.now_ms().unwrap_or(0).saturating_sub(right_ms);
            assert!(ahead_ms <= tolerance_ms, "seed {seed}, event {number}: {ahead_ms} ms ahead");
        }
    }
}

#[test]
fn a_tiny_log_loses_nothing_whatever_lies_between_its_lines() {
    let definition = definition(Kind::Timing, "1h");
    for gap_ms in [HOUR_MS, 5 * HOUR_MS, 13 * DAY_MS] {
        for lines in 1..20 {
            let times_ms: Vec<u64> = (0..lines).map(|line| START_MS + line * gap_ms).collect();
            let clock = || WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
            let (mut together, mut alone) = (clock(), clock());
            for (line, time_ms) in times_ms.iter().enumerate() {
                let placed = [together.place_nth(&times_ms, line), alone.place(Some(*time_ms))];
                assert!(
                    placed.iter().all(|placed| matches!(placed, Placed::At(_))),
                    "{gap_ms} ms, line {line} of {lines}"
                );
            }
        }
    }
}

#[test]
fn lookups_move_no_clock_and_are_judged_at_their_own_time() {
    for (kind, window) in [(Kind::Timing, "1h"), (Kind::Generations, "1h"), (Kind::Bloom, "landmark:1h")] {
        let definition = definition(kind, window);
        let mut clock = WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
        let mut slice = FilterSlice::build(&definition).unwrap();
        let digest = FilterSecret::from_seed(7).digest(b"click");
        let start_ms = START_MS - START_MS % DAY_MS;
        let Placed::At(stamp) = clock.place(Some(start_ms)) else { panic!("the first event has no place") };
        assert_eq!(ask(&mut slice, digest, stamp), Verdict::FirstSeen);
        let mut look_up = |after_ms: u64| {
            let Placed::At(stamp) = clock.place_lookup(Some(start_ms + after_ms)) else {
                panic!("the looked-up event has no place")
            };
            let mut verdict = [Verdict::Undecided];
            slice.lookup_batch(&[digest], &[stamp], &mut verdict);
            verdict[0]
        };
        for after_ms in [2 * HOUR_MS, 13 * DAY_MS, 400 * DAY_MS, u64::MAX >> 4] {
            assert_eq!(look_up(after_ms), Verdict::FirstSeen, "{kind}: the event has expired after {after_ms} ms");
            assert_eq!(look_up(HOUR_MS / 2), Verdict::Duplicate, "{kind}: a lookup must not expire any event");
        }
        assert_eq!((clock.now_ms(), ask(&mut slice, digest, stamp)), (Some(start_ms), Verdict::Duplicate));
    }
}
