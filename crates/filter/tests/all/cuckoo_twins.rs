//! Tests with cells of kind `cuckoo` from untrusted sources that hold an event twice. No filter writes such cells. A
//! copy that reads them must hold the event only once.

use crate::common::body;
use crate::cuckoo_copies::{Copy, SHAPES, positions, put, wanted};
use crate::cuckoo_model::{START, Wanted, other_name_of};
use firstseen_filter::{
    BucketShape, CellRun, FilterSlice, GenerationNumber, REGION_BUCKETS, Refresh, Stamp, UnitNumber,
};

/// Size of the buckets of a region in bytes. The stash follows them.
const BUCKETS_BYTES: usize = REGION_BUCKETS * 64;

/// Place of the second entry of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Twin {
    /// In a bucket, in place of the event with this index.
    Bucket(usize),
    /// In the stash.
    Stash,
    /// Both entries are in the stash.
    StashTwice,
}

/// Returns positions with different fingerprints. Some of them name the first bucket, and others its partner.
fn neighbours(bucket: usize, wanted: &Wanted) -> Vec<u64> {
    let named = [bucket, BucketShape::partner(bucket, 1)];
    (1..=17).map(|print| (named[print as usize / 10] as u64) << wanted.print_bits | print).collect()
}

/// Returns the positions of the bits of a fingerprint within its bucket, for one slot. The bits of a fingerprint are
/// not next to each other: the whole bytes of all slots are stored together, and so are the remaining bits.
fn print_bits(wanted: &Wanted, slot: usize) -> impl Iterator<Item = usize> {
    let (bits, slots) = (wanted.print_bits as usize, wanted.shape().slots() as usize);
    let whole = bits / 8 * 8;
    let start = usize::from(wanted.time_bits);
    (0..bits).map(move |bit| {
        let column = bit / 8 * 8 * slots;
        let place =
            if bit < whole { column + 8 * slot + bit % 8 } else { whole * slots + (bit - whole) * slots + slot };
        start + place
    })
}

/// Gives `event` a second entry, as damaged bytes could contain it. The function looks in the two buckets of `event`
/// for the entry of the event `other`, and overwrites the fingerprint of that entry with the fingerprint of `event`.
/// Returns the bucket of the overwritten entry, or `None` if neither bucket contains an entry of `other`.
fn rename(run: &mut CellRun, wanted: &Wanted, event: u64, other: u64) -> Option<usize> {
    let names = [event, other_name_of(event, wanted.print_bits)].map(|name| (name >> wanted.print_bits) as usize);
    let print = |position: u64| (0..wanted.print_bits).map(move |bit| position >> bit & 1 != 0);
    for bucket in names {
        let line = &mut run.cells.as_chunks_mut::<64>().0[bucket];
        let is_other = |slot: &usize| {
            let mut bits = print_bits(wanted, *slot).zip(print(other));
            bits.all(|(bit, expected)| (line[bit / 8] >> (bit % 8) & 1 != 0) == expected)
        };
        if let Some(slot) = (0..wanted.shape().slots() as usize).find(is_other) {
            for (bit, is_set) in print_bits(wanted, slot).zip(print(event)) {
                line[bit / 8] = line[bit / 8] & !(1 << (bit % 8)) | u8::from(is_set) << (bit % 8);
            }
            return Some(bucket);
        }
    }
    None
}

/// Stores an event in the stash of region 0, with the bucket that its position names.
fn stash(run: &mut CellRun, wanted: &Wanted, place: usize, event: u64, stamp: Stamp) {
    let (start, print) = (BUCKETS_BYTES + 16 * place, event & ((1 << wanted.print_bits) - 1));
    run.cells[start..start + 8].copy_from_slice(&wanted.rule.expiry(stamp.unit).0.to_le_bytes());
    run.cells[start + 8..start + 12].copy_from_slice(&(print as u32).to_le_bytes());
    run.cells[start + 12..start + 14].copy_from_slice(&((event >> wanted.print_bits) as u16).to_le_bytes());
}

/// Prepares a slice whose cells contain two entries for the event `events[0]`. The parameter `twin` says where the
/// second entry is. The slice also contains entries of the other `events` and of `others`.
///
/// Returns the slice with its model, a run of its cells, and the buckets of the two entries if both lie in buckets.
///
/// With [`Twin::Bucket`], the function creates the second entry by overwriting the entry of a different event of
/// `events`. That entry must lie in one of the two buckets in which `events[0]` can be. Otherwise the function returns
/// `None`.
///
/// The first entry of `events[0]` is recorded with stamp `sightings[0]`. All other entries are recorded with stamp
/// `sightings[1]`.
fn with_twin(
    wanted: Wanted,
    [others, events]: [&[u64]; 2],
    sightings: [Stamp; 2],
    twin: Twin,
) -> Option<(Copy, CellRun, Vec<usize>)> {
    let (mut copy, first) = (Copy::new(wanted), events[0]);
    for position in others {
        // The buckets to which entries could be relocated hold some entries as well.
        assert!(copy.slice.set_at(&[*position], sightings[1]));
        copy.model.set(*position, sightings[1]);
    }
    for (index, position) in events.iter().enumerate() {
        let stamp = sightings[usize::from(index > 0)];
        if index > 0 || twin != Twin::StashTwice {
            assert!(copy.slice.set_at(&[*position], stamp));
        }
        copy.model.set(if twin == Twin::Bucket(index) { first } else { *position }, stamp);
    }
    copy.advance(sightings[0].judged);
    let mut run = copy.slice.cell_run(GenerationNumber::FIRST, 0, 1).unwrap();
    let mut buckets = Vec::new();
    match twin {
        Twin::Bucket(index) => {
            let bucket = rename(&mut run.clone(), &wanted, first, first).expect("the event has no entry");
            buckets = vec![bucket, rename(&mut run, &wanted, first, events[index])?];
        }
        Twin::Stash => stash(&mut run, &wanted, 0, other_name_of(first, wanted.print_bits), sightings[1]),
        Twin::StashTwice => {
            stash(&mut run, &wanted, 2, first, sightings[0]);
            stash(&mut run, &wanted, 1, other_name_of(first, wanted.print_bits), sightings[1]);
        }
    }
    if !matches!(twin, Twin::Bucket(_)) {
        copy.model.set(first, sightings[1]);
    }
    // The cells are the last part of a saved slice. Its sixth number is the number of entries in the stash.
    let mut bytes = body(&copy.slice);
    bytes[40] = stashed(&run.cells[BUCKETS_BYTES..]) as u8;
    let start = bytes.len() - run.cells.len();
    bytes[start..].copy_from_slice(&run.cells);
    copy.slice.read_body(&mut &bytes[..]).unwrap();
    Some((copy, run, buckets))
}

/// Returns the number of entries in the buckets and in the stash of region 0.
fn entries(slice: &FilterSlice, wanted: &Wanted) -> usize {
    let run = slice.cell_run(GenerationNumber::FIRST, 0, 1).unwrap();
    let (lines, stash) = run.cells.split_at(BUCKETS_BYTES);
    let time_bits = wanted.shape().ticks() + wanted.shape().slots() - 1;
    let times = |line: &[u8; 64]| u128::from_le_bytes(*line.first_chunk().unwrap()) & !(u128::MAX << time_bits);
    let in_buckets: u32 = lines.as_chunks().0.iter().map(|line| times(line).count_ones()).sum();
    in_buckets as usize + stashed(stash)
}

/// Returns the number of entries in the bytes of a stash.
fn stashed(stash: &[u8]) -> usize {
    stash.as_chunks().0.iter().filter(|entry| **entry != [0; 16]).count()
}

/// Checks copies of cells that hold an event twice: in one of its buckets, in both buckets, or in the stash. A lookup
/// in such cells would find only one of the entries, which may be the one that expires first. Whichever way the copy
/// receives the cells, it must keep the entry that expires later.
fn check_twin(receiver: &Copy, (source, run): (&Copy, &CellRun), event: u64, positions: &[u64], when: &str) {
    let wanted = receiver.wanted;
    for way in ["missing cells", "known cells", "a slice"] {
        let mut copy = receiver.clone();
        match way {
            "a slice" => copy.slice.merge(&mut source.clone().slice).unwrap(),
            _ => put(&mut copy.slice, run, way == "known cells"),
        }
        copy.model.merge(&source.model);
        let when = format!("{way}, {when}");
        copy.check(positions, &when);
        assert_eq!(entries(&copy.slice, &wanted), copy.model.map().len(), "{when}; {wanted:?}");
        assert!(!copy.slice.lacks_cells(run).unwrap(), "{when}; {wanted:?}");
        // The event lives on like every other event.
        let again = Stamp::on_time(copy.model.now.after(1));
        copy.advance(again.unit);
        assert!(copy.slice.set_at(&[event], again));
        copy.model.set(event, again);
        for _ in 0..2 {
            copy.check(positions, &when);
            copy.advance(copy.model.now.after(wanted.rule.span_units / 2));
        }
    }
}

/// Returns a copy at `unit` with events of its own.
fn receiver(wanted: Wanted, own: &[u64], unit: UnitNumber) -> Copy {
    let mut receiver = Copy::new(wanted);
    receiver.advance(unit);
    let stamp = Stamp { unit: unit.before(1), judged: unit };
    for position in own {
        assert!(receiver.slice.set_at(&[*position], stamp));
        receiver.model.set(*position, stamp);
    }
    receiver
}

#[test]
fn an_event_that_cells_from_outside_hold_twice_is_there_once() {
    for shape in SHAPES {
        let wanted = Wanted { regions: 1, ..wanted(shape, Refresh::Fixed) };
        let (now, span) = (START.after(wanted.rule.lateness_units), wanted.rule.span_units);
        let others = positions(&wanted, 1300);
        let [sooner, later] = [START, now].map(|unit| Stamp { unit, judged: now });
        let (mut in_one, mut in_both) = (0, 0);
        for (bucket, sightings) in
            [5, 900].into_iter().flat_map(|bucket| [(bucket, [sooner, later]), (bucket, [later, sooner])])
        {
            let events = neighbours(bucket, &wanted);
            let positions = [&others[..], &events].concat();
            // The receivers have fewer events than the other copy, the duplicated event among their own, or more
            // events. The earlier of the two entries is alive in some cases, and has just expired in others.
            let receivers = [(0, now), (0, now.after(span)), (40, now), (1000, now.after(span)), (1000, now)]
                .map(|(own, unit)| receiver(wanted, &positions[1300 - own..][..own + usize::from(own == 40)], unit));
            for twin in (1..events.len()).map(Twin::Bucket).chain([Twin::Stash, Twin::StashTwice]) {
                let source = with_twin(wanted, [&others[..900], &events], sightings, twin);
                let Some((source, run, buckets)) = source else { continue };
                in_one += usize::from(buckets.len() == 2 && buckets[0] == buckets[1]);
                in_both += usize::from(buckets.len() == 2 && buckets[0] != buckets[1]);
                for (index, receiver) in receivers.iter().enumerate() {
                    let when = format!("{twin:?} of {bucket} into copy {index}, {sightings:?}");
                    check_twin(receiver, (&source, &run), events[0], &positions, &when);
                }
            }
        }
        assert!(in_one > 2 && in_both > 2, "{in_one} in one bucket, {in_both} in both; {wanted:?}");
    }
}
