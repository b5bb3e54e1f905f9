//! Tests filters that are closed while clients hold claims of their events. A closed filter keeps its claims until they
//! are confirmed, released or expired. Until then, the successor of the filter must not grant these events to other
//! clients.

use std::num::NonZeroU32;

use crate::common::{TestRng, definition, digest, spec};
use crate::network::{FORMER, Network, follower_map, lone_map};
use firstseen_filter::{FilterSpec, Kind, Layout};
use firstseen_mesh::plain_submission;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    Closed, ClusterMap, Decision, Fence, FilterId, FilterPolicies, GroupReply, Hold, NodeId, Operation, OwnerLimits,
    Reason, SlicedDefinition, Submission,
};

const LEASE_MS: u32 = 1_000;
const KEYS: u64 = 20;
const CLAIM: Operation = Operation::Claim { lease_ms: LEASE_MS };
const HELD: Decision = Decision::Undecided(Reason::Claimed);
const ALTERED: Decision = Decision::Undecided(Reason::Altered);
const UNKNOWN: Decision = Decision::Undecided(Reason::ClaimsUnknown);
const NODE_LEASE_MS: u64 = 500;

/// Creates the cluster map of a filter without a predecessor, or of one that has replaced another filter.
type MakeMap = fn(&SlicedDefinition, FilterPolicies, &[NodeId]) -> ClusterMap;

fn network(make_map: MakeMap, slicing: &str, slices: u64, limits: OwnerLimits) -> Network {
    let owners: Vec<NodeId> = (0..slices).map(|slice| NodeId(1 + slice % 3)).collect();
    let policies = FilterPolicies { claim_lease_max_ms: NonZeroU32::new(LEASE_MS), ..FilterPolicies::default() };
    let layout = if slicing == "horizontal:3" { Layout::Blocked { lines: 1 } } else { Layout::Classic };
    let spec = FilterSpec { layout: Some(layout), ..spec(Kind::Timing, "1h", 1 << 20, 5) };
    let map = make_map(&definition(&spec, slicing), policies, &owners);
    let mut network = Network::of(map, limits, TestRng(7));
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    network
}

/// Closes the filter, as if a successor had replaced it, once nothing is in flight any more.
fn close(network: &mut Network) {
    network.next_record().line.closed = Some(Closed { successor: FilterId(99), ..Closed::default() });
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    network.settle();
}

/// Returns the reply to a consumer's request, which is number `sequence` of all requests.
fn call(network: &mut Network, sequence: u64, key: u64, (operation, fence): (Operation, Option<Fence>)) -> GroupReply {
    let plain = plain_submission(sequence, operation, network.probes(&[digest(key)]));
    let submission = Submission { fences: fence.into_iter().collect(), ..plain };
    let head = network.head_by(network.map(), digest(key));
    network.take_up(head, submission);
    network.settle();
    network.replies.pop().unwrap()
}

/// Claims several events and then closes the filter. Afterwards another consumer tries to claim each event, and the
/// holder confirms it. Returns the decisions on these two requests for each event.
fn told(slicing: &str, slices: u64, limits: OwnerLimits) -> Vec<(Decision, Decision)> {
    let mut network = network(lone_map, slicing, slices, limits);
    let fences: Vec<Fence> = (0..KEYS)
        .map(|key| match call(&mut network, key, key, (CLAIM, None)).answers.holds()[0] {
            Hold::Own(fence) => fence,
            hold => panic!("{slicing}, key {key}: {hold:?}"),
        })
        .collect();
    close(&mut network);
    let of_key = |(key, fence): (u64, &Fence)| {
        let other = call(&mut network, KEYS + key, key, (CLAIM, None)).answers.decisions()[0];
        let own = call(&mut network, 2 * KEYS + key, key, (Operation::Confirm, Some(*fence))).answers.decisions()[0];
        (other, own)
    };
    (0..KEYS).zip(&fences).map(of_key).collect()
}

const SLICINGS: [(&str, u64); 3] = [("horizontal:3", 3), ("vertical:6", 6), ("horizontal-vertical:2x4", 8)];

#[test]
fn a_closed_filter_keeps_its_claims() {
    for (slicing, slices) in SLICINGS {
        let told = told(slicing, slices, OwnerLimits::default());
        // An event that can no longer be recorded here is confirmed when the successor has recorded it.
        assert_eq!(told, [(HELD, ALTERED); KEYS as usize], "{slicing}");
    }
}

#[test]
fn a_closed_filter_that_forgets_its_claims_is_found() {
    let limits = OwnerLimits { rules: Rules::without(Rule::InheritsClaims), ..OwnerLimits::default() };
    for (slicing, slices) in SLICINGS {
        let told = told(slicing, slices, limits);
        assert!(told.iter().all(|(other, _)| *other == ALTERED), "{slicing}: the next filter may grant it: {told:?}");
    }
}

/// Once a lease has ended, the successor decides.
#[test]
fn a_closed_filter_sends_an_event_on_when_its_lease_is_over() {
    for (slicing, slices) in SLICINGS {
        let mut network = network(lone_map, slicing, slices, OwnerLimits::default());
        assert_eq!(call(&mut network, 1, 1, (CLAIM, None)).answers.decisions()[0], HELD);
        close(&mut network);
        network.wait(u64::from(LEASE_MS) - 1);
        assert_eq!(call(&mut network, 2, 1, (CLAIM, None)).answers.decisions()[0], HELD, "{slicing}");
        network.wait(1);
        assert_eq!(call(&mut network, 3, 1, (CLAIM, None)).answers.decisions()[0], ALTERED, "{slicing}");
    }
}

/// Removes the predecessor of a filter while its claims may still be active. Returns three decisions of the remaining
/// filter:
///
/// - The decision on a claim that is requested at once.
/// - The decision on an observation shortly before the last claim of the predecessor ends.
/// - The decision on an observation after that claim has ended.
fn told_when_the_former_is_gone(slicing: &str, slices: u64, limits: OwnerLimits) -> [Decision; 3] {
    let mut network = network(follower_map, slicing, slices, limits);
    assert_eq!(
        call(&mut network, 0, 0, (CLAIM, None)).answers.decisions()[0],
        HELD,
        "{slicing}: the former one is asked first"
    );
    network.next_map().filters.remove(&FORMER);
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    network.settle();
    // The rates of any two clocks differ by at most 1/64.
    let leases_ms = u64::from(LEASE_MS) + NODE_LEASE_MS;
    let claimed = call(&mut network, 1, 1, (CLAIM, None));
    network.wait(leases_ms - 1);
    let observed = call(&mut network, 2, 2, (Operation::Observe, None)).answers.decisions()[0];
    network.wait(1 + leases_ms.div_ceil(64));
    let later = call(&mut network, 3, 1, (CLAIM, None));
    assert!(matches!(later.answers.holds()[0], Hold::Own(_)), "{slicing}: it is granted in the end: {later:?}");
    [
        claimed.answers.decisions()[0],
        observed,
        call(&mut network, 4, 2, (Operation::Observe, None)).answers.decisions()[0],
    ]
}

/// Regression test: a consumer held an event of the predecessor for 30 s, and the predecessor was removed by `filter
/// set-clock` or `filter alter --finish`. In an earlier version, the new filter granted the event to a second consumer,
/// because it knew nothing about the claims of the removed predecessor.
#[test]
fn a_filter_whose_former_one_is_gone_waits_for_its_claims() {
    let limits = OwnerLimits { node_lease_ms: Some(NODE_LEASE_MS), ..OwnerLimits::default() };
    for (slicing, slices) in SLICINGS {
        let told = told_when_the_former_is_gone(slicing, slices, limits);
        assert_eq!(told, [UNKNOWN, UNKNOWN, Decision::FirstSeen], "{slicing}");
        let broken = OwnerLimits { rules: Rules::without(Rule::AwaitsFormerFilters), ..limits };
        let told = told_when_the_former_is_gone(slicing, slices, broken);
        assert_eq!(told[0], HELD, "{slicing}: where the rule is broken, a second consumer gets the event");
    }
}
