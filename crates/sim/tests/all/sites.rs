//! A filter tree over sites that are 25 ms apart. A leaf answers known events at once, and new events after about one
//! round trip.

use firstseen_checker::history::{Call, History};
use firstseen_checker::laws::check;
use firstseen_routing::{CutOff, Decision, TreeMode};
use firstseen_sim::run::run;
use firstseen_sim::scenario::{Nemesis, Scenario};
use firstseen_sim::tree::Tree;

const BETWEEN_SITES_MS: u64 = 25;
const ROUND_TRIP_MS: f64 = 2.0 * BETWEEN_SITES_MS as f64;

fn scenario(slicing: &'static str, root_at: Option<usize>, safe: bool) -> Scenario {
    Scenario {
        tree: Some(Tree {
            mode: TreeMode::Dense,
            folds: vec![0, 1, 2],
            root_at,
            has_middle: false,
            top_down: 0,
            cut_off: CutOff::Undecided,
        }),
        slicing,
        kind: "timing",
        window_ms: 3_600_000,
        parallel: false,
        safe,
        producers: 3,
        events: 120,
        calls: 240,
        between_sites_ms: Some(BETWEEN_SITES_MS),
        pause_max_ms: 40,
        deadline_ms: 3_000,
        nemesis: Nemesis::Delay,
        named: false,
        ..Scenario::new(11)
    }
}

fn milliseconds(call: &Call) -> f64 {
    (call.returned_us.expect("it has returned") - call.began_us) as f64 / 1000.0
}

/// Durations of calls in milliseconds, sorted.
struct Latencies(Vec<f64>);

impl Latencies {
    fn of<'a>(calls: impl Iterator<Item = &'a Call>) -> Self {
        let mut latencies: Vec<f64> = calls.map(milliseconds).collect();
        latencies.sort_by(f64::total_cmp);
        assert!(latencies.len() > 40, "only {} calls", latencies.len());
        Self(latencies)
    }

    fn quantile(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    fn mean_round_trips(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64 / ROUND_TRIP_MS
    }
}

/// Returns the submissions of producers.
fn submissions(history: &History, producers: u32) -> impl Iterator<Item = &Call> {
    history.calls.iter().filter(move |call| !call.is_lookup && call.producer < producers)
}

/// Returns the submissions of events that their site had known before.
fn repeats(history: &History, producers: u32) -> impl Iterator<Item = &Call> {
    submissions(history, producers).filter(move |again| {
        let mut earlier = submissions(history, producers).take_while(|earlier| earlier.id < again.id);
        earlier.any(|earlier| {
            let is_over = earlier.returned_us.is_some_and(|returned_us| returned_us < again.began_us);
            earlier.event == again.event && earlier.site == again.site && is_over
        })
    })
}

#[test]
fn a_leaf_answers_at_once_and_a_miss_takes_about_one_round_trip() {
    // If the root is spread over all sites, two of three events have their head at another site, and few events need a
    // second node for their test.
    for (slicing, root_at, safe, at_most) in [
        ("vertical:3", None, false, 1.3),
        ("vertical:3", None, true, 2.3),
        ("horizontal:3", None, false, 1.1),
        ("none", Some(2), false, 1.1),
    ] {
        let scenario = scenario(slicing, root_at, safe);
        let history = run(&scenario).unwrap_or_else(|error| panic!("{scenario}: {error}")).history;
        let violations = check(&history);
        assert!(violations.is_empty(), "{scenario}: {}", violations[0]);
        let repeats = Latencies::of(repeats(&history, scenario.producers));
        let new = || submissions(&history, scenario.producers).filter(|call| call.verdict == Some(Decision::FirstSeen));
        let climbing = Latencies::of(new().filter(|call| call.site != root_at));
        let new = Latencies::of(new());
        println!(
            "{slicing}, root at {root_at:?}, safe {safe}: {} repeats, median {} ms, 90 % {} ms; {} new, median {} ms, \
             90 % {} ms, mean {:.2} round trips, {:.2} from other sites than the root's",
            repeats.0.len(),
            repeats.quantile(0.5),
            repeats.quantile(0.9),
            new.0.len(),
            new.quantile(0.5),
            new.quantile(0.9),
            new.mean_round_trips(),
            climbing.mean_round_trips(),
        );
        // An event that a leaf knows does not wait for events that are sent to the parent level, neither in the client
        // nor at the node.
        assert!(repeats.quantile(0.9) < 2.0, "{scenario}: {:?}", repeats.0);
        assert!(new.mean_round_trips() < at_most, "{scenario}: {:?}", new.0);
    }
}
