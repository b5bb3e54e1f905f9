//! Tests of effects within a region of kind `cuckoo` that must not change any answer of the filter. These effects are
//! full buckets, relocation, the stash, the sweep, and the layout of bytes.

use crate::common::TestRng;
use crate::cuckoo_model::{
    Model, SHAPES, START, Wanted, assert_same_map, crowd, identity_of, other_name_of, position_of,
};
use firstseen_filter::{
    BucketShape, FilterSlice, GenerationNumber, Instructions, Probes, REGION_BUCKETS, Refresh, Stamp, UnitNumber,
    Verdict,
};
use std::collections::HashMap;

/// Number of entries that a region can hold in addition to its buckets.
const STASH_ENTRIES: usize = 4;
const LINE_BYTES: usize = 64;
/// Shapes with enough fingerprints that lead from one bucket to the same other bucket.
const CROWDED: [(u32, u8); 5] = [(16, 64), (17, 64), (24, 64), (32, 64), (16, 128)];

/// Returns a random position in the filter.
fn random_position(wanted: &Wanted, rng: &mut TestRng) -> u64 {
    rng.below(wanted.geometry().positions())
}

/// Returns the stamp of an event that arrives at `now` and lives for a random part of the window.
fn any_life(wanted: &Wanted, rng: &mut TestRng, now: UnitNumber) -> Stamp {
    Stamp { unit: now.before(rng.below(wanted.rule.span_units)), judged: now }
}

/// Sets random positions until one of them finds no room. Returns the positions that found room.
fn overfill(wanted: &Wanted, rng: &mut TestRng, slice: &mut FilterSlice, model: &mut Model) -> Vec<u64> {
    let mut taken = Vec::new();
    slice.advance(START);
    model.advance(START);
    loop {
        let (position, stamp) = (random_position(wanted, rng), any_life(wanted, rng, START));
        if !slice.set_at(&[position], stamp) {
            return taken;
        }
        model.set(position, stamp);
        taken.push(position);
    }
}

#[test]
fn a_region_takes_nearly_as_many_entries_as_it_has_slots_and_loses_none() {
    for (seed, shape) in (1..).zip(SHAPES) {
        let wanted = Wanted::region(shape, [0, 3][seed as usize % 2]);
        let (mut slice, mut model, mut rng) = (wanted.slice(), Model::new(wanted), TestRng(seed));
        let mut taken = overfill(&wanted, &mut rng, &mut slice, &mut model);
        let (entries, slots) = (model.map().len() as f64, wanted.geometry().cells() as f64);
        assert!(entries > 0.97 * slots, "{} of {} slots; {wanted:?}", entries, slots);
        assert_eq!(slice.used_cells(), STASH_ENTRIES as u64, "the stash is full; {wanted:?}");
        assert_same_map(&slice, &model, &taken, "overfilled");
        // Further events are rejected or accepted, and existing events may live on.
        for _ in 0..3000 {
            let again = taken[rng.below(taken.len() as u64) as usize];
            let (position, stamp) = (
                [again, random_position(&wanted, &mut rng)][rng.below(2) as usize],
                any_life(&wanted, &mut rng, START),
            );
            if slice.set_at(&[position], stamp) {
                model.set(position, stamp);
                taken.push(position);
            }
        }
        assert_same_map(&slice, &model, &taken, "with refusals");
        // Time passes in steps of various lengths, and so do sweeps.
        for _ in 0..12 {
            model.advance(model.now.after(rng.below(1 + u64::from(wanted.shape().ticks()) / 2)));
            let mut verdicts = vec![Verdict::Undecided; 200];
            let keys = crate::common::digests(0, 200);
            slice.lookup_batch(&keys, &vec![Stamp::on_time(model.now); 200], &mut verdicts);
            assert_same_map(&slice, &model, &taken, "some time later");
        }
        slice.advance(START.after(1000));
        assert_eq!(slice.fill_and_rate(usize::MAX).0, Some(0.0));
        assert_eq!(slice.used_cells(), 0, "the stash is empty again");
    }
}

/// Observes positions in one batch, and compares every verdict with the model.
fn observe(slice: &mut FilterSlice, model: &mut Model, positions: &[u64], stamps: &[Stamp], refused: usize) {
    let mut probes = Probes::new(slice.probe_shape());
    positions.iter().for_each(|position| probes.push_positions(&[*position]).unwrap());
    let mut verdicts = vec![Verdict::FirstSeen; positions.len()];
    slice.observe_probes(&probes, 0..positions.len(), stamps, &mut verdicts).unwrap();
    let mut undecided = 0;
    for (index, ((position, stamp), got)) in positions.iter().zip(stamps).zip(&verdicts).enumerate() {
        let expected = model.observe_at(*position, *stamp, *got == Verdict::Undecided);
        let is_refused = *got == Verdict::Undecided && expected == Verdict::FirstSeen;
        undecided += usize::from(is_refused);
        assert!(*got == expected || is_refused, "event {index}: {got:?}, not {expected:?}");
    }
    assert_eq!(undecided, refused, "refused");
}

#[test]
fn two_buckets_and_a_stash_hold_what_comes_to_them_and_the_next_event_is_refused() {
    for shape in CROWDED {
        for refresh in [Refresh::Fixed, Refresh::Refresh] {
            let wanted = Wanted { refresh, ..Wanted::region(shape, 0) };
            let room = 2 * wanted.shape().slots() as usize + STASH_ENTRIES;
            let positions = crowd(&wanted, 77, room + 3);
            // All events come in one batch. Then all of them come again, the accepted ones with the positions that name
            // their other buckets.
            let again = positions[..room].iter().map(|position| other_name_of(*position, wanted.print_bits));
            let twice: Vec<_> = positions.iter().copied().chain(again).chain(positions[room..].to_vec()).collect();
            for cut in [1, 7, twice.len()] {
                let (mut slice, mut model) = (wanted.slice(), Model::new(wanted));
                let mut left = 6;
                for part in twice.chunks(cut) {
                    let is_refused = |position: &&u64| positions[room..].contains(*position);
                    let refused = part.iter().filter(is_refused).count();
                    left -= refused;
                    observe(&mut slice, &mut model, part, &vec![Stamp::on_time(START); part.len()], refused);
                }
                assert_eq!((left, slice.used_cells()), (0, STASH_ENTRIES as u64));
                assert_same_map(&slice, &model, &positions, "full");
                assert!(!slice.set_at(&positions[room..=room], Stamp::on_time(START)));
                assert!(
                    slice.put_event(GenerationNumber::FIRST, &positions[room..=room], Stamp::on_time(START)).is_err()
                );
                assert_same_map(&slice, &model, &positions, "refused");
                assert_eq!(slice.live_events(), Some(room as u64), "rejected events must not be counted");
            }
        }
    }
}

/// Checks that a known event can restart its window even if there is no more room in its buckets, in the stash, or in a
/// filter at its capacity. The event keeps its place, so it needs no further room.
#[test]
fn a_known_event_starts_its_window_again_however_full_its_region_is() {
    for (seed, shape) in (1..).zip(SHAPES) {
        for is_capacity_in_use in [false, true] {
            let region = Wanted { refresh: Refresh::Refresh, ..Wanted::region(shape, [0, 3][seed as usize % 2]) };
            let mut rng = TestRng(seed);
            let (mut filled, mut scratch) = (region.slice(), Model::new(region));
            let taken = overfill(&region, &mut rng, &mut filled, &mut scratch);
            let live_events = filled.live_events().unwrap().min(region.capacity_events);
            let capacity_events = if is_capacity_in_use { live_events } else { region.capacity_events };
            let wanted = Wanted { capacity_events, ..region };
            let (mut slice, mut model) = (wanted.slice(), Model::new(wanted));
            slice.read_body(&mut &crate::common::body(&filled)[..]).unwrap();
            model.expiries = scratch.expiries.clone();
            model.advance(START);
            let verdicts = observe_at(&mut slice, &taken, START);
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate), "{wanted:?}");
            taken.iter().for_each(|position| model.set(*position, Stamp::on_time(START)));
            assert_same_map(&slice, &model, &taken, "all have started again");
        }
    }
}

/// Returns the verdicts on events that are observed in one unit.
fn observe_at(slice: &mut FilterSlice, positions: &[u64], unit: UnitNumber) -> Vec<Verdict> {
    let mut probes = Probes::new(slice.probe_shape());
    positions.iter().for_each(|position| probes.push_positions(&[*position]).unwrap());
    let (stamps, mut verdicts) =
        (vec![Stamp::on_time(unit); positions.len()], vec![Verdict::FirstSeen; positions.len()]);
    slice.observe_probes(&probes, 0..positions.len(), &stamps, &mut verdicts).unwrap();
    verdicts
}

/// Checks events of an older generation that restart their window. Such an event moves to the newest generation. If the
/// newest generation has no room for it, the event stays in its own place.
#[test]
fn a_known_event_of_an_older_generation_starts_its_window_again_where_the_newest_has_no_room() {
    for shape in CROWDED {
        const OLD: usize = 10;
        let room = 2 * Wanted::region(shape, 0).shape().slots() as usize + STASH_ENTRIES;
        let wanted = Wanted {
            refresh: Refresh::Refresh,
            generations_max: 2,
            capacity_events: room as u64 + 1,
            ..Wanted::region(shape, 0)
        };
        let crowd = crowd(&wanted, 77, OLD + room + 1);
        let (old, newer) = crowd.split_at(OLD);
        let others: Vec<u64> = (0..room + 1 - OLD).map(|pair| (200 + 2 * pair as u64) << wanted.print_bits).collect();
        let mut slice = wanted.slice();
        // Afterwards the first generation is full, and two buckets and the stash of the next generation are full.
        for positions in [old, &others, &newer[..room]] {
            let verdicts = observe_at(&mut slice, positions, START);
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{wanted:?}");
        }
        let (again, later) = (START.after(1), wanted.rule.expiry(START));
        assert_eq!(observe_at(&mut slice, &newer[room..], again), [Verdict::Undecided], "{wanted:?}");
        assert_eq!(observe_at(&mut slice, old, again), [Verdict::Duplicate; OLD], "{wanted:?}");
        assert_eq!(slice.generations(), 2);
        let is_found = |position: &&u64| slice.test_at(&[**position], Stamp::on_time(later)).unwrap().is_hit();
        assert_eq!(
            old.iter().filter(is_found).count(),
            OLD,
            "events seen less than a window ago must be found; {wanted:?}"
        );
    }
}

/// Stashes are emptied while time passes: by steps of various lengths, from every base, and by sweeps in between.
#[test]
fn a_stash_is_emptied_into_buckets_of_any_age_and_changes_no_answer() {
    for shape in CROWDED {
        let wanted = Wanted::region(shape, 0);
        let room = 2 * wanted.shape().slots() as usize + STASH_ENTRIES;
        for step in 0..60 {
            let (mut slice, mut model, mut rng) = (wanted.slice(), Model::new(wanted), TestRng(step + 1));
            let start = START.after(rng.below(100));
            // In the order of the sweep, the buckets are far before the stash in some cases, and close to it in others.
            let positions = crowd(&wanted, [3, 500, 1020][step as usize % 3], room);
            let stamps: Vec<_> = positions.iter().map(|_| any_life(&wanted, &mut rng, start)).collect();
            observe(&mut slice, &mut model, &positions, &stamps, 0);
            assert_eq!(slice.used_cells(), STASH_ENTRIES as u64);
            let (first, second) = (rng.below(24), 1 + rng.below(step + 1));
            for steps in [first, second, 1, 3] {
                model.advance(model.now.after(steps));
                if rng.below(2) == 0 {
                    slice.advance(model.now);
                } else {
                    let mut verdicts = [Verdict::Undecided; 40];
                    slice.lookup_batch(&crate::common::digests(0, 40), &[Stamp::on_time(model.now); 40], &mut verdicts);
                }
                assert_same_map(&slice, &model, &positions, &format!("steps of {steps} from {start}"));
            }
        }
    }
}

/// A slice that was asked before the first event has already swept parts without entries.
#[test]
fn a_filter_that_was_looked_up_while_empty_goes_on() {
    for asked in (0..50).map(UnitNumber) {
        for first in [0, 1, 20, 31].map(|ahead| asked.after(ahead)) {
            let wanted = Wanted::region((16, 64), 0);
            let (mut slice, mut model) = (wanted.slice(), Model::new(wanted));
            let keys = crate::common::digests(0, 2000);
            slice.lookup_batch(&keys, &[Stamp::on_time(asked); 2000], &mut [Verdict::Undecided; 2000]);
            let positions: Vec<_> = keys.iter().take(100).map(|key| position_of(*key, slice.geometry())).collect();
            for (ahead, part) in (0..3).zip(positions.chunks(30)) {
                observe(&mut slice, &mut model, part, &[Stamp::on_time(first.after(ahead)); 30], 0);
            }
            for ahead in [3, 9, 26, 27, 30] {
                model.advance(first.after(ahead));
                slice.advance(first.after(ahead));
                assert_same_map(&slice, &model, &positions, &format!("asked at {asked}, {ahead} after {first}"));
            }
        }
    }
}

#[test]
fn the_other_bucket_of_the_other_bucket_is_the_first_one_and_never_the_same() {
    let mut rng = TestRng(5);
    let prints = (0..1024).chain((0..32).map(|bit| 1 << bit)).chain((0..1000).map(|_| rng.roll() as u32));
    for print in prints {
        for bucket in 0..REGION_BUCKETS {
            let partner = BucketShape::partner(bucket, print);
            assert!(partner < REGION_BUCKETS && partner != bucket, "bucket {bucket}, fingerprint {print}");
            assert_eq!(BucketShape::partner(partner, print), bucket, "bucket {bucket}, fingerprint {print}");
        }
    }
}

/// Returns `count` bits of a bucket from bit `start` on.
fn bits(line: &[u8], start: usize, count: usize) -> u128 {
    (0..count).fold(0, |bits, bit| bits | u128::from(line[(start + bit) / 8] >> ((start + bit) % 8) & 1) << bit)
}

/// Returns the entries of a bucket at unit `now`. This is a second implementation of the documented layout.
fn entries(line: &[u8], wanted: &Wanted, now: UnitNumber) -> Vec<(u32, UnitNumber)> {
    let (print_bits, time_bits) = (wanted.print_bits as usize, usize::from(wanted.time_bits));
    let slots = (512 - time_bits) / print_bits;
    let head_bits = slots.next_power_of_two().ilog2() as usize;
    let unary_bits = time_bits - 5 - head_bits;
    let (times, head) = (bits(line, 0, unary_bits), bits(line, unary_bits, head_bits) as usize);
    let age = (now.0 % 32 + 32 - bits(line, unary_bits + head_bits, 5) as u64) % 32;
    let (mut place, mut tick, mut found) = (0, 1, Vec::new());
    for bit in 0..unary_bits {
        if times >> bit & 1 == 0 {
            tick += 1;
            continue;
        }
        let slot = (head + place) % slots;
        let column = |byte: usize| bits(line, time_bits + 8 * (byte * slots + slot), 8) << (8 * byte);
        let planes = time_bits + 8 * (print_bits / 8 * slots);
        let plane = |bit: usize| bits(line, planes + (bit - print_bits / 8 * 8) * slots + slot, 1) << bit;
        let print = (0..print_bits / 8).map(column).chain((print_bits / 8 * 8..print_bits).map(plane)).sum::<u128>();
        if tick > age {
            found.push((print as u32, now.after(tick - age)));
        }
        place += 1;
    }
    assert!(place <= slots, "more entries than slots");
    found
}

#[test]
fn buckets_of_every_shape_lie_in_their_64_bytes_as_the_layout_says() {
    for (print_bits, time_bits) in (10..=32).flat_map(|bits| [(bits, 64), (bits, 128)]) {
        let wanted = Wanted::region((print_bits, time_bits), 0);
        let shape = wanted.shape();
        let (slots, ticks) = (shape.slots(), shape.ticks());
        assert_eq!(slots, (512 - u32::from(time_bits)) / print_bits);
        assert!(slots <= 64 && ticks >= 2 && slots + ticks - 1 + 5 + (slots - 1).ilog2() < u32::from(time_bits));
        let (mut slice, mut model, mut rng) = (wanted.slice(), Model::new(wanted), TestRng(u64::from(print_bits)));
        overfill(&wanted, &mut rng, &mut slice, &mut model);
        let now = START.after(rng.below(u64::from(ticks) / 2));
        slice.advance(now);
        model.advance(now);
        let run = slice.cell_run(GenerationNumber::FIRST, 0, usize::MAX / 2).unwrap();
        assert_eq!(run.cells.len(), (REGION_BUCKETS + 1) * LINE_BYTES);
        let mut map = HashMap::new();
        for (bucket, line) in run.cells.chunks(LINE_BYTES).take(REGION_BUCKETS).enumerate() {
            for (print, expiry) in entries(line, &wanted, now) {
                let position = (bucket as u64) << print_bits | u64::from(print);
                let twin = map.insert(identity_of(position, print_bits), expiry);
                assert_eq!(twin, None, "an event has two entries");
            }
        }
        let expected = model.map();
        assert!(map.iter().all(|(identity, expiry)| expected.get(identity) == Some(expiry)), "{wanted:?}");
        let stashed = expected.len() - map.len();
        assert!(stashed <= STASH_ENTRIES && stashed as u64 <= slice.used_cells(), "{stashed} in the stash");
    }
}

/// The selected instructions change only the speed, even if a region is completely full.
#[test]
fn full_regions_answer_alike_with_all_instructions() {
    for shape in SHAPES {
        let wanted = Wanted::region(shape, 2);
        let mut slices =
            [Instructions::Portable, Instructions::Widest].map(|all| wanted.slice().with_instructions(all));
        let mut rng = TestRng(9);
        let positions: Vec<_> =
            (0..wanted.capacity_events + 2000).map(|_| random_position(&wanted, &mut rng)).collect();
        let mut probes = Probes::new(slices[0].probe_shape());
        positions.iter().for_each(|position| probes.push_positions(&[*position]).unwrap());
        let stamps: Vec<_> = positions.iter().map(|_| any_life(&wanted, &mut rng, START)).collect();
        let verdicts = slices.each_mut().map(|slice| {
            let mut verdicts = vec![Verdict::Undecided; positions.len()];
            slice.observe_probes(&probes, 0..positions.len(), &stamps, &mut verdicts).unwrap();
            slice.advance(START.after(5));
            verdicts
        });
        assert!(verdicts[0] == verdicts[1], "{wanted:?}");
        assert!(crate::common::body(&slices[0]) == crate::common::body(&slices[1]), "{wanted:?}");
    }
}
