//! Checks that the fill of a slice, estimated from a sample of its cells, agrees with the count of all cells within the
//! limits of chance.

use crate::common::{LAYOUTS, bloom, config, digests, generations, geometry, growth, rule, timing};
use firstseen_filter::{
    FilterDefinition, FilterSlice, FilterSpec, FrequencySpec, Kind, Layout, Limit, RATE_SAMPLE_BYTES, Refresh, Stamp,
    UnitNumber, Verdict,
};
use proptest::prelude::*;

const CELLS: u64 = 1 << 18;
const HASHES_MAX: u32 = 4;
/// Size of the sample: a quarter of the smallest slice in these tests.
const SAMPLE_BYTES: usize = 1 << 13;
/// Number of units over which the events are spread. At the end, the first half of them has left the window.
const UNITS: u64 = 60;

/// Returns definitions of all kinds with generations of cells, each with the number of bits per cell.
fn definitions() -> impl Strategy<Value = (FilterDefinition, u32)> {
    let growths = prop_oneof![Just(None), Just(Some(growth(Limit::Cardinality, 16, 1.0, 12_000)))];
    let layouts = prop::sample::select(LAYOUTS.to_vec());
    (0..5_u32, layouts, growths).prop_map(|(kind, layout, growth)| {
        let shape = |cell_bits| geometry(CELLS, HASHES_MAX, cell_bits, layout);
        match kind {
            0 => (bloom(shape(1), growth), 1),
            1 => (timing(shape(8), rule(30, 2), Refresh::Fixed, growth), 8),
            2 => (timing(shape(16), rule(30, 0), Refresh::Refresh, None), 16),
            3 => (generations(shape(8), rule(6, 1)), 8),
            _ => (generations(shape(16), rule(12, 0)), 16),
        }
    })
}

/// Returns a slice that has seen `events` events over [`UNITS`] units. For windows of a single unit, all events are in
/// one unit.
fn filled(definition: &FilterDefinition, events: u64) -> FilterSlice {
    let mut slice = FilterSlice::build(definition).unwrap();
    let units = if definition.rule.span_units == 1 { 1 } else { UNITS };
    for unit in 0..units {
        let (first, end) = (events * unit / units, events * (unit + 1) / units);
        let digests = digests(first, end - first);
        let mut verdicts = vec![Verdict::Undecided; digests.len()];
        slice.observe_batch(&digests, &vec![Stamp::on_time(UnitNumber(unit)); digests.len()], &mut verdicts);
    }
    slice
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn a_sample_tells_the_fill_as_well_as_chance_allows((definition, cell_bits) in definitions(), events in 0..120_000_u64) {
        let slice = filled(&definition, events);
        let (whole, rate) = slice.fill_and_rate(usize::MAX);
        prop_assert_eq!(rate, slice.expected_rate());
        let every_byte = slice.bytes() as usize * slice.generations();
        prop_assert_eq!(slice.fill_and_rate(every_byte), (whole, rate), "the sample contains all cells");
        let (Some(whole), Some(sampled)) = (whole, slice.fill_and_rate(SAMPLE_BYTES).0) else { panic!("no fill") };
        let cells = (SAMPLE_BYTES * 8) as f64 / f64::from(cell_bits);
        // The cells of an event lie together in one block, so the fills of blocks differ by whole events.
        let together = f64::from(slice.geometry().hashes());
        let deviation = ((whole * (1.0 - whole) + 1.0 / cells) * together / cells).sqrt();
        prop_assert!((sampled - whole).abs() < 5.0 * deviation, "{sampled} instead of {whole}, deviation {deviation}");
        prop_assert!(deviation < 0.04, "the deviation is too large for a useful test");
    }
}

/// A user who sends a single record through a large filter need not wait for a walk over all its cells.
#[test]
fn the_rate_to_expect_is_told_by_a_part_of_a_large_filter() {
    for (shape, kind) in [(8, "timers"), (8, "words"), (1, "bits")] {
        let geometry = geometry(3 * (RATE_SAMPLE_BYTES as u64) * 8 / shape, 1, shape as u32, Layout::Classic);
        let definition = match kind {
            "timers" => timing(geometry, rule(30, 0), Refresh::Fixed, None),
            "words" => generations(geometry, rule(6, 1)),
            _ => bloom(geometry, None),
        };
        let slice = filled(&definition, 3000);
        let (whole, sampled) = (slice.fill_and_rate(usize::MAX).1, slice.fill_and_rate(RATE_SAMPLE_BYTES).1);
        assert!(whole > 0.0 && sampled > 0.0 && whole != sampled, "{kind}: {whole}, {sampled}");
        assert_eq!(slice.expected_rate(), sampled, "{kind}");
    }
}

#[test]
fn a_sample_tells_the_rate_of_kinds_with_memory_of_their_own() {
    let spec = |kind, window: &str| FilterSpec {
        capacity_events: Some(50_000),
        rate: 0.05,
        ..FilterSpec::new(kind, window.parse().unwrap())
    };
    let stable =
        FilterSpec { memory_bytes: Some(64 << 10), ..FilterSpec::new(Kind::Stable, "unbounded".parse().unwrap()) };
    let frequencies = FrequencySpec { capacity_keys: 50_000, ..FrequencySpec::new("1h".parse().unwrap(), 0.5) };
    for definition in [
        spec(Kind::Counting, "1h").resolve().unwrap(),
        spec(Kind::Counting, "50000events").resolve().unwrap(),
        stable.resolve().unwrap(),
        frequencies.resolve().unwrap(),
    ] {
        let mut slice = FilterSlice::build(&definition).unwrap();
        let digests = digests(0, 40_000);
        let stamps = vec![Stamp::on_time(UnitNumber::FIRST); digests.len()];
        match definition.cells.kind() {
            Kind::Decaying => slice.count_batch(&digests, &stamps, &mut vec![0.0; digests.len()]).unwrap(),
            _ => slice.observe_batch(&digests, &stamps, &mut vec![Verdict::Undecided; digests.len()]),
        }
        let hashes = f64::from(slice.geometry().hashes());
        let [whole, sampled] = [usize::MAX, SAMPLE_BYTES].map(|bytes| slice.fill_and_rate(bytes).1.powf(1.0 / hashes));
        let kind = definition.cells.kind();
        assert!(slice.bytes() > 3 * SAMPLE_BYTES as u64, "{kind}: {} bytes", slice.bytes());
        assert!(whole > 0.1 && (sampled - whole).abs() < 0.04, "{kind}: {sampled} instead of {whole}");
        assert_ne!(sampled, whole, "{kind}: all cells were read");
    }
}
