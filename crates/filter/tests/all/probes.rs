//! Slices that are asked by positions give the same answers as slices that are asked by digests, for all kinds, layouts
//! and batches.

use crate::common::{
    self, LAYOUTS, Size, Stream, TestRng, body, config, definition, definitions, digest, digests, geometry, growth,
    paces, rule, timing,
};
use firstseen_filter::{
    AskError, BloomCells, CellDefinition, CounterStorage, CuckooCells, DecayRule, DecayingCells, DecayingShape, Digest,
    FilterDefinition, FilterSecret, FilterSlice, FilterSpec, GenerationCells, GenerationNumber, JumpingCells, Kind,
    Layout, Limit, ProbeShape, Probes, Refresh, SlidingCells, StableCells, StableShape, Stamp, TimingCells, UnitNumber,
    Verdict, positions_of,
};
use proptest::prelude::*;

/// Returns definitions of the kinds that do not consist of generations of cells.
fn others() -> impl Strategy<Value = FilterDefinition> {
    let stable = StableShape::for_rate(700, 3, 3, 0.05).unwrap();
    let jumping = CellDefinition::JumpingCounting(JumpingCells { cells: 700, hashes: 3, events_max: Some(90) });
    let sliding = CellDefinition::SlidingCounting(SlidingCells { cells: 700, hashes: 3, window_events: 150 });
    prop_oneof![
        (1..20_u64).prop_map(move |span| definition(jumping.clone(), rule(span, 0))),
        Just(definition(sliding, rule(150, 0))),
        Just(definition(CellDefinition::Stable(StableCells { shape: stable, seed: 1 }), rule(1, 0))),
    ]
}

fn probes_of(slice: &FilterSlice, digests: &[Digest]) -> Probes {
    let mut probes = Probes::new(slice.probe_shape());
    digests.iter().for_each(|digest| probes.push_digest(*digest, slice.geometry()));
    probes
}

/// Returns positions as they arrive from the network. The words of blocks contain further bits, which must be ignored.
fn from_outside(probes: &Probes, rng: &mut TestRng) -> Probes {
    let mut arrived = Probes::new(probes.shape());
    for event in 0..probes.len() {
        match probes.shape() {
            ProbeShape::Spread { .. } => arrived.push_positions(probes.positions(event)).unwrap(),
            ProbeShape::Blocked { offset_bits, hashes, .. } => {
                let mut probe = probes.block(event).unwrap();
                let per_word = 64 / offset_bits;
                for (word, used) in probe.words.iter_mut().zip([hashes.min(per_word), hashes.saturating_sub(per_word)])
                {
                    let used_bits = used * offset_bits;
                    let said = 1_u64.checked_shl(used_bits).map_or(u64::MAX, |bit| bit - 1);
                    *word = *word & said | rng.roll() & !said;
                }
                arrived.push_block(probe).unwrap();
            }
        }
    }
    arrived
}

/// Runs one stream through two slices, and compares their answers. One slice is queried by digests and the other by
/// positions. Depending on `seed`, both slices get the same batches, or the batches of each are cut at different
/// events. If both get the same batches, their states must be equal as well.
fn same_answers(definition: &FilterDefinition, events: usize, pace: common::Pace, seed: u64) -> Result<(), String> {
    let mut stream = Stream::new(definition, 5000, seed);
    let (digests, mut stamps) = stream.batch(events, pace);
    if let CellDefinition::SlidingCounting(_) = definition.cells {
        stamps = (0..digests.len() as u64).map(UnitNumber).map(Stamp::on_time).collect();
    }
    let mut by_digest = FilterSlice::build(definition).unwrap();
    let mut by_probe = FilterSlice::build(definition).unwrap();
    let probes = from_outside(&probes_of(&by_probe, &digests), &mut stream.rng);
    let mut got = [vec![Verdict::Undecided; digests.len()], vec![Verdict::Undecided; digests.len()]];
    let (cut_alike, mut start) = (seed.is_multiple_of(2), 0);
    while start < digests.len() {
        let end = (start + 1 + stream.rng.below(300) as usize).min(digests.len());
        let (stamps, lookup) = (&stamps[start..end], stream.rng.below(5) == 0);
        let [digest_told, probe_told] = &mut got;
        if lookup {
            by_digest.lookup_batch(&digests[start..end], stamps, &mut digest_told[start..end]);
            by_probe.lookup_probes(&probes, start..end, stamps, &mut probe_told[start..end]).unwrap();
        } else {
            by_digest.observe_batch(&digests[start..end], stamps, &mut digest_told[start..end]);
            let first = if cut_alike { end - start } else { stream.rng.below((end - start) as u64 + 1) as usize };
            let middle = start + first;
            for part in [start..middle, middle..end] {
                let stamps = &stamps[part.start - start..part.end - start];
                by_probe.observe_probes(&probes, part.clone(), stamps, &mut probe_told[part]).unwrap();
            }
        }
        start = end;
    }
    let differs = (0..digests.len()).find(|event| got[0][*event] != got[1][*event]);
    // The queue of arrivals holds digests in one slice and positions in the other.
    let comparable = cut_alike && !matches!(definition.cells, CellDefinition::SlidingCounting(_));
    let same_state = by_digest.live_events() == by_probe.live_events()
        && by_digest.generations() == by_probe.generations()
        && (!comparable || body(&by_digest) == body(&by_probe));
    match differs {
        Some(event) => Err(format!("event {event}: {:?} by digest, {:?} by position", got[0][event], got[1][event])),
        None if !same_state => Err("the states differ".to_owned()),
        None => Ok(()),
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn positions_get_the_answers_of_their_digests(
        definition in prop_oneof![4 => definitions(Size::Tiny).boxed(), 1 => others().boxed()],
        events in 1..3000_usize,
        pace in paces(400),
        seed in any::<u64>(),
    ) {
        prop_assert!(definition.one_shape());
        if let Err(got) = same_answers(&definition, events, pace, seed) {
            return Err(TestCaseError::fail(format!("{got}\n{definition:?}")));
        }
    }

    /// Compares the calls for slices that share events with a slice that does not share any.
    #[test]
    fn an_event_set_by_position_is_what_a_batch_of_one_records(
        definition in definitions(Size::Tiny),
        events in 1..600_usize,
        pace in paces(200),
        seed in any::<u64>(),
    ) {
        let mut definition = definition;
        let refresh = match &mut definition.cells {
            CellDefinition::Bloom(BloomCells { growth, .. }) | CellDefinition::Generations(GenerationCells { growth, .. }) => {
                *growth = None;
                false
            }
            CellDefinition::Timing(TimingCells { growth, refresh, .. }) => {
                *growth = None;
                *refresh == Refresh::Refresh
            }
            CellDefinition::Cuckoo(CuckooCells { growth, refresh, .. }) => {
                (growth.generations_max, growth.capacity_events) = (1, 5000);
                *refresh == Refresh::Refresh
            }
            _ => false,
        };
        let (digests, stamps) = Stream::new(&definition, 5000, seed).batch(events, pace);
        let mut whole = FilterSlice::build(&definition).unwrap();
        let mut shared = FilterSlice::build(&definition).unwrap();
        let mut positions = Vec::new();
        for (event, (digest, stamp)) in digests.iter().zip(&stamps).enumerate() {
            let mut verdict = [Verdict::Undecided];
            whole.observe_batch(&[*digest], &[*stamp], &mut verdict);
            positions_of(*digest, shared.geometry(), &mut positions);
            shared.advance(stamp.unit);
            let hit = shared.test_at(&positions, *stamp).unwrap().is_hit();
            if !hit || refresh {
                shared.set_generation(GenerationNumber::FIRST, &positions, *stamp);
            }
            prop_assert_eq!(hit, verdict[0] == Verdict::Duplicate, "event {} of {:?}", event, definition);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_touched() {
    let definition = timing(geometry(4000, 3, 8, Layout::Classic), rule(20, 0), Refresh::Fixed, None);
    let mut slice = FilterSlice::build(&definition).unwrap();
    let untouched = body(&slice);
    let probes = probes_of(&slice, &digests(0, 3));
    let (stamps, mut verdicts) = ([Stamp::on_time(UnitNumber(7)); 3], [Verdict::Undecided; 3]);
    for layout in LAYOUTS {
        let other = timing(geometry(4096, 3, 8, layout), rule(20, 0), Refresh::Fixed, None);
        let foreign = probes_of(&FilterSlice::build(&other).unwrap(), &digests(0, 3));
        let got = slice.observe_probes(&foreign, 0..3, &stamps, &mut verdicts);
        assert!(matches!(got, Err(AskError::Shape { .. })), "{layout:?}: {got:?}");
        assert!(slice.lookup_probes(&foreign, 0..3, &stamps, &mut verdicts).is_err());
    }
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..4, 2..1, 5..8, usize::MAX..usize::MAX] {
        let got = slice.observe_probes(&probes, range, &stamps, &mut verdicts);
        assert!(matches!(got, Err(AskError::Range { .. })), "{got:?}");
    }
    assert!(matches!(
        slice.count_probes(&probes, 0..3, &stamps, &mut [0.0; 3]),
        Err(AskError::NoFrequencies(Kind::Timing))
    ));
    assert_eq!(verdicts, [Verdict::Undecided; 3]);
    assert!(body(&slice) == untouched);
    slice.observe_probes(&probes, 0..3, &stamps, &mut verdicts).unwrap();
    assert_eq!(verdicts, [Verdict::FirstSeen; 3]);
}

#[test]
fn generations_of_other_shapes_are_refused() {
    for (generations_max, ratio, takes) in [(3, 2.0, false), (3, 1.0, true), (1, 2.0, true)] {
        let growth = Some(growth(Limit::Cardinality, generations_max, ratio, 20));
        let definition = timing(geometry(900, 3, 8, Layout::Classic), rule(20, 0), Refresh::Fixed, growth);
        let mut slice = FilterSlice::build(&definition).unwrap();
        assert_eq!((definition.one_shape(), slice.takes_probes()), (takes, takes), "{generations_max} by {ratio}");
        let probes = probes_of(&slice, &digests(0, 1));
        let got = slice.observe_probes(&probes, 0..1, &[Stamp::on_time(UnitNumber(1))], &mut [Verdict::Undecided]);
        assert_eq!(got.is_ok(), takes);
    }
    let unknown = FilterSpec::new(Kind::Bloom, "unbounded".parse().unwrap()).resolve().unwrap();
    assert!(!unknown.one_shape());
}

/// Arrivals are queued by digest until the first arrival comes by position.
#[test]
fn a_sliding_window_by_count_goes_on_when_positions_come() {
    let cells = CellDefinition::SlidingCounting(SlidingCells { cells: 1 << 17, hashes: 4, window_events: 100 });
    let definition = definition(cells, rule(100, 0));
    let (mut by_digest, mut mixed) =
        (FilterSlice::build(&definition).unwrap(), FilterSlice::build(&definition).unwrap());
    let mut rng = TestRng(11);
    let events: Vec<Digest> = (0..2000).map(|_| digest(rng.below(150))).collect();
    let probes = probes_of(&mixed, &events);
    let stamps: Vec<Stamp> = (0..2000).map(UnitNumber).map(Stamp::on_time).collect();
    let mut got = [[Verdict::Undecided; 50]; 2];
    for (batch, stamps) in stamps.chunks(50).enumerate() {
        let range = batch * 50..(batch + 1) * 50;
        by_digest.observe_batch(&events[range.clone()], stamps, &mut got[0]);
        match batch % 3 {
            2 => mixed.observe_probes(&probes, range, stamps, &mut got[1]).unwrap(),
            _ => mixed.observe_batch(&events[range], stamps, &mut got[1]),
        }
        assert_eq!(got[0], got[1], "batch {batch}");
        mixed = common::reloaded(&mixed, &definition);
    }
    // The five positions of 17 bits take three bytes each. A digest takes sixteen bytes.
    assert!(mixed.bytes() < by_digest.bytes());
}

fn decaying(rule: DecayRule, storage: CounterStorage) -> FilterDefinition {
    let shape = DecayingShape { cells: 600, hashes: 4, rule, storage };
    definition(CellDefinition::Decaying(DecayingCells { shape }), common::rule(u64::MAX, 0))
}

#[test]
fn frequencies_by_position_are_those_by_digest() {
    let extended = CounterStorage::Extended { extensions: 300 };
    let lasting = DecayRule::Lasting { lambda: 0.9, fraction_bits: 4 };
    for (rule, storage) in [
        (lasting, CounterStorage::Basic),
        (lasting, extended),
        (DecayRule::Literal { lambda: 0.5 }, CounterStorage::Basic),
        (DecayRule::Literal { lambda: 0.5 }, extended),
    ] {
        let definition = decaying(rule, storage);
        let (mut by_digest, mut by_probe) =
            (FilterSlice::build(&definition).unwrap(), FilterSlice::build(&definition).unwrap());
        let mut rng = TestRng(5);
        let events: Vec<Digest> = (0..3000).map(|_| digest(rng.below(200))).collect();
        let probes = probes_of(&by_probe, &events);
        let stamps: Vec<Stamp> = (0..3000).map(|event| Stamp::on_time(UnitNumber(70 + event / 90))).collect();
        let (mut counted, mut estimated) = ([[0.0; 100]; 2], [[0.0; 100]; 2]);
        for (batch, stamps) in stamps.chunks(100).enumerate() {
            let range = batch * 100..(batch + 1) * 100;
            by_digest.count_batch(&events[range.clone()], stamps, &mut counted[0]).unwrap();
            by_probe.count_probes(&probes, range.clone(), stamps, &mut counted[1]).unwrap();
            assert_eq!(counted[0], counted[1], "batch {batch} of {definition:?}");
            by_digest.estimate_batch(&events[range.clone()], stamps, &mut estimated[0]).unwrap();
            by_probe.estimate_probes(&probes, range, stamps, &mut estimated[1]).unwrap();
            assert_eq!(estimated[0], estimated[1], "batch {batch} of {definition:?}");
            assert!(estimated[0].iter().all(|estimate| *estimate > 0.0));
        }
        assert!(body(&by_digest) == body(&by_probe));
    }
}

#[test]
fn asked_for_a_verdict_a_decaying_slice_is_undecided() {
    let definition = decaying(DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 }, CounterStorage::Basic);
    let mut slice = FilterSlice::build(&definition).unwrap();
    let untouched = body(&slice);
    let mut verdicts = [Verdict::FirstSeen; 2];
    slice.observe_batch(&digests(0, 2), &[Stamp::on_time(UnitNumber(3)); 2], &mut verdicts);
    assert_eq!(verdicts, [Verdict::Undecided; 2]);
    let (probes, mut verdicts) = (probes_of(&slice, &digests(0, 2)), [Verdict::Duplicate; 2]);
    slice.lookup_probes(&probes, 0..2, &[Stamp::on_time(UnitNumber(3)); 2], &mut verdicts).unwrap();
    slice.observe_events(
        &FilterSecret::from_seed(1),
        &[b"a", b"b"],
        &[Stamp::on_time(UnitNumber(3)); 2],
        &mut verdicts,
    );
    assert_eq!(verdicts, [Verdict::Undecided; 2]);
    assert!(body(&slice) == untouched);
    assert_eq!((slice.live_events(), slice.test_at(&[1], Stamp::on_time(UnitNumber(3)))), (None, None));
}
