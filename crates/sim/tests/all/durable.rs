//! Durable filters whose nodes are killed, lose their power one by one or all at once, or have full disks.

use std::ops::Range;

use firstseen_checker::history::EndOnFullDisk;
use firstseen_checker::laws::check;
use firstseen_routing::OwnerLimits;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_sim::faults::{Fault, Happened};
use firstseen_sim::run::run;
use firstseen_sim::scenario::Scenario;

use crate::common::{OtherSeeds, first_found};

const SEEDS: Range<u64> = 0..30;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..500;

/// Returns the violations of a run, or `None` if it keeps all laws.
fn faults(scenario: &Scenario) -> Option<String> {
    let run = run(scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"));
    check(&run.history).first().map(ToString::to_string)
}

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    for seed in SEEDS {
        let scenario = Scenario::durable(seed);
        if let Some(fault) = faults(&scenario) {
            panic!("{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --durable {seed}..{}", seed + 1);
        }
    }
}

#[test]
fn a_rule_that_is_broken_is_found() {
    let kept = OwnerLimits::default();
    for (rule, known, owner_limits) in [
        ("a reply is on disk before it is sent", 10, OwnerLimits { rules: Rules::without(Rule::AwaitsDisk), ..kept }),
        (
            "replies are remembered after a crash",
            14,
            OwnerLimits { rules: Rules::without(Rule::RestoresIdempotencyKeys), ..kept },
        ),
        ("cells of others' events are kept", 5, OwnerLimits { rules: Rules::without(Rule::PersistsPeerSets), ..kept }),
    ] {
        let found = first_found(known, BROKEN_SEEDS, OtherSeeds::Refused, |seed| {
            let checkpoint_after_bytes = Scenario::durable(seed).owner_limits.checkpoint_after_bytes;
            let owner_limits = OwnerLimits { checkpoint_after_bytes, ..owner_limits };
            let scenario = Scenario { owner_limits, ..Scenario::durable(seed) };
            faults(&scenario)
        });
        let (seed, fault) = found.unwrap_or_else(|| panic!("nobody misses that {rule}"));
        println!("{rule}: missed at seed {seed}: {fault}");
    }
}

/// Minimum time in microseconds for which a disk stays full, if it stays full.
const STAYS_FULL_US: u64 = 3_000_000;
/// Time in microseconds within which a process ends after it was asked to.
const ENDS_US: u64 = 50_000;

/// Returns the faults that end the process of a node while its disk stays full.
fn ends_on_full_disks(happened: &[Happened]) -> Vec<Happened> {
    let ends = |fault: Fault| matches!(fault, Fault::Kill | Fault::PowerCut | Fault::Blackout);
    let is_full = |end: &&Happened| {
        happened.iter().any(|full| {
            full.fault == Fault::DiskStaysFull
                && (end.node.is_none() || end.node == full.node)
                && (full.time_us..full.time_us + STAYS_FULL_US).contains(&end.time_us)
        })
    };
    happened.iter().filter(|fault| ends(fault.fault)).filter(is_full).copied().collect()
}

/// Lookups may have found events in the node's memory that its disk did not take.
#[test]
fn a_node_that_ends_on_a_full_disk_is_noted_whatever_ends_it() {
    let (seed, (run, ends)) = first_found(17, SEEDS, OtherSeeds::Refused, |seed| {
        let run = run(&Scenario::storm(seed)).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let ends = ends_on_full_disks(&run.happened);
        let has_events = run.history.lost_while_full.iter().any(|noted| !noted.events.is_empty());
        (has_events && !ends.is_empty()).then_some((run, ends))
    })
    .expect("no node that has events ends on a full disk");
    for end in ends {
        let is_of_it = |noted: &EndOnFullDisk| {
            (end.time_us..end.time_us + ENDS_US).contains(&noted.until_us)
                && noted.from_us <= end.time_us
                && end.node.is_none_or(|node| node == noted.node)
        };
        let is_noted = run.history.lost_while_full.iter().any(is_of_it);
        assert!(is_noted, "--storms {seed}: {end} is not noted");
    }
}
