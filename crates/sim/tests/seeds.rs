//! The real cluster in a simulated network: the same seed gives the same history, and every history keeps the laws.

use firstseen_sim::laws::check;
use firstseen_sim::producers::all_definite;
use firstseen_sim::run::run;
use firstseen_sim::scenario::Scenario;

/// A failure can be reproduced for sure only when this holds.
#[test]
#[ignore = "messages still arrive some milliseconds apart: the agreement on the map draws from a source that is not seeded"]
fn same_seed_same_history() {
    for seed in [1, 2, 3] {
        let scenario = Scenario::new(seed);
        let [first, second] = [(); 2].map(|()| run(&scenario).unwrap_or_else(|error| panic!("{scenario}: {error}")));
        let differs = first.calls.iter().zip(&second.calls).find(|(first, second)| first != second);
        assert!(differs.is_none() && first.calls.len() == second.calls.len(), "{scenario}: {differs:?}");
    }
}

#[test]
fn fifty_seeds_keep_the_laws() {
    let (mut calls, mut definite_runs) = (0, 0);
    for seed in 100..150 {
        let scenario = Scenario::new(seed);
        let history = run(&scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"));
        let violations = check(&history);
        let first = violations.first().map(ToString::to_string).unwrap_or_default();
        assert!(
            violations.is_empty(),
            "{scenario}\n{first}\nagain: cargo run -p firstseen-sim -- --seeds {seed}..{}",
            seed + 1
        );
        calls += history.calls.len();
        definite_runs += usize::from(all_definite(&history));
    }
    assert!(calls > 2000, "only {calls} calls were made");
    assert!(definite_runs > 5, "only {definite_runs} runs had definite answers throughout");
}
