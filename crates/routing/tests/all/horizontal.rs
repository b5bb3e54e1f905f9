//! Slices that share no events answer like separate filters. Slicings that are horizontal and vertical at once lie
//! between the two extremes.

use crate::common::{
    self, TestRng, Uncut, clock, count, definition, filter, fingerprints, growing, observe, spec, stream,
};
use firstseen_filter::{
    ExactWindow, FilterSlice, FilterSpec, GrowthSpec, Kind, Limit, Placed, Refresh, Stamp, UnitNumber, Verdict, reduce,
};
use firstseen_routing::{Answer, SlicedFilter};

const GROWS: Option<GrowthSpec> = Some(GrowthSpec { limit: Limit::Cardinality, generations_max: 4, ratio: 1.0 });

#[test]
fn every_slice_answers_as_its_own_filter() {
    let stream = stream(&mut TestRng(11), 6000, 900, 5, 3000);
    let blocked = |kind, window: &str| FilterSpec {
        capacity_events: Some(1000),
        ..FilterSpec::new(kind, window.parse().unwrap())
    };
    for spec in [
        spec(Kind::Bloom, "unbounded", 5000, 4),
        blocked(Kind::Timing, "2s"),
        blocked(Kind::Generations, "2s"),
        FilterSpec { jumps: Some(4), ..blocked(Kind::Counting, "2s") },
        blocked(Kind::Stable, "unbounded"),
        growing(Kind::Timing, "2s", 200, Limit::Cardinality, 4),
        fingerprints("2s", 1000),
        FilterSpec { lateness_ms: Some(300), ..blocked(Kind::Cuckoo, "2s") },
        FilterSpec { refresh: Refresh::Refresh, ..fingerprints("2s", 1000) },
        FilterSpec { growth: GROWS, rate: 1e-6, ..fingerprints("2s", 200) },
    ] {
        for slices in [1u64, 2, 5, 64] {
            let slicing = if slices == 1 { "none".to_owned() } else { format!("horizontal:{slices}") };
            let definition = definition(&spec, &slicing);
            let slice = || FilterSlice::build(&definition.group).unwrap();
            let mut alone: Vec<FilterSlice> = (0..slices).map(|_| slice()).collect();
            let mut clock = clock(&definition.group);
            let mut sliced = SlicedFilter::build(&definition).unwrap();
            for (event, answer) in observe(&mut sliced, &stream, 700).into_iter().enumerate() {
                let digest = stream.digests[event];
                let expected = match clock.place(Some(stream.times_ms[event])) {
                    Placed::At(stamp) => {
                        let mut verdict = [Verdict::Undecided];
                        let own = &mut alone[reduce(digest.word(31), slices) as usize];
                        own.observe_batch(&[digest], &[stamp], &mut verdict);
                        verdict[0].into()
                    }
                    Placed::Late => Answer::Late,
                    Placed::Refused => Answer::Refused,
                };
                assert_eq!(answer, expected, "{:?} {slicing}, event {event}", spec.kind);
            }
        }
    }
}

#[test]
fn a_batch_answers_like_its_events_one_by_one() {
    let stream = stream(&mut TestRng(12), 5000, 1500, 5, 1000);
    let blocked = FilterSpec { capacity_events: Some(300), ..FilterSpec::new(Kind::Timing, "2s".parse().unwrap()) };
    for slicing in ["none", "horizontal:7", "vertical:7", "horizontal-vertical:3x4", "vertical-horizontal:3x4"] {
        for spec in [
            spec(Kind::Bloom, "landmark:2s", 2000, 4),
            spec(Kind::Generations, "2s", 2000, 4),
            growing(Kind::Timing, "2s", 100, Limit::Cardinality, 3),
            FilterSpec { layout: if slicing.contains("vertical") { None } else { blocked.layout }, ..blocked.clone() },
            FilterSpec { lateness_ms: Some(300), rate: 0.001, ..fingerprints("2s", 1000) },
            FilterSpec { refresh: Refresh::Refresh, ..fingerprints("2s", 1000) },
        ] {
            if slicing.contains("vertical") && spec.kind == Kind::Cuckoo {
                continue;
            }
            let one_by_one = observe(&mut filter(&spec, slicing), &stream, 1);
            assert!(count(&one_by_one, Answer::Duplicate) > 50 && count(&one_by_one, Answer::FirstSeen) > 50);
            for batch_events in [2, 17, 1000, 5000] {
                let batched = observe(&mut filter(&spec, slicing), &stream, batch_events);
                assert!(batched == one_by_one, "{:?} {slicing} by {batch_events}", spec.kind);
            }
        }
    }
}

#[test]
fn diced_filters_of_one_group_or_part_are_the_simple_ones() {
    let stream = stream(&mut TestRng(13), 4000, 700, 5, 2000);
    for (kind, window) in [(Kind::Bloom, "unbounded"), (Kind::Timing, "2s"), (Kind::Generations, "2s")] {
        let spec = spec(kind, window, 1200, 4);
        let answers = |slicing: &str| observe(&mut filter(&spec, slicing), &stream, 333);
        let same = |one: &str, other: &str| answers(one) == answers(other);
        assert!(same("horizontal-vertical:1x6", "vertical:6"));
        assert!(same("horizontal-vertical:6x1", "horizontal:6"));
        assert!(same("vertical-horizontal:6x1", "vertical:6"));
        assert!(same("vertical-horizontal:1x6", "horizontal:6"));
        assert!(same("horizontal:1", "none"));
        assert!(!same("horizontal-vertical:2x3", "vertical-horizontal:3x2"), "false positives must differ");
    }
}

#[test]
fn no_slicing_forgets_an_event_that_it_recorded() {
    let stream = stream(&mut TestRng(14), 8000, 1200, 5, 3000);
    for slicing in ["none", "horizontal:5", "vertical:5", "horizontal-vertical:3x5", "vertical-horizontal:5x3"] {
        for spec in [
            spec(Kind::Bloom, "unbounded", 9000, 3),
            spec(Kind::Bloom, "landmark:2s", 3000, 3),
            spec(Kind::Timing, "2s", 3000, 3),
            FilterSpec { refresh: Refresh::Refresh, ..spec(Kind::Timing, "2s", 3000, 3) },
            spec(Kind::Generations, "2s", 3000, 3),
            growing(Kind::Timing, "2s", 150, Limit::Cardinality, 4),
            growing(Kind::Timing, "2s", 150, Limit::Density, 4),
            FilterSpec { lateness_ms: Some(300), rate: 0.001, ..fingerprints("2s", 2000) },
            FilterSpec { refresh: Refresh::Refresh, ..fingerprints("2s", 2000) },
            FilterSpec { growth: GROWS, rate: 1e-6, ..fingerprints("2s", 150) },
        ] {
            if slicing.contains("vertical") && spec.kind == Kind::Cuckoo {
                continue;
            }
            let definition = definition(&spec, slicing);
            let mut exact = ExactWindow::of(&definition.group);
            let mut clock = clock(&definition.group);
            let answers = observe(&mut SlicedFilter::build(&definition).unwrap(), &stream, 97);
            for (event, answer) in answers.into_iter().enumerate() {
                let verdict = match answer {
                    Answer::FirstSeen => Verdict::FirstSeen,
                    Answer::Duplicate => Verdict::Duplicate,
                    Answer::Undecided | Answer::Late | Answer::Refused => Verdict::Undecided,
                };
                if let Placed::At(stamp) = clock.place(Some(stream.times_ms[event])) {
                    exact.observe(stream.digests[event], stamp, verdict);
                }
            }
            let tally = exact.tally();
            assert_eq!(tally.false_negatives, 0, "{:?} {} {slicing}", spec.kind, spec.window);
            assert!(tally.true_positives > 200 && tally.true_negatives > 200, "{tally:?}");
        }
    }
}

#[test]
fn horizontal_slices_take_the_configured_load() {
    let sized = |kind, window: &str| FilterSpec {
        capacity_events: Some(2000),
        ..FilterSpec::new(kind, window.parse().unwrap())
    };
    let bloom = sized(Kind::Bloom, "unbounded");
    let prints = sized(Kind::Cuckoo, "1h");
    for (spec, slicing) in
        [(&bloom, "horizontal:8"), (&bloom, "horizontal-vertical:8x4"), (&prints, "horizontal:8"), (&prints, "none")]
    {
        let mut filter = filter(spec, slicing);
        let mut answers = vec![Answer::Undecided; 2000];
        let events: Vec<_> = (0..2000).map(common::digest).collect();
        filter.observe_batch(&events, &[], &mut answers);
        assert_eq!(count(&answers, Answer::Undecided), 0, "{slicing} refuses at its capacity");
        let (duplicates, rate) = (count(&answers, Answer::Duplicate), filter.expected_rate());
        assert!(duplicates < 20 && rate < 0.0105, "{slicing}: {duplicates} of 2000, {rate}");
    }
}

#[test]
fn an_event_without_a_place_touches_nothing() {
    for slicing in ["none", "horizontal:3", "vertical:3"] {
        let spec = FilterSpec { future_max_ms: 10_000, lateness_ms: Some(0), ..spec(Kind::Timing, "1s", 1000, 4) };
        let mut filter = filter(&spec, slicing);
        let mut answers = [Answer::Undecided; 6];
        let click = common::digest(1);
        // The last times follow the last event and are only known, not used.
        let times_ms = [100_000, 130_000, 98_000, 100_500, u64::MAX, 100_500, 100_400];
        filter.observe_batch(&[click; 6], &times_ms, &mut answers);
        let (first, again) = (Answer::FirstSeen, Answer::Duplicate);
        assert_eq!(answers, [first, Answer::Refused, Answer::Late, again, Answer::Refused, again], "{slicing}");
        assert_eq!(filter.now_ms(), Some(100_500));
        let tested: u64 = filter.loads().iter().map(|load| load.positions_tested).sum();
        // Three events have four positions each. For the first one, a vertical filter tests only as many as necessary.
        assert!(tested == 12 || slicing == "vertical:3" && (9..12).contains(&tested), "{slicing}: {tested}");
        filter.observe_batch(&[click], &[], &mut answers[..1]);
        assert_eq!(answers[0], Answer::Refused, "a window of time needs times");
    }
}

#[test]
fn an_event_that_is_looked_up_moves_no_clock_and_is_not_recorded() {
    for slicing in ["none", "horizontal:3", "vertical:3"] {
        let definition = definition(&spec(Kind::Timing, "1s", 1000, 4), slicing);
        let (mut filter, mut uncut) = (SlicedFilter::build(&definition).unwrap(), Uncut::build(&definition.group));
        let (seen, unseen) = (common::digest(1), common::digest(2));
        let mut answers = [Answer::Undecided; 2];
        filter.observe_batch(&[seen], &[100_000], &mut answers[..1]);
        assert_eq!(uncut.ask(seen, 100_000, true), Answer::FirstSeen);
        for time_ms in [100_500, 100_500, 102_000] {
            filter.lookup_batch(&[seen, unseen], &[time_ms; 2], &mut answers);
            assert_eq!(answers, [seen, unseen].map(|event| uncut.ask(event, time_ms, false)), "{slicing} {time_ms}");
        }
        assert_eq!(answers, [Answer::FirstSeen; 2], "by then it has expired");
        assert_eq!((filter.now_ms(), filter.live_events()), (Some(100_000), Some(1)));
        filter.observe_batch(&[seen], &[100_500], &mut answers[..1]);
        assert_eq!(answers[0], Answer::Duplicate, "{slicing}: nothing expires by being looked up");
    }
}

#[test]
fn a_stamp_is_ignored_where_there_is_no_window() {
    let mut filter = filter(&spec(Kind::Bloom, "unbounded", 1000, 4), "none");
    let mut answers = [Answer::Undecided; 2];
    filter.observe_batch(&[common::digest(1); 2], &[5, u64::MAX], &mut answers);
    assert_eq!(answers, [Answer::FirstSeen, Answer::Duplicate]);
    assert_eq!(Stamp::default(), Stamp::on_time(UnitNumber::FIRST));
}
