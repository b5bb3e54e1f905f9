//! Checks of the code that loads a saved slice of a filter. The input may be arbitrary, because a saved file can be
//! damaged. The fuzz target `snapshot` searches for bytes that violate a check. `cargo test -p firstseen-filter` runs
//! the same checks on the corpus.

use std::io::{self, Read};

use firstseen_filter::snapshot::UnverifiedSnapshot;
use firstseen_filter::{
    FilterDefinition, FilterSecret, FilterSlice, FilterSpec, GrowthSpec, Kind, Limit, Stamp, UnitNumber, Verdict,
};

/// Returns small filters of every kind. The first byte of the data selects one.
fn specs() -> Vec<FilterSpec> {
    let spec = |kind, window: &str| FilterSpec {
        capacity_events: Some(64),
        rate: 0.1,
        ..FilterSpec::new(kind, window.parse().expect("a window"))
    };
    let growth = Some(GrowthSpec { limit: Limit::Cardinality, generations_max: 3, ratio: 2.0 });
    vec![
        spec(Kind::Bloom, "unbounded"),
        FilterSpec { growth, ..spec(Kind::Bloom, "landmark:1h") },
        FilterSpec { growth, ..spec(Kind::Timing, "1h") },
        FilterSpec { cell_bits: Some(16), ..spec(Kind::Timing, "1h") },
        spec(Kind::Generations, "64events"),
        FilterSpec { jumps: Some(4), ..spec(Kind::Counting, "1h") },
        spec(Kind::Counting, "64events"),
        spec(Kind::Stable, "unbounded"),
        spec(Kind::Cuckoo, "1h"),
        FilterSpec { rate: 1e-8, ticks: Some(60), ..spec(Kind::Cuckoo, "64events") },
    ]
}

/// Checks that no bytes make the reader panic, and that every accepted snapshot is a filter that answers.
pub(crate) fn run(data: &[u8]) {
    let sink = |body: &mut dyn Read| io::copy(body, &mut io::sink());
    if let Ok(snapshot) = UnverifiedSnapshot::<_, serde_json::Value>::open(data) {
        let _ = snapshot.verify(sink);
    }
    let _ = serde_json::from_slice::<FilterDefinition>(data);
    let Some((pick, mut body)) = data.split_first() else { return };
    let specs = specs();
    let definition = specs[usize::from(*pick) % specs.len()].resolve().expect("a small filter");
    let mut slice = FilterSlice::build(&definition).expect("a small filter");
    if slice.read_body(&mut body).is_err() {
        return;
    }
    let digests = [1u64, 2, 3].map(|event| FilterSecret::from_seed(1).digest(&event.to_le_bytes()));
    for unit in [0, 1 << 20, u64::MAX / 2].map(UnitNumber) {
        let mut verdicts = [Verdict::Undecided; 3];
        slice.observe_batch(&digests, &[Stamp::on_time(unit); 3], &mut verdicts);
    }
    let rate = slice.expected_rate();
    assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
}

/// Returns valid inputs, which the fuzzer modifies to find new ones. Each input is the snapshot of a slice that has
/// recorded some events, with one input for each filter definition in this file. The first byte of an input selects the
/// definition.
#[allow(dead_code)]
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let secret = FilterSecret::from_seed(1);
    let of = |(pick, spec): (usize, FilterSpec)| {
        let mut slice = FilterSlice::build(&spec.resolve().expect("a small filter")).expect("a small filter");
        let digests: Vec<_> = (0..100u64).map(|event| secret.digest(&event.to_le_bytes())).collect();
        let stamps: Vec<_> = (0..100).map(|event| Stamp::on_time(UnitNumber(event / 10))).collect();
        slice.observe_batch(&digests, &stamps, &mut [Verdict::Undecided; 100]);
        let mut data = vec![pick as u8];
        slice.write_body(&mut data).expect("memory does not fail");
        data
    };
    specs().into_iter().enumerate().map(of).collect()
}
