//! The real cluster in a simulated network: every history keeps the laws.

use firstseen_sim::laws::check;
use firstseen_sim::producers::all_definite;
use firstseen_sim::run::run;
use firstseen_sim::scenario::Scenario;

#[test]
fn fifty_seeds_keep_the_laws() {
    let (mut calls, mut definite_runs) = (0, 0);
    for seed in 100..150 {
        let scenario = Scenario::new(seed);
        let history = run(&scenario).unwrap_or_else(|error| panic!("{scenario}: {error}")).history;
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
