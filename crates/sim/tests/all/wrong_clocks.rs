//! Clocks of nodes that are set by seconds to a day, or are so wrong when a process starts, under filters whose events nodes
//! stamp: no window ends, nobody is told first-seen twice, and the node says that its clock is wrong, while it is.

use std::ops::Range;

use crate::common::carried_out;
use firstseen_routing::rules::Rule;
use firstseen_routing::{Decision, Reason};
use firstseen_sim::asked::Family;

const SEEDS: Range<u64> = 0..24;
/// A rule that is broken is found within as many seeds.
const BROKEN_SEEDS: Range<u64> = 0..12;

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let wrong = Family::named("--wrong-clocks").expect("wrong clocks");
    let (mut clocks, mut calls, mut told) = (0, 0, 0);
    for seed in SEEDS {
        let scenario = wrong.without(None, seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!("{scenario}: {fault}\nagain: cargo run -p firstseen-sim -- --wrong-clocks {seed}..{}", seed + 1);
        }
        clocks += run.history.wrong_clocks.len();
        calls += run.history.calls.len();
        let is_told = |told: Option<Decision>| told == Some(Decision::Undecided(Reason::ClockSkew));
        told += run.history.calls.iter().filter(|call| is_told(call.told)).count();
    }
    println!("{clocks} clocks were wrong, {told} of {calls} calls were told so");
    assert!(clocks as u64 >= 2 * SEEDS.end && told > 100, "{clocks} wrong, {told} told so");
}

#[test]
fn a_node_that_relies_on_its_clock_is_found() {
    let wrong = Family::named("--wrong-clocks").expect("wrong clocks");
    let found = BROKEN_SEEDS.into_iter().find_map(|seed| {
        let fault = carried_out(&wrong.without(Some(Rule::MeasuresClocks), seed)).1?;
        Some((seed, fault.lines().next().unwrap_or_default().to_owned()))
    });
    let (seed, fault) = found.expect("nobody misses that clocks are wrong");
    println!("MeasuresClocks: --wrong-clocks {seed}: {fault}");
    assert!(!fault.starts_with("right clock"), "{fault}");
    assert_eq!(carried_out(&wrong.without(None, seed)).1, None, "with the rule it is kept");
}
