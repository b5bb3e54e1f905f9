//! Tests with bytes of kind `cuckoo` from untrusted sources. A snapshot from the middle of a window must continue like
//! its slice, and damaged bytes must be rejected or be harmless.

use crate::common::{TestRng, body, digests, reloaded};
use crate::cuckoo_model::{Feed, Model, SHAPES, START, Steps, Wanted, assert_same_map, crowd, position_of};
use firstseen_filter::{CellRun, FilterSlice, GenerationNumber, Refresh, SliceOutline, Stamp, UnitNumber, Verdict};

const STEPS: Steps = Steps { next: 80, jump: 0, late: 5, life: 3 };
/// Size of a line, and of the buckets of a region in front of its stash, in bytes.
const LINE_BYTES: usize = 64;
const STASH_START: usize = 1024 * LINE_BYTES;

/// Returns a region in the middle of a window, with random events. If enough fingerprints lead to the same two buckets,
/// these buckets overflow, so that the stash of the region has entries as well.
fn used(wanted: &Wanted, seed: u64) -> (FilterSlice, Model, Feed, Vec<u64>) {
    let (mut slice, mut model, mut feed) = (wanted.slice(), Model::new(*wanted), Feed::new(wanted, 2000, seed));
    let (keys, stamps) = feed.batch(1500, STEPS);
    slice.observe_batch(&keys, &stamps, &mut [Verdict::Undecided; 1500]);
    for (key, stamp) in keys.iter().zip(&stamps) {
        model.observe(*key, *stamp, false);
    }
    let mut positions: Vec<_> = feed.keys.iter().map(|key| position_of(*key, slice.geometry())).collect();
    if wanted.print_bits > 15 {
        for position in crowd(wanted, 40, 2 * wanted.shape().slots() as usize + 4) {
            let stamp = Stamp { unit: feed.now.before(feed.rng.below(wanted.rule.span_units)), judged: feed.now };
            if slice.set_at(&[position], stamp) {
                model.set(position, stamp);
                positions.push(position);
            }
        }
        assert!(slice.used_cells() > 0, "the stash has entries");
    }
    (slice, model, feed, positions)
}

#[test]
fn a_snapshot_in_the_middle_of_a_window_goes_on_as_its_slice_does() {
    for (seed, shape) in (1..).zip(SHAPES) {
        let refresh = [Refresh::Fixed, Refresh::Refresh][seed as usize % 2];
        let wanted = Wanted { refresh, ..Wanted::region(shape, 3) };
        let (mut kept, model, mut feed, positions) = used(&wanted, seed);
        let mut read = reloaded(&kept, &wanted.definition());
        assert_same_map(&read, &model, &positions, "read back");
        for round in 0..10 {
            let (keys, stamps) = feed.batch(300, Steps { jump: 200, ..STEPS });
            let mut verdicts = [[Verdict::Undecided; 300]; 2];
            kept.observe_batch(&keys, &stamps, &mut verdicts[0]);
            read.observe_batch(&keys, &stamps, &mut verdicts[1]);
            assert_eq!(verdicts[0], verdicts[1], "round {round}; {wanted:?}");
            assert!(body(&kept) == body(&read), "round {round}; {wanted:?}");
            read = reloaded(&read, &wanted.definition());
        }
    }
}

/// Calls all methods of a slice, whatever the slice holds. No call may panic.
fn exercise(slice: &mut FilterSlice, wanted: &Wanted, rng: &mut TestRng) {
    let unit = slice.outline().unwrap().unit;
    let keys = digests(rng.below(2000), 12);
    let mut verdicts = [Verdict::Undecided; 12];
    for ahead in [0, 1 + rng.below(40)] {
        let stamps = [Stamp::on_time(unit.after(ahead)); 12];
        slice.lookup_batch(&keys, &stamps, &mut verdicts);
        slice.observe_batch(&keys, &stamps, &mut verdicts);
    }
    slice.observe_batch(&keys[..1], &[Stamp::on_time(UnitNumber(3))], &mut verdicts[..1]);
    let positions = [rng.below(wanted.geometry().positions())];
    let now = unit.after(rng.below(40));
    slice.set_at(&positions, Stamp { unit: now, judged: now });
    slice.test_at(&positions, Stamp::on_time(now));
    let (fill, rate) = slice.fill_and_rate(usize::MAX);
    assert!((0.0..=1.0).contains(&rate) && (0.0..=1.0).contains(&fill.unwrap()));
    let run = slice.cell_run(slice.newest_generation(), 0, 1).unwrap();
    let mut copy = wanted.slice();
    let _ = copy.put_cells(&run);
    let _ = slice.put_missing_cells(&run);
    slice.recount();
    let _ = copy.merge(slice);
    slice.advance(now.after(1 + rng.below(200)));
    slice.observe_batch(&keys, &[Stamp::on_time(now.after(300)); 12], &mut verdicts);
}

/// Applies `change` to a saved state, reads it, and calls all methods of the slice, whether or not the state was
/// rejected.
fn damaged(
    wanted: &Wanted,
    whole: &[u8],
    slice: &mut FilterSlice,
    rng: &mut TestRng,
    change: impl Fn(&mut [u8]),
) -> bool {
    let mut bytes = whole.to_vec();
    change(&mut bytes);
    let read = slice.read_body(&mut &bytes[..]);
    if read.is_err() {
        let mut verdict = [Verdict::Undecided];
        slice.lookup_batch(&digests(0, 1), &[Stamp::on_time(START)], &mut verdict);
        assert_eq!((verdict[0], slice.live_events()), (Verdict::FirstSeen, Some(0)), "not empty after an error");
    }
    exercise(slice, wanted, rng);
    read.is_ok()
}

fn flip_bytes(every_cell_byte: bool) {
    let shapes: &[(u32, u8)] = if every_cell_byte { &SHAPES } else { &[(10, 64), (16, 64), (32, 128)] };
    for (seed, shape) in (1..).zip(shapes) {
        let wanted = Wanted::region(*shape, 2);
        let (slice, _, _, _) = used(&wanted, seed);
        let (whole, mut read, mut rng) = (body(&slice), wanted.slice(), TestRng(seed));
        let cells_start = whole.len() - 1025 * LINE_BYTES;
        for at in 0..cells_start {
            for value in [whole[at] ^ 1 << rng.below(8), rng.roll() as u8, 0, 0xFF] {
                damaged(&wanted, &whole, &mut read, &mut rng, |bytes| bytes[at] = value);
            }
        }
        let step = if every_cell_byte { 1 } else { 131 };
        let mut refused = 0;
        for at in (cells_start..whole.len()).step_by(step).chain(cells_start + STASH_START..whole.len()) {
            let mask = 1 + rng.below(255) as u8;
            refused += u64::from(!damaged(&wanted, &whole, &mut read, &mut rng, |bytes| bytes[at] ^= mask));
        }
        assert!(refused > 0, "no damage was detected");
    }
}

#[test]
fn a_flipped_byte_is_refused_or_harmless() {
    flip_bytes(false);
}

#[test]
#[ignore = "takes minutes"]
fn every_flipped_byte_at_full_size_is_refused_or_harmless() {
    flip_bytes(true);
}

/// The times of entries, the head of the ring and the stash are numbers. Each of them gets arbitrary values.
#[test]
fn lines_with_any_times_are_refused_or_harmless() {
    for (seed, shape) in (1..).zip(SHAPES) {
        let wanted =
            Wanted { refresh: [Refresh::Fixed, Refresh::Refresh][seed as usize % 2], ..Wanted::region(shape, 2) };
        let (slice, _, _, _) = used(&wanted, seed);
        let (whole, mut read, mut rng) = (body(&slice), wanted.slice(), TestRng(seed + 50));
        let cells_start = whole.len() - 1025 * LINE_BYTES;
        let mut taken = 0;
        for _ in 0..120 {
            let word_bytes = usize::from(wanted.time_bits) / 8;
            let (seed, density) = (rng.roll(), rng.below(4));
            let is_taken = damaged(&wanted, &whole, &mut read, &mut rng, |bytes| {
                let mut rng = TestRng(seed);
                // The upper half of a word holds head and base. A word of random bits would have too many ends of
                // ticks.
                for line in 0..1 + rng.below(1024) as usize * (density as usize / 2) {
                    let start = cells_start + line * LINE_BYTES;
                    let last = start + word_bytes - 1;
                    match density % 2 {
                        0 => bytes[last] = bytes[last] & 7 | rng.roll() as u8 & 0xF8,
                        _ => bytes[start] = rng.roll() as u8,
                    }
                }
            });
            taken += u64::from(is_taken);
        }
        assert!(taken > 0, "every change was rejected, so no damaged slice was tested; {wanted:?}");
    }
}

/// Stores an entry in the second place of the stash of a region, whose bytes are `cells`.
fn stash_second(cells: &mut [u8], (bucket, print, expiry): (u16, u32, UnitNumber)) {
    let entry = &mut cells[STASH_START + 16..][..16];
    entry[..8].copy_from_slice(&expiry.0.to_le_bytes());
    entry[8..12].copy_from_slice(&print.to_le_bytes());
    entry[12..14].copy_from_slice(&bucket.to_le_bytes());
}

/// Checks that an entry of a stash is rejected if it would outlive every event, both in a saved state and in a run of
/// cells. An entry that expires together with the last event must be accepted.
#[test]
fn no_entry_of_a_stash_outlives_the_window() {
    for (seed, shape) in (1..).zip(SHAPES).filter(|(_, (print_bits, _))| *print_bits > 15) {
        let wanted = Wanted::region(shape, [0, 3][seed as usize % 2]);
        let (slice, _, _, _) = used(&wanted, seed);
        let (whole, run) = (body(&slice), slice.cell_run(GenerationNumber::FIRST, 0, 1).unwrap());
        let cells_start = whole.len() - 1025 * LINE_BYTES;
        // This is the expiry of an event of the present.
        let latest = wanted.rule.expiry(run.unit);
        for (expiry, fits) in [(latest, true), (latest.after(1), false), (UnitNumber::NEVER, false)] {
            let mut changed = whole.clone();
            stash_second(&mut changed[cells_start..], (77, 5, expiry));
            let read = wanted.slice().read_body(&mut &changed[..]);
            let named = |error: &std::io::Error| error.to_string().contains("live on for longer than its window");
            assert!(read.as_ref().err().map(named) == (!fits).then_some(true), "{read:?}: {expiry} of {latest}");
            let cells = changed[cells_start..].to_vec();
            let run = CellRun { cells, ..run.clone() };
            let mut copy = wanted.slice();
            assert_eq!(copy.put_cells(&run).is_ok(), fits, "{expiry} of {latest}; {wanted:?}");
            // An accepted entry is present afterwards, so that a comparison of copies comes to an end.
            assert_eq!(copy.lacks_cells(&run).ok(), fits.then_some(false), "{expiry} of {latest}; {wanted:?}");
        }
    }
}

#[test]
fn entries_of_a_stash_with_any_numbers_are_refused_or_harmless() {
    let around = [UnitNumber(1), START, START.after(5), START.after(31), START.after(200)];
    let far = [UnitNumber(1 << 40), UnitNumber::LAST, UnitNumber::NEVER.before(1), UnitNumber::NEVER];
    for (seed, shape) in (1..).zip(SHAPES) {
        for expiry in around.into_iter().chain(far) {
            let wanted =
                Wanted { refresh: [Refresh::Fixed, Refresh::Refresh][seed as usize % 2], ..Wanted::region(shape, 2) };
            let (slice, _, _, _) = used(&wanted, seed);
            let run = slice.cell_run(GenerationNumber::FIRST, 0, 1).unwrap();
            let mut rng = TestRng(seed);
            for (print, bucket, fits) in
                [(5_u32, 1023_u16, true), (1023, 0, true), (5, 1024, false), (u32::MAX, 7, wanted.print_bits == 32)]
            {
                let mut cells = run.cells.clone();
                stash_second(&mut cells, (bucket, print, expiry));
                let run = CellRun { cells, ..run.clone() };
                let fits = fits && expiry <= wanted.rule.expiry(run.unit);
                let mut copy = wanted.slice();
                let outline = SliceOutline { unit: run.unit, ..slice.outline().unwrap() };
                copy.put_outline(&outline).unwrap();
                assert_eq!(copy.put_cells(&run).is_ok(), fits, "{expiry}, {print}, {bucket}; {wanted:?}");
                // The entry is alive for no longer than any event of this window.
                let reach = wanted.rule.span_units + wanted.rule.lateness_units;
                copy.advance(run.unit.after(reach));
                assert_eq!(copy.fill_and_rate(usize::MAX).0, Some(0.0), "{expiry}");
                let position =
                    [u64::from(bucket % 1024) << wanted.print_bits | u64::from(print) & ((1 << wanted.print_bits) - 1)];
                assert!(!copy.test_at(&position, Stamp::on_time(run.unit.after(reach))).unwrap().is_hit(), "{expiry}");
                exercise(&mut copy, &wanted, &mut rng);
            }
        }
    }
}

#[test]
fn runs_of_random_bytes_are_refused_or_harmless() {
    for (seed, shape) in (1..).zip(SHAPES) {
        let wanted = Wanted::region(shape, 2);
        let (slice, _, _, _) = used(&wanted, seed);
        let (run, mut rng) = (slice.cell_run(GenerationNumber::FIRST, 0, 1).unwrap(), TestRng(seed));
        let mut taken = 0;
        for round in 0..60 {
            let mut cells = run.cells.clone();
            let changes = 1 + rng.below([1, 3, 2000][round % 3]);
            for _ in 0..changes {
                let at = rng.below(cells.len() as u64) as usize;
                cells[at] = rng.roll() as u8;
            }
            let unit = [run.unit, run.unit.after(rng.below(50)), UnitNumber::FIRST, UnitNumber(1 << 61)][round % 4];
            let mut copy = wanted.slice();
            taken += u64::from(copy.put_cells(&CellRun { cells, unit, ..run.clone() }).is_ok());
            exercise(&mut copy, &wanted, &mut rng);
        }
        assert!(taken > 0 && taken < 60, "{taken} of 60 taken; {wanted:?}");
        let noise = (0..run.cells.len()).map(|_| rng.roll() as u8).collect();
        assert!(wanted.slice().put_cells(&CellRun { cells: noise, ..run.clone() }).is_err());
        for bytes in [0, 64, 1024 * 64, 1025 * 64 - 1] {
            let cut = CellRun { cells: run.cells[..bytes].to_vec(), ..run.clone() };
            assert!(wanted.slice().put_cells(&cut).is_err() || bytes == 0, "{bytes} bytes are not whole regions");
        }
    }
}
