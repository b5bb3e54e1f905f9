//! Slices that share events decide, event by event, as the classic filter from which they were cut.

use crate::common::{self, Stream, TestRng, Uncut, count, definition, digest, growing, spec, stream};
use firstseen_filter::{FilterSpec, Kind, Limit, Refresh};
use firstseen_routing::{Answer, SlicedFilter};

const CUTS: [&str; 7] = [
    "vertical:1",
    "vertical:2",
    "vertical:3",
    "vertical:7",
    "vertical:40",
    "horizontal-vertical:1x5",
    "vertical-horizontal:6x1",
];

/// Sends events to the sliced filter and to the undivided filter, in batches of any size. One event in eight is only
/// looked up.
fn decides_as_uncut(spec: &FilterSpec, slicing: &str, stream: &Stream) -> Vec<Answer> {
    let definition = definition(spec, slicing);
    let mut uncut = Uncut::build(&definition.group);
    let mut sliced = SlicedFilter::build(&definition).unwrap();
    let mut rng = TestRng(9);
    let (mut answers, mut start) = (Vec::new(), 0);
    while start < stream.digests.len() {
        let end = stream.digests.len().min(start + 1 + rng.below(200) as usize);
        let record = rng.below(8) > 0;
        let (digests, times_ms) = (&stream.digests[start..end], &stream.times_ms[start..end]);
        let mut batch = vec![Answer::Undecided; end - start];
        if record {
            sliced.observe_batch(digests, times_ms, &mut batch);
        } else {
            sliced.lookup_batch(digests, times_ms, &mut batch);
        }
        for (event, answer) in batch.iter().enumerate() {
            let expected = uncut.ask(digests[event], times_ms[event], record);
            assert_eq!(*answer, expected, "{:?} {slicing}, event {}, record {record}", spec.kind, start + event);
        }
        answers.extend(batch);
        start = end;
    }
    assert_eq!(sliced.generations(), uncut.slice().generations());
    assert_eq!(sliced.live_events(), uncut.slice().live_events());
    answers
}

fn decides_as_uncut_however_cut(spec: &FilterSpec, stream: &Stream, occurring: &[Answer]) {
    for slicing in CUTS {
        let answers = decides_as_uncut(spec, slicing, stream);
        for answer in occurring {
            assert!(count(&answers, *answer) > 20, "{slicing}: the stream must bring {answer:?} out");
        }
    }
}

#[test]
fn bits_without_a_window() {
    // The filter is so full that one event in ten is a false positive, so the decision depends on every single cell.
    let stream = stream(&mut TestRng(1), 3000, 1500, 5, 100);
    decides_as_uncut_however_cut(
        &spec(Kind::Bloom, "unbounded", 4001, 4),
        &stream,
        &[Answer::FirstSeen, Answer::Duplicate],
    );
}

#[test]
fn as_many_slices_as_cells() {
    let stream = stream(&mut TestRng(7), 2000, 800, 5, 1000);
    decides_as_uncut(&spec(Kind::Bloom, "unbounded", 4000, 4), "vertical:4096", &stream);
    decides_as_uncut(&spec(Kind::Timing, "2s", 4000, 4), "vertical:4096", &stream);
    decides_as_uncut(&spec(Kind::Generations, "2s", 4000, 4), "vertical-horizontal:4096x1", &stream);
}

#[test]
fn bits_with_landmarks() {
    let stream = stream(&mut TestRng(2), 3000, 300, 5, 2000);
    let occurring = [Answer::FirstSeen, Answer::Duplicate, Answer::Late];
    decides_as_uncut_however_cut(&spec(Kind::Bloom, "landmark:1500ms", 1000, 4), &stream, &occurring);
}

#[test]
fn timers_of_a_sliding_window() {
    let stream = stream(&mut TestRng(3), 4000, 600, 5, 3000);
    let occurring = [Answer::FirstSeen, Answer::Duplicate, Answer::Late];
    for cell_bits in [8, 16] {
        let spec = FilterSpec { cell_bits: Some(cell_bits), ..spec(Kind::Timing, "2s", 1500, 4) };
        decides_as_uncut_however_cut(&spec, &stream, &occurring);
        let refreshing = FilterSpec { refresh: Refresh::Refresh, ..spec.clone() };
        decides_as_uncut_however_cut(&refreshing, &stream, &occurring);
        decides_as_uncut_however_cut(&FilterSpec { equal_timers: 2, ..spec }, &stream, &occurring);
    }
}

#[test]
fn words_of_a_jumping_window() {
    let stream = stream(&mut TestRng(4), 4000, 600, 5, 3000);
    let occurring = [Answer::FirstSeen, Answer::Duplicate, Answer::Late];
    for cell_bits in [8, 16] {
        let jumping = FilterSpec {
            cell_bits: Some(cell_bits),
            lateness_ms: Some(400),
            jumps: Some(4),
            ..spec(Kind::Generations, "2s", 1500, 4)
        };
        decides_as_uncut_however_cut(&jumping, &stream, &occurring);
    }
}

#[test]
fn growth_in_bursts_and_refusal_beyond_it() {
    // There are about 400 events per window, and twice as many in the second half. Four generations of 100 events
    // cannot hold them.
    let mut stream = stream(&mut TestRng(5), 6000, 4000, 5, 300);
    let faster = stream.times_ms[3000];
    stream.times_ms[3000..].iter_mut().for_each(|time_ms| *time_ms = faster.midpoint(*time_ms));
    let occurring = [Answer::FirstSeen, Answer::Duplicate, Answer::Undecided];
    decides_as_uncut_however_cut(&growing(Kind::Timing, "2s", 100, Limit::Cardinality, 4), &stream, &occurring);
    let landmark = growing(Kind::Bloom, "landmark:2s", 100, Limit::Cardinality, 4);
    decides_as_uncut_however_cut(&landmark, &stream, &occurring);
    decides_as_uncut_however_cut(&growing(Kind::Bloom, "landmark:2s", 100, Limit::Density, 4), &stream, &occurring);
    // Nothing expires in this window. Decisions therefore do not depend on the cells that a sweep has cleared, which
    // differ with the slicing.
    let refreshing = FilterSpec { refresh: Refresh::Refresh, ..growing(Kind::Timing, "1h", 200, Limit::Density, 4) };
    decides_as_uncut_however_cut(&refreshing, &stream, &occurring);
    let full = FilterSpec { growth: None, ..growing(Kind::Generations, "2s", 300, Limit::Cardinality, 1) };
    decides_as_uncut_however_cut(&full, &stream, &occurring);
}

#[test]
fn generations_of_growing_size_keep_the_rate_and_forget_nothing() {
    let growing = FilterSpec {
        growth: Some(firstseen_filter::GrowthSpec { limit: Limit::Cardinality, generations_max: 8, ratio: 2.0 }),
        ..growing(Kind::Bloom, "unbounded", 200, Limit::Cardinality, 8)
    };
    for slicing in ["vertical:7", "horizontal-vertical:3x4", "vertical-horizontal:5x2"] {
        let mut filter = common::filter(&growing, slicing);
        let events: Vec<_> = (0..20_000).map(digest).collect();
        let mut answers = vec![Answer::Undecided; events.len()];
        filter.observe_batch(&events, &[], &mut answers);
        assert!(filter.generations() > 4, "{slicing}: {}", filter.generations());
        let called_duplicate = count(&answers, Answer::Duplicate) as f64 / events.len() as f64;
        // The mean over a filter that is being filled lies below the bound for the full filter.
        assert!((0.002..0.05).contains(&called_duplicate), "{slicing}: {called_duplicate}");
        filter.observe_batch(&events, &[], &mut answers);
        assert_eq!(count(&answers, Answer::Duplicate), events.len(), "{slicing}");
    }
}

#[test]
fn a_new_event_sets_also_the_cells_that_its_test_has_passed() {
    // Cells that the test finds set belong to events that expire sooner. If only the cells from the first empty cell on
    // were set, the event would be forgotten together with those events.
    let spec = spec(Kind::Timing, "1s", 64, 4);
    let mut filter = common::filter(&spec, "vertical:4");
    let old: Vec<_> = (0..10).map(digest).collect();
    let mut answers = vec![Answer::Undecided; 10];
    filter.observe_batch(&old, &[10_000; 10], &mut answers);
    let mut partly_passed = 0;
    let fresh: Vec<_> = (1000..1040).map(digest).collect();
    for event in fresh {
        let visits_before: u64 = filter.loads().iter().map(|load| load.test_visits).sum();
        let mut answer = [Answer::Undecided];
        filter.observe_batch(&[event], &[10_900], &mut answer);
        let visits: u64 = filter.loads().iter().map(|load| load.test_visits).sum();
        partly_passed += u32::from(answer[0] == Answer::FirstSeen && visits - visits_before > 1);
        let told_first = answer[0] == Answer::FirstSeen;
        // A copy of the filter, restored from its bytes, gets the event again after the old events have expired.
        let mut bytes = Vec::new();
        filter.write_body(&mut bytes).unwrap();
        let mut later = common::filter(&spec, "vertical:4");
        later.read_body(&mut &bytes[..]).unwrap();
        later.lookup_batch(&[event], &[11_800], &mut answer);
        assert!(!told_first || answer[0] == Answer::Duplicate, "forgotten after 900 ms");
    }
    assert!(partly_passed > 3, "{partly_passed} events had passed cells before their first zero");
}

#[test]
fn the_rate_is_that_of_all_cells_together() {
    let stream = stream(&mut TestRng(6), 20_000, 20_000, 1, 10);
    for (spec, relative) in [
        (spec(Kind::Bloom, "unbounded", 60_000, 4), 1e-9),
        (spec(Kind::Timing, "10s", 60_000, 4), 1e-9),
        (spec(Kind::Generations, "10s", 20_000, 4), 0.02),
        (growing(Kind::Timing, "10s", 2500, Limit::Cardinality, 8), 0.02),
    ] {
        let definition = definition(&spec, "vertical:16");
        let (mut uncut, mut sliced) = (Uncut::build(&definition.group), SlicedFilter::build(&definition).unwrap());
        common::observe(&mut sliced, &stream, 500);
        for (digest, time_ms) in stream.digests.iter().zip(&stream.times_ms) {
            uncut.ask(*digest, *time_ms, true);
        }
        let (rate, uncut_rate) = (sliced.expected_rate(), uncut.slice().expected_rate());
        assert!(
            uncut_rate > 0.001 && (rate / uncut_rate - 1.0).abs() < relative,
            "{:?}: {rate} {uncut_rate}",
            spec.kind
        );
    }
}
