//! Tests producers that send times which are wrong by a window or more, in the past or in the future. Other producers
//! send correct times at the same time. The wrong times must not end the windows of the producers with correct times.

use std::ops::Range;

use crate::common::{carried_out, is_found};
use firstseen_routing::Reason;
use firstseen_routing::rules::Rule;
use firstseen_sim::family::Family;
use firstseen_sim::producers::undecided;

const SEEDS: Range<u64> = 0..25;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..100;

#[test]
#[ignore = "minutes"]
fn wrong_times_of_some_break_no_law_for_others() {
    let broken_times = Family::named("--broken-times").expect("broken times");
    let (mut calls, mut refused) = (0, 0);
    for seed in SEEDS {
        let scenario = broken_times.without(None, seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!(
                "{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --broken-times {seed}..{}",
                seed + 1
            );
        }
        let undecided = undecided(&run.history);
        let counted = |reason: Reason| undecided.get(&reason).copied().unwrap_or(0);
        assert_eq!(counted(Reason::Late), 0, "{scenario}: nobody's clock was led ahead");
        (calls, refused) = (calls + run.history.calls.len() as u64, refused + counted(Reason::Future));
    }
    assert!(calls > 1_000 && refused == 0, "{refused} of {calls} calls whose times were right were refused");
}

#[test]
fn an_owner_that_takes_any_time_is_found() {
    is_found("--broken-times", Rule::ConfirmsFutureTimes, 0, BROKEN_SEEDS);
}
