//! Merging of copies of a slice. In any order and with any number of repetitions, no event is lost, and no expired
//! event returns.

use crate::common::{
    self, LAYOUTS, Size, Stream, TestRng, bits, bloom, body, buckets, config, digest, generations, geometry, growth,
    rule,
};
use crate::common::{paces, timers, timing, words};
use firstseen_filter::{
    ExactWindow, FilterDefinition, FilterSlice, Layout, Limit, MergeError, Refresh, Stamp, Unit, UnitNumber, Verdict,
};
use proptest::prelude::*;

/// Returns definitions of filters that never grow, because only their copies can be merged.
fn definitions(size: Size) -> impl Strategy<Value = FilterDefinition> {
    let kinds = prop_oneof![
        bits(size).boxed(),
        timers(size, 8).boxed(),
        timers(size, 16).boxed(),
        words(size, 8).boxed(),
        words(size, 16).boxed(),
    ];
    kinds.prop_filter("copies have one clock, and do not grow", |definition| {
        definition.cells.growth().is_none() && !matches!(definition.unit, Unit::Events(_))
    })
}

/// Returns cuckoo filters with room for all events of these tests. The places of entries, and therefore the bytes,
/// differ between copies.
fn roomy_buckets() -> impl Strategy<Value = FilterDefinition> {
    buckets(Size::Sparse).prop_map(|mut definition| {
        if let Some(growth) = definition.cells.growth_mut() {
            (growth.generations_max, growth.capacity_events) = (1, 5000);
        }
        definition
    })
}

/// Returns a copy that has received its own share of the events, up to about `now_ms`.
fn copy(
    definition: &FilterDefinition,
    now_ms: u64,
    seed: u64,
    pace: common::Pace,
) -> (FilterSlice, ExactWindow, UnitNumber) {
    let mut stream = Stream::new(definition, now_ms, seed);
    let mut slice = FilterSlice::build(definition).unwrap();
    let mut exact = ExactWindow::of(definition);
    for _ in 0..3 {
        let (digests, stamps) = stream.batch(60, pace);
        let mut verdicts = vec![Verdict::Undecided; digests.len()];
        slice.observe_batch(&digests, &stamps, &mut verdicts);
        for ((digest, stamp), verdict) in digests.iter().zip(&stamps).zip(verdicts) {
            exact.observe(*digest, *stamp, verdict);
        }
    }
    (slice, exact, stream.clock.now_unit())
}

fn cloned(slice: &FilterSlice, definition: &FilterDefinition) -> FilterSlice {
    let mut clone = FilterSlice::build(definition).unwrap();
    clone.read_body(&mut &body(slice)[..]).unwrap();
    clone
}

fn merged(definition: &FilterDefinition, left: &FilterSlice, right: &FilterSlice) -> FilterSlice {
    let (mut left, mut right) = (cloned(left, definition), cloned(right, definition));
    left.merge(&mut right).unwrap();
    left
}

/// Returns the saved state without the progress of the sweep, which does not affect any answer.
fn state(slice: &FilterSlice) -> Vec<u8> {
    const SWEPT: std::ops::Range<usize> = 48..56;
    let mut bytes = body(slice);
    bytes[SWEPT].fill(0);
    bytes
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn merging_commutes_associates_and_repeats_without_effect(
        definition in definitions(Size::Tiny),
        pace in paces(400),
        starts in prop::array::uniform3(0..600_u64),
        seed in 0..u64::MAX / 2,
    ) {
        let [a, b, c] = [0, 1, 2].map(|n| copy(&definition, starts[n as usize], seed + n, pace).0);
        let ab = merged(&definition, &a, &b);
        prop_assert!(state(&ab) == state(&merged(&definition, &b, &a)), "merging is commutative");
        let ab_c = merged(&definition, &ab, &c);
        let a_bc = merged(&definition, &a, &merged(&definition, &b, &c));
        prop_assert!(state(&ab_c) == state(&a_bc), "merging is associative");
        prop_assert!(state(&merged(&definition, &ab, &b)) == state(&ab), "merging twice has no further effect");
        prop_assert!(state(&merged(&definition, &ab, &ab)) == state(&ab), "merging with itself has no effect");
    }

    #[test]
    fn a_merged_filter_knows_what_either_knew_and_nothing_that_expired(
        definition in prop_oneof![5 => definitions(Size::Sparse).boxed(), 1 => roomy_buckets().boxed()],
        pace in paces(120),
        starts in prop::array::uniform2(0..600_u64),
        seed in 0..u64::MAX / 2,
    ) {
        let (a, exact_a, now_a) = copy(&definition, starts[0], seed, pace);
        let (b, exact_b, now_b) = copy(&definition, starts[1], seed + 1, pace);
        let (now, mut both) = (now_a.max(now_b), merged(&definition, &a, &b));
        // The check is repeated much later, when the wheel has come round, and for late events.
        let mut rng = TestRng(seed);
        let aheads = [0, 1, rng.below(300), 300 + rng.below(70_000)];
        for unit in aheads.map(|ahead| now.after(ahead)) {
            both.advance(unit);
            for behind in [0, rng.below(definition.rule.lateness_units + 1)] {
                let stamp = Stamp { unit, judged: unit.before(behind) };
                for key in 0..120 {
                    let known = exact_a.knows(digest(key), stamp) || exact_b.knows(digest(key), stamp);
                    let mut verdict = [Verdict::Undecided];
                    both.lookup_batch(&[digest(key)], &[stamp], &mut verdict);
                    prop_assert_eq!(verdict[0] == Verdict::Duplicate, known, "key {} at {:?}", key, stamp);
                }
            }
        }
    }
}

#[test]
fn only_copies_of_one_slice_can_be_merged() {
    let shape = |cells, hashes| geometry(cells, hashes, 8, Layout::Classic);
    let grows = growth(Limit::Cardinality, 4, 1.0, 50);
    let definitions = [
        bloom(geometry(900, 3, 1, Layout::Classic), None),
        timing(shape(900, 3), rule(10, 0), Refresh::Fixed, None),
        timing(shape(901, 3), rule(10, 0), Refresh::Fixed, None),
        timing(shape(900, 4), rule(10, 0), Refresh::Fixed, None),
        timing(geometry(900, 3, 8, LAYOUTS[1]), rule(10, 0), Refresh::Fixed, None),
        timing(geometry(900, 3, 16, Layout::Classic), rule(10, 0), Refresh::Fixed, None),
        timing(shape(900, 3), rule(11, 0), Refresh::Fixed, None),
        timing(shape(900, 3), rule(10, 1), Refresh::Fixed, None),
        timing(shape(900, 3), rule(10, 0), Refresh::Refresh, None),
        timing(shape(900, 3), rule(10, 0), Refresh::Fixed, Some(grows)),
        generations(shape(900, 3), rule(5, 0)),
    ];
    for (row, mine) in definitions.iter().enumerate() {
        for (column, other) in definitions.iter().enumerate() {
            let merged = FilterSlice::build(mine).unwrap().merge(&mut FilterSlice::build(other).unwrap());
            assert_eq!(merged.is_ok(), row == column, "{mine:?} with {other:?}");
        }
    }
}

#[test]
fn a_slice_that_has_grown_is_refused_unchanged_until_it_has_shrunk() {
    let shape = geometry(1 << 12, 6, 8, Layout::Classic);
    let definition = timing(shape, rule(10, 0), Refresh::Fixed, Some(growth(Limit::Cardinality, 4, 1.0, 50)));
    let (mut grown, mut other) = (FilterSlice::build(&definition).unwrap(), FilterSlice::build(&definition).unwrap());
    let digests = common::digests(0, 120);
    grown.observe_batch(&digests, &[Stamp::on_time(UnitNumber(5)); 120], &mut [Verdict::Undecided; 120]);
    assert_eq!(grown.generations(), 3);
    other.observe_batch(&digests[..1], &[Stamp::on_time(UnitNumber(14))], &mut [Verdict::Undecided]);
    let before = body(&grown);
    assert_eq!(grown.merge(&mut other), Err(MergeError::Grown));
    assert!(body(&grown) == before, "a failed merge has changed the slice");
    other.observe_batch(&digests[1..2], &[Stamp::on_time(UnitNumber(60))], &mut [Verdict::Undecided]);
    assert_eq!(grown.merge(&mut other), Ok(()));
    assert_eq!(grown.generations(), 1);
}
