//! Compares every windowed kind with the exact model, event by event.
//!
//! The tests use two sizes of filters for two purposes. Tiny filters show that no delivered event is forgotten. Very
//! large filters, in which no false positive occurs, show that no event is kept too long. The seeds are fixed, so a
//! failure can be repeated with the same command. A failed test prints the operations that led to the failure.

use crate::common::{
    Pace, Size, Stream, Subject, bits, buckets, config, digest, digests, generations, geometry, paces, rule, timers,
};
use crate::common::{timing, words};
use firstseen_filter::{
    FilterDefinition, FilterSlice, FilterSpec, Kind, Layout, Placed, Refresh, Stamp, Unit, UnitNumber, Verdict, Window,
    WindowClock,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const YEAR_MS: u64 = 365 * 86_400_000;

#[derive(Clone, Debug)]
enum Op {
    Batch { events: usize, pace: Pace },
    LookUp { events: usize },
    Idle { ms: u64 },
    Reload,
}

/// Returns idle times that could cause errors in a wheel of 8 or 16 bits, in its sweep, or in a word of generations.
fn idles() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..20_u64,
        4 => 90..260_u64,
        1 => Just(254_u64),
        1 => Just(255_u64),
        1 => Just(256_u64),
        1 => 65_530..65_540_u64,
        1 => Just(YEAR_MS),
    ]
}

fn ops(keys: u64) -> impl Strategy<Value = Vec<Op>> {
    let events = prop_oneof![3 => 1..20_usize, 3 => 20..200_usize, 1 => 200..2000_usize];
    let op = prop_oneof![
        8 => (events, paces(keys)).prop_map(|(events, pace)| Op::Batch { events, pace }),
        2 => (1..40_usize).prop_map(|events| Op::LookUp { events }),
        2 => idles().prop_map(|ms| Op::Idle { ms }),
        1 => Just(Op::Reload),
    ];
    prop::collection::vec(op, 1..30)
}

fn run(definition: &FilterDefinition, ops: &[Op], seed: u64, sparse: bool) -> Result<(), TestCaseError> {
    let (mut subject, mut stream) = (Subject::new(definition), Stream::new(definition, seed % 1000, seed));
    for op in ops {
        let got = match op {
            Op::Batch { events, pace } => {
                let (digests, stamps) = stream.batch(*events, *pace);
                subject.observe(&digests, &stamps, sparse)
            }
            Op::LookUp { events } => {
                let stamps = vec![Stamp::on_time(stream.clock.now_unit()); *events];
                subject.look_up(&digests(0, *events as u64), &stamps, sparse)
            }
            Op::Idle { ms } => {
                stream.now_ms += ms;
                Ok(())
            }
            Op::Reload => {
                subject.reload();
                Ok(())
            }
        };
        got.map_err(|got| TestCaseError::fail(format!("{got}\n{definition:?}")))?;
    }
    Ok(())
}

/// Runs `cases` random streams through filters of the given `definitions`.
fn check(cases: u32, size: Size, definitions: impl Strategy<Value = FilterDefinition>) {
    let inputs = (definitions, ops(size.keys()), any::<u64>());
    let sparse = matches!(size, Size::Sparse);
    let outcome =
        TestRunner::new(config(cases)).run(&inputs, |(definition, ops, seed)| run(&definition, &ops, seed, sparse));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn sparse_bits_answer_exactly() {
    check(60, Size::Sparse, bits(Size::Sparse));
}

#[test]
fn sparse_timers_of_8_bits_answer_exactly() {
    check(100, Size::Sparse, timers(Size::Sparse, 8));
}

#[test]
fn sparse_timers_of_16_bits_answer_exactly() {
    check(60, Size::Sparse, timers(Size::Sparse, 16));
}

#[test]
fn sparse_words_of_8_generations_answer_exactly() {
    check(60, Size::Sparse, words(Size::Sparse, 8));
}

#[test]
fn sparse_words_of_16_generations_answer_exactly() {
    check(60, Size::Sparse, words(Size::Sparse, 16));
}

#[test]
fn sparse_buckets_answer_exactly() {
    check(80, Size::Sparse, buckets(Size::Sparse));
}

#[test]
fn tiny_buckets_forget_nothing() {
    check(150, Size::Tiny, buckets(Size::Tiny));
}

#[test]
fn tiny_bits_forget_nothing() {
    check(200, Size::Tiny, bits(Size::Tiny));
}

#[test]
fn tiny_timers_of_8_bits_forget_nothing() {
    check(300, Size::Tiny, timers(Size::Tiny, 8));
}

#[test]
fn tiny_timers_of_16_bits_forget_nothing() {
    check(200, Size::Tiny, timers(Size::Tiny, 16));
}

#[test]
fn tiny_words_of_8_generations_forget_nothing() {
    check(200, Size::Tiny, words(Size::Tiny, 8));
}

#[test]
fn tiny_words_of_16_generations_forget_nothing() {
    check(200, Size::Tiny, words(Size::Tiny, 16));
}

/// Delivers key `u` in every unit `u`, and looks up the keys at the edge of the window in every unit.
fn assert_edges(definition: &FilterDefinition, units: std::ops::Range<u64>) {
    let mut slice = FilterSlice::build(definition).unwrap();
    let span = definition.rule.span_units;
    let start = units.start;
    for unit in units {
        let (now, mut verdict) = ([Stamp::on_time(UnitNumber(unit))], [Verdict::Undecided]);
        slice.observe_batch(&[digest(unit)], &now, &mut verdict);
        assert_eq!(verdict, [Verdict::FirstSeen], "{definition:?}: delivered in unit {unit}");
        let edge = [(span - 1, Verdict::Duplicate), (span, Verdict::FirstSeen), (span + 1, Verdict::FirstSeen)];
        for (age, expected) in edge.into_iter().filter(|(age, _)| unit >= start + age) {
            slice.lookup_batch(&[digest(unit - age)], &now, &mut verdict);
            assert_eq!(verdict, [expected], "{definition:?}: age {age} in unit {unit}");
        }
    }
}

#[test]
fn an_event_is_alive_for_exactly_its_span_all_around_the_wheel() {
    let layout = Layout::Blocked { lines: 2 };
    for (span, lateness) in [(1, 0), (2, 0), (129, 16), (241, 0), (40, 201)] {
        let definition = timing(geometry(1 << 16, 9, 8, layout), rule(span, lateness), Refresh::Fixed, None);
        assert_edges(&definition, 0..800);
    }
    for (span, lateness) in [(1, 0), (300, 20), (65_521, 0)] {
        let definition = timing(geometry(1 << 18, 9, 16, layout), rule(span, lateness), Refresh::Fixed, None);
        assert_edges(&definition, 65_535 * 7 - 400..65_535 * 7 + 400);
    }
    for (span, lateness, bits) in [(1, 0, 8), (7, 0, 8), (4, 3, 8), (15, 0, 16), (6, 9, 16)] {
        assert_edges(&generations(geometry(1 << 12, 9, bits, layout), rule(span, lateness)), 0..100);
    }
}

/// In Newfoundland, clocks were set back at one minute past midnight, so that a day began twice.
#[test]
fn a_day_that_begins_twice_is_one_landmark() {
    const TWO_O_CLOCK_2010_11_07_MS: u64 = 1_289_095_200_000;
    let unit = Unit::Calendar("day@America/St_Johns".parse().unwrap());
    let mut clock = WindowClock::new(unit, rule(1, 0), u64::MAX);
    let units: Vec<_> = (0..30 * 60)
        .map(|minute| match clock.place(Some(TWO_O_CLOCK_2010_11_07_MS + minute * 60_000)) {
            Placed::At(stamp) => stamp.unit,
            placed => panic!("minute {minute}: {placed:?}"),
        })
        .collect();
    assert!(units.is_sorted());
    assert_eq!(units.last().unwrap().since(units[0]), 2);
}

#[test]
fn a_time_at_the_end_of_all_times_is_refused() {
    let mut clock = WindowClock::new(Unit::Milliseconds(1), rule(129, 16), u64::MAX);
    assert_eq!(clock.place(Some(u64::MAX)), Placed::Refused);
    assert_eq!(clock.place(Some(7)), Placed::At(Stamp::on_time(UnitNumber(7))));
}

/// Checks the window of a filter against its specification. The verdict on a repeat must be `Duplicate` at every age
/// below W, and `FirstSeen` again at most `kept_units` units later.
#[test]
fn no_part_of_the_promised_window_is_lost_and_little_is_added() {
    const WINDOW_MS: u64 = 1_000_003;
    for (kind, cell_bits, kept_units) in
        [(Kind::Timing, 8, 2), (Kind::Timing, 16, 2), (Kind::Generations, 8, 2), (Kind::Generations, 16, 2)]
    {
        let spec = FilterSpec {
            capacity_events: Some(50),
            rate: 1e-6,
            cell_bits: Some(cell_bits),
            ..FilterSpec::new(kind, Window::Duration(WINDOW_MS))
        };
        let definition = spec.resolve().unwrap();
        let Unit::Milliseconds(unit_ms) = definition.unit else { panic!("{definition:?}") };
        for delivered_ms in (0..3 * WINDOW_MS).step_by(WINDOW_MS as usize / 7) {
            let ages = [
                (WINDOW_MS - unit_ms, Verdict::Duplicate),
                (WINDOW_MS - 1, Verdict::Duplicate),
                (WINDOW_MS + kept_units * unit_ms, Verdict::FirstSeen),
            ];
            let mut slice = FilterSlice::build(&definition).unwrap();
            let mut clock = WindowClock::new(definition.unit.clone(), definition.rule, u64::MAX);
            for (age_ms, expected) in [(0, Verdict::FirstSeen)].into_iter().chain(ages) {
                let Placed::At(stamp) = clock.place(Some(delivered_ms + age_ms)) else { panic!("age {age_ms}") };
                let mut verdict = [Verdict::Undecided];
                slice.observe_batch(&[digest(1)], &[stamp], &mut verdict);
                assert_eq!(verdict, [expected], "{kind} {cell_bits}: age {age_ms} of {WINDOW_MS}");
            }
        }
    }
}
