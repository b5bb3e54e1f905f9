//! Tests a node that has a copy of a slice, goes down and comes back. While it is down, another copy replies to
//! submissions. The returning copy receives these replies, so that a retry that reaches it gets the same verdict as the
//! first attempt. This must work even if the event itself has expired meanwhile.

use crate::common::{TestRng, definition, digest, node_record, observation, spec};
use crate::network::{FILTER, Network, instance};
use firstseen_filter::Kind;
use firstseen_mesh::filter_map;
use firstseen_routing::{
    ClockSource, Decision, FilterPolicies, NodeId, OwnerLimits, Reason, Submission, SubmissionName,
};

const STAYS: NodeId = NodeId(1);
const RETURNS: NodeId = NodeId(2);
/// Events expire after 10 s, while a submission may be retried for a minute.
const WINDOW: &str = "10s";

/// Creates one slice that contains all positions of an event, with copies on two nodes.
fn two_copies() -> Network {
    let definition = definition(&spec(Kind::Timing, WINDOW, 1 << 14, 5), "none");
    let policies = FilterPolicies { clock: ClockSource::Wall, ..FilterPolicies::default() };
    let mut map = filter_map(FILTER, &definition, policies, &[STAYS]);
    map.nodes.insert(RETURNS, node_record(RETURNS));
    let mut network = Network::of(map, OwnerLimits::default(), TestRng(1));
    network.add_copies([(0, RETURNS)]);
    deliver_maps(&mut network);
    network
}

fn deliver_maps(network: &mut Network) {
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    network.settle();
}

/// Submits a key under the idempotency key with this number, and returns the verdict.
fn submit(network: &mut Network, key: u64, number: u64) -> Option<Decision> {
    let names = vec![SubmissionName { source: 1, number }];
    let reply_to = network.replies.len() as u64 + 1;
    let head = network.head_by(network.map(), digest(key));
    network.submit_at(head, &[digest(key)], Submission { names, ..observation(reply_to) });
    network.settle();
    network.replies.iter().find(|reply| reply.reply_to == reply_to).map(|reply| reply.answers.decisions()[0])
}

/// Returns the number of seconds after which all copies are complete, which must be small.
fn wait_until_complete(network: &mut Network) -> u64 {
    for waited_s in 0..100 {
        if network.is_all_complete() {
            return waited_s;
        }
        network.wait(1_000);
        network.settle();
        network.agree_on_complete();
        deliver_maps(network);
    }
    panic!("a copy is not complete after 100 s: {:?}", network.record());
}

/// Records a key, takes the other copy down, and then submits the key again under each of `names`.
fn asked_beside_one_copy(names: impl Iterator<Item = u64>) -> Network {
    let mut network = two_copies();
    assert_eq!(submit(&mut network, 7, 0), Some(Decision::FirstSeen));
    network.lose(RETURNS);
    network.deliver_map(STAYS);
    for number in names {
        assert_eq!(submit(&mut network, 7, number), Some(Decision::Duplicate));
    }
    network
}

/// Brings the other copy back, which then answers alone.
fn answers_alone(network: &mut Network) {
    network.lose(STAYS);
    network.deliver_map(RETURNS);
    network.settle();
}

#[test]
fn a_retry_gets_the_verdict_of_its_first_attempt_from_a_copy_that_came_back() {
    let mut network = asked_beside_one_copy(1..200);
    network.start_anew(RETURNS);
    deliver_maps(&mut network);
    assert!(wait_until_complete(&mut network) <= 5, "it waits neither for the window nor for the retry horizon");
    network.wait(11_000);
    network.settle();
    answers_alone(&mut network);
    assert_eq!(submit(&mut network, 7, 150), Some(Decision::Duplicate), "the verdict of the first attempt");
    assert_eq!(submit(&mut network, 8, 150), Some(Decision::Undecided(Reason::NameReused)));
    assert_eq!(submit(&mut network, 7, 200), Some(Decision::FirstSeen), "the event has expired");
    assert_eq!(submit(&mut network, 7, 151), Some(Decision::Duplicate));
}

#[test]
fn replies_that_come_in_while_a_map_changes_are_asked_for_again() {
    let mut network = asked_beside_one_copy(1..4);
    network.start_anew(RETURNS);
    // The first reply is in flight when the copy forgets what it knows, because it was away again.
    network.deliver_map(STAYS);
    network.wait(1_000);
    while network.deliver_on((RETURNS, STAYS)) {}
    network.mark_restarted(RETURNS);
    deliver_maps(&mut network);
    wait_until_complete(&mut network);
    network.wait(11_000);
    network.settle();
    answers_alone(&mut network);
    assert_eq!(submit(&mut network, 7, 2), Some(Decision::Duplicate));
}

#[test]
fn a_copy_does_not_wait_for_one_that_is_gone() {
    let mut network = asked_beside_one_copy(1..4);
    network.start_anew(RETURNS);
    answers_alone(&mut network);
    let waited_s = wait_until_copy_is_complete(&mut network);
    assert!((11..=15).contains(&waited_s), "everything that it lacks has expired: {waited_s} s");
    assert_eq!(submit(&mut network, 7, 4), Some(Decision::FirstSeen));
}

/// Waits like `wait_until_complete`, but only for the copy that came back alone.
fn wait_until_copy_is_complete(network: &mut Network) -> u64 {
    for waited_s in 0..100 {
        let map = network.map();
        if network.record().all_copies().any(|(_, copy)| copy.node == RETURNS && map.is_complete_copy(copy)) {
            return waited_s;
        }
        // The time of a filter advances with its events, even with events that stay undecided.
        network.wait(1_000);
        network.submit_at(instance(0, RETURNS), &[digest(9)], observation(1_000 + waited_s));
        network.settle();
        network.agree_on_complete();
        network.deliver_map(RETURNS);
    }
    panic!("not complete after 100 s: {:?}", network.record());
}
