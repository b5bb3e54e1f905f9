//! Checks the false-positive rate of words of generations under uneven load. However the events of a window are spread
//! over its jumps, the rate must stay below the target. Events that would raise the rate above the target must be
//! rejected.

use firstseen_filter::{FilterSecret, FilterSlice, FilterSpec, Kind, Layout, Stamp, UnitNumber, Verdict};

const RATE: f64 = 0.01;
const CAPACITY: u64 = 60_000;

/// Streams distinct events, `loads[i]` of them in jump `i`. Returns the number of rejected events and the greatest rate
/// after any jump.
fn stream(layout: Layout, cell_bits: u32, loads: &[u64]) -> (u64, f64) {
    let spec = FilterSpec {
        capacity_events: Some(CAPACITY),
        rate: RATE,
        layout: Some(layout),
        cell_bits: Some(cell_bits),
        jumps: Some(6),
        ..FilterSpec::new(Kind::Generations, "6h".parse().unwrap())
    };
    let mut slice = FilterSlice::build(&spec.resolve().unwrap()).unwrap();
    let secret = FilterSecret::from_seed(11);
    let (mut refused, mut greatest, mut event) = (0, 0f64, 0u64);
    for (unit, load) in (1000..).zip(loads) {
        let digests: Vec<_> = (event..event + load).map(|event| secret.digest(&event.to_le_bytes())).collect();
        let mut verdicts = vec![Verdict::Undecided; digests.len()];
        slice.observe_batch(&digests, &vec![Stamp::on_time(UnitNumber(unit)); digests.len()], &mut verdicts);
        refused += verdicts.iter().filter(|verdict| **verdict == Verdict::Undecided).count() as u64;
        greatest = greatest.max(slice.expected_rate());
        event += load;
    }
    (refused, greatest)
}

#[test]
fn bursts_are_refused_before_the_rate_is_exceeded() {
    let jump = CAPACITY / 6;
    let burst = [&[jump / 10; 6][..], &[CAPACITY - jump / 2], &[jump / 10; 3], &[CAPACITY; 2]].concat();
    for (layout, cell_bits) in [(Layout::Classic, 8), (Layout::Blocked { lines: 2 }, 8), (Layout::Classic, 16)] {
        let (refused, greatest) = stream(layout, cell_bits, &burst);
        assert!(refused > 0, "{layout:?}: nothing refused");
        assert!(greatest <= 1.03 * RATE, "{layout:?}: a rate of {greatest}");
    }
}

#[test]
fn a_steady_stream_at_the_capacity_is_not_refused() {
    for layout in [Layout::Classic, Layout::Blocked { lines: 2 }] {
        let (refused, greatest) = stream(layout, 8, &[CAPACITY / 6; 30]);
        assert_eq!(refused, 0, "{layout:?}");
        assert!(greatest > 0.6 * RATE && greatest <= 1.03 * RATE, "{layout:?}: a rate of {greatest}");
    }
}
