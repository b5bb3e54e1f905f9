//! Compares filters of kind `decaying` with exact decayed frequencies. The tests check the bound of the estimates, the
//! decay to zero, the examples of the paper, and the pool of extensions.

use std::collections::HashMap;

use firstseen_filter::{
    CounterStorage, DecayRule, DecayingError, DecayingFilter, DecayingShape, Digest, FilterSecret, Stamp, UnitNumber,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const EXTENDED: CounterStorage = CounterStorage::Extended { extensions: 1 << 14 };

fn digest(key: u64) -> Digest {
    FilterSecret::from_seed(5).digest(&key.to_le_bytes())
}

fn filter(cells: u64, hashes: u32, rule: DecayRule, storage: CounterStorage) -> DecayingFilter {
    DecayingFilter::new(DecayingShape { cells, hashes, rule, storage }).unwrap()
}

fn observe(filter: &mut DecayingFilter, events: &[(u64, u64)]) -> Vec<f64> {
    let digests: Vec<_> = events.iter().map(|(key, _)| digest(*key)).collect();
    let stamps: Vec<_> = events.iter().map(|(_, epoch)| Stamp::on_time(UnitNumber(*epoch))).collect();
    let mut estimates = vec![0.0; events.len()];
    filter.observe_batch(&digests, &stamps, &mut estimates);
    estimates
}

fn body(filter: &DecayingFilter) -> Vec<u8> {
    let mut saved = vec![];
    filter.write_body(&mut saved).unwrap();
    assert_eq!(saved.len() as u64, filter.body_bytes());
    assert!(filter.body_bytes() <= filter.body_bytes_max());
    saved
}

/// Returns `f_e(epoch)` computed from its definition.
fn truth(occurrences: &[u64], lambda: f64, epoch: u64) -> f64 {
    occurrences.iter().map(|then| lambda.powi((epoch - then) as i32)).sum()
}

fn rules() -> impl Strategy<Value = DecayRule> {
    let lambda = || prop_oneof![Just(0.3), Just(0.5), Just(0.7), Just(0.9), Just(0.99)];
    let lasting =
        (lambda(), 2..=8_u32).prop_map(|(lambda, fraction_bits)| DecayRule::Lasting { lambda, fraction_bits });
    prop_oneof![1 => lambda().prop_map(|lambda| DecayRule::Literal { lambda }), 3 => lasting]
}

fn storages() -> impl Strategy<Value = CounterStorage> {
    prop_oneof![Just(CounterStorage::Basic), Just(EXTENDED)]
}

/// Returns a stream of (key, step of the epoch, epochs late). There are few keys, and some of them are frequent.
fn streams() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let key = prop_oneof![3 => 0..3_u64, 2 => 0..60_u64];
    let step = prop_oneof![12 => Just(0_u64), 3 => 1..4_u64, 1 => 4..60_u64];
    let late = prop_oneof![6 => Just(0_u64), 1 => 1..10_u64];
    prop::collection::vec((key, step, late), 1..400)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(9), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn no_estimate_is_below_the_truth_by_more_than_epsilon(
        rule in rules(), storage in storages(), stream in streams(), cells in prop_oneof![Just(40_u64), Just(1 << 11)],
    ) {
        let mut filter = filter(cells, 4, rule, storage);
        let (mut occurrences, mut now) = (HashMap::<u64, Vec<u64>>::new(), 1_000);
        for (key, step, late) in stream {
            now += step;
            let estimate = observe(&mut filter, &[(key, now), (key, now - late)])[1];
            occurrences.entry(key).or_default().extend([now, now - late]);
            prop_assert_eq!(filter.degraded(), 0);
            prop_assert!(estimate >= truth(&occurrences[&key], rule.lambda(), now) - rule.epsilon() - 1e-9);
        }
        for (key, then) in &occurrences {
            for epoch in [now, now + 1, now + 7, now + 300] {
                let (estimate, truth) = (filter.estimate(digest(*key), UnitNumber(epoch)), truth(then, rule.lambda(), epoch));
                prop_assert!(estimate >= truth - rule.epsilon() - 1e-9, "{estimate} for {truth}");
            }
        }
    }

    #[test]
    fn where_nothing_is_shared_the_lasting_estimate_is_near_the_truth_from_both_sides(
        lambda in prop_oneof![Just(0.3), Just(0.9), Just(0.99)], storage in storages(), stream in streams(),
    ) {
        let rule = DecayRule::Lasting { lambda, fraction_bits: 6 };
        let mut filter = filter(1 << 13, 4, rule, storage);
        let (mut occurrences, mut now) = (HashMap::<u64, Vec<u64>>::new(), 0);
        for (key, step, _) in stream {
            now += step;
            observe(&mut filter, &[(key, now)]);
            occurrences.entry(key).or_default().push(now);
        }
        for (key, then) in &occurrences {
            let (estimate, truth) = (filter.estimate(digest(*key), UnitNumber(now)), truth(then, lambda, now));
            prop_assert!(estimate >= truth - rule.epsilon() - 1e-9 && estimate <= truth * (1.0 + 1.0 / 64.0) + 1e-9);
        }
    }

    #[test]
    fn epochs_at_once_are_epochs_one_by_one_also_across_saves(
        rule in rules(), storage in storages(), stream in streams(),
    ) {
        let (mut leaps, mut steps) = (filter(100, 3, rule, storage), filter(100, 3, rule, storage));
        let mut now = 0;
        for (key, step, _) in stream {
            for epoch in now + 1..now + step {
                let ahead = steps.estimate(digest(key), UnitNumber(epoch));
                steps.advance(UnitNumber(epoch));
                prop_assert_eq!(ahead, steps.estimate(digest(key), UnitNumber(epoch)));
                prop_assert_eq!(ahead, leaps.estimate(digest(key), UnitNumber(epoch)));
            }
            now += step;
            prop_assert_eq!(observe(&mut leaps, &[(key, now)]), observe(&mut steps, &[(key, now)]));
            let saved = body(&leaps);
            leaps = filter(100, 3, rule, storage);
            leaps.read_body(&mut &saved[..]).unwrap();
            prop_assert_eq!(leaps.extensions_used(), steps.extensions_used());
        }
    }

    #[test]
    fn after_input_stops_every_estimate_is_zero_in_the_stated_epochs(
        lambda in prop_oneof![Just(0.3), Just(0.9), Just(0.99)], storage in storages(), stream in streams(),
    ) {
        let mut filter = filter(60, 3, DecayRule::Lasting { lambda, fraction_bits: 3 }, storage);
        let mut now = 0;
        for (key, step, _) in stream {
            now += step;
            observe(&mut filter, &[(key, now)]);
        }
        let silent = now + filter.silence_epochs().unwrap();
        prop_assert!((0..60).all(|key| filter.estimate(digest(key), UnitNumber(silent)) == 0.0));
        observe(&mut filter, &[(10_000, silent)]);
        prop_assert!(filter.fill() <= 3.0 / 60.0);
    }

    #[test]
    fn damaged_bodies_are_refused_or_harmless(
        stream in streams(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let rule = DecayRule::Literal { lambda: 0.9 };
        let mut filter = filter(200, 2, rule, CounterStorage::Extended { extensions: 40 });
        let events: Vec<_> = stream.iter().map(|(key, _, _)| (*key, 3)).collect();
        observe(&mut filter, &events);
        let mut saved = body(&filter);
        for (place, byte) in damage {
            // The epoch stays unchanged, because this test is about the counters.
            let place = 8 + place.index(saved.len() - 8);
            saved[place] = byte;
        }
        if filter.read_body(&mut &saved[..]).is_ok() {
            observe(&mut filter, &events);
            observe(&mut filter, &[(1, 500)]);
            filter.fill();
        }
    }
}

#[test]
fn the_literal_rule_leaves_the_paper_s_floor_for_ever() {
    for storage in [CounterStorage::Basic, EXTENDED] {
        for (lambda, floor) in [(0.9, 9.0), (0.99, 99.0)] {
            let mut filter = filter(1 << 12, 4, DecayRule::Literal { lambda }, storage);
            observe(&mut filter, &[(1, 0); 500]);
            assert_eq!(filter.estimate(digest(1), UnitNumber(1)), (500.0 * lambda).ceil());
            assert_eq!(filter.estimate(digest(1), UnitNumber(1_000)), floor);
            observe(&mut filter, &[(2, u64::MAX)]);
            assert_eq!(filter.estimate(digest(1), UnitNumber::NEVER), floor);
            assert_eq!(filter.silence_epochs(), None);
        }
    }
}

#[test]
fn the_lasting_rule_forgets_what_the_literal_one_keeps() {
    for storage in [CounterStorage::Basic, EXTENDED] {
        let mut filter = filter(1 << 12, 4, DecayRule::Lasting { lambda: 0.9, fraction_bits: 6 }, storage);
        observe(&mut filter, &[(1, 0); 500]);
        let epochs = (0..).find(|epoch| filter.estimate(digest(1), UnitNumber(*epoch)) == 0.0).unwrap();
        // From epoch 98 on, 500 * 0.9^epochs is below 2^-6.
        assert!((60..=110).contains(&epochs) && epochs <= filter.silence_epochs().unwrap(), "{epochs}");
    }
}

#[test]
fn the_paper_s_chain_of_three_digits() {
    let mut filter = filter(1 << 12, 1, DecayRule::Literal { lambda: 0.5 }, EXTENDED);
    assert_eq!(observe(&mut filter, &[(1, 0); 288])[287], 288.0);
    assert_eq!(filter.extensions_used(), 2);
    assert_eq!(filter.fill(), 1.0 / 4_096.0, "a counter with a base digit of 0 is not empty");
    // The base digit is 0, and the extensions of the cell have the digits 2 and 1.
    let saved = body(&filter);
    let cell = usize::from(saved[saved.len() - 12]);
    let digits = [saved[saved.len() - 11], saved[saved.len() - 5]];
    assert_eq!((digits, usize::from(saved[saved.len() - 6])), ([2, 1], cell));
}

#[test]
fn extensions_come_back_and_are_used_again() {
    for (rule, fraction) in
        [(DecayRule::Literal { lambda: 0.5 }, 1), (DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 }, 16)]
    {
        let mut filter = filter(1 << 10, 4, rule, CounterStorage::Extended { extensions: 12 });
        for round in 0..50 {
            let epoch = round * 100;
            observe(&mut filter, &vec![(round, epoch); 300]);
            assert!((4..=12).contains(&filter.extensions_used()), "{} of {fraction}", filter.extensions_used());
            assert_eq!(filter.degraded(), 0, "round {round}");
            observe(&mut filter, &[(round, epoch + 40)]);
            assert_eq!(filter.extensions_used(), 0);
        }
        assert!(filter.estimate(digest(1), UnitNumber(5_000)) <= 1.0);
    }
}

#[test]
fn an_empty_pool_and_a_full_counter_are_told() {
    let mut pool = filter(1 << 10, 4, DecayRule::Literal { lambda: 0.9 }, CounterStorage::Extended { extensions: 6 });
    observe(&mut pool, &[(1, 0); 16]);
    assert_eq!((pool.degraded(), pool.extensions_used()), (0, 4));
    let estimates = observe(&mut pool, &[(2, 0); 30]);
    // The second key gets two extensions of four. Its other counters stay at 15, and every lost occurrence is counted.
    assert_eq!((estimates[29], pool.degraded()), (15.0, 15));
    assert_eq!(pool.estimate(digest(1), UnitNumber::FIRST), 16.0);

    let mut basic = filter(1 << 10, 4, DecayRule::Literal { lambda: 0.9 }, CounterStorage::Basic);
    observe(&mut basic, &vec![(1, 0); 65_535]);
    assert_eq!(basic.degraded(), 0);
    assert_eq!(observe(&mut basic, &[(1, 0); 3]), [65_535.0; 3]);
    assert_eq!(basic.degraded(), 3);
    let saved = body(&basic);
    let mut loaded = filter(1 << 10, 4, DecayRule::Literal { lambda: 0.9 }, CounterStorage::Basic);
    loaded.read_body(&mut &saved[..]).unwrap();
    assert_eq!(loaded.degraded(), 3);
}

/// Returns the next number of a small random generator.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns events whose keys follow Zipf's law with the exponent 1: the logarithm of the rank is uniform.
fn zipf(events: u64, keys: f64, epoch_events: u64) -> Vec<(u64, u64)> {
    let mut state = 42;
    let mut uniform = || split_mix(&mut state) as f64 / 2.0_f64.powi(64);
    (0..events).map(|event| ((uniform() * keys.ln()).exp() as u64, event / epoch_events)).collect()
}

#[test]
fn on_skewed_data_extended_counters_take_about_a_third_of_the_memory() {
    let (cells, hashes) = (1 << 20, 7);
    let stream = zipf(400_000, 2_000_000.0, 100_000);
    let rule = DecayRule::Literal { lambda: 0.9 };
    let mut basic = filter(cells, hashes, rule, CounterStorage::Basic);
    let mut extended = filter(cells, hashes, rule, CounterStorage::Extended { extensions: 1 << 19 });
    observe(&mut basic, &stream);
    observe(&mut extended, &stream);
    let share = extended.touched_bytes() as f64 / basic.touched_bytes() as f64;
    assert!((0.45..0.65).contains(&basic.fill()), "sized for the data: {}", basic.fill());
    assert!((0.25..0.42).contains(&share), "{share} of the memory");
    assert_eq!((basic.degraded(), extended.degraded()), (0, 0));
    // Both filters count in the same way, because they have the same cells and the same rule.
    let keys: Vec<_> = stream.iter().map(|(key, _)| digest(*key)).collect();
    let (mut by_basic, mut by_extended) = (vec![0.0; keys.len()], vec![0.0; keys.len()]);
    basic.estimate_batch(&keys, &vec![Stamp::on_time(UnitNumber(5)); keys.len()], &mut by_basic);
    extended.estimate_batch(&keys, &vec![Stamp::on_time(UnitNumber(5)); keys.len()], &mut by_extended);
    assert_eq!(by_basic, by_extended);
}

#[test]
fn keys_never_seen_have_an_estimate_as_often_as_the_formula_says() {
    let (cells, hashes, distinct) = (1_u64 << 17, 5, 15_000_u64);
    let filled = 1.0 - (1.0 - 1.0 / cells as f64).powf(f64::from(hashes) * distinct as f64);
    let asked: Vec<_> = (1 << 40..(1 << 40) + 300_000).map(digest).collect();
    for (rule, storage) in [
        (DecayRule::Lasting { lambda: 0.9, fraction_bits: 4 }, CounterStorage::Basic),
        (DecayRule::Lasting { lambda: 0.9, fraction_bits: 4 }, EXTENDED),
        (DecayRule::Literal { lambda: 0.9 }, EXTENDED),
    ] {
        let mut filter = filter(cells, hashes, rule, storage);
        observe(&mut filter, &(0..distinct).map(|key| (key, 0)).collect::<Vec<_>>());
        let mut rate = filled.powf(f64::from(hashes));
        if storage == EXTENDED {
            // BF_0 has half the cells and three positions.
            rate *= (1.0 - (1.0 - 2.0 / cells as f64).powf(3.0 * distinct as f64)).powf(3.0);
        }
        let mut estimates = vec![0.0; asked.len()];
        filter.estimate_batch(&asked, &vec![Stamp::default(); asked.len()], &mut estimates);
        let hits = estimates.iter().filter(|estimate| **estimate > 0.0).count() as f64;
        let events = asked.len() as f64;
        let (mean, deviation) = (events * rate, (events * rate * (1.0 - rate)).sqrt());
        assert!((hits - mean).abs() < 3.29 * deviation, "{hits} hits, expected {mean} +- {deviation}");
        assert!((filter.expected_rate() / rate - 1.0).abs() < 0.05);
    }
}

#[test]
fn bf_0_forgets_what_the_counters_have_forgotten() {
    let mut filter = filter(1 << 12, 4, DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 }, EXTENDED);
    let silence = filter.silence_epochs().unwrap();
    for round in 0..8 {
        observe(&mut filter, &(0..200).map(|key| (round * 1_000 + key, round * silence)).collect::<Vec<_>>());
    }
    let eight_rounds = filter.expected_rate();
    let mut fresh = self::filter(1 << 12, 4, DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 }, EXTENDED);
    observe(&mut fresh, &(0..200).map(|key| (key, 0)).collect::<Vec<_>>());
    observe(&mut fresh, &(0..200).map(|key| (key + 1_000, silence)).collect::<Vec<_>>());
    assert!(eight_rounds < 2.0 * fresh.expected_rate(), "{eight_rounds} after {}", fresh.expected_rate());
}

#[test]
fn chains_that_no_filter_writes_are_refused() {
    let rule = DecayRule::Literal { lambda: 0.5 };
    let mut filter = filter(64, 1, rule, CounterStorage::Extended { extensions: 8 });
    observe(&mut filter, &[(1, 0); 288]);
    let saved = body(&filter);
    let refused = |place_from_end: usize, byte: u8| {
        let mut damaged = saved.clone();
        let place = damaged.len() - place_from_end;
        damaged[place] = byte;
        let mut loaded = self::filter(64, 1, rule, CounterStorage::Extended { extensions: 8 });
        loaded.read_body(&mut &damaged[..]).unwrap_err().to_string()
    };
    // The last twelve bytes are two extensions, each with cell, digit and next.
    assert!(refused(4, 1).contains("two places"), "a cycle");
    assert!(refused(4, 7).contains("out of the pool"));
    assert!(refused(10, 0).contains("neither"), "the extension is neither in a chain nor free");
    assert!(refused(5, 16).contains("digit"));
    assert!(refused(6, 64).contains("cell"));
    assert!(refused(12 + 16, 9).contains("more extensions"));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let made = |rule, cells| DecayingFilter::new(DecayingShape { cells, hashes: 3, rule, storage: EXTENDED }).err();
    for lambda in [0.0, 1.0, 1.5, -0.5, f64::NAN] {
        assert!(matches!(made(DecayRule::Literal { lambda }, 100), Some(DecayingError::Lambda(_))));
    }
    let finest = DecayRule::Lasting { lambda: 0.5, fraction_bits: 13 };
    assert!(matches!(made(finest, 100), Some(DecayingError::FractionBits(13))));
    assert!(matches!(made(DecayRule::Literal { lambda: 0.5 }, 0), Some(DecayingError::Geometry(_))));
}
