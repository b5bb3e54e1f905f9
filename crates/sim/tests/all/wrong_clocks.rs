//! Clocks of nodes that are set by seconds to a day, or are that wrong when a process starts, under filters whose
//! events nodes stamp: no window ends, no event gets first-seen twice, and the node says that its clock is wrong, while
//! it is.

use std::ops::Range;

use crate::common::{carried_out, is_found};
use firstseen_routing::rules::Rule;
use firstseen_routing::{Decision, Reason};
use firstseen_sim::family::Family;

const SEEDS: Range<u64> = 0..16;
/// A rule that is broken is found within as many seeds.
const BROKEN_SEEDS: Range<u64> = 0..12;

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let wrong = Family::named("--wrong-clocks").expect("wrong clocks");
    let (mut clocks, mut calls, mut undecided) = (0, 0, 0);
    for seed in SEEDS {
        let scenario = wrong.without(None, seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!(
                "{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --wrong-clocks {seed}..{}",
                seed + 1
            );
        }
        clocks += run.history.wrong_clocks.len();
        calls += run.history.calls.len();
        let is_for_clock = |verdict: Option<Decision>| verdict == Some(Decision::Undecided(Reason::ClockSkew));
        undecided += run.history.calls.iter().filter(|call| is_for_clock(call.verdict)).count();
    }
    println!("{clocks} clocks were wrong, {undecided} of {calls} calls were undecided for that");
    assert!(clocks as u64 >= 2 * SEEDS.end && undecided > 100, "{clocks} wrong, {undecided} undecided");
}

#[test]
fn a_node_that_relies_on_its_clock_is_found() {
    let fault = is_found("--wrong-clocks", Rule::MeasuresClocks, 0, BROKEN_SEEDS);
    assert!(!fault.starts_with("right clock"), "{fault}");
}

#[test]
#[ignore = "minutes"]
fn every_law_is_kept_by_a_lone_node() {
    let lone = Family::named("--lone-clocks").expect("lone clocks");
    for seed in SEEDS {
        let scenario = lone.without(None, seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!(
                "{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --lone-clocks {seed}..{}",
                seed + 1
            );
        }
        assert!(!run.history.wrong_clocks.is_empty(), "{scenario}: no clock was wrong");
    }
}

/// A node that was started two hours ahead for six seconds, with a window of half an hour, called all that it knew new afterwards.
#[test]
fn a_lone_node_that_believes_its_first_look_is_found() {
    is_found("--lone-clocks", Rule::ComparesFirstLook, 0, BROKEN_SEEDS);
}
