//! Tests nodes that stamp events while their clocks are wrong by seconds up to a day. A clock may be set wrong while
//! the node runs, or may already be wrong when the process starts. No window may end early, and no event may get the
//! verdict first-seen twice. While a clock is wrong, its node must report that.

use std::ops::Range;

use crate::common::{carried_out, is_found};
use firstseen_routing::rules::Rule;
use firstseen_routing::{Decision, Reason};
use firstseen_sim::family::Family;

const SEEDS: Range<u64> = 0..16;
/// Seeds within which a broken rule must be detected.
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
        clocks += run.history.periods.wrong_clocks.len();
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
        assert!(!run.history.periods.wrong_clocks.is_empty(), "{scenario}: no clock was wrong");
    }
}

/// Regression test: a node has a window of half an hour. During the first six seconds after its start, its clock was
/// two hours ahead. In an earlier version, the node then called every event new, including the events that it had
/// recorded before.
#[test]
fn a_lone_node_that_believes_its_first_look_is_found() {
    is_found("--lone-clocks", Rule::ChecksClockAtStart, 0, BROKEN_SEEDS);
}
