//! Tests a head node that restarts and loses its replay guard, while other nodes still have the cells of its events. A
//! producer then retries its submissions, and the tests check the decisions. The retry of a submission must not be
//! called a duplicate of its own first attempt.

use crate::common::{TestRng, definition, digest, observation, spec};
use crate::network::Network;
use firstseen_filter::Kind;
use firstseen_routing::{
    Decision, FilterPolicies, NodeId, OwnerLimits, Reason, Submission, SubmissionName, Thresholds, WhenLost,
};

const KEYS: u64 = 2_000;
const HASHES: u32 = 6;
/// Half of the cells are in use at the end.
const CELLS: u64 = KEYS * HASHES as u64 * 10 / 7;
const RESTARTED: NodeId = NodeId(3);

/// Creates two slices on each of three nodes. All must be complete, because otherwise an empty cell could come from a
/// loss.
fn network() -> Network {
    network_of(Kind::Timing, "1h", HASHES)
}

fn network_of(kind: Kind, window: &str, min_live: u32) -> Network {
    let owners = [1, 2, 3, 1, 2, 3].map(NodeId);
    let definition = definition(&spec(kind, window, CELLS, HASHES), "vertical:6");
    let thresholds = Thresholds { min_live, set_min: 0 };
    let policies = FilterPolicies { thresholds, when_lost: WhenLost::FirstSeen, ..FilterPolicies::default() };
    Network::new(&definition, policies, &owners, OwnerLimits::default(), TestRng(7))
}

/// Submits every key in a batch of its own, as a new incarnation of a producer, and returns the decisions. If `source`
/// is given, the submissions have idempotency keys of this source. Otherwise they have no keys.
fn submit_all(network: &mut Network, producer: u64, source: Option<u128>) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for number in 0..KEYS {
        let names = source.map(|source| SubmissionName { source, number }).into_iter().collect();
        let question = Submission { producer: u128::from(producer), names, ..observation(number + 1) };
        network.submit(&[digest(number)], question);
        network.settle();
        assert_eq!(network.replies.len(), 1, "one reply");
        decisions.push(network.replies.remove(0).answers.decisions()[0]);
    }
    decisions
}

/// Returns how many keys have this decision now, among the keys that were first-seen and whose head was restarted.
fn count(network: &Network, first: &[Decision], decisions: &[Decision], decision: Decision) -> usize {
    let concerns = |number: &usize| {
        first[*number] == Decision::FirstSeen && network.head_of(digest(*number as u64)).node == RESTARTED
    };
    (0..decisions.len()).filter(concerns).filter(|number| decisions[*number] == decision).count()
}

#[test]
fn a_named_submission_is_no_duplicate_of_itself_though_its_guard_is_lost() {
    let mut network = network();
    let first = submit_all(&mut network, 1, Some(9));
    network.restart(RESTARTED);
    let again = submit_all(&mut network, 2, Some(9));
    let [new, duplicate, undecided] = [Decision::FirstSeen, Decision::Duplicate, Decision::Undecided(Reason::TooOld)]
        .map(|decision| count(&network, &first, &again, decision));
    println!("after the restart: {new} first-seen, {duplicate} duplicates, {undecided} undecided");
    assert!(new > 400 && duplicate == 0 && undecided > 10, "{new}, {duplicate}, {undecided}");
    let kept = |number: &usize| network.head_of(digest(*number as u64)).node != RESTARTED;
    assert!((0..first.len()).filter(kept).all(|number| again[number] == first[number]), "guards that are there know");
}

#[test]
fn submissions_without_names_are_duplicates_of_themselves() {
    let mut network = network();
    let first = submit_all(&mut network, 1, Some(9));
    network.restart(RESTARTED);
    let again = submit_all(&mut network, 2, None);
    let duplicates = count(&network, &first, &again, Decision::Duplicate);
    println!("without names: {duplicates} duplicates");
    assert!(duplicates > 20, "the filter is too empty to show it: {duplicates}");
}

#[test]
fn after_the_retry_horizon_they_are_duplicates_again() {
    let mut network = network();
    submit_all(&mut network, 1, Some(9));
    network.restart(RESTARTED);
    submit_all(&mut network, 2, Some(9));
    network.wait(u64::from(FilterPolicies::default().retry_horizon_ms) + 1);
    let later = submit_all(&mut network, 3, Some(10));
    let is_its = |number: &usize| network.head_of(digest(*number as u64)).node == RESTARTED;
    assert!((0..later.len()).filter(is_its).all(|number| later[number] == Decision::Duplicate), "{later:?}");
}

#[test]
fn two_nodes_remember_what_the_third_has_lost_of_an_unbounded_filter() {
    let mut network = network_of(Kind::Bloom, "unbounded", 0);
    let first = submit_all(&mut network, 1, Some(9));
    network.restart(RESTARTED);
    let named = submit_all(&mut network, 2, Some(9));
    let [new, duplicate, undecided] = [Decision::FirstSeen, Decision::Duplicate, Decision::Undecided(Reason::TooOld)]
        .map(|decision| count(&network, &first, &named, decision));
    // Some events have fewer than three positions left that vote.
    assert!(duplicate == 0 && undecided > 400 && new < undecided / 2, "{new}, {duplicate}, {undecided}");
    network.wait(u64::from(FilterPolicies::default().retry_horizon_ms) + 1);
    let again = submit_all(&mut network, 3, None);
    let known = again.iter().filter(|decision| **decision == Decision::Duplicate).count();
    assert!(known > KEYS as usize * 3 / 4, "only {known} are known");
    // Two of three nodes are left, and later only one. That is too few for a verdict, so a missing position counts as
    // an empty cell again.
    network.restart(NodeId(2));
    let lost = submit_all(&mut network, 4, None).iter().filter(|decision| **decision == Decision::FirstSeen).count();
    assert!(lost > KEYS as usize / 2, "only {lost} are first-seen again");
}
