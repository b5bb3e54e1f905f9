//! Tests filter trees over three sites in a simulated network. Every history must satisfy the laws, which are the
//! invariants that the checker verifies. At the end of a run, every site must know the events that were delivered at
//! any site.
//!
//! The tests also switch off rules of the protocol in the nodes, one at a time. A history must then violate a law,
//! which shows that the rule is necessary.

use std::ops::Range;

use firstseen_checker::history::{Call, History, Outage};
use firstseen_checker::laws::check;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{CutOff, Decision, OwnerLimits, TreeMode};
use firstseen_sim::audit::unanswered;
use firstseen_sim::family::Family;
use firstseen_sim::run::run;
use firstseen_sim::scenario::{Nemesis, Scenario};
use firstseen_sim::tree::Tree;

use crate::common::{OtherSeeds, first_found};

fn carried_out(scenario: &Scenario) -> History {
    run(scenario).unwrap_or_else(|error| panic!("{scenario}: {error}")).history
}

/// Seeds within which a broken rule about trees must be detected.
const BROKEN_SEEDS: Range<u64> = 0..300;

/// Maximum time in microseconds for the reply of a node that knows that other nodes are unreachable.
const AT_ONCE_US: u64 = 500_000;

/// The verdicts at sites while one site was cut off.
#[derive(Debug, Default)]
struct Outages {
    duplicates: usize,
    undecided: usize,
    alone: usize,
    /// Number of calls that did not wait for a silent site, although its connections are open.
    noticed_in_silence: usize,
}

/// Returns whether `call` cannot get first-seen while `outage` lasts.
fn is_blind(scenario: &Scenario, outage: &Outage, call: &Call) -> bool {
    let site = call.site.expect("a site");
    match scenario.tree.as_ref().and_then(|tree| tree.root_at) {
        Some(root) => (root == outage.site) != (site == outage.site),
        // Every event has cells at all sites, and the reply is sent when all of them are set. The other sites soon
        // continue without the one that is cut off.
        None => {
            let needs_all = scenario.slicing.starts_with("vertical") && scenario.safe && !call.is_lookup;
            needs_all && site == outage.site
        }
    }
}

/// Checks the verdicts during outages, and counts them.
fn look_at_outages(scenario: &Scenario, history: &History, verdicts: &mut Outages) {
    for outage in &history.outages {
        for call in history.calls.iter().filter(|call| outage.has_all_of(call)) {
            let elapsed_us = call.returned_us.expect("it has returned") - call.began_us;
            let is_noticed = call.verdict != Some(Decision::Duplicate) && is_blind(scenario, outage, call);
            verdicts.noticed_in_silence += usize::from(outage.is_silent && is_noticed && elapsed_us < AT_ONCE_US);
            match call.verdict.expect("it has returned") {
                Decision::FirstSeen if history.is_alone(call) => verdicts.alone += 1,
                Decision::FirstSeen => assert!(!is_blind(scenario, outage, call), "{scenario}: {call}"),
                Decision::Duplicate => verdicts.duplicates += 1,
                Decision::Undecided(_) => verdicts.undecided += 1,
            }
        }
    }
}

/// Returns the number of deliveries that were looked up at another site at the end with the verdict duplicate.
fn known_elsewhere(scenario: &Scenario, history: &History) -> usize {
    let asks_in_the_end = |call: &&Call| call.is_lookup && call.producer >= scenario.producers;
    let found = history.calls.iter().filter(asks_in_the_end).filter(|call| call.verdict == Some(Decision::Duplicate));
    let won_elsewhere = |asked: &&Call| {
        let mut won = history.calls.iter().filter(|call| call.event == asked.event && call.won());
        won.any(|call| call.site != asked.site)
    };
    found.filter(won_elsewhere).count()
}

fn keep_the_laws(seeds: Range<u64>) -> Outages {
    let (mut calls, mut degraded, mut known, mut outages) = (0, 0, 0, Outages::default());
    let mut by_nemesis = Nemesis::OF_TREES.map(|nemesis| (nemesis, 0));
    for seed in seeds {
        let scenario = Scenario::of_tree(seed);
        let history = carried_out(&scenario);
        let again = format!("again: cargo run -p firstseen-lab -- simulate --trees {seed}..{}", seed + 1);
        let violations = check(&history);
        let first = violations.first().map(ToString::to_string).unwrap_or_default();
        assert!(violations.is_empty(), "{scenario}\n{first}\n{again}");
        assert_eq!(unanswered(&scenario, &history), [], "{scenario}\n{again}");
        look_at_outages(&scenario, &history, &mut outages);
        calls += history.calls.len();
        degraded += history.degraded_events;
        known += known_elsewhere(&scenario, &history);
        by_nemesis.iter_mut().filter(|(nemesis, _)| *nemesis == scenario.nemesis).for_each(|(_, runs)| *runs += 1);
    }
    println!("{calls} calls, {known} known elsewhere, {degraded} degraded, {by_nemesis:?}; in outages: {outages:?}");
    assert!(calls > 3000 && degraded > 10, "{calls} calls, {degraded} degraded");
    assert!(known > 500, "only {known} deliveries were known at another site");
    assert!(by_nemesis.iter().all(|(_, runs)| *runs >= 2), "{by_nemesis:?}");
    assert!(outages.duplicates > 20 && outages.undecided > 20 && outages.alone > 20, "{outages:?}");
    outages
}

// These are two tests, so that they run in parallel.

#[test]
#[ignore = "minutes"]
fn twenty_five_seeds_keep_the_laws() {
    let outages = keep_the_laws(200..225);
    assert!(outages.noticed_in_silence > 10, "{outages:?}");
}

#[test]
#[ignore = "minutes"]
fn twenty_five_other_seeds_keep_the_laws() {
    keep_the_laws(225..250);
}

#[test]
fn a_broken_rule_breaks_the_law_of_one_winner() {
    let kept = OwnerLimits::default();
    for (rule, known, owner_limits) in [
        ("single-flight", 1, OwnerLimits { rules: Rules::without(Rule::SingleFlight), ..kept }),
        (
            "an event in flight until its cells are set",
            1,
            OwnerLimits { rules: Rules::without(Rule::AwaitsSets), ..kept },
        ),
    ] {
        let found = first_found(known, 0..40, OtherSeeds::Refused, |seed| {
            let scenario = Scenario { owner_limits, ..contended(seed) };
            check(&carried_out(&scenario)).into_iter().find(|violation| violation.name() == "one winner")
        });
        let (seed, _) = found.unwrap_or_else(|| panic!("without {rule} the simulation finds nothing"));
        println!("without {rule}: two winners at seed {seed}");
    }
    let violations = check(&carried_out(&contended(0)));
    assert!(violations.is_empty(), "with the rules: {violations:?}");
}

/// Tests two rules about leaves that decide events alone while they are cut off (`CutOff::Local`). The first rule says
/// that they decide alone only while they cannot reach the root. The second rule says that they continue to decide
/// after the lease of their node has ended. If either rule is switched off, a law must be violated.
#[test]
#[ignore = "minutes"]
fn a_broken_rule_about_cut_off_leaves_breaks_its_law() {
    for (rule, known, law) in [
        (Rule::DecidesAloneOnlyIfCutOff, 112, "alone only if cut off"),
        (Rule::DecidesAloneWithoutLease, 25, "alone without lease"),
    ] {
        let trees = Family::named("--trees").expect("trees");
        let found = first_found(known, BROKEN_SEEDS, OtherSeeds::Allowed, |seed| {
            let scenario = trees.without(Some(rule), seed);
            let is_local = scenario.leaves_answer_alone();
            let violations = if is_local { check(&carried_out(&scenario)) } else { Vec::new() };
            violations.into_iter().find(|violation| violation.name() == law)
        });
        let (seed, violation) = found.unwrap_or_else(|| panic!("nobody misses {rule:?}"));
        println!("{rule:?}: --trees {seed}: {violation}");
        let kept = check(&carried_out(&trees.without(None, seed)));
        assert!(kept.is_empty(), "{rule:?} is not what --trees {seed} misses: {kept:?}");
    }
}

/// Returns a scenario with a root over all sites, in which all producers submit the same events at once, in short
/// windows.
fn contended(seed: u64) -> Scenario {
    let folds = vec![0; 3];
    let tree = Tree {
        mode: TreeMode::Dense,
        folds,
        root_at: None,
        has_middle: false,
        top_down: 0,
        cut_off: CutOff::Undecided,
    };
    Scenario {
        tree: Some(tree),
        slicing: "vertical:3",
        kind: "timing",
        window_ms: 2_500,
        parallel: false,
        safe: false,
        producers: 6,
        events: 6,
        calls: 400,
        latency_max_ms: 60,
        pause_max_ms: 30,
        deadline_ms: 3_000,
        nemesis: Nemesis::Delay,
        ..Scenario::new(seed)
    }
}
