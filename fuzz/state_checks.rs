//! Checks of the code that loads a saved filter with all of its slices, and of the code that parses windows and
//! slicings in flags. No input may violate these checks, whatever its bytes are. The fuzz target `state` searches for
//! input that violates a check. `cargo test -p firstseen-routing` runs the same checks on the corpus.

use firstseen_filter::{
    CounterStorage, DecayRule, DecayingFilter, DecayingShape, Digest, FilterSpec, Kind, Stamp, UnitNumber, Window,
};
use firstseen_routing::{Answer, SlicedDefinition, SlicedFilter, Slicing};

/// Small filters with different slicings. The first byte of the data selects one.
const FILTERS: [(Kind, &str, &str); 7] = [
    (Kind::Bloom, "landmark:1h", "horizontal:2"),
    (Kind::Timing, "1h", "vertical:3"),
    (Kind::Generations, "1h", "horizontal-vertical:2x2"),
    (Kind::Timing, "64events", "none"),
    (Kind::Bloom, "unbounded", "vertical-horizontal:2x2"),
    (Kind::Stable, "unbounded", "none"),
    (Kind::Cuckoo, "1h", "horizontal:2"),
];

/// Checks that no bytes make a reader panic, and that every accepted state is a filter that answers.
pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        words(text);
    }
    let _ = serde_json::from_slice::<SlicedDefinition>(data);
    let Some((pick, body)) = data.split_first() else { return };
    match FILTERS.get(usize::from(*pick)) {
        Some(filter) => sliced(filter, body),
        None => decaying(body),
    }
}

/// Checks that a window or slicing which can be parsed is written in a form that can be parsed again.
fn words(text: &str) {
    if let Ok(window) = text.parse::<Window>() {
        assert_eq!(window.to_string().parse::<Window>(), Ok(window));
    }
    if let Ok(slicing) = text.parse::<Slicing>() {
        assert_eq!(slicing.to_string().parse::<Slicing>(), Ok(slicing));
    }
}

fn build((kind, window, slicing): &(Kind, &str, &str)) -> SlicedFilter {
    let spec = FilterSpec {
        capacity_events: Some(64),
        rate: 0.1,
        ..FilterSpec::new(*kind, window.parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a small filter");
    SlicedFilter::build(&definition).expect("a small filter")
}

fn digests() -> [Digest; 3] {
    [1, 2, 3].map(|event| Digest { lo: u64::wrapping_mul(event, 0x9E37_79B9_7F4A_7C15), hi: event })
}

fn sliced(filter: &(Kind, &str, &str), mut body: &[u8]) {
    let mut filter = build(filter);
    if filter.read_body(&mut body).is_err() {
        return;
    }
    for time_ms in [0, 1 << 40, u64::MAX / 8] {
        filter.observe_batch(&digests(), &[time_ms; 3], &mut [Answer::Undecided; 3]);
    }
    let rate = filter.expected_rate();
    assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
}

fn decaying(mut body: &[u8]) {
    let shape = DecayingShape {
        cells: 64,
        hashes: 2,
        rule: DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 },
        storage: CounterStorage::Extended { extensions: 32 },
    };
    let mut filter = DecayingFilter::new(shape).expect("a small filter");
    if filter.read_body(&mut body).is_err() {
        return;
    }
    for epoch in [0, 1 << 20, u64::MAX / 4].map(UnitNumber) {
        let mut estimates = [0.0; 3];
        filter.observe_batch(&digests(), &[Stamp::on_time(epoch); 3], &mut estimates);
        assert!(estimates.iter().all(|estimate| estimate.is_finite()));
    }
}

/// Returns valid inputs, which the fuzzer modifies to find new ones. Some inputs are saved filters that have recorded
/// some events; the first byte of such an input selects the filter. The other inputs are texts that describe windows
/// and slicings.
#[allow(dead_code)]
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let of = |(pick, filter): (usize, &(Kind, &str, &str))| {
        let mut filter = build(filter);
        filter.observe_batch(&digests(), &[1 << 40; 3], &mut [Answer::Undecided; 3]);
        let mut data = vec![pick as u8];
        filter.write_body(&mut data).expect("memory does not fail");
        data
    };
    let words = ["24h", "landmark:day@Europe/Athens", "10events", "vertical-horizontal:4x8"];
    let words = words.iter().map(|word| word.as_bytes().to_vec());
    FILTERS.iter().enumerate().map(of).chain(words).collect()
}
