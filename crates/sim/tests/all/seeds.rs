//! The real cluster in a simulated network. Every history must keep the laws, and must break a law if owners break a
//! rule.

use std::ops::Range;

use firstseen_checker::history::History;
use firstseen_checker::laws::{Violation, check};
use firstseen_routing::OwnerLimits;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_sim::producers::undecided;
use firstseen_sim::run::run;
use firstseen_sim::scenario::{Nemesis, Scenario};

use crate::common::{OtherSeeds, first_found};

const SEEDS: Range<u64> = 100..180;

/// Runs the scenario of a seed, in which owners keep the rules of `owner_limits`.
fn carried_out(seed: u64, owner_limits: OwnerLimits) -> (Scenario, History, Vec<Violation>) {
    let scenario = Scenario { owner_limits, ..Scenario::new(seed) };
    let history = run(&scenario).unwrap_or_else(|error| panic!("{scenario}: {error}")).history;
    let violations = check(&history);
    (scenario, history, violations)
}

#[test]
#[ignore = "minutes"]
fn seeds_keep_the_laws() {
    let (mut calls, mut named_again, mut degraded) = (0, 0, 0);
    let mut definite_runs: Vec<Scenario> = Vec::new();
    for seed in SEEDS {
        let (scenario, history, violations) = carried_out(seed, OwnerLimits::default());
        let first = violations.first().map(ToString::to_string).unwrap_or_default();
        assert!(
            violations.is_empty(),
            "{scenario}\n{first}\nagain: cargo run -p firstseen-lab -- simulate --seeds {seed}..{}",
            seed + 1
        );
        calls += history.calls.len();
        degraded += history.degraded_events;
        named_again += history.calls.len().saturating_sub((scenario.calls * scenario.producers) as usize);
        if undecided(&history).is_empty() {
            definite_runs.push(scenario);
        }
    }
    let definite = |nemesis| definite_runs.iter().filter(|scenario| scenario.nemesis == nemesis).count();
    let by_nemesis = Nemesis::ALL.map(|nemesis| (nemesis, definite(nemesis)));
    let undecided_runs = SEEDS.count() - definite_runs.len();
    println!(
        "{calls} calls; definite {by_nemesis:?}, undecided {undecided_runs}; {named_again} again, {degraded} degraded"
    );
    assert!(calls > 5000, "only {calls} calls were made");
    // There must be runs of both sorts: runs in which exactly one call wins, and runs in which a call may have won
    // without a definite reply.
    assert!(definite_runs.len() >= 35, "only {} runs had definite answers throughout", definite_runs.len());
    assert!(by_nemesis.iter().all(|(_, runs)| *runs >= 3), "definite throughout: {by_nemesis:?}");
    assert!(undecided_runs >= 5, "only {undecided_runs} runs had undecided answers");
    assert!(named_again > 50, "only {named_again} submissions were made again by name");
    assert!(degraded > 50, "only {degraded} answers rest on slices that were lost");
}

#[test]
fn a_broken_rule_breaks_the_law_of_one_winner() {
    let kept = OwnerLimits::default();
    for (rule, known, broken) in [
        ("single-flight", 130, OwnerLimits { rules: Rules::without(Rule::SingleFlight), ..kept }),
        (
            "an event in flight until its cells are set",
            116,
            OwnerLimits { rules: Rules::without(Rule::AwaitsSets), ..kept },
        ),
    ] {
        let found = first_found(known, SEEDS, OtherSeeds::Refused, |seed| {
            let (_, _, violations) = carried_out(seed, broken);
            violations.into_iter().find(|violation| violation.name() == "one winner")
        });
        let (seed, _) = found.unwrap_or_else(|| panic!("without {rule} the simulation finds nothing"));
        println!("without {rule}: two winners at seed {seed}");
    }
}
