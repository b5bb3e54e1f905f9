//! Claims of events whose slices have lost their cells. A position that cannot be tested must not count as set.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::common::{TestRng, definition, digest, spec};
use crate::network::Network;
use firstseen_filter::{FilterSpec, Kind, Layout};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    Decision, FilterPolicies, GroupReply, Hold, NodeId, Operation, OwnerLimits, Reason, Thresholds, WhenLost,
};

const LEASE_MS: u32 = 1_000;
const CLAIM: Operation = Operation::Claim { lease_ms: LEASE_MS };
const ONE: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

/// Creates two nodes with one slice each. One vote is enough for a verdict.
fn network(when_lost: WhenLost) -> Network {
    let policies = FilterPolicies {
        claim_lease_max_ms: NonZeroU32::new(LEASE_MS),
        thresholds: Thresholds { min_live: 1, set_min: 0 },
        when_lost,
        ..FilterPolicies::default()
    };
    let spec = FilterSpec { layout: Some(Layout::Classic), ..spec(Kind::Timing, "1h", 1 << 20, 6) };
    let definition = definition(&spec, "vertical:2");
    let mut network = Network::new(&definition, policies, &[ONE, OTHER], OwnerLimits::default(), TestRng(7));
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    network
}

/// Returns the first key that a node heads.
fn key_of(network: &Network, node: NodeId) -> u64 {
    (0..).find(|key| network.head_by(network.map(), digest(*key)).node == node).unwrap()
}

fn call(network: &mut Network, sequence: u64, key: u64, operation: Operation) -> GroupReply {
    let submission = plain_submission(sequence, operation, network.probes(&[digest(key)]));
    let head = network.head_by(network.map(), digest(key));
    network.take_up(head, submission);
    network.settle();
    network.replies.pop().unwrap()
}

#[test]
fn a_slice_that_was_lost_unknown_to_the_head_makes_no_duplicate() {
    let mut network = network(WhenLost::Undecided);
    let key = key_of(&network, ONE);
    // The head lacks its own slice, so only the other slice votes. The other node has restarted, and the head does not
    // know that.
    network.restart(ONE);
    network.settle();
    network.mesh.restart(&BTreeSet::from([OTHER])).unwrap();
    let reply = call(&mut network, 1, key, CLAIM);
    assert_eq!(reply.answers.decisions(), [Decision::Undecided(Reason::StaleMap)]);
}

#[test]
fn a_claim_rests_on_no_slice_that_may_lack_something_whatever_is_said_of_other_calls() {
    let mut network = network(WhenLost::FirstSeen);
    let key = key_of(&network, ONE);
    assert_eq!(call(&mut network, 1, key, Operation::Observe).answers.decisions(), [Decision::FirstSeen]);
    network.restart(ONE);
    network.settle();
    network.wait(2 * u64::from(LEASE_MS));
    network.settle();
    let reply = call(&mut network, 2, key, CLAIM);
    assert_eq!(
        (reply.answers.decisions(), reply.answers.holds()),
        (&[Decision::Duplicate][..], &[][..]),
        "the other slice knows it"
    );
    network.restart(OTHER);
    network.settle();
    network.wait(2 * u64::from(LEASE_MS));
    network.settle();
    let reply = call(&mut network, 3, key, CLAIM);
    assert_eq!(reply.answers.decisions(), [Decision::Undecided(Reason::SlicesDown)]);
    assert!(!reply.answers.holds().iter().any(|hold| matches!(hold, Hold::Own(_))));
    assert_eq!(
        call(&mut network, 4, key, Operation::Observe).answers.decisions(),
        [Decision::FirstSeen],
        "as the filter says"
    );
}
