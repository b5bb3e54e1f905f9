//! Tests of specifications of kind `cuckoo`. They check which specifications are rejected, how large the filters are,
//! how often they err, when they reject events, and how they grow.

use crate::common::{TestRng, assert_refused, digests};
use crate::cuckoo_model::{START, Wanted};
use firstseen_filter::rates::cuckoo;
use firstseen_filter::{
    BucketShape, CellDefinition, CuckooCells, Digest, ExactWindow, FilterDefinition, FilterSlice, FilterSpec, Geometry,
    Growth, GrowthSpec, Kind, Layout, Limit, Refresh, Stamp, Unit, UnitNumber, Verdict, Window,
};

const UNSEEN: u64 = 1 << 40;
const MILLION: u64 = 1_000_000;
const HOUR_MS: u64 = 3_600_000;

fn spec(window: &str, capacity_events: u64, rate: f64) -> FilterSpec {
    FilterSpec {
        capacity_events: Some(capacity_events),
        rate,
        ..FilterSpec::new(Kind::Cuckoo, window.parse().unwrap())
    }
}

fn parts(definition: &FilterDefinition) -> (Geometry, Growth) {
    match definition.cells {
        CellDefinition::Cuckoo(CuckooCells { geometry, growth, .. }) => (geometry, growth),
        _ => panic!("{definition:?}"),
    }
}

fn shape(definition: &FilterDefinition) -> BucketShape {
    let geometry = parts(definition).0;
    let Layout::Buckets { time_bits } = geometry.layout() else { panic!("{definition:?}") };
    BucketShape::new(geometry.cell_bits(), time_bits)
}

#[test]
fn what_buckets_have_not_is_refused_with_what_to_do_instead() {
    let whole = || spec("1h", MILLION, 0.001);
    assert_refused(FilterSpec { capacity_events: None, cells: Some(9), ..whole() }, &["cuckoo", "cells", "capacity"]);
    assert_refused(FilterSpec { hashes: Some(3), ..whole() }, &["cuckoo", "positions", "leave it out"]);
    assert_refused(FilterSpec { layout: Some(Layout::Classic), ..whole() }, &["cuckoo", "layout", "leave it out"]);
    assert_refused(FilterSpec { cell_bits: Some(16), ..whole() }, &["cuckoo", "width", "leave it out"]);
    assert_refused(FilterSpec { jumps: Some(4), ..whole() }, &["cuckoo", "sub-windows", "generations"]);
    assert_refused(FilterSpec { equal_timers: 2, ..whole() }, &["cuckoo", "equal timers", "timing"]);
    assert_refused(FilterSpec { ticks: Some(0), ..whole() }, &["0 ticks", "at least 1"]);
    for ticks in [95, 1000, u32::MAX] {
        assert_refused(FilterSpec { ticks: Some(ticks), ..whole() }, &["1h", "94 ticks at most", "fewer ticks"]);
    }
    assert_refused(FilterSpec { lateness_ms: Some(100 * HOUR_MS), ..whole() }, &["lateness", "less lateness"]);
    assert_refused(FilterSpec { lateness_ms: Some(u64::MAX), ..whole() }, &["lateness", "less lateness"]);
    let both = FilterSpec { ticks: Some(60), lateness_ms: Some(HOUR_MS), ..whole() };
    assert_refused(both, &["60 ticks", "lateness", "less lateness"]);
    let counted = FilterSpec { lateness_ms: Some(1), ..spec("500events", 500, 0.001) };
    assert_refused(counted, &["lateness", "events", "leave it out"]);
    for bytes in [0, 1, 65_599] {
        let small = FilterSpec { capacity_events: None, memory_bytes: Some(bytes), ..whole() };
        assert_refused(small, &[&bytes.to_string(), "too little memory", "65600"]);
    }
    for window in ["unbounded", "landmark:1h", "landmark:day", "landmark:7events"] {
        assert_refused(spec(window, MILLION, 0.001), &["cuckoo", window, "duration"]);
    }
    for rate in [1e-9, 5.86e-9, 1e-10, 1e-12, 1e-300] {
        assert_refused(spec("1h", MILLION, rate), &["rate", "give 5.87e-9"]);
    }
    for (limit, ratio) in [(Limit::Density, 1.0), (Limit::Cardinality, 2.0), (Limit::Density, 2.0)] {
        let growth = Some(GrowthSpec { limit, generations_max: 4, ratio });
        assert_refused(FilterSpec { growth, ..whole() }, &["cuckoo", "growth", "one size"]);
    }
    let other = FilterSpec { ticks: Some(5), ..FilterSpec::new(Kind::Timing, Window::Duration(HOUR_MS)) };
    assert_refused(other, &["timing", "ticks", "cuckoo"]);
}

/// Returns the number in an error message between the words `before` and `behind`.
fn named(spec: FilterSpec, before: &str, behind: &str) -> f64 {
    let refusal = spec.resolve().unwrap_err().to_string();
    let number = refusal.split_once(before).and_then(|(_, rest)| rest.split_once(behind)).map(|(number, _)| number);
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number in `{refusal}`"))
}

/// The limit that an error message names is accepted, and a value beyond it is not.
#[test]
fn the_limits_that_refusals_name_are_those_that_hold() {
    for rate in [0.1, 0.01, 1e-5, 1e-8] {
        for lateness_ms in [0, 60_000, HOUR_MS / 8, HOUR_MS, 5 * HOUR_MS] {
            let with =
                |ticks| FilterSpec { ticks: Some(ticks), lateness_ms: Some(lateness_ms), ..spec("1h", 1000, rate) };
            let most = named(with(5000), "(", " ticks at most)") as u32;
            assert!(with(most).resolve().is_ok() && with(most + 1).resolve().is_err(), "{most} at {rate}");
        }
    }
    let late = FilterSpec { ticks: Some(1), lateness_ms: Some(1000 * HOUR_MS), ..spec("1h", 1000, 0.01) };
    assert_refused(late, &["1 tick and", "too much for any number of ticks", "less lateness"]);
    for generations_max in [1, 2, 3, 16] {
        let growth = Some(GrowthSpec { limit: Limit::Cardinality, generations_max, ratio: 1.0 });
        let with = |rate| FilterSpec { growth, ..spec("1h", 1000, rate) };
        let least = named(with(1e-9), "fingerprints give ", ";");
        assert!(with(least).resolve().is_ok(), "{generations_max} generations: {least} is named");
        assert!(with(0.99 * least).resolve().is_err(), "{generations_max} generations: {least} is not the least");
    }
}

#[test]
fn a_window_is_cut_into_as_many_ticks_as_were_asked_for_and_none_of_it_is_lost() {
    for rate in [0.05, 0.005, 0.001, 1e-5, 1e-8] {
        for lateness_ms in [0, 1, HOUR_MS / 60, HOUR_MS / 8] {
            let least = FilterSpec { lateness_ms: Some(lateness_ms), ..spec("1h", 50_000, rate) };
            let definition = least.resolve().unwrap();
            let Unit::Milliseconds(unit_ms) = definition.unit else { panic!("{definition:?}") };
            let rule = definition.rule;
            assert!((rule.span_units - 1) * unit_ms >= HOUR_MS && rule.lateness_units * unit_ms >= lateness_ms);
            assert!(rule.span_units + rule.lateness_units <= u64::from(shape(&definition).ticks()));
            let rate_of_full = cuckoo::rate(shape(&definition), cuckoo::load(shape(&definition)));
            assert!(rate_of_full <= rate, "{rate_of_full} of {rate}");
            FilterSlice::build(&definition).unwrap();
        }
        for ticks in 1..=60 {
            let definition = FilterSpec { ticks: Some(ticks), ..spec("1h", 50_000, rate) }.resolve().unwrap();
            let Unit::Milliseconds(unit_ms) = definition.unit else { panic!("{definition:?}") };
            assert_eq!(definition.rule.span_units, u64::from(ticks) + 1, "at {rate}");
            assert_eq!(unit_ms, HOUR_MS.div_ceil(u64::from(ticks)));
            FilterSlice::build(&definition).unwrap();
        }
    }
}

/// Checks the window of a filter against its specification. An event must be found at every age below W, and must be
/// forgotten at most two ticks later. This must also hold for windows with few ticks.
#[test]
fn no_part_of_the_promised_window_is_lost_and_little_is_added() {
    for ticks in [None, Some(1), Some(3), Some(20), Some(70)] {
        let definition = FilterSpec { ticks, ..spec("1000003ms", 100, 1e-6) }.resolve().unwrap();
        let Unit::Milliseconds(unit_ms) = definition.unit else { panic!("{definition:?}") };
        for delivered_ms in (0..3_000_009).step_by(142_857) {
            let stamp = |ms: u64| [Stamp::on_time(UnitNumber(ms / unit_ms))];
            for (age_ms, expected) in [(1_000_002, Verdict::Duplicate), (1_000_003 + 2 * unit_ms, Verdict::FirstSeen)] {
                let (mut slice, mut verdict) = (FilterSlice::build(&definition).unwrap(), [Verdict::Undecided]);
                slice.observe_batch(&digests(1, 1), &stamp(delivered_ms), &mut verdict);
                assert_eq!(verdict, [Verdict::FirstSeen]);
                slice.observe_batch(&digests(1, 1), &stamp(delivered_ms + age_ms), &mut verdict);
                assert_eq!(verdict, [expected], "{ticks:?} ticks: age {age_ms} from {delivered_ms}");
            }
        }
    }
}

fn bits_an_event(capacity: u64, rate: f64) -> f64 {
    let geometry = parts(&spec("24h", capacity, rate).resolve().unwrap()).0;
    geometry.bytes() as f64 * 8.0 / capacity as f64
}

#[test]
fn an_event_takes_as_few_bits_as_promised() {
    for (rate, most) in [(0.005, 18.5), (0.001, 21.0), (1e-8, 43.0)] {
        for capacity in [MILLION, 10 * MILLION, 100 * MILLION] {
            let bits = bits_an_event(capacity, rate);
            assert!(bits <= most, "{bits} bits at {rate} for {capacity}");
        }
    }
}

/// Adds a whole window of new events several times, evenly spread. Returns the number of rejected events, and the last
/// unit.
fn churn(slice: &mut FilterSlice, definition: &FilterDefinition, capacity: u64, windows: u64) -> (u64, UnitNumber) {
    const BATCH: u64 = 4096;
    let Unit::Events(unit_events) = definition.unit else { panic!("{definition:?}") };
    let (mut refused, mut unit) = (0, UnitNumber::FIRST);
    let mut verdicts = vec![Verdict::Undecided; BATCH as usize];
    for first in (0..windows * capacity).step_by(BATCH as usize) {
        let unit_of = |event| START.after(event / unit_events);
        let stamps: Vec<_> = (first..first + BATCH).map(|event| Stamp::on_time(unit_of(event))).collect();
        slice.observe_batch(&digests(first, BATCH), &stamps, &mut verdicts);
        refused += verdicts.iter().filter(|verdict| **verdict == Verdict::Undecided).count() as u64;
        unit = stamps[stamps.len() - 1].unit;
    }
    (refused, unit)
}

/// Returns the share of `lookups` new keys that are called duplicates.
fn measured_rate(slice: &mut FilterSlice, unit: UnitNumber, lookups: u64) -> f64 {
    const BATCH: u64 = 1 << 14;
    let (mut hits, mut verdicts) = (0, vec![Verdict::Undecided; BATCH as usize]);
    let batches = lookups.div_ceil(BATCH);
    for batch in 0..batches {
        slice.lookup_batch(
            &digests(UNSEEN + batch * BATCH, BATCH),
            &[Stamp::on_time(unit); BATCH as usize],
            &mut verdicts,
        );
        hits += verdicts.iter().filter(|verdict| **verdict == Verdict::Duplicate).count();
    }
    hits as f64 / (batches * BATCH) as f64
}

/// Counts errors at the highest fill that a steady stream reaches.
#[test]
fn full_filters_err_as_often_as_the_formula_says() {
    for (print_bits, lookups) in [(10, 1_000_000), (12, 500_000), (13, 1_300_000), (14, 2_800_000)] {
        let wanted = Wanted { regions: 2, ..Wanted::region((print_bits, 64), 0) };
        let slots = wanted.geometry().cells();
        let live = (slots as f64 * cuckoo::load(wanted.shape())) as u64;
        let wanted = Wanted { capacity_events: live, ..wanted };
        let (mut slice, span) = (wanted.slice(), wanted.rule.span_units);
        let (mut key, mut refused) = (0, 0);
        // The events come unit by unit, so that as many are alive as the filter is built for.
        for unit in (0..6 * span).map(|ahead| START.after(ahead)) {
            let events = live * unit.after(1).0 / span - live * unit.0 / span;
            let mut verdicts = vec![Verdict::Undecided; events as usize];
            slice.observe_batch(&digests(key, events), &vec![Stamp::on_time(unit); events as usize], &mut verdicts);
            refused += verdicts.iter().filter(|verdict| **verdict == Verdict::Undecided).count();
            key += events;
        }
        assert_eq!(refused, 0, "{wanted:?}");
        let fill = slice.fill_and_rate(usize::MAX).0.unwrap();
        // Events that a false positive dropped are missing.
        let formula = cuckoo::rate(wanted.shape(), fill);
        assert!(fill > (1.0 - 1.2 * formula) * cuckoo::load(wanted.shape()) && fill <= 1.0, "filled to {fill}");
        assert!((slice.expected_rate() / formula - 1.0).abs() < 1e-9);
        let measured = measured_rate(&mut slice, START.after(6 * span - 1), lookups);
        assert!((measured / formula - 1.0).abs() < 0.03, "{measured}, not {formula}; {wanted:?}");
    }
}

/// A sample of the regions tells how full all regions are, within the limits of chance.
#[test]
fn a_sample_of_regions_tells_the_fill_of_all() {
    let wanted = Wanted { regions: 8, ..Wanted::region((16, 64), 0) };
    let (mut slice, events) = (wanted.slice(), 100_000);
    for ahead in 0..60 {
        observe(&mut slice, &digests(ahead * events / 60, events / 60), START.after(ahead));
    }
    let (whole, rate) = slice.fill_and_rate(usize::MAX);
    assert_eq!(slice.fill_and_rate(slice.bytes() as usize), (whole, rate), "the sample contains all cells");
    let (whole, (sampled, _)) = (whole.unwrap(), slice.fill_and_rate(1));
    let slots = (wanted.geometry().cells() / 8) as f64;
    let deviation = (whole * slots).sqrt() / slots;
    let difference = (sampled.unwrap() - whole).abs();
    assert!(difference > 0.0 && difference < 5.0 * deviation, "{sampled:?} instead of {whole}");
    assert!((rate - cuckoo::rate(wanted.shape(), whole)).abs() < 1e-9);
}

/// A steady stream at the specified capacity is never rejected, and the rate stays below the specified rate.
fn keeps_its_promise(capacity: u64, rate: f64, lookups: u64) {
    let definition = spec(&format!("{capacity}events"), capacity, rate).resolve().unwrap();
    let mut slice = FilterSlice::build(&definition).unwrap();
    let (refused, unit) = churn(&mut slice, &definition, capacity, 5);
    let (fill, formula) = slice.fill_and_rate(usize::MAX);
    let measured = measured_rate(&mut slice, unit, lookups);
    let bits = slice.bytes() as f64 * 8.0 / capacity as f64;
    println!(
        "{capacity} events at {rate}: {bits:.2} bits, measured {measured:.3e}, formula {formula:.3e}, fill {:.3}, \
         refused {refused}, in the stash {}",
        fill.unwrap(),
        slice.used_cells()
    );
    assert_eq!(refused, 0);
    assert!(formula <= rate, "{formula} of {rate}");
    let expected = formula * lookups as f64;
    assert!((measured * lookups as f64 - expected).abs() < 5.0 * expected.sqrt() + 3.0, "{measured}, not {formula}");
}

#[test]
fn a_steady_stream_of_the_promised_load_is_never_refused() {
    for rate in [0.005, 0.001, 1e-8] {
        keeps_its_promise(200_000, rate, 500_000);
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_steady_stream_of_millions_at_full_size_is_never_refused() {
    for capacity in [MILLION, 10 * MILLION] {
        for rate in [0.005, 0.001, 1e-8] {
            keeps_its_promise(capacity, rate, 20 * MILLION);
        }
    }
}

#[test]
#[ignore = "takes an hour, and 600 MB"]
fn a_steady_stream_of_a_hundred_million_at_full_size_is_never_refused() {
    for rate in [0.005, 0.001, 1e-8] {
        keeps_its_promise(100 * MILLION, rate, 50 * MILLION);
    }
}

/// Asserts that every entry of a slice is counted, for any number of generations.
fn assert_counted(slice: &FilterSlice) {
    let (fill, slots) =
        (slice.fill_and_rate(usize::MAX).0.unwrap(), slice.geometry().cells() * slice.generations() as u64);
    let (entries, live) = ((fill * slots as f64).round() as u64, slice.live_events().unwrap());
    assert!(fill <= 1.0 && entries <= live, "{entries} entries, {live} counted");
}

/// Every event is refreshed again and again. The number of live events is the number of keys, and no event is rejected.
#[test]
fn refreshed_events_count_once() {
    for batch in [1, 50, 3000] {
        let wanted = Wanted { refresh: Refresh::Refresh, capacity_events: 3000, ..Wanted::region((16, 64), 2) };
        let (mut slice, mut rng) = (wanted.slice(), TestRng(4));
        let keys = digests(0, 3000);
        let (mut unit, mut seen) = (START, 0);
        for round in 0..12 * 3000 / batch {
            unit = unit.after(u64::from(round % (600 / batch).max(1) == 0));
            let part: Vec<_> = (0..batch).map(|_| keys[rng.below(3000) as usize]).collect();
            let verdicts = observe(&mut slice, &part, unit);
            assert!(!verdicts.contains(&Verdict::Undecided), "refused in round {round} of batches of {batch}");
            assert_counted(&slice);
            seen = slice.live_events().unwrap().max(seen);
        }
        assert!((2000..=3000).contains(&seen), "{seen}");
    }
}

fn observe(slice: &mut FilterSlice, keys: &[Digest], unit: UnitNumber) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Undecided; keys.len()];
    slice.observe_batch(keys, &vec![Stamp::on_time(unit); keys.len()], &mut verdicts);
    verdicts
}

#[test]
fn a_burst_opens_generations_of_one_shape_and_closes_them_again() {
    let growth = Some(GrowthSpec { limit: Limit::Cardinality, generations_max: 6, ratio: 1.0 });
    let definition = FilterSpec { growth, ..spec("100s", 20_000, 0.005) }.resolve().unwrap();
    let (mut slice, span) = (FilterSlice::build(&definition).unwrap(), definition.rule.span_units);
    assert!(definition.one_shape() && slice.takes_probes());
    let (mut exact, mut key, mut most) = (ExactWindow::of(&definition), 0, 0);
    for unit in (0..6 * span).map(UnitNumber) {
        let events = if (2 * span..3 * span).contains(&unit.0) { 80_000 / span } else { 15_000 / span };
        let keys = digests(key, events);
        for (key, verdict) in keys.iter().zip(observe(&mut slice, &keys, unit)) {
            assert_ne!(verdict, Verdict::Undecided, "at {unit}");
            exact.observe(*key, Stamp::on_time(unit), verdict);
        }
        // Events at the edge of the window are found in whichever generation they are.
        let edge = digests(key.saturating_sub(15_000), 300);
        let mut verdicts = vec![Verdict::Undecided; 300];
        slice.lookup_batch(&edge, &[Stamp::on_time(unit); 300], &mut verdicts);
        for (key, verdict) in edge.iter().zip(verdicts) {
            assert!(verdict == Verdict::Duplicate || !exact.knows(*key, Stamp::on_time(unit)), "lost at {unit}");
        }
        key += events;
        most = most.max(slice.generations());
        assert_counted(&slice);
        if unit == UnitNumber(3 * span - 1) {
            let rate = measured_rate(&mut slice, unit, 200_000);
            assert!(rate < 0.005 && (rate / slice.expected_rate() - 1.0).abs() < 0.1, "{rate}");
        }
    }
    assert!((4..=6).contains(&most), "{most} generations");
    assert_eq!(slice.generations(), 1, "the filter has one generation again");
}

/// Events that are refreshed may lie in an older and in a newer generation. No event is lost, and none is counted too
/// little.
#[test]
fn refreshed_events_outlive_the_generations_they_came_in() {
    for batch in [1, 40, 2000] {
        let wanted = Wanted {
            refresh: Refresh::Refresh,
            capacity_events: 500,
            generations_max: 4,
            ..Wanted::region((32, 64), 0)
        };
        let (mut slice, definition) = (wanted.slice(), wanted.definition());
        let (mut exact, mut rng, keys) = (ExactWindow::of(&definition), TestRng(8), digests(0, 900));
        let (mut unit, mut left) = (START, 40_000);
        while left > 0 {
            left -= batch;
            unit = unit.after(u64::from(rng.below(1 + 400 / batch as u64) == 0));
            let part: Vec<_> = (0..batch).map(|_| keys[rng.below(900) as usize]).collect();
            for (key, verdict) in part.iter().zip(observe(&mut slice, &part, unit)) {
                let known = exact.observe(*key, Stamp::on_time(unit), verdict);
                assert!(!known || verdict == Verdict::Duplicate, "{verdict:?} of a known event at {unit}");
            }
            assert_counted(&slice);
            assert!(slice.generations() <= 4 && slice.live_events().unwrap() <= 4 * 500 + 900);
        }
        slice.advance(unit.after(100));
        assert_eq!((slice.generations(), slice.live_events()), (1, Some(0)));
    }
}

#[test]
fn no_generation_takes_more_than_its_capacity_and_beyond_the_last_one_events_are_refused() {
    for batch in [1, 7, 700, 5000] {
        let wanted = Wanted { capacity_events: 1000, generations_max: 3, ..Wanted::region((32, 64), 0) };
        let mut slice = wanted.slice();
        for first in (0..5000).step_by(batch) {
            observe(&mut slice, &digests(first, batch as u64), START);
            let taken = (first + batch as u64).min(3000);
            assert_eq!(slice.live_events(), Some(taken), "batches of {batch}");
            assert_eq!(slice.generations() as u64, taken.div_ceil(1000), "batches of {batch}");
        }
        let verdicts = observe(&mut slice, &digests(2999, 2), START);
        assert_eq!(verdicts, [Verdict::Duplicate, Verdict::Undecided]);
        // As soon as events expire, there is room again.
        let verdicts = observe(&mut slice, &digests(9000, 600), wanted.rule.expiry(START));
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen));
    }
}
