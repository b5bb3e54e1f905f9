//! A machine is paused with all its clocks, like a virtual machine, while the others go on without its node. When it goes on, its
//! clocks show nothing of the pause: its lease seems to hold, and its time of day is behind by seconds. Half a second later nothing is
//! stamped or recorded by these clocks any more, until they are right or the others have confirmed them.

use std::ops::Range;

use crate::common::{carried_out, is_found};
use firstseen_routing::rules::Rule;
use firstseen_routing::{Decision, Reason};
use firstseen_sim::family::Family;

const SEEDS: Range<u64> = 0..16;
/// A broken rule is found within this many seeds.
const BROKEN_SEEDS: Range<u64> = 0..200;

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let standstills = Family::named("--standstills").expect("standstills");
    let (mut standing, mut calls, mut undecided) = (0, 0, 0);
    for seed in SEEDS {
        let scenario = standstills.without(None, seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!(
                "{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --standstills {seed}..{}",
                seed + 1
            );
        }
        standing += run.history.standstills.len();
        calls += run.history.calls.len();
        let is_for_clock = |verdict: Option<Decision>| verdict == Some(Decision::Undecided(Reason::ClockSkew));
        undecided += run.history.calls.iter().filter(|call| is_for_clock(call.verdict)).count();
    }
    println!("{standing} standstills, {undecided} of {calls} calls were undecided for the clock");
    assert!(standing as u64 > SEEDS.end && undecided > 100, "{standing} standstills, {undecided} undecided");
    assert!(undecided < calls / 4, "{undecided} of {calls}");
}

#[test]
fn a_node_that_does_not_mind_standstills_is_found() {
    is_found("--standstills", Rule::MindsStandstills, 121, BROKEN_SEEDS);
}
