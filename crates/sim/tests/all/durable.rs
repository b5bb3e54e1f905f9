//! Durable filters whose nodes are killed, lose their power one by one or all at once, or have full disks.

use std::ops::Range;

use firstseen_checker::laws::check;
use firstseen_routing::OwnerLimits;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_sim::run::run;
use firstseen_sim::scenario::Scenario;

use crate::common::first_found;

const SEEDS: Range<u64> = 0..30;
/// A rule that is broken is found within as many seeds.
const BROKEN_SEEDS: Range<u64> = 0..500;

/// The faults of a run; none where it keeps all laws.
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
            panic!("{scenario}: {fault}\nagain: cargo run -p firstseen-sim -- --durable {seed}..{}", seed + 1);
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
            OwnerLimits { rules: Rules::without(Rule::RestoresNames), ..kept },
        ),
        ("cells of others' events are kept", 2, OwnerLimits { rules: Rules::without(Rule::KeepsPeerSets), ..kept }),
    ] {
        let found = first_found(known, BROKEN_SEEDS, |seed| {
            let checkpoint_after_bytes = Scenario::durable(seed).owner_limits.checkpoint_after_bytes;
            let owner_limits = OwnerLimits { checkpoint_after_bytes, ..owner_limits };
            let scenario = Scenario { owner_limits, ..Scenario::durable(seed) };
            faults(&scenario)
        });
        let (seed, fault) = found.unwrap_or_else(|| panic!("nobody misses that {rule}"));
        println!("{rule}: missed at seed {seed}: {fault}");
    }
}
