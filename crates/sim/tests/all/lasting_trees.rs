//! Tests durable filter trees over three sites. Nodes are killed, lose their power one by one or all at once, or have
//! full disks. Sites are cut off, and half of these lose their node meanwhile.

use std::ops::Range;

use firstseen_checker::history::History;
use firstseen_checker::laws::{Violation, check};
use firstseen_routing::rules::Rule;
use firstseen_sim::audit::unanswered;
use firstseen_sim::family::Family;
use firstseen_sim::run::run;
use firstseen_sim::scenario::{Nemesis, Scenario};

use crate::common::{OtherSeeds, first_found};

/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..500;

fn family() -> Family {
    Family::named("--lasting-trees").expect("durable trees")
}

fn carried_out(scenario: &Scenario) -> History {
    run(scenario).unwrap_or_else(|error| panic!("{scenario}: {error}")).history
}

/// Returns all calls about the event of a violation, as text.
fn calls_of(violation: &Violation, history: &History) -> String {
    let event = violation.calls.first().map(|call| call.event);
    let calls = history.calls.iter().filter(|call| Some(call.event) == event);
    calls.map(|call| format!("  {call}\n")).collect()
}

fn keep_the_laws(seeds: Range<u64>) {
    let mut alone = 0;
    let mut by_nemesis = Nemesis::OF_LASTING_TREES.map(|nemesis| (nemesis, 0));
    let mut broken = Vec::new();
    for seed in seeds {
        let scenario = Scenario::lasting_tree(seed);
        let history = carried_out(&scenario);
        let again = format!("again: cargo run -p firstseen-lab -- simulate --lasting-trees {seed}..{}", seed + 1);
        if let Some(violation) = check(&history).first() {
            broken.push(format!("{scenario}\n{violation}\n{}{again}", calls_of(violation, &history)));
        }
        let open = unanswered(&scenario, &history);
        if !open.is_empty() {
            broken.push(format!("{scenario}\nundecided to the end (event, site): {open:?}\n{again}"));
        }
        alone += history.calls.iter().filter(|call| call.won() && history.is_alone(call)).count();
        by_nemesis.iter_mut().filter(|(nemesis, _)| *nemesis == scenario.nemesis).for_each(|(_, runs)| *runs += 1);
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    println!("{alone} events were decided alone, {by_nemesis:?}");
    assert!(alone > 20, "{alone}");
    assert!(by_nemesis.iter().all(|(_, runs)| *runs >= 1), "{by_nemesis:?}");
}

#[test]
#[ignore = "minutes"]
fn thirty_seeds_keep_the_laws() {
    keep_the_laws(1..31);
}

#[test]
#[ignore = "minutes"]
fn a_rule_about_events_that_were_decided_alone_is_missed_if_it_is_broken() {
    for (rule, known) in
        [(Rule::PersistsOwedEvents, 44), (Rule::RestoresOwedEvents, 16), (Rule::ReportsUntilAnswered, 16)]
    {
        let found = first_found(known, BROKEN_SEEDS, OtherSeeds::Allowed, |seed| {
            let scenario = family().without(Some(rule), seed);
            let is_local = scenario.leaves_answer_alone();
            if is_local { check(&carried_out(&scenario)).into_iter().next() } else { None }
        });
        let (seed, violation) = found.unwrap_or_else(|| panic!("nobody misses {rule:?}"));
        println!("{rule:?}: --lasting-trees {seed}: {violation}");
        let kept = check(&carried_out(&family().without(None, seed)));
        assert!(kept.is_empty(), "{rule:?} is not what --lasting-trees {seed} misses: {kept:?}");
    }
}
