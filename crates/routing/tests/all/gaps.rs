//! Tests which events slices may lack after a restart, and when the slices report that they are complete again.

use crate::common::{Producer, TestRng, definition, digest, spec};
use crate::network::{FILTER, Network, instance};
use firstseen_filter::Kind;
use firstseen_mesh::Link;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{AnswerWhen, Decision, FilterPolicies, NodeId, OwnerLimits, Reason, SliceMove, Thresholds};

/// Creates a filter on three nodes with a window of one second, and a producer.
fn short_window(awaits_gap_expiry: bool) -> (Network, Producer) {
    let definition = definition(&spec(Kind::Timing, "1s", 1 << 20, 5), "vertical:6");
    let owners: Vec<NodeId> = (0..6).map(|slice| NodeId(1 + slice % 3)).collect();
    let rules = if awaits_gap_expiry { Rules::default() } else { Rules::without(Rule::AwaitsGapExpiry) };
    let limits = OwnerLimits { clock_skew_max_ms: 50, rules, ..OwnerLimits::default() };
    let thresholds = Thresholds { min_live: 1, set_min: 0 };
    let policies = FilterPolicies { answer: AnswerWhen::Safe, thresholds, ..FilterPolicies::default() };
    (Network::new(&definition, policies, &owners, limits, TestRng(5)), Producer::new(1, &definition))
}

/// Returns the nodes that have reported their slices as complete.
fn claims(network: &Network) -> Vec<NodeId> {
    network.complete.iter().map(|(_, node, ..)| *node).collect()
}

/// Returns the milliseconds after which everything has expired that was recorded before the present time of day plus
/// the clock skew.
fn over_ms(network: &Network) -> u64 {
    let rule = network.record().definition.group.rule;
    let unit_ms = 1000 / rule.span_units.saturating_sub(1).max(1);
    50 + (rule.span_units + rule.lateness_units + 2) * unit_ms
}

/// Sends a new event that occurred `ms` after `began_ms`.
fn ask(network: &mut Network, producer: &mut Producer, key: u64, time_ms: u64) -> Decision {
    producer.ask_alone(network, digest(key), time_ms, true)
}

/// Sends an event like `ask`, to the head according to the present map.
fn ask_by_map(network: &mut Network, producer: &mut Producer, key: u64, time_ms: u64) {
    let question = producer.ask(time_ms, true).unwrap();
    let head = network.head_by(&network.map().clone(), digest(key));
    network.submit_at(head, &[digest(key)], question);
    network.settle();
}

#[test]
fn a_node_that_has_lost_its_cells_is_complete_when_they_have_expired() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now().wall_ms;
    let decide = |network: &mut Network, producer: &mut Producer, key, ms| {
        producer.ask_alone(network, digest(key), began_ms + ms, true)
    };
    assert!((0..50).all(|key| decide(&mut network, &mut producer, key, 0) == Decision::FirstSeen));
    network.restart(NodeId(2));
    network.settle();
    for ms in [1, 400, 900, 999] {
        network.wait(100);
        assert_eq!(decide(&mut network, &mut producer, 1000 + ms, ms), Decision::FirstSeen);
        assert_eq!(claims(&network), [], "after {ms} ms");
    }
    let over_ms = over_ms(&network);
    // Event times ahead of the present do not complete a slice.
    (0..20).for_each(|key| _ = decide(&mut network, &mut producer, 2000 + key, over_ms));
    assert_eq!(claims(&network), [], "it is not that late");
    network.wait(over_ms);
    decide(&mut network, &mut producer, 3000, over_ms);
    (0..20).for_each(|key| _ = decide(&mut network, &mut producer, 4000 + key, over_ms));
    assert_eq!(claims(&network), [NodeId(2)], "after {over_ms} ms");
}

#[test]
fn nodes_that_have_all_lost_their_cells_know_nothing_of_each_other() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now().wall_ms;
    assert!((0..50).all(|key| ask(&mut network, &mut producer, key, began_ms) == Decision::FirstSeen));
    (1..=3).for_each(|node| network.restart(NodeId(node)));
    network.settle();
    // The nodes ask each other before any event has arrived.
    network.wait(1);
    network.settle();
    (0..20).for_each(|key| _ = ask(&mut network, &mut producer, 1000 + key, began_ms + 500));
    network.wait(100);
    assert_eq!(claims(&network), [], "what they have lost still counts");
    let over_ms = over_ms(&network);
    network.wait(over_ms);
    let over_ms = began_ms + over_ms;
    (0..30).for_each(|key| _ = ask(&mut network, &mut producer, 4000 + key, over_ms));
    network.wait(1_100);
    let mut claimed = claims(&network);
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed, [1, 2, 3].map(NodeId));
}

#[test]
fn a_node_does_not_take_the_past_of_others_for_its_own() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now().wall_ms;
    let nodes = |network: &Network, key| {
        let probes = network.probes(&[digest(key)]);
        network
            .mesh
            .prober(FILTER)
            .slices(0, &probes, 0)
            .map(|slice| network.record().owners[slice as usize].node)
            .collect::<Vec<_>>()
    };
    let here = (5000..).find(|key| nodes(&network, *key).iter().all(|node| *node == NodeId(2))).unwrap();
    assert_eq!(ask(&mut network, &mut producer, 1, began_ms), Decision::FirstSeen);
    network.wait(900);
    // Only node 2 gets a message about the event.
    assert_eq!(ask(&mut network, &mut producer, here, began_ms + 900), Decision::FirstSeen);
    network.restart(NodeId(2));
    network.settle();
    network.wait(1);
    network.settle();
    let after_ms = over_ms(&network);
    (0..30).for_each(|key| _ = ask(&mut network, &mut producer, 1000 + key, began_ms + after_ms));
    network.wait(1_100);
    assert_eq!(claims(&network), [], "the others have seen nothing after the beginning");
    (0..30).for_each(|key| _ = ask(&mut network, &mut producer, 2000 + key, began_ms + 900 + after_ms));
    network.wait(1_100);
    assert!(claims(&network).contains(&NodeId(2)));
}

#[test]
fn a_node_back_while_another_is_down_does_not_know_what_that_one_recorded() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now().wall_ms;
    let deliver_all = |network: &mut Network| {
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        network.settle();
    };
    deliver_all(&mut network);
    assert!((0..30).all(|key| ask(&mut network, &mut producer, key, began_ms) == Decision::FirstSeen));
    network.take_down(NodeId(2));
    deliver_all(&mut network);
    // Node 1 records events that only node 2 could know, and then goes down.
    network.wait(900);
    network.take_down(NodeId(1));
    deliver_all(&mut network);
    network.mark_restarted(NodeId(2));
    deliver_all(&mut network);
    let after_ms = over_ms(&network);
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 1000 + key, began_ms + after_ms));
    network.wait(1_100);
    assert_eq!(claims(&network), [], "node 1 may have recorded something just before it went");
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 2000 + key, began_ms + 900 + after_ms));
    network.wait(1_100);
    assert!(claims(&network).contains(&NodeId(2)));
}

#[test]
fn a_node_back_when_another_has_left_does_not_know_what_that_one_recorded() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now().wall_ms;
    let deliver_all = |network: &mut Network| {
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        network.settle();
    };
    deliver_all(&mut network);
    network.take_down(NodeId(2));
    deliver_all(&mut network);
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, key, began_ms));
    assert!(network.replies.iter().all(|reply| reply.answers.decisions() == [Decision::FirstSeen]));
    // Node 3 has kept the missed events of node 2, as far as node 3 heads them, and then gives its slices away.
    for slice in [2, 5] {
        assert!(network.begin_move(SliceMove { slice, from: NodeId(3), to: NodeId(1) }));
        deliver_all(&mut network);
    }
    let has_left = |network: &Network| !network.record().is_on(NodeId(3));
    while !has_left(&network) {
        network.wait(1_000);
        network.settle();
        network.agree_on_complete();
        deliver_all(&mut network);
    }
    let over_ms = network.now().wall_ms - began_ms + over_ms(&network);
    network.mark_restarted(NodeId(2));
    deliver_all(&mut network);
    network.wait(1_100);
    network.settle();
    assert_eq!(claims(&network), [], "node 3 has not sent it the events that it had missed");
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 1000 + key, began_ms + over_ms));
    network.wait(1_100);
    assert!(claims(&network).contains(&NodeId(2)));
}

/// Delivers everything except the messages on links for which `is_cut` returns `true`.
fn settle_but_for(network: &mut Network, is_cut: impl Fn((NodeId, NodeId)) -> bool) {
    for _ in 0..200 {
        let links = network.mesh.links().busy().into_iter().map(Link::ends);
        links.filter(|ends| !is_cut(*ends)).for_each(|ends| _ = network.deliver_on(ends));
    }
}

/// Creates three nodes of a filter whose window outlasts the test, and `keys` keys that node 3 heads and node 2 must
/// set as well.
fn long_window(answer: AnswerWhen, keys: usize) -> (Network, Producer, Vec<u64>) {
    let (mut network, producer) = vertical(answer, OwnerLimits::default());
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    let meant = keys_of_node_3_and_slice_1(&network, keys);
    (network, producer, meant)
}

/// Creates three nodes of a filter whose window outlasts the test, and a producer.
fn vertical(answer: AnswerWhen, limits: OwnerLimits) -> (Network, Producer) {
    let definition = definition(&spec(Kind::Timing, "1h", 1 << 20, 5), "vertical:6");
    let owners: Vec<NodeId> = (0..6).map(|slice| NodeId(1 + slice % 3)).collect();
    let limits = OwnerLimits { clock_skew_max_ms: 50, ..limits };
    let policies = FilterPolicies { answer, retry_horizon_ms: 400, ..FilterPolicies::default() };
    let network = Network::new(&definition, policies, &owners, limits, TestRng(7));
    (network, Producer::new(1, &definition))
}

/// Returns `keys` keys that node 3 heads according to the map and that have positions in slice 1.
fn keys_of_node_3_and_slice_1(network: &Network, keys: usize) -> Vec<u64> {
    let is_meant = |key: &u64| {
        let probes = network.probes(&[digest(*key)]);
        let has_slice = network.mesh.prober(FILTER).slices(0, &probes, 0).any(|slice| slice == 1);
        has_slice && network.head_by(&network.map().clone(), digest(*key)).node == NodeId(3)
    };
    (0..).filter(is_meant).take(keys).collect()
}

/// Brings node 2 back, and makes every change of the map that is due.
fn bring_back_node_2(network: &mut Network) {
    network.mark_restarted(NodeId(2));
    for _ in 0..4 {
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        network.settle();
        network.wait(1_100);
        network.settle();
        network.agree_on_complete();
    }
}

/// Checks that the keys among `keys` that were first-seen are duplicates now. Returns their number.
fn find_again(network: &mut Network, producer: &mut Producer, keys: &[u64], time_ms: u64) -> usize {
    let decisions: Vec<Decision> = network.replies.iter().map(|reply| reply.answers.decisions()[0]).collect();
    assert_eq!(decisions.len(), keys.len(), "each has a reply");
    let first = keys.iter().zip(&decisions).filter(|(_, decision)| **decision == Decision::FirstSeen);
    let first: Vec<u64> = first.map(|(key, _)| *key).collect();
    for key in &first {
        network.replies.clear();
        ask_by_map(network, producer, *key, time_ms);
        assert_eq!(network.replies[0].answers.decisions(), [Decision::Duplicate], "key {key} of {decisions:?}");
    }
    first.len()
}

/// Cuts off node 2 while sets of node 3 to it are in flight. Node 3 leaves, and then the others continue without node
/// 2.
fn leave_before_node_2_is_down(answer: AnswerWhen) -> (Network, Producer, Vec<u64>) {
    let (mut network, mut producer, keys) = long_window(answer, 20);
    let moved = [2, 5].map(|slice| SliceMove { slice, from: NodeId(3), to: NodeId(1) });
    assert!(moved.into_iter().all(|way| network.begin_move(way)));
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    network.settle();
    while network.complete.iter().all(|(.., slices)| slices.len() < 2) {
        network.wait(1_000);
        network.settle();
    }
    for key in &keys {
        let question = producer.ask(network.now().wall_ms, true).unwrap();
        network.submit(&[digest(*key)], question);
    }
    let is_cut = |(from, to): (NodeId, NodeId)| [from, to].contains(&NodeId(2));
    settle_but_for(&mut network, is_cut);
    assert!(answer == AnswerWhen::Early || network.replies.is_empty(), "node 2 has not acknowledged");
    network.agree_on_complete();
    assert!(!network.record().is_on(NodeId(3)));
    [1, 3].into_iter().for_each(|node| network.deliver_map(NodeId(node)));
    settle_but_for(&mut network, is_cut);
    network.take_down(NodeId(2));
    // The node that has left is the first to get the map.
    network.deliver_map(NodeId(3));
    settle_but_for(&mut network, is_cut);
    network.deliver_map(NodeId(1));
    settle_but_for(&mut network, is_cut);
    (network, producer, keys)
}

/// Regression test: a node gave its slices away, but still had events in flight when another node went down. The other
/// node misses these events. When it returns, it asks only those nodes for missed events that still have slices of the
/// group. It never asks the node without slices, so that node must not rely on keeping the events for it.
#[test]
fn a_node_that_has_left_keeps_nothing_for_one_that_goes_down_later() {
    let (mut network, mut producer, keys) = leave_before_node_2_is_down(AnswerWhen::Safe);
    bring_back_node_2(&mut network);
    assert!(network.is_all_complete(), "{:?}", network.record());
    let time_ms = network.now().wall_ms;
    find_again(&mut network, &mut producer, &keys, time_ms);
}

/// An event with an early reply is missing on the returning node, and a lookup that waits for the reply ends as
/// unknown.
#[test]
fn an_early_reply_of_a_node_that_has_left_makes_a_gap_where_its_event_is_lost() {
    let (mut network, ..) = leave_before_node_2_is_down(AnswerWhen::Early);
    assert!(network.replies.iter().all(|reply| reply.answers.decisions() == [Decision::FirstSeen]));
    bring_back_node_2(&mut network);
    assert!(!network.is_all_complete(), "node 2 has not got the event that node 3 replied to");
}

/// Tests that it is not enough to keep an event for a node that is down, if the slice of that node has moved.
///
/// In this test, node 1 fetches slice 1 from node 2, but node 2 has not received one event of node 3 yet. Node 3 has
/// sent this event under the old cluster map, so it does not send it to node 1 either. If node 2 now goes down and node
/// 3 keeps the event for node 2 only, the slice on node 1 lacks it.
#[test]
fn events_kept_for_a_node_that_is_down_do_not_follow_its_slice() {
    let (mut network, mut producer, keys) = long_window(AnswerWhen::Safe, 20);
    let began_ms = network.now().wall_ms;
    for key in &keys {
        let question = producer.ask(began_ms, true).unwrap();
        network.submit(&[digest(*key)], question);
    }
    let is_cut = |ends: (NodeId, NodeId)| ends == (NodeId(3), NodeId(2));
    settle_but_for(&mut network, is_cut);
    assert_eq!(network.replies.len(), 0, "node 2 has not acknowledged");
    assert!(network.begin_move(SliceMove { slice: 1, from: NodeId(2), to: NodeId(1) }));
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    while network.complete.is_empty() {
        settle_but_for(&mut network, is_cut);
        network.wait(1_000);
    }
    network.take_down(NodeId(2));
    [1, 3].into_iter().for_each(|node| network.deliver_map(NodeId(node)));
    settle_but_for(&mut network, is_cut);
    assert!(network.agree_on_complete());
    assert_eq!(network.record().owners[1].node, NodeId(1), "the slice has gone there");
    [1, 3].into_iter().for_each(|node| network.deliver_map(NodeId(node)));
    settle_but_for(&mut network, is_cut);
    bring_back_node_2(&mut network);
    assert!(network.is_all_complete(), "{:?}", network.record());
    find_again(&mut network, &mut producer, &keys, began_ms);
}

/// Tests a copy that is filled from another copy, which lacks an event. Node 1 comes back and fetches its cells from
/// node 2, while node 2 has not received one event of node 3 yet. Node 3 keeps the event neither for node 1 nor for
/// node 2. If node 2 then goes down, node 3 must not treat the event as recorded, because node 1 lacks it too.
#[test]
fn a_copy_that_is_back_lacks_sets_in_flight_to_the_node_it_fetched_from() {
    let limits = OwnerLimits { missed_events_max: 0, ..OwnerLimits::default() };
    let (mut network, mut producer) = vertical(AnswerWhen::Safe, limits);
    network.add_copies([(0, NodeId(3)), (1, NodeId(1)), (3, NodeId(3))]);
    let began_ms = network.now().wall_ms;
    network.take_down(NodeId(1));
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    let keys = keys_of_node_3_and_slice_1(&network, 20);
    for key in &keys {
        let question = producer.ask(began_ms, true).unwrap();
        network.submit_at(instance(0, NodeId(3)), &[digest(*key)], question);
    }
    let is_cut = |ends: (NodeId, NodeId)| ends == (NodeId(3), NodeId(2));
    settle_but_for(&mut network, is_cut);
    assert_eq!(network.replies.len(), 0, "node 2 has not acknowledged");
    network.mark_restarted(NodeId(1));
    for _ in 0..4 {
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        settle_but_for(&mut network, is_cut);
        network.wait(1_100);
        settle_but_for(&mut network, is_cut);
        network.agree_on_complete();
    }
    assert!(network.is_all_complete(), "node 1 has fetched all that node 2 has: {:?}", network.record());
    network.take_down(NodeId(2));
    [1, 3].into_iter().for_each(|node| network.deliver_map(NodeId(node)));
    settle_but_for(&mut network, is_cut);
    find_again(&mut network, &mut producer, &keys, began_ms);
}

/// A node is not ready while other nodes can still hand over the events that it missed. Otherwise an operator could
/// stop those other nodes.
#[test]
fn a_node_that_is_back_catches_up_until_the_map_says_that_it_is_complete() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now().wall_ms;
    let deliver_all = |network: &mut Network| {
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        network.settle();
    };
    let is_catching_up = |network: &Network| network.mesh.owners()[&instance(0, NodeId(2))].is_catching_up();
    deliver_all(&mut network);
    assert!((0..30).all(|key| ask(&mut network, &mut producer, key, began_ms) == Decision::FirstSeen));
    assert!(!is_catching_up(&network), "it has everything");
    network.take_down(NodeId(2));
    deliver_all(&mut network);
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 1000 + key, began_ms));
    network.mark_restarted(NodeId(2));
    assert!(is_catching_up(&network), "the others have kept what it has missed");
    deliver_all(&mut network);
    network.wait(1_100);
    network.settle();
    assert!(claims(&network).contains(&NodeId(2)) && is_catching_up(&network), "the map does not say so yet");
    assert!(network.agree_on_complete());
    deliver_all(&mut network);
    assert!(!is_catching_up(&network), "now it does");
    network.restart(NodeId(2));
    network.settle();
    assert!(!is_catching_up(&network), "it has lost its cells, and nobody can hand these over");
    network.wait(1);
    network.settle();
    assert!(!is_catching_up(&network));
}

#[test]
fn below_the_threshold_a_slice_can_still_deny_an_event() {
    let definition = definition(&spec(Kind::Timing, "1h", 1 << 20, 5), "vertical:6");
    let owners: Vec<NodeId> = (0..6).map(|slice| NodeId(1 + slice % 3)).collect();
    let thresholds = Thresholds { min_live: 5, set_min: 0 };
    let policies = FilterPolicies { answer: AnswerWhen::Safe, thresholds, ..FilterPolicies::default() };
    let mut network = Network::new(&definition, policies, &owners, OwnerLimits::default(), TestRng(9));
    let mut producer = Producer::new(1, &definition);
    network.take_down(NodeId(2));
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    let mut decide = |key| {
        let question = producer.ask(1_000, true).unwrap();
        network.replies.clear();
        let head = network.head_by(&network.map().clone(), digest(key));
        network.submit_at(head, &[digest(key)], question);
        network.settle();
        network.replies[0].answers.decisions()[0]
    };
    let first: Vec<Decision> = (0..60).map(&mut decide).collect();
    let again: Vec<Decision> = (0..60).map(&mut decide).collect();
    let count = |decisions: &[Decision], wanted| decisions.iter().filter(|decision| **decision == wanted).count();
    let too_few = Decision::Undecided(Reason::SlicesDown);
    assert!(count(&first, Decision::FirstSeen) >= 57, "some slice has not seen them: {first:?}");
    assert!(count(&again, too_few) > 30, "what all know that are left may be new: {again:?}");
    assert_eq!(count(&again, too_few) + count(&again, Decision::Duplicate), 60, "{again:?}");
}

#[test]
fn a_node_that_breaks_the_rule_of_gaps_claims_to_be_complete_at_once() {
    let (mut network, _producer) = short_window(false);
    network.restart(NodeId(2));
    network.settle();
    network.wait(1);
    assert_eq!(claims(&network), [NodeId(2)], "the test before shows nothing");
}
