//! Runs a few seeds of every family of scenarios in every quick test run. The tests of each family run many more.

use std::ops::Range;

use firstseen_sim::family::Family;

use crate::common::carried_out;

const SEEDS: Range<u64> = 0..1;

#[test]
fn every_kind_of_scenario_keeps_the_laws() {
    for family in Family::ALL {
        for seed in SEEDS {
            let scenario = family.without(None, seed);
            let (run, fault) = carried_out(&scenario);
            let again = format!("again: cargo run -p firstseen-lab -- simulate {} {seed}..{}", family.flag, seed + 1);
            assert_eq!(fault, None, "{scenario}\n{again}");
            assert!(run.history.calls.len() > 100, "{scenario}: {} calls\n{again}", run.history.calls.len());
        }
    }
}
