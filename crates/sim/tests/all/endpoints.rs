//! Tests Redis clients that use the Redis endpoints of nodes. Keys must expire after their own times to live. Claims
//! that an endpoint confirms must survive a stop of its node. A client that has lost the right to record events must
//! not record any.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::common::{carried_out, is_found};
use firstseen_routing::rules::Rule;
use firstseen_sim::family::Family;
use firstseen_sim::faults::Fault;

/// The seeds whose laws are checked.
const SEEDS: Range<u64> = 0..40;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..60;

fn endpoints() -> Family {
    Family::named("--endpoints").expect("endpoints")
}

/// Regression test: the clock of a node was 220 s ahead. In an earlier version, the node had detected the wrong clock,
/// but its Redis endpoint still used this clock to stamp keys. Keys with a time to live of 60 s were then forgotten too
/// early.
#[test]
fn an_endpoint_that_stamps_by_a_wrong_clock_is_found() {
    is_found("--endpoints", Rule::EndpointStampsByVerifiedTime, 0, BROKEN_SEEDS);
}

/// Regression test: after `SIGTERM` and a restart, 300 of 300 keys that clients had been told they may process were new
/// again.
#[test]
fn a_stop_that_leaves_claims_unconfirmed_is_found() {
    is_found("--endpoints", Rule::EndpointConfirmsBeforeStop, 7, BROKEN_SEEDS);
}

/// Regression test: the endpoint confirmed a claim after its client had lost the right to record.
#[test]
fn a_confirm_without_the_right_is_found() {
    is_found("--endpoints", Rule::EndpointChecksRightsAtConfirm, 3, BROKEN_SEEDS);
}

/// Regression test: a filter with keys that have their own times to live was altered. In an earlier version, the old
/// filter was queried with the window of the new filter during the alteration. As a result, keys were reported as late,
/// or were remembered for minutes.
#[test]
fn a_client_that_counts_lives_by_the_window_of_another_filter_is_found() {
    is_found("--endpoints", Rule::CountsTtlByEachWindow, 1, BROKEN_SEEDS);
}

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let (mut uses, mut verdicts) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    let mut altered = 0;
    for seed in SEEDS {
        let scenario = endpoints().without(None, seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!(
                "{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --endpoints {seed}..{}",
                seed + 1
            );
        }
        if let Some(endpoint_use) = scenario.endpoints {
            *uses.entry(format!("{endpoint_use:?}")).or_default() += 1;
        }
        for call in &run.history.calls {
            *verdicts.entry(format!("{:?}", call.verdict)).or_default() += 1;
        }
        altered += run.happened.iter().filter(|happened| happened.fault == Fault::Alteration).count();
    }
    println!("{uses:?}, {altered} filters altered, {verdicts:?}");
    assert!(uses.len() == 3 && uses.values().all(|seeds| *seeds >= 5), "{uses:?}");
    assert!(altered >= 3, "{altered} filters altered");
    for verdict in ["Some(FirstSeen)", "Some(Duplicate)", "Some(Undecided(ClockSkew))", "Some(Undecided(Forbidden))"] {
        assert!(verdicts.get(verdict).is_some_and(|calls| *calls > 500), "{verdict}: {verdicts:?}");
    }
}
