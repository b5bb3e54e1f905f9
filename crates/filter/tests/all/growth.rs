//! Tests of filters that grow. No generation may exceed its capacity, the total rate must stay below the target, and
//! the filter must return to one generation after a burst.

use crate::common::{self, digests};
use firstseen_filter::rates::band;
use firstseen_filter::{
    FilterDefinition, FilterSlice, FilterSpec, Geometry, Growth, GrowthSpec, Kind, Layout, Limit, Refresh, Stamp,
    UnitNumber, Verdict, Window,
};

const UNSEEN: u64 = 1 << 40;

fn spec(kind: Kind, window: &str, capacity_events: u64, rate: f64, growth: GrowthSpec) -> FilterDefinition {
    FilterSpec {
        capacity_events: Some(capacity_events),
        rate,
        growth: Some(growth),
        ..FilterSpec::new(kind, window.parse().unwrap())
    }
    .resolve()
    .unwrap()
}

fn grown(definition: &FilterDefinition) -> (Geometry, Growth) {
    (*definition.cells.geometry().unwrap(), *definition.cells.growth().unwrap())
}

/// Observes `count` new keys in `unit`, and returns how many of them were called first-seen.
fn deliver(slice: &mut FilterSlice, first: u64, count: u64, unit: u64) -> u64 {
    let mut verdicts = vec![Verdict::Undecided; count as usize];
    slice.observe_batch(&digests(first, count), &vec![Stamp::on_time(UnitNumber(unit)); count as usize], &mut verdicts);
    verdicts.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count() as u64
}

fn false_positives(slice: &mut FilterSlice, probes: u64, unit: u64) -> u64 {
    let mut verdicts = vec![Verdict::Undecided; probes as usize];
    slice.lookup_batch(
        &digests(UNSEEN, probes),
        &vec![Stamp::on_time(UnitNumber(unit)); probes as usize],
        &mut verdicts,
    );
    verdicts.iter().filter(|verdict| **verdict == Verdict::Duplicate).count() as u64
}

fn assert_rate(slice: &mut FilterSlice, target: f64, unit: u64) {
    const PROBES: u64 = 200_000;
    let (hits, expected) = (false_positives(slice, PROBES, unit), slice.expected_rate());
    assert!(hits <= *band::binomial(target, PROBES, 0.999).end(), "{hits} of {PROBES}, target {target}");
    let allowed = band::binomial(expected, PROBES, 0.999);
    assert!(allowed.contains(&hits), "{hits} of {PROBES}, expected {expected}: {allowed:?}");
}

#[test]
fn a_burst_of_five_times_the_capacity_opens_generations_and_closes_them_again() {
    for limit in [Limit::Cardinality, Limit::Density] {
        let rule = GrowthSpec { limit, generations_max: 8, ratio: 1.0 };
        let definition = spec(Kind::Timing, "128s", 4000, 0.02, rule);
        let (mut slice, ticks) = (FilterSlice::build(&definition).unwrap(), definition.rule.span_units);
        let (mut key, mut most, mut first_seen) = (0, 0, 0);
        for unit in 0..5 * ticks {
            let burst = (2 * ticks..3 * ticks).contains(&unit);
            let events = if burst { 5 * 4000 / ticks } else { 1000 / ticks };
            first_seen += deliver(&mut slice, key, events, unit);
            key += events;
            most = most.max(slice.generations());
            if unit == 3 * ticks - 1 {
                assert_rate(&mut slice, 0.02, unit);
            }
        }
        assert!((5..=8).contains(&most), "{limit:?}: {most} generations");
        assert!(key - first_seen < key / 50, "{limit:?}: {first_seen} of {key} called first-seen");
        assert_eq!(slice.generations(), 1, "{limit:?}: the filter has one generation again");
    }
}

#[test]
fn no_generation_takes_more_than_its_capacity_and_beyond_the_last_one_inserts_are_refused() {
    for (kind, window) in [(Kind::Bloom, "unbounded"), (Kind::Timing, "128s")] {
        let rule = GrowthSpec { limit: Limit::Cardinality, generations_max: 3, ratio: 1.0 };
        let definition = spec(kind, window, 1000, 1e-9, rule);
        let capacity = grown(&definition).1.capacity_events;
        assert!((1000..1020).contains(&capacity), "{capacity}");
        for batch in [1, 7, 700, 5000] {
            let mut slice = FilterSlice::build(&definition).unwrap();
            for first in (0..5000).step_by(batch) {
                deliver(&mut slice, first, batch as u64, 5);
                let delivered = first + batch as u64;
                let generations = delivered.min(3 * capacity).div_ceil(capacity);
                assert_eq!(slice.live_events(), Some(delivered.min(3 * capacity)), "{kind}, batches of {batch}");
                assert_eq!(slice.generations() as u64, generations, "{kind}, batches of {batch}");
            }
            let mut verdicts = [Verdict::FirstSeen; 2];
            let last_taken = 3 * capacity - 1;
            let asked = [digests(last_taken, 1)[0], digests(last_taken + 1, 1)[0]];
            slice.observe_batch(&asked, &[Stamp::on_time(UnitNumber(5)); 2], &mut verdicts);
            assert_eq!(verdicts, [Verdict::Duplicate, Verdict::Undecided]);
        }
    }
}

#[test]
fn a_full_windowed_filter_takes_events_again_as_others_expire() {
    let rule = GrowthSpec { limit: Limit::Cardinality, generations_max: 1, ratio: 1.0 };
    let definition = spec(Kind::Timing, "128s", 1000, 1e-6, rule);
    let mut slice = FilterSlice::build(&definition).unwrap();
    let capacity = grown(&definition).1.capacity_events;
    assert_eq!(deliver(&mut slice, 0, 600, 10), 600);
    assert_eq!(deliver(&mut slice, 600, 600, 20), capacity - 600);
    assert_eq!(deliver(&mut slice, 2000, 600, 10 + definition.rule.span_units), 600);
}

/// A steady stream at the specified capacity is never rejected, however it is divided into batches.
#[test]
fn the_promised_load_is_never_refused() {
    for (kind, per_unit) in [(Kind::Timing, 50), (Kind::Generations, 1000)] {
        let probe = FilterSpec { capacity_events: Some(1), ..FilterSpec::new(kind, "1000s".parse().unwrap()) };
        let window_units = probe.resolve().unwrap().rule.span_units - 1;
        let capacity_events = Some(window_units * per_unit);
        let definition = FilterSpec { capacity_events, ..probe }.resolve().unwrap();
        for batch in [1, 64, 4096] {
            let mut slice = FilterSlice::build(&definition).unwrap();
            let events = (4 * window_units * per_unit) as usize;
            let stamps: Vec<_> =
                (0..events as u64).map(|event| Stamp::on_time(UnitNumber(7 + event / per_unit))).collect();
            let mut verdicts = vec![Verdict::Undecided; events];
            let keys = digests(0, events as u64);
            for start in (0..events).step_by(batch) {
                let end = (start + batch).min(events);
                slice.observe_batch(&keys[start..end], &stamps[start..end], &mut verdicts[start..end]);
            }
            assert!(!verdicts.contains(&Verdict::Undecided), "{kind}, batches of {batch}");
        }
    }
}

#[test]
fn geometric_growth_keeps_the_total_under_the_target() {
    for limit in [Limit::Cardinality, Limit::Density] {
        for layout in [Layout::Classic, Layout::Blocked { lines: 1 }] {
            let definition = FilterSpec {
                capacity_events: Some(1000),
                rate: 0.02,
                layout: Some(layout),
                growth: Some(GrowthSpec { limit, generations_max: 16, ratio: 2.0 }),
                ..FilterSpec::new(Kind::Bloom, Window::Unbounded)
            };
            let mut slice = FilterSlice::build(&definition.resolve().unwrap()).unwrap();
            // The events are 31 times the capacity: five full generations of 1, 2, 4, 8 and 16 times the capacity.
            for first in (0..31_000).step_by(1000) {
                deliver(&mut slice, first, 1000, 0);
            }
            assert!((5..=6).contains(&slice.generations()), "{} generations", slice.generations());
            assert_rate(&mut slice, 0.02, 0);
        }
    }
}

#[test]
fn a_generation_under_density_is_as_full_as_its_rate_allows() {
    for layout in common::LAYOUTS {
        let definition = FilterSpec {
            capacity_events: Some(20_000),
            rate: 0.01,
            layout: Some(layout),
            growth: Some(GrowthSpec { limit: Limit::Density, generations_max: 1, ratio: 1.0 }),
            ..FilterSpec::new(Kind::Bloom, Window::Unbounded)
        };
        let mut slice = FilterSlice::build(&definition.resolve().unwrap()).unwrap();
        let first_seen = deliver(&mut slice, 0, 40_000, 0);
        assert!(first_seen.abs_diff(20_000) < 300, "{layout:?}: {first_seen} taken");
        let rate = slice.expected_rate();
        assert!((0.0093..0.0103).contains(&rate), "{layout:?}: {rate}");
        assert_rate(&mut slice, 0.0103, 0);
    }
}

/// Events that live on only through refreshes must keep their generation alive.
#[test]
fn refreshed_events_outlive_the_generations_they_came_in() {
    let rule = GrowthSpec { limit: Limit::Density, generations_max: 4, ratio: 1.0 };
    let definition = FilterSpec {
        capacity_events: Some(200),
        rate: 1e-4,
        growth: Some(rule),
        refresh: Refresh::Refresh,
        lateness_ms: Some(0),
        ..FilterSpec::new(Kind::Timing, "128s".parse().unwrap())
    }
    .resolve()
    .unwrap();
    let mut slice = FilterSlice::build(&definition).unwrap();
    deliver(&mut slice, 0, 700, 10);
    assert!(slice.generations() >= 3);
    for unit in (60..2000).step_by(50) {
        assert_eq!(deliver(&mut slice, 0, 100, unit), 0, "unit {unit}");
    }
    assert!(slice.generations() <= 2, "{} generations", slice.generations());
}
