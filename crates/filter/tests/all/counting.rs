//! Compares the counting kind with exact models: jumping and sliding windows, saturation, false-positive rates and
//! saved state.

use std::collections::HashMap;

use firstseen_filter::{
    CountingError, Digest, FilterSecret, JumpingCounting, SlidingCounting, Stamp, UnitNumber, WindowRule,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn digest(key: u64) -> Digest {
    FilterSecret::from_seed(11).digest(&key.to_le_bytes())
}

fn window(span_units: u64) -> WindowRule {
    WindowRule { span_units, lateness_units: 0 }
}

fn jumping(cells: u64, hashes: u32, span_units: u64) -> JumpingCounting {
    JumpingCounting::new(cells, hashes, window(span_units)).unwrap()
}

fn jump(filter: &mut JumpingCounting, key: u64, unit: u64) -> bool {
    let mut duplicate = [false];
    filter.observe_batch(&[digest(key)], &[Stamp::on_time(UnitNumber(unit))], &mut duplicate);
    duplicate[0]
}

fn slide(filter: &mut SlidingCounting, key: u64, number: u64) -> bool {
    let mut duplicate = [false];
    filter.observe_batch(&[digest(key)], &[Stamp::on_time(UnitNumber(number))], &mut duplicate);
    duplicate[0]
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() }
}

/// Asserts that a count lies in the 99.9 % band of `events` trials with the probability `rate`.
fn assert_in_band(hits: u64, events: u64, rate: f64) {
    let (mean, deviation) = (events as f64 * rate, (events as f64 * rate * (1.0 - rate)).sqrt());
    let distance = (hits as f64 - mean).abs();
    assert!(distance <= 3.29 * deviation + 1.0, "{hits} of {events}, expected {mean:.1} +- {deviation:.1}");
}

/// Returns batches of pairs of a key and a step of the unit. The filters are so large that no false positive occurs.
fn streams() -> impl Strategy<Value = Vec<Vec<(u64, u64)>>> {
    let step = prop_oneof![6 => Just(0_u64), 4 => 1..3_u64, 1 => 3..40_u64];
    prop::collection::vec(prop::collection::vec((0..24_u64, step), 1..50), 1..12)
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn jumping_answers_as_the_exact_model_with_saves_between(stream in streams(), span in 1..20_u64) {
        let mut filter = jumping(1 << 16, 6, span);
        let (mut expiries, mut unit) = (HashMap::new(), UnitNumber(5));
        for batch in stream {
            let (mut digests, mut stamps, mut expected) = (vec![], vec![], vec![]);
            for (key, step) in batch {
                unit = unit.after(step);
                digests.push(digest(key));
                stamps.push(Stamp::on_time(unit));
                let alive = expiries.get(&key).is_some_and(|expiry| *expiry > unit);
                expected.push(alive);
                if !alive {
                    expiries.insert(key, unit.after(span));
                }
            }
            let mut duplicate = vec![false; digests.len()];
            filter.observe_batch(&digests, &stamps, &mut duplicate);
            prop_assert_eq!(&duplicate, &expected);
            let mut saved = vec![];
            filter.write_body(&mut saved).unwrap();
            filter = jumping(1 << 16, 6, span);
            filter.read_body(&mut &saved[..]).unwrap();
            let lookups = vec![Stamp::on_time(unit); digests.len()];
            filter.lookup_batch(&digests, &lookups, &mut duplicate);
            let alive: Vec<_> = lookups.iter().zip(&digests).map(|(stamp, asked)| {
                expiries.iter().any(|(key, expiry)| digest(*key) == *asked && *expiry > stamp.judged)
            }).collect();
            prop_assert_eq!(&duplicate, &alive);
        }
    }

    #[test]
    fn jumping_records_out_of_order_events_in_their_own_sub_window(
        events in prop::collection::vec((0..30_u64, 0..12_u64), 1..300),
    ) {
        let rule = window(8);
        let mut filter = jumping(1 << 16, 6, 8);
        let (mut expiries, mut now) = (HashMap::new(), UnitNumber::FIRST);
        for (index, (key, back)) in events.into_iter().enumerate() {
            let unit = UnitNumber(100 + index as u64 / 10).before(back);
            let Some(stamp) = rule.stamp(unit, now) else { continue };
            now = now.max(unit);
            let alive = expiries.get(&key).is_some_and(|expiry| *expiry > stamp.judged);
            let mut duplicate = [false];
            filter.observe_batch(&[digest(key)], &[stamp], &mut duplicate);
            prop_assert_eq!(duplicate[0], alive);
            if !alive {
                expiries.insert(key, rule.expiry(unit));
            }
        }
    }

    #[test]
    fn sliding_answers_as_the_exact_model_with_saves_between(stream in streams(), events in 1..90_u64) {
        let mut filter = SlidingCounting::new(1 << 16, 6, events).unwrap();
        let (mut expiries, mut number) = (HashMap::new(), 0);
        for batch in stream {
            let (mut digests, mut stamps, mut expected) = (vec![], vec![], vec![]);
            for (key, gap) in batch {
                number += gap;
                digests.push(digest(key));
                stamps.push(Stamp::on_time(UnitNumber(number)));
                let alive = expiries.get(&key).is_some_and(|expiry| *expiry > number);
                expected.push(alive);
                if !alive {
                    expiries.insert(key, number + events);
                }
                number += 1;
            }
            let mut duplicate = vec![false; digests.len()];
            filter.observe_batch(&digests, &stamps, &mut duplicate);
            prop_assert_eq!(&duplicate, &expected);
            let mut saved = vec![];
            filter.write_body(&mut saved).unwrap();
            filter = SlidingCounting::new(1 << 16, 6, events).unwrap();
            filter.read_body(&mut &saved[..]).unwrap();
        }
    }

    #[test]
    fn crowded_counters_never_forget_an_event_of_the_window(
        keys in prop::collection::vec(prop_oneof![Just(0_u64), 0..400_u64], 1..1500),
        cells in 1..40_u64,
        hashes in 1..=16_u32,
        events in 1..300_u64,
    ) {
        // The filter has a few cells and many positions per event, so that 4-bit counters reach their maximum.
        let mut sliding = SlidingCounting::new(cells, hashes, events).unwrap();
        let mut jumps = jumping(cells, hashes, 3);
        let (mut slid, mut jumped) = (HashMap::new(), HashMap::new());
        for (number, key) in keys.into_iter().enumerate() {
            let number = number as u64;
            let found = slide(&mut sliding, key, number);
            prop_assert!(found || slid.get(&key).is_none_or(|expiry| *expiry <= number));
            if !found {
                slid.insert(key, number + events);
            }
            let unit = number / 64;
            let found = jump(&mut jumps, key, unit);
            prop_assert!(found || jumped.get(&key).is_none_or(|expiry| *expiry <= unit));
            if !found {
                jumped.insert(key, unit + 3);
            }
        }
    }

    #[test]
    fn no_bytes_make_a_filter_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let keys: Vec<_> = (0..40).map(digest).collect();
        let stamps: Vec<_> = (0..40).map(UnitNumber).map(Stamp::on_time).collect();
        let mut duplicate = [false; 40];
        let mut jumps = jumping(100, 3, 4);
        if jumps.read_body(&mut &bytes[..]).is_ok() {
            jumps.observe_batch(&keys, &stamps, &mut duplicate);
        }
        let mut sliding = SlidingCounting::new(100, 3, 5).unwrap();
        if sliding.read_body(&mut &bytes[..]).is_ok() {
            sliding.observe_batch(&keys, &stamps, &mut duplicate);
        }
    }
}

#[test]
fn jumping_forgets_exactly_when_the_sub_window_leaves() {
    for span in [1, 2, 5, 15, 16, 255] {
        for (age, known) in [(span - 1, true), (span, false), (span + 1, false)] {
            for cells in [1 << 14, 10_007] {
                let mut filter = jumping(cells, 5, span);
                assert!(!jump(&mut filter, 1, 1_000));
                assert_eq!(jump(&mut filter, 1, 1_000 + age), known, "span {span}, age {age}");
            }
        }
    }
}

#[test]
fn an_event_that_comes_after_its_window_is_not_recorded() {
    let late = [Stamp { unit: UnitNumber(2), judged: UnitNumber(5) }];
    let mut duplicate = [true];
    let mut jumps = jumping(1 << 14, 5, 3);
    jumps.observe_batch(&[digest(1)], &late, &mut duplicate);
    assert_eq!((duplicate, jumps.fill()), ([false], 0.0));
    let mut sliding = SlidingCounting::new(1 << 14, 5, 3).unwrap();
    sliding.observe_batch(&[digest(1)], &late, &mut duplicate);
    assert_eq!((duplicate, sliding.fill()), ([false], 0.0));
    // An event that is one unit earlier still counts, for one more unit.
    jumps.observe_batch(&[digest(1)], &[Stamp { unit: UnitNumber(3), judged: UnitNumber(5) }], &mut duplicate);
    assert_eq!((jump(&mut jumps, 1, 5), jump(&mut jumps, 1, 6)), (true, false));
}

#[test]
fn sliding_forgets_exactly_at_the_nth_arrival_after() {
    for events in [1, 2, 5, 16, 17, 300] {
        for (age, known) in [(events - 1, true), (events, false), (events + 1, false)] {
            let mut filter = SlidingCounting::new(1 << 16, 5, events).unwrap();
            assert!(!slide(&mut filter, 0, 0));
            (1..age).for_each(|number| assert!(!slide(&mut filter, number, number)));
            assert_eq!(slide(&mut filter, 0, age), known && age > 0, "{events} events, age {age}");
        }
    }
}

#[test]
fn what_has_left_the_window_leaves_no_cell_behind() {
    let mut sliding = SlidingCounting::new(4_096, 5, 64).unwrap();
    (0..5_000).for_each(|number| {
        slide(&mut sliding, number % 97, number);
    });
    sliding.lookup_batch(&[digest(0)], &[Stamp::on_time(UnitNumber(5_062))], &mut [false]);
    assert!(sliding.fill() > 0.0);
    sliding.lookup_batch(&[digest(0)], &[Stamp::on_time(UnitNumber(5_063))], &mut [false]);
    assert_eq!(sliding.fill(), 0.0);

    let mut jumps = jumping(4_096, 5, 6);
    (0..5_000).for_each(|event| {
        jump(&mut jumps, event % 997, event / 100);
    });
    // The units pass one by one, so that every sub-window is subtracted and none is cleared as a whole.
    (50..=55).for_each(|unit| jumps.lookup_batch(&[digest(0)], &[Stamp::on_time(UnitNumber(unit))], &mut [false]));
    assert_eq!(jumps.fill(), 0.0);
}

#[test]
fn a_number_that_does_not_increase_is_the_next_one() {
    let mut filter = SlidingCounting::new(1 << 14, 5, 3).unwrap();
    assert_eq!([1, 2, 1, 3, 1].map(|key| slide(&mut filter, key, 0)), [false, false, true, false, false]);
}

#[test]
fn a_counter_at_its_maximum_is_stuck_and_counted() {
    let mut stuck = SlidingCounting::new(1, 16, 5).unwrap();
    assert!(!slide(&mut stuck, 1, 0));
    assert_eq!(stuck.stuck_cells(), 1, "all sixteen positions are in one cell");
    (1..100).for_each(|number| assert!(slide(&mut stuck, 1, number), "a stuck cell stays set"));
    let mut saved = vec![];
    stuck.write_body(&mut saved).unwrap();
    let mut loaded = SlidingCounting::new(1, 16, 5).unwrap();
    loaded.read_body(&mut &saved[..]).unwrap();
    assert!(slide(&mut loaded, 1, 100));
    // A gap of a whole window clears everything, including counters at their maximum.
    assert!(!slide(&mut loaded, 1, 1_000));
}

#[test]
fn false_positives_are_as_many_as_the_formula_says() {
    let (cells, hashes, sub_window) = (1 << 17, 5, 2_500_u64);
    let mut jumps = jumping(cells, hashes, 6);
    let mut sliding = SlidingCounting::new(cells, hashes, 6 * sub_window).unwrap();
    let events = 20 * sub_window;
    let digests: Vec<_> = (0..events).map(digest).collect();
    let mut jumped = vec![false; digests.len()];
    let units: Vec<_> = (0..events).map(|event| Stamp::on_time(UnitNumber(event / sub_window))).collect();
    jumps.observe_batch(&digests, &units, &mut jumped);
    let mut slid = vec![false; digests.len()];
    let numbers: Vec<_> = (0..events).map(UnitNumber).map(Stamp::on_time).collect();
    sliding.observe_batch(&digests, &numbers, &mut slid);

    let lookups: Vec<_> = (1 << 40..(1 << 40) + 200_000).map(digest).collect();
    let mut found = vec![false; lookups.len()];
    let live = |answers: &[bool]| answers.iter().rev().take(6 * sub_window as usize).filter(|known| !**known).count();
    let rate = |recorded: usize| {
        let empty = (1.0 - 1.0 / cells as f64).powf(f64::from(hashes) * recorded as f64);
        (1.0 - empty).powf(f64::from(hashes))
    };
    jumps.lookup_batch(&lookups, &vec![Stamp::on_time(UnitNumber(19)); lookups.len()], &mut found);
    assert_in_band(found.iter().filter(|known| **known).count() as u64, 200_000, rate(live(&jumped)));
    assert!((jumps.expected_rate() / rate(live(&jumped)) - 1.0).abs() < 0.05);
    sliding.lookup_batch(&lookups, &vec![Stamp::on_time(UnitNumber(events - 1)); lookups.len()], &mut found);
    assert_in_band(found.iter().filter(|known| **known).count() as u64, 200_000, rate(live(&slid)));
    assert!((sliding.expected_rate() / rate(live(&slid)) - 1.0).abs() < 0.05);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let late = WindowRule { span_units: 3, lateness_units: 1 };
    assert!(matches!(JumpingCounting::new(100, 3, late), Err(CountingError::Lateness(1))));
    assert!(matches!(JumpingCounting::new(100, 3, window(256)), Err(CountingError::SubWindows(256))));
    assert!(matches!(JumpingCounting::new(100, 3, window(0)), Err(CountingError::SubWindows(0))));
    assert!(matches!(SlidingCounting::new(100, 3, 0), Err(CountingError::WindowEvents(0))));
    assert!(matches!(SlidingCounting::new(0, 3, 5), Err(CountingError::Geometry(_))));
}

#[test]
fn saved_state_that_no_filter_writes_is_refused() {
    let mut jumps = jumping(100, 3, 4);
    jump(&mut jumps, 1, 9);
    let mut saved = vec![];
    jumps.write_body(&mut saved).unwrap();
    assert!(jumps.read_body(&mut &saved[..saved.len() - 1]).is_err());
    saved[8 + 13] = 0x80;
    assert!(jumps.read_body(&mut &saved[..]).is_err(), "the bit belongs to cell 111 of 100 cells");

    let mut sliding = SlidingCounting::new(512, 3, 8).unwrap();
    slide(&mut sliding, 1, 9);
    let mut saved = vec![];
    sliding.write_body(&mut saved).unwrap();
    assert!(sliding.read_body(&mut &saved[..]).is_ok());
    let counter = saved[16..16 + 256].iter().position(|byte| *byte != 0).unwrap();
    saved[16 + counter] = 0;
    assert!(sliding.read_body(&mut &saved[..]).is_err(), "a counter was lost");
}

#[test]
fn small_sums_take_half_the_memory() {
    let cells = 1 << 20;
    assert_eq!(jumping(cells, 5, 15).bytes() * 8, cells * (4 + 15));
    assert_eq!(jumping(cells, 5, 16).bytes() * 8, cells * (8 + 16));
    assert_eq!(SlidingCounting::new(cells, 5, 1 << 10).unwrap().bytes() * 8, cells * 4 + (1 << 10) * 129);
}
