//! Tests that two nodes never both call the same event first-seen. A node that answers alone is cut off together with a
//! producer, and continues to use its old cluster map. The other nodes continue without it. As soon as all events that
//! they lack have expired, another copy of the slice answers too. Without protection, both copies could then call the
//! same event first-seen.
//!
//! A run consists of the following steps:
//!
//! - The copies of a slice are on nodes a and b. Node b ends, so node a answers alone.
//! - Node a is cut off together with producer X.
//! - Node b starts again, and node a is marked down. One window later, the copy on node b is complete.
//! - Producer X at node a and producer Y at node b submit the same events.
//!
//! In some runs, an operator also moves slices away from node a, or forgives the filter's losses.

use std::ops::Range;

use crate::common::carried_out;
use firstseen_routing::Reason;
use firstseen_routing::rules::Rule;
use firstseen_sim::family::Family;
use firstseen_sim::producers::undecided;
use firstseen_sim::scenario::Scenario;

const SEEDS: Range<u64> = 0..10;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..500;

// These are two tests, so that they run in parallel.

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let (mut calls, mut open, mut cut_off, mut forgiven) = (0, 0, 0, 0);
    for seed in SEEDS {
        let scenario = Scenario::cut_off(seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!(
                "{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --cut-offs {seed}..{}",
                seed + 1
            );
        }
        let reasons = undecided(&run.history);
        calls += run.history.calls.len() as u64;
        open += reasons.values().sum::<u64>();
        cut_off += reasons.get(&Reason::CutOff).copied().unwrap_or(0);
        forgiven += run.history.forgiven.len();
    }
    println!("{calls} calls, {open} undecided, {cut_off} of them as their node was cut off; forgiven {forgiven} times");
    assert!(calls > 6_000 && open < calls / 2, "{open} of {calls} calls were undecided");
    assert!(cut_off > 100 && forgiven > 5, "{cut_off} cut off, forgiven {forgiven} times");
}

#[test]
#[ignore = "minutes"]
fn every_rule_that_is_broken_is_found() {
    let cut_offs = Family::named("--cut-offs").expect("cut-offs");
    for rule in [Rule::HoldsLease, Rule::AwaitsLeases] {
        let found = BROKEN_SEEDS.into_iter().find_map(|seed| {
            let fault = carried_out(&cut_offs.without(Some(rule), seed)).1?;
            Some((seed, fault.lines().next().unwrap_or_default().to_owned()))
        });
        let (seed, fault) = found.unwrap_or_else(|| panic!("nobody misses {rule:?}"));
        println!("{rule:?}: --cut-offs {seed}: {fault}");
        let kept = carried_out(&cut_offs.without(None, seed)).1;
        assert_eq!(kept, None, "{rule:?} is not what --cut-offs {seed} misses");
    }
}
