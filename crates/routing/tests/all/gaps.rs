//! What slices may lack after a start, and when they say that they are complete again.

use crate::common::{Dice, definition, digest, spec};
use crate::network::{self, Network};
use firstseen_filter::Kind;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{AnswerWhen, Decision, FilterPolicies, NodeId, OwnerLimits, Reason, SliceMove, Thresholds};

/// A filter of three nodes with a window of a second, and a producer of it.
fn short_window(minds_gaps: bool) -> (Network, network::Producer) {
    let definition = definition(&spec(Kind::Timing, "1s", 1 << 20, 5), "vertical:6");
    let owners: Vec<NodeId> = (0..6).map(|slice| NodeId(1 + slice % 3)).collect();
    let rules = if minds_gaps { Rules::default() } else { Rules::without(Rule::MindsGaps) };
    let limits = OwnerLimits { clock_skew_max_ms: 50, rules, ..OwnerLimits::default() };
    let thresholds = Thresholds { min_live: 1, set_min: 0 };
    let policies = FilterPolicies { answer: AnswerWhen::Safe, thresholds, ..FilterPolicies::default() };
    (Network::new(&definition, policies, &owners, limits, Dice(5)), network::Producer::new(1, &definition))
}

/// Which nodes have said that their slices are complete.
fn claims(network: &Network) -> Vec<NodeId> {
    network.complete.iter().map(|(_, node, ..)| *node).collect()
}

/// When everything that was recorded before the time of day, with the skew of clocks, has expired: milliseconds after it.
fn over_ms(network: &Network) -> u64 {
    let rule = network.record().definition.group.rule;
    let unit_ms = 1000 / rule.span_units.saturating_sub(1).max(1);
    50 + (rule.span_units + rule.lateness_units + 2) * unit_ms
}

/// Asks about a new event that occurred `ms` after `began_ms`.
fn ask(network: &mut Network, producer: &mut network::Producer, key: u64, time_ms: u64) -> Decision {
    producer.ask_alone(network, digest(key), time_ms, true)
}

/// The same, of the head that the map has now.
fn ask_by_map(network: &mut Network, producer: &mut network::Producer, key: u64, time_ms: u64) {
    let question = producer.ask(time_ms, true).unwrap();
    let head = network.head_by(&network.map.clone(), digest(key));
    network.submit_at(head, &[digest(key)], question);
    network.settle();
}

#[test]
fn a_node_that_has_lost_its_cells_is_complete_when_they_have_expired() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now.wall_ms;
    let told = |network: &mut Network, producer: &mut network::Producer, key, ms| {
        producer.ask_alone(network, digest(key), began_ms + ms, true)
    };
    assert!((0..50).all(|key| told(&mut network, &mut producer, key, 0) == Decision::FirstSeen));
    network.restart(NodeId(2));
    network.settle();
    for ms in [1, 400, 900, 999] {
        network.wait(100);
        assert_eq!(told(&mut network, &mut producer, 1000 + ms, ms), Decision::FirstSeen);
        assert_eq!(claims(&network), [], "after {ms} ms");
    }
    let over_ms = over_ms(&network);
    // Times that are ahead of the present do not let it pass.
    (0..20).for_each(|key| _ = told(&mut network, &mut producer, 2000 + key, over_ms));
    assert_eq!(claims(&network), [], "it is not that late");
    network.wait(over_ms);
    told(&mut network, &mut producer, 3000, over_ms);
    (0..20).for_each(|key| _ = told(&mut network, &mut producer, 4000 + key, over_ms));
    assert_eq!(claims(&network), [NodeId(2)], "after {over_ms} ms");
}

#[test]
fn nodes_that_have_all_lost_their_cells_know_nothing_of_each_other() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now.wall_ms;
    assert!((0..50).all(|key| ask(&mut network, &mut producer, key, began_ms) == Decision::FirstSeen));
    (1..=3).for_each(|node| network.restart(NodeId(node)));
    network.settle();
    // They ask each other before anything has come.
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
    let began_ms = network.now.wall_ms;
    let nodes = |network: &Network, key| {
        let probes = network.probes(&[digest(key)]);
        network
            .prober
            .slices(0, &probes, 0)
            .map(|slice| network.record().owners[slice as usize].node)
            .collect::<Vec<_>>()
    };
    let here = (5000..).find(|key| nodes(&network, *key).iter().all(|node| *node == NodeId(2))).unwrap();
    assert_eq!(ask(&mut network, &mut producer, 1, began_ms), Decision::FirstSeen);
    network.wait(900);
    // Only node 2 has heard of it.
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
fn who_comes_back_while_another_is_away_does_not_know_what_that_has_recorded() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now.wall_ms;
    let tell_all = |network: &mut Network| {
        network.nodes().into_iter().for_each(|node| network.tell_map(node));
        network.settle();
    };
    tell_all(&mut network);
    assert!((0..30).all(|key| ask(&mut network, &mut producer, key, began_ms) == Decision::FirstSeen));
    network.take_down(NodeId(2));
    tell_all(&mut network);
    // Node 1 records what only node 2 could know, and goes.
    network.wait(900);
    network.take_down(NodeId(1));
    tell_all(&mut network);
    network.begin_anew(NodeId(2));
    tell_all(&mut network);
    let after_ms = over_ms(&network);
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 1000 + key, began_ms + after_ms));
    network.wait(1_100);
    assert_eq!(claims(&network), [], "node 1 may have recorded something just before it went");
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 2000 + key, began_ms + 900 + after_ms));
    network.wait(1_100);
    assert!(claims(&network).contains(&NodeId(2)));
}

#[test]
fn who_comes_back_when_another_has_left_does_not_know_what_that_has_recorded() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now.wall_ms;
    let tell_all = |network: &mut Network| {
        network.nodes().into_iter().for_each(|node| network.tell_map(node));
        network.settle();
    };
    tell_all(&mut network);
    network.take_down(NodeId(2));
    tell_all(&mut network);
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, key, began_ms));
    assert!(network.replies.iter().all(|reply| reply.decisions == [Decision::FirstSeen]));
    // Node 3 has kept what node 2 has missed of the events that it headed, and gives its slices away.
    for slice in [2, 5] {
        assert!(network.begin_move(SliceMove { slice, from: NodeId(3), to: NodeId(1) }));
        tell_all(&mut network);
    }
    let has_left = |network: &Network| !network.record().is_on(NodeId(3));
    while !has_left(&network) {
        network.wait(1_000);
        network.settle();
        network.agree_on_complete();
        tell_all(&mut network);
    }
    let over_ms = network.now.wall_ms - began_ms + over_ms(&network);
    network.begin_anew(NodeId(2));
    tell_all(&mut network);
    network.wait(1_100);
    network.settle();
    assert_eq!(claims(&network), [], "node 3 has not told it what it had missed");
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 1000 + key, began_ms + over_ms));
    network.wait(1_100);
    assert!(claims(&network).contains(&NodeId(2)));
}

/// A node is not ready while what it has missed can be handed over: whoever would have to do that must not be stopped.
#[test]
fn who_is_back_catches_up_until_the_map_says_that_it_has_everything() {
    let (mut network, mut producer) = short_window(true);
    let began_ms = network.now.wall_ms;
    let tell_all = |network: &mut Network| {
        network.nodes().into_iter().for_each(|node| network.tell_map(node));
        network.settle();
    };
    let is_catching_up = |network: &Network| network.owners[&(0, NodeId(2))].is_catching_up();
    tell_all(&mut network);
    assert!((0..30).all(|key| ask(&mut network, &mut producer, key, began_ms) == Decision::FirstSeen));
    assert!(!is_catching_up(&network), "it has everything");
    network.take_down(NodeId(2));
    tell_all(&mut network);
    (0..30).for_each(|key| ask_by_map(&mut network, &mut producer, 1000 + key, began_ms));
    network.begin_anew(NodeId(2));
    assert!(is_catching_up(&network), "the others have kept what it has missed");
    tell_all(&mut network);
    network.wait(1_100);
    network.settle();
    assert!(claims(&network).contains(&NodeId(2)) && is_catching_up(&network), "the map does not say so yet");
    assert!(network.agree_on_complete());
    tell_all(&mut network);
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
    let mut network = Network::new(&definition, policies, &owners, OwnerLimits::default(), Dice(9));
    let mut producer = network::Producer::new(1, &definition);
    network.take_down(NodeId(2));
    network.nodes().into_iter().for_each(|node| network.tell_map(node));
    let mut told = |key| {
        let question = producer.ask(1_000, true).unwrap();
        network.replies.clear();
        let head = network.head_by(&network.map.clone(), digest(key));
        network.submit_at(head, &[digest(key)], question);
        network.settle();
        network.replies[0].decisions[0]
    };
    let first: Vec<Decision> = (0..60).map(&mut told).collect();
    let again: Vec<Decision> = (0..60).map(&mut told).collect();
    let count = |told: &[Decision], decision| told.iter().filter(|told| **told == decision).count();
    let too_few = Decision::Undecided(Reason::SlicesDown);
    assert!(count(&first, Decision::FirstSeen) >= 57, "some slice has not seen them: {first:?}");
    assert!(count(&again, too_few) > 30, "what all know that are left may be new: {again:?}");
    assert_eq!(count(&again, too_few) + count(&again, Decision::Duplicate), 60, "{again:?}");
}

#[test]
fn who_does_not_mind_what_it_lacks_claims_to_be_complete_at_once() {
    let (mut network, _producer) = short_window(false);
    network.restart(NodeId(2));
    network.settle();
    network.wait(1);
    assert_eq!(claims(&network), [NodeId(2)], "the test before cannot tell");
}
