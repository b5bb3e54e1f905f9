//! Filters whose slices have copies or none, and nodes that are away for so long that the other nodes continue without
//! them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::common::{OtherSeeds, carried_out, first_found};
use firstseen_routing::OwnerLimits;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_sim::producers::undecided;
use firstseen_sim::scenario::{Nemesis, Scenario};

const SEEDS: Range<u64> = 0..40;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..500;

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let mut decided: BTreeMap<(bool, bool), (u64, u64)> = BTreeMap::new();
    for seed in SEEDS {
        let scenario = Scenario::copied(seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!("{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --copies {seed}..{}", seed + 1);
        }
        // A new head does not know which replies to idempotency keys its predecessor has sent.
        let loses = matches!(scenario.nemesis, Nemesis::Outage | Nemesis::Restart) && !scenario.named;
        let (calls, open) = decided.entry((loses, scenario.copies > 0)).or_default();
        (*calls, *open) =
            (*calls + run.history.calls.len() as u64, *open + undecided(&run.history).values().sum::<u64>());
    }
    println!("{decided:?}");
    let share = |key| {
        let (calls, open): (u64, u64) = decided[&key];
        open as f64 / calls as f64
    };
    let (with, without) = (share((true, true)), share((true, false)));
    assert!(
        with < 0.05 && with < without / 5.0,
        "where slices have copies, {with} of calls are undecided; else {without}"
    );
}

#[test]
fn a_rule_that_is_broken_is_found() {
    let kept = OwnerLimits::default();
    for (rule, known, owner_limits) in [
        (
            "copies have fetched all before they answer",
            4,
            OwnerLimits { rules: Rules::without(Rule::FetchesAll), ..kept },
        ),
        (
            "slices that have lost something do not vote",
            0,
            OwnerLimits { rules: Rules::without(Rule::AwaitsGapExpiry), ..kept },
        ),
    ] {
        let found = first_found(known, BROKEN_SEEDS, OtherSeeds::Refused, |seed| {
            let copied_at_once_bytes = Scenario::copied(seed).owner_limits.copied_at_once_bytes;
            let owner_limits = OwnerLimits { copied_at_once_bytes, ..owner_limits };
            let scenario = Scenario { owner_limits, ..Scenario::copied(seed) };
            carried_out(&scenario).1
        });
        let (seed, fault) = found.unwrap_or_else(|| panic!("nobody misses that {rule}"));
        println!("{rule}: missed at seed {seed}: {fault}");
    }
}
