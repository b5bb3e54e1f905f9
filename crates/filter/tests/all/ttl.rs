//! Events with their own time to live. Each event is found for the requested time, and for at most two units longer.

use std::collections::HashMap;

use firstseen_filter::{
    FilterDefinition, FilterSlice, FilterSpec, Kind, Refresh, Stamp, TtlError, Unit, UnitNumber, Verdict,
};

use crate::common::{TestRng, digest};

const WINDOW_MS: u64 = 3_600_000;

fn definition(kind: Kind) -> FilterDefinition {
    let spec = FilterSpec { rate: 1e-8, capacity_events: Some(20_000), ..FilterSpec::new(kind, "1h".parse().unwrap()) };
    spec.resolve().unwrap()
}

fn unit_ms(definition: &FilterDefinition) -> u64 {
    match definition.unit {
        Unit::Milliseconds(unit_ms) => unit_ms,
        _ => panic!("{definition:?}"),
    }
}

/// Sends batches of events with times to live between 1 ms and the window, and compares the verdicts with a map. Some
/// of the events are known already. The map contains the time at which each event must be forgotten.
fn lives_end_as_asked(kind: Kind) {
    let definition = definition(kind);
    let (unit_ms, mut slice, mut rng) = (unit_ms(&definition), FilterSlice::build(&definition).unwrap(), TestRng(3));
    let (mut now, mut expiries) = (UnitNumber(1_000), HashMap::<u64, UnitNumber>::new());
    let (mut found, mut forgotten) = (0, 0);
    for _ in 0..2_000 {
        now = now.after([0, 0, 0, 1, 1, 2, 7][rng.below(7) as usize]);
        let keys: Vec<u64> = (0..rng.below(8)).map(|_| rng.below(300)).collect();
        let lives: Vec<u64> = keys.iter().map(|_| 1 + rng.below(WINDOW_MS)).collect();
        let stamps: Vec<Stamp> = lives.iter().map(|life| definition.stamp_for(*life, now).unwrap()).collect();
        let digests: Vec<_> = keys.iter().map(|key| digest(*key)).collect();
        let mut verdicts = vec![Verdict::Undecided; keys.len()];
        slice.observe_batch(&digests, &stamps, &mut verdicts);
        for ((key, life), verdict) in keys.iter().zip(lives).zip(verdicts) {
            let before = expiries.get(key).copied();
            let is_known = before.is_some_and(|expiry| expiry > now);
            assert_eq!(verdict == Verdict::Duplicate, is_known, "key {key} at {now}, known until {before:?}");
            if is_known {
                found += 1;
            } else {
                forgotten += u64::from(before.is_some());
                expiries.insert(*key, now.after(life.div_ceil(unit_ms) + 1));
            }
        }
    }
    assert!(found > 500 && forgotten > 500, "{found} found, {forgotten} forgotten");
}

#[test]
fn a_life_ends_as_asked_among_fingerprints() {
    lives_end_as_asked(Kind::Cuckoo);
}

#[test]
fn a_life_ends_as_asked_among_timers() {
    lives_end_as_asked(Kind::Timing);
}

#[test]
fn the_whole_window_is_a_life() {
    for kind in [Kind::Cuckoo, Kind::Timing] {
        assert_eq!(
            definition(kind).stamp_for(WINDOW_MS, UnitNumber(500)),
            Ok(Stamp::on_time(UnitNumber(500))),
            "{kind}"
        );
    }
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let cuckoo = definition(Kind::Cuckoo);
    let refused =
        |definition: &FilterDefinition, ttl_ms, now| definition.stamp_for(ttl_ms, UnitNumber(now)).unwrap_err();
    assert_eq!(refused(&cuckoo, 0, 500), TtlError::Empty);
    assert!(refused(&cuckoo, 2 * WINDOW_MS, 500).to_string().contains("a time to live of 2h, and the window is 1h"));
    assert_eq!(refused(&cuckoo, 1, 3), TtlError::TooEarly { now: UnitNumber(3) });
    assert_eq!(refused(&definition(Kind::Generations), 1, 500), TtlError::Kind(Kind::Generations));
    let counted = FilterSpec::new(Kind::Cuckoo, "1000events".parse().unwrap()).resolve().unwrap();
    assert!(matches!(refused(&counted, 1, 500), TtlError::Unit { .. }));
}

#[test]
fn nothing_lives_on_at_the_end_of_time() {
    let mut slice = FilterSlice::build(&definition(Kind::Cuckoo)).unwrap();
    let mut verdicts = [Verdict::Undecided; 2];
    slice.observe_batch(&[digest(1); 2], &[Stamp::on_time(UnitNumber::NEVER); 2], &mut verdicts);
    assert_eq!(verdicts, [Verdict::FirstSeen; 2]);
}

/// An event that is seen again during its life restarts its window, if the filter has the refresh rule.
#[test]
fn a_life_is_drawn_out_by_a_sighting() {
    let spec = FilterSpec {
        refresh: Refresh::Refresh,
        capacity_events: Some(1_000),
        ..FilterSpec::new(Kind::Cuckoo, "1h".parse().unwrap())
    };
    let definition = spec.resolve().unwrap();
    let mut slice = FilterSlice::build(&definition).unwrap();
    let mut observe = |stamp| {
        let mut verdict = [Verdict::Undecided];
        slice.observe_batch(&[digest(1)], &[stamp], &mut verdict);
        verdict[0]
    };
    assert_eq!(observe(definition.stamp_for(2 * unit_ms(&definition), UnitNumber(100)).unwrap()), Verdict::FirstSeen);
    assert_eq!(observe(Stamp::on_time(UnitNumber(102))), Verdict::Duplicate);
    assert_eq!(observe(Stamp::on_time(UnitNumber(110))), Verdict::Duplicate);
}
