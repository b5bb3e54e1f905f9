//! Every windowed kind against the exact model, event by event.
//!
//! Tiny filters show that nothing delivered is forgotten; filters so large that no false positive occurs show that
//! answers are the exact ones, so that nothing is kept too long either. Seeds are fixed: a failure repeats with the same
//! command, and prints the operations that lead to it.

mod common;

use common::{LAYOUTS, Pace, Stream, Subject, bloom, digests, generations, geometry, growth, rule, timing};
use firstseen_filter::{FilterDefinition, Geometry, Growth, Limit, Refresh, Stamp, Unit, WindowRule};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

const YEAR_MS: u64 = 365 * 86_400_000;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(17), failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Clone, Debug)]
enum Op {
    Batch { events: usize, pace: Pace },
    LookUp { events: usize },
    Idle { ms: u64 },
    Reload,
}

fn paces(keys: u64) -> impl Strategy<Value = Pace> {
    let steps = prop_oneof![Just(1_u64), Just(3), Just(20), Just(400)];
    let sizes = prop_oneof![6 => Just(1_u64), 2 => Just(3), 1 => Just(40)];
    let lates = prop_oneof![Just((0_u64, 0_u64)), Just((4, 3)), Just((2, 30)), Just((3, 400))];
    (steps, sizes, lates).prop_map(move |(events_per_step, step_max, (late_one_of, late_max))| Pace {
        keys,
        events_per_step,
        step_max,
        late_one_of,
        late_max,
    })
}

/// Idle times that a wheel of 8 or 16 bits, its sweep or a word of generations might stumble over.
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
        let told = match op {
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
        told.map_err(|told| TestCaseError::fail(format!("{told}\n{definition:?}")))?;
    }
    Ok(())
}

/// Windows of 8-bit timers: short, half the wheel, the greatest that fits, all lateness.
const RULES_8: [WindowRule; 5] = [rule(2, 0), rule(129, 16), rule(241, 0), rule(40, 201), rule(10, 3)];
const RULES_16: [WindowRule; 4] = [rule(2, 0), rule(16_385, 2048), rule(65_521, 0), rule(130, 40)];

fn rules_of_words(bits: u64) -> impl Strategy<Value = WindowRule> {
    (1..bits).prop_flat_map(move |span| (Just(span), 0..bits - span)).prop_map(|(span, late)| rule(span, late))
}

#[derive(Clone, Copy, Debug)]
enum Size {
    Tiny,
    Sparse,
}

impl Size {
    fn geometry(self, cell_bits: u32, layout_index: usize) -> Geometry {
        match self {
            Self::Tiny => geometry(900, 3, cell_bits, LAYOUTS[layout_index]),
            Self::Sparse => geometry(1 << 18, 16, cell_bits, LAYOUTS[layout_index]),
        }
    }

    fn keys(self) -> u64 {
        match self {
            Self::Tiny => 400,
            Self::Sparse => 120,
        }
    }
}

fn growths() -> impl Strategy<Value = Option<Growth>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(growth(Limit::Cardinality, 1, 1.0, 60))),
        2 => Just(Some(growth(Limit::Cardinality, 16, 1.0, 20))),
        1 => Just(Some(growth(Limit::Cardinality, 3, 1.0, 20))),
        1 => Just(Some(growth(Limit::Density, 16, 1.0, 20))),
        1 => Just(Some(growth(Limit::Density, 2, 1.0, 20))),
    ]
}

fn timers(size: Size, cell_bits: u32) -> impl Strategy<Value = FilterDefinition> {
    let rules = if cell_bits == 8 { RULES_8.to_vec() } else { RULES_16.to_vec() };
    let refresh = prop_oneof![Just(Refresh::Fixed), Just(Refresh::Refresh)];
    (prop::sample::select(rules), 0..LAYOUTS.len(), refresh, growths()).prop_map(
        move |(rule, layout, refresh, growth)| timing(size.geometry(cell_bits, layout), rule, refresh, growth),
    )
}

fn words(size: Size, cell_bits: u32) -> impl Strategy<Value = FilterDefinition> {
    (rules_of_words(u64::from(cell_bits)), 0..LAYOUTS.len())
        .prop_map(move |(rule, layout)| generations(size.geometry(cell_bits, layout), rule))
}

fn bits(size: Size) -> impl Strategy<Value = FilterDefinition> {
    let unit = prop_oneof![
        Just(Unit::Endless),
        Just(Unit::Milliseconds(1)),
        Just(Unit::Milliseconds(70)),
        Just(Unit::Events(500)),
        Just(Unit::Calendar("hour@Europe/Athens".parse().unwrap())),
        Just(Unit::Calendar("day@America/St_Johns".parse().unwrap())),
    ];
    (unit, 0..LAYOUTS.len(), growths()).prop_map(move |(unit, layout, growth)| FilterDefinition {
        unit,
        ..bloom(size.geometry(1, layout), growth)
    })
}

/// Runs `cases` random streams through filters that `definitions` gives.
fn check(cases: u32, size: Size, definitions: impl Strategy<Value = FilterDefinition>) {
    let inputs = (definitions, ops(size.keys()), any::<u64>());
    let sparse = matches!(size, Size::Sparse);
    let outcome = TestRunner::new(config(cases)).run(&inputs, |(definition, ops, seed)| {
        run(&definition, &ops, seed, sparse)
    });
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
