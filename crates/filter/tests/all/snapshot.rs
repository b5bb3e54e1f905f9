//! Tests with snapshots from untrusted sources: a flipped bit, a truncated file, an additional byte, and random bytes.
//! Each of them must be rejected with an error and must not cause a panic.

use std::io::{self, Read};

use crate::common::{self, TestRng, bloom, body, digests, generations, geometry, growth, reloaded, rule, timing};
use firstseen_filter::snapshot::{self, SnapshotError, UnverifiedSnapshot};
use firstseen_filter::{
    CellDefinition, CounterStorage, DecayRule, DecayingCells, DecayingShape, FilterDefinition, FilterSlice,
    JumpingCells, Kind, Layout, Limit, Probes, Refresh, SlidingCells, StableCells, StableShape, Stamp, UnitNumber,
    Verdict,
};

/// Returns a very small definition of every kind.
fn definitions() -> Vec<FilterDefinition> {
    let blocked = Layout::Blocked { lines: 1 };
    let grows = Some(growth(Limit::Cardinality, 4, 2.0, 30));
    let stable = StableShape::for_rate(500, 3, 3, 0.05).unwrap();
    vec![
        bloom(geometry(1000, 3, 1, Layout::Classic), None),
        bloom(geometry(1000, 3, 1, blocked), grows),
        timing(geometry(300, 3, 8, blocked), rule(20, 3), Refresh::Fixed, None),
        timing(geometry(300, 3, 8, Layout::Classic), rule(20, 3), Refresh::Fixed, grows),
        timing(geometry(200, 3, 16, Layout::Partitioned), rule(200, 3), Refresh::Refresh, None),
        generations(geometry(300, 3, 8, Layout::Classic), rule(6, 1)),
        generations(geometry(200, 3, 16, blocked), rule(14, 0)),
        common::definition(
            CellDefinition::JumpingCounting(JumpingCells { cells: 300, hashes: 3, events_max: None }),
            rule(5, 0),
        ),
        sliding(20),
        sliding(ASKED_BY_POSITION),
        common::definition(CellDefinition::Stable(StableCells { shape: stable, seed: 1 }), rule(1, 0)),
        decaying(CounterStorage::Basic),
        decaying(CounterStorage::Extended { extensions: 30 }),
    ]
}

/// Window of the sliding counting filter that is asked by positions, so that its queue holds positions.
const ASKED_BY_POSITION: u64 = 21;

fn sliding(window_events: u64) -> FilterDefinition {
    let cells = CellDefinition::SlidingCounting(SlidingCells { cells: 300, hashes: 3, window_events });
    common::definition(cells, rule(window_events, 0))
}

fn decaying(storage: CounterStorage) -> FilterDefinition {
    let rule = DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 };
    let shape = DecayingShape { cells: 100, hashes: 3, rule, storage };
    common::definition(CellDefinition::Decaying(DecayingCells { shape }), common::rule(u64::MAX, 0))
}

/// Returns a slice that has seen 60 events in the units 40 to 44.
fn used(definition: &FilterDefinition) -> FilterSlice {
    let mut slice = FilterSlice::build(definition).unwrap();
    let stamps: Vec<_> = (0..60).map(|event| Stamp::on_time(UnitNumber(40 + event / 12))).collect();
    match definition.cells {
        CellDefinition::SlidingCounting(SlidingCells { window_events: ASKED_BY_POSITION, .. }) => {
            let mut probes = Probes::new(slice.probe_shape());
            digests(0, 60).into_iter().for_each(|digest| probes.push_digest(digest, slice.geometry()));
            slice.observe_probes(&probes, 0..60, &stamps, &mut [Verdict::Undecided; 60]).unwrap();
        }
        CellDefinition::Decaying(_) => slice.count_batch(&digests(0, 60), &stamps, &mut [0.0; 60]).unwrap(),
        _ => slice.observe_batch(&digests(0, 60), &stamps, &mut [Verdict::Undecided; 60]),
    }
    slice
}

fn saved(definition: &FilterDefinition) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot::write(&mut bytes, definition, |sink| used(definition).write_body(sink)).unwrap();
    bytes
}

fn load(bytes: &[u8], into: &mut FilterSlice) -> Result<(), SnapshotError> {
    let snapshot = UnverifiedSnapshot::<_, FilterDefinition>::open(bytes)?;
    snapshot.verify(|source| into.read_body(source))
}

#[test]
fn every_kind_goes_on_where_it_was_saved() {
    for definition in definitions() {
        let mut kept = used(&definition);
        let mut read = reloaded(&kept, &definition);
        let (digests, stamps) = (digests(30, 200), vec![Stamp::on_time(UnitNumber(47)); 200]);
        let (mut told_kept, mut told_read) = ([Verdict::Undecided; 200], [Verdict::Undecided; 200]);
        kept.observe_batch(&digests, &stamps, &mut told_kept);
        read.observe_batch(&digests, &stamps, &mut told_read);
        assert_eq!(told_kept, told_read, "{definition:?}");
        assert!(body(&kept) == body(&read), "{definition:?}");
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    for definition in definitions() {
        let (mut bytes, mut slice) = (saved(&definition), FilterSlice::build(&definition).unwrap());
        assert!(load(&bytes, &mut slice).is_ok());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(load(&bytes, &mut slice).is_err(), "bit {bit} of {definition:?}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_cut_and_every_byte_too_many_is_an_error() {
    for definition in definitions() {
        let (mut bytes, mut slice) = (saved(&definition), FilterSlice::build(&definition).unwrap());
        for length in 0..bytes.len() {
            assert!(load(&bytes[..length], &mut slice).is_err(), "{length} bytes of {definition:?}");
        }
        bytes.push(0);
        let got = load(&bytes, &mut slice);
        assert!(matches!(got, Err(SnapshotError::Damaged("bytes after the end"))), "{got:?}");
    }
}

#[test]
fn a_body_of_another_length_is_an_error() {
    let definition = &definitions()[0];
    let whole = body(&used(definition));
    for length in [whole.len() - 1, whole.len() + 1] {
        let mut bytes = Vec::new();
        let mut changed = whole.clone();
        changed.resize(length, 0);
        snapshot::write(&mut bytes, definition, |sink| sink.write_all(&changed)).unwrap();
        let got = load(&bytes, &mut FilterSlice::build(definition).unwrap());
        assert!(matches!(got, Err(SnapshotError::Damaged(_))), "{length}: {got:?}");
    }
}

#[test]
fn frames_that_have_changed_places_are_an_error() {
    const FRAME: usize = (1 << 20) + 12;
    let mut rng = TestRng(3);
    let cells: Vec<u8> = (0..5 << 19).map(|_| rng.roll() as u8).collect();
    let mut bytes = Vec::new();
    // The body is written in pieces that do not fit the frames.
    snapshot::write(&mut bytes, &"", |sink| cells.chunks(70_001).try_for_each(|piece| sink.write_all(piece))).unwrap();
    let read = |bytes: &[u8]| {
        let snapshot = UnverifiedSnapshot::<_, String>::open(bytes).unwrap();
        let mut read = Vec::new();
        snapshot.verify(|source| source.read_to_end(&mut read)).map(|_| read)
    };
    assert!(read(&bytes).unwrap() == cells);
    let start = bytes.len() - (cells.len() + 4 * 12);
    let (first, second) = bytes[start..start + 2 * FRAME].split_at_mut(FRAME);
    first.swap_with_slice(second);
    assert!(matches!(read(&bytes), Err(SnapshotError::Damaged("frame checksum"))));
}

#[test]
fn a_reader_that_swallows_an_error_does_not_make_a_snapshot_valid() {
    let mut bytes = saved(&definitions()[0]);
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    let snapshot = UnverifiedSnapshot::<_, FilterDefinition>::open(&bytes[..]).unwrap();
    let got = snapshot.verify(|source| {
        let mut handed_on = Vec::new();
        let _ = source.read_to_end(&mut handed_on);
        assert!(handed_on.is_empty(), "bytes of a frame with a wrong checksum were passed on");
        Ok(())
    });
    assert!(matches!(got, Err(SnapshotError::Damaged(_))), "{got:?}");
}

#[test]
fn a_medium_that_fails_is_told_as_such() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("on fire"))
        }
    }
    let got = UnverifiedSnapshot::<_, String>::open(Failing);
    assert!(matches!(got.err(), Some(SnapshotError::Io(error)) if error.to_string() == "on fire"));
}

/// Asserts that a slice can be used after `read_body`, whatever the result was. After an error the slice must be empty.
fn assert_usable(slice: &mut FilterSlice, read: io::Result<()>, definition: &FilterDefinition) {
    let counts = matches!(definition.cells.kind(), Kind::Bloom | Kind::Timing | Kind::Generations);
    let mut verdicts = [Verdict::Undecided; 3];
    let stamps = [
        Stamp::on_time(UnitNumber(3)),
        Stamp::on_time(UnitNumber(44)),
        Stamp { unit: UnitNumber(300), judged: UnitNumber(301) },
    ];
    if read.is_err() && !counts {
        return; // The slice must be dropped after an error, as documented.
    }
    if read.is_err() {
        slice.lookup_batch(&digests(0, 1), &stamps[..1], &mut verdicts[..1]);
        assert_eq!((verdicts[0], slice.live_events()), (Verdict::FirstSeen, Some(0)), "{definition:?}");
    }
    slice.lookup_batch(&digests(0, 3), &stamps, &mut verdicts);
    slice.observe_batch(&digests(0, 3), &stamps, &mut verdicts);
    let got = slice.count_batch(&digests(0, 3), &stamps, &mut [0.0; 3]);
    assert_eq!(got.is_ok(), definition.cells.kind() == Kind::Decaying);
    assert!((0.0..=1.0).contains(&slice.expected_rate()));
}

#[test]
fn numbers_from_outside_never_panic_nor_decide_an_allocation() {
    let extremes =
        [0, 1, 2, 255, 1 << 16, u64::from(u32::MAX), 1 << 40, (1 << 62) - 1, 1 << 62, u64::MAX - 16, u64::MAX];
    for definition in definitions() {
        let whole = body(&used(&definition));
        let mut slice = FilterSlice::build(&definition).unwrap();
        for number in 0..(whole.len() / 8).min(40) {
            for extreme in extremes {
                let mut bytes = whole.clone();
                bytes[number * 8..][..8].copy_from_slice(&extreme.to_le_bytes());
                let read = slice.read_body(&mut &bytes[..]);
                assert_usable(&mut slice, read, &definition);
                slice = FilterSlice::build(&definition).unwrap();
            }
        }
    }
}

#[test]
fn garbage_never_panics() {
    let mut rng = TestRng(9);
    for definition in definitions() {
        let whole = body(&used(&definition));
        for _ in 0..300 {
            let mut slice = FilterSlice::build(&definition).unwrap();
            let mut bytes = whole.clone();
            for _ in 0..=rng.below(8) {
                let place = rng.below(bytes.len() as u64) as usize;
                bytes[place] = rng.roll() as u8;
            }
            bytes.truncate(rng.below(2 * whole.len() as u64) as usize);
            let read = slice.read_body(&mut &bytes[..]);
            assert_usable(&mut slice, read, &definition);
        }
        for length in [0, 7, 15, 16, 17, 24, 100, 5000] {
            let noise: Vec<u8> = (0..length).map(|_| rng.roll() as u8).collect();
            assert!(load(&noise, &mut FilterSlice::build(&definition).unwrap()).is_err());
            let mut framed = saved(&definition)[..16].to_vec();
            framed.extend(noise);
            assert!(load(&framed, &mut FilterSlice::build(&definition).unwrap()).is_err());
        }
    }
}

#[test]
fn an_unknown_version_and_other_files_are_told_by_name() {
    let mut bytes = saved(&definitions()[0]);
    bytes[8] = 9;
    let got = UnverifiedSnapshot::<_, FilterDefinition>::open(&bytes[..]).err();
    assert!(matches!(got, Some(SnapshotError::Version(9))), "{got:?}");
    let got = UnverifiedSnapshot::<_, FilterDefinition>::open(&b"time,key\n1,2\n3,4\n5,6\n"[..]).err();
    assert!(matches!(got, Some(SnapshotError::NotASnapshot)), "{got:?}");
}
