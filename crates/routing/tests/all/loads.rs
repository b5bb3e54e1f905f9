//! Checks that the measured visits of slices and the balance between slices agree with the formulas of Koloniari et al.
//! 2011, section 3.1.

use crate::common::{digest, filter, spec};
use firstseen_filter::rates::{plain, slicing};
use firstseen_filter::{Digest, FilterSecret, Kind};
use firstseen_routing::{Answer, Load, SlicedFilter, fairness, greatest_share};

fn ask(filter: &mut SlicedFilter, events: &[Digest], record: bool) -> Load {
    let before = total(filter.loads());
    let mut answers = vec![Answer::Undecided; events.len()];
    if record {
        filter.observe_batch(events, &[], &mut answers);
    } else {
        filter.lookup_batch(events, &[], &mut answers);
    }
    let after = total(filter.loads());
    Load {
        positions_tested: after.positions_tested - before.positions_tested,
        test_visits: after.test_visits - before.test_visits,
        record_visits: after.record_visits - before.record_visits,
    }
}

fn total(loads: &[Load]) -> Load {
    loads.iter().fold(Load::default(), |sum, load| Load {
        positions_tested: sum.positions_tested + load.positions_tested,
        test_visits: sum.test_visits + load.test_visits,
        record_visits: sum.record_visits + load.record_visits,
    })
}

fn near(measured: f64, expected: f64, relative: f64, what: &str) {
    assert!((measured / expected - 1.0).abs() < relative, "{what}: {measured}, by the formula {expected}");
}

#[test]
fn visits_of_a_vertical_filter() {
    const EVENTS: u64 = 30_000;
    for hashes in [4, 8] {
        for fill in [0.3f64, 0.5] {
            let cells = (EVENTS * u64::from(hashes)) as f64 / -(-fill).ln_1p();
            let mut filter = filter(&spec(Kind::Bloom, "unbounded", cells as u64, hashes), "vertical:40");
            let what = format!("k = {hashes}, fill {fill}");
            let recorded: Vec<_> = (0..EVENTS).map(digest).collect();

            let filling = ask(&mut filter, &recorded, true);
            let distinct = filling.record_visits as f64 / slicing::slices_touched(40, hashes);
            assert!(distinct > 0.97 * EVENTS as f64 && distinct < 1.01 * EVENTS as f64, "{what}: {distinct}");
            let expected = slicing::stream_visits(40, hashes, cells, EVENTS as f64, 0.0);
            near(filling.test_visits as f64 / EVENTS as f64, expected.test, 0.02, &what);
            let visits = (filling.test_visits + filling.record_visits) as f64 / EVENTS as f64;
            near(visits, expected.test_and_set, 0.02, &what);

            let again = ask(&mut filter, &recorded, true);
            assert_eq!(again.record_visits, 0, "duplicates set nothing");
            assert_eq!(again.positions_tested, EVENTS * u64::from(hashes));
            let touched = slicing::slices_touched(40, hashes);
            near(again.test_visits as f64 / EVENTS as f64, touched, 0.02, &what);

            let unseen: Vec<_> = (EVENTS..3 * EVENTS).map(digest).collect();
            let looked_up = ask(&mut filter, &unseen, false);
            let fill = filter.expected_rate().powf(1.0 / f64::from(hashes));
            near(fill, plain::fill(cells, hashes, EVENTS as f64), 0.02, "fill");
            near(looked_up.test_visits as f64 / unseen.len() as f64, slicing::visits(40, hashes, fill), 0.02, &what);
        }
    }
}

#[test]
fn a_horizontal_event_is_one_visit() {
    let mut filter = filter(&spec(Kind::Bloom, "unbounded", 100_000, 5), "horizontal:6");
    let events: Vec<_> = (0..1000).map(digest).collect();
    let load = ask(&mut filter, &events, true);
    assert_eq!((load.test_visits, load.positions_tested), (1000, 5000));
    assert_eq!(load.record_visits, 1000, "all are new, in so large a filter");
    assert_eq!(ask(&mut filter, &events, false), Load { record_visits: 0, ..load });
}

/// Returns a stream in which key `i` occurs `1000 / i` times, and the sum of the squares of the keys' shares.
fn zipf(secret: u64) -> (Vec<Digest>, f64) {
    let secret = FilterSecret::from_seed(secret);
    let counts = (1..=150u64).map(|rank| (rank, 1000 / rank));
    let events: Vec<_> = counts
        .clone()
        .flat_map(|(rank, count)| (0..count).map(move |_| rank))
        .map(|rank| secret.digest(&rank.to_le_bytes()))
        .collect();
    let share = |count: u64| count as f64 / events.len() as f64;
    let share_squares = counts.map(|(_, count)| share(count) * share(count)).sum();
    (events, share_squares)
}

/// Computes the reciprocal of the fairness index, 1/fairness, once for each of many sets of hash functions. Returns the
/// mean of these values and its standard error. The test uses the reciprocal because its expected value is known
/// exactly, which is not the case for the index itself.
fn unfairness(cut: &str, hashes: u32) -> (f64, f64) {
    const TRIALS: u32 = 150;
    let (mut sum, mut squares) = (0.0, 0.0);
    for trial in 0..TRIALS {
        let (events, _) = zipf(u64::from(trial));
        let spec = spec(Kind::Bloom, "unbounded", 100_000, hashes);
        let mut recorded = filter(&spec, cut);
        ask(&mut recorded, &events, true);
        let mut saved = Vec::new();
        recorded.write_body(&mut saved).unwrap();
        // Loads start from zero, and every event is a duplicate, so all of its positions are tested.
        let mut filter = filter(&spec, cut);
        filter.read_body(&mut &saved[..]).unwrap();
        ask(&mut filter, &events, false);
        let unfairness = 1.0 / fairness(filter.loads());
        sum += unfairness;
        squares += unfairness * unfairness;
        if cut.starts_with("horizontal:") {
            assert!(greatest_share(filter.loads()) >= 1000.0 / events.len() as f64, "the hottest key is in one slice");
        }
    }
    let (trials, mean) = (f64::from(TRIALS), sum / f64::from(TRIALS));
    (mean, ((squares / trials - mean * mean) / (trials - 1.0)).sqrt())
}

#[test]
fn fairness_on_a_skewed_stream() {
    let (slices, hashes) = (20, 6);
    let (_, share_squares) = zipf(0);
    let expected = [
        ("horizontal:20", slicing::fairness_horizontal(slices, share_squares)),
        ("vertical:20", slicing::fairness_vertical(slices, hashes, share_squares)),
    ];
    for (cut, fairness) in expected {
        let (mean, error) = unfairness(cut, hashes);
        assert!((mean - 1.0 / fairness).abs() < 3.0 * error, "{cut}: {mean} +- {error}, expected {}", 1.0 / fairness);
        assert!(error < 0.1 * (mean - 1.0), "{cut}: {error} is too rough to show it");
    }
    for cut in ["horizontal-vertical:4x5", "vertical-horizontal:4x5"] {
        let (mean, _) = unfairness(cut, hashes);
        assert!(mean < 1.0 / expected[0].1 && mean > 1.0 / expected[1].1, "{cut} lies between: {mean}");
    }
}
