//! Tests machines that are paused together with all of their clocks, as virtual machines can be. Meanwhile the other
//! nodes continue without the paused node. Because the clocks of the paused machine do not show the pause, its lease
//! seems to be active afterwards, although its time of day is seconds behind.
//!
//! A node whose machine was paused must notice this within a quarter of a second after the pause. It must then not stamp or
//! record events until its clocks are right or the other nodes have confirmed them.

use std::ops::Range;

use crate::common::{carried_out, is_found};
use firstseen_routing::rules::Rule;
use firstseen_routing::{Decision, Reason};
use firstseen_sim::family::Family;

const SEEDS: Range<u64> = 0..16;
/// Seeds within which a broken rule must be detected.
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
        standing += run.history.periods.standstills.len();
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
    is_found("--standstills", Rule::DetectsSuspensions, 470, BROKEN_SEEDS);
}
