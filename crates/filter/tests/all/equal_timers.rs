//! Compares the equal-timers heuristic (Koloniari et al. 2011, section 4) with a model that keeps the absolute expiry
//! of every timer. With this heuristic, an event is a duplicate only if all its k timers are alive and at least k' of
//! them are equal.

use firstseen_filter::{
    CellSlice, Digest, FilterSecret, Geometry, Layout, Refresh, Stamp, Timers8, UnitNumber, Verdict, WindowRule,
    positions_of,
};

const CELLS: u64 = 400;
const HASHES: u32 = 4;
const WINDOW: WindowRule = WindowRule { span_units: 20, lateness_units: 5 };

/// Returns the verdict of the model on one event, and records the event if it is new.
fn model(expiries: &mut [UnitNumber], positions: &[u64], stamp: Stamp, equal_timers: usize) -> Verdict {
    let timers: Vec<UnitNumber> = positions.iter().map(|position| expiries[*position as usize]).collect();
    let alive = timers.iter().all(|expiry| *expiry > stamp.judged);
    let largest = timers.iter().map(|one| timers.iter().filter(|other| *other == one).count()).max();
    if alive && largest >= Some(equal_timers) {
        return Verdict::Duplicate;
    }
    let expiry = WINDOW.expiry(stamp.unit);
    positions.iter().for_each(|position| expiries[*position as usize] = expiries[*position as usize].max(expiry));
    Verdict::FirstSeen
}

/// Compares the verdicts over a stream of repeating events in a crowded filter, and returns the number of duplicates.
fn duplicates(equal_timers: u32) -> usize {
    let geometry = Geometry::new(CELLS, HASHES, 8, Layout::Classic).unwrap();
    let timers = Timers8::new(WINDOW, Refresh::Fixed, equal_timers).unwrap();
    let mut slice = CellSlice::new(timers, geometry, None).unwrap();
    let (secret, mut expiries, mut positions) =
        (FilterSecret::from_seed(3), vec![UnitNumber::FIRST; CELLS as usize], Vec::new());
    let (mut state, mut found) = (9u64, 0);
    for event in 0..20_000u64 {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let now = UnitNumber(1000 + event / 6);
        let stamp = WINDOW.stamp(now.before((state >> 40) % 4), now).unwrap();
        let digest: Digest = secret.digest(&((state >> 33) % 300).to_le_bytes());
        positions_of(digest, &geometry, &mut positions);
        // The slice must see the present before it sees a late event.
        slice.advance(now);
        let mut verdict = [Verdict::Undecided];
        slice.observe_batch(&[digest], &[stamp], &mut verdict);
        let expected = model(&mut expiries, &positions, stamp, equal_timers as usize);
        assert_eq!(verdict[0], expected, "event {event} with k' = {equal_timers}");
        found += usize::from(expected == Verdict::Duplicate);
    }
    found
}

#[test]
fn the_largest_group_of_equal_timers_decides() {
    let counts = [0, 1, 2, 3, 4].map(duplicates);
    assert_eq!(counts[0], counts[1], "k' = 0 and k' = 1 both turn the heuristic off");
    // The more timers must be equal, the fewer events are taken for duplicates. The difference is visible in the
    // counts.
    assert!(counts[1] > counts[2] && counts[2] > counts[3] && counts[3] > counts[4], "{counts:?}");
}
