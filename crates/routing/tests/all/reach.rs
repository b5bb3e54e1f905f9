//! Tests an unreachable node. Events that need the node are undecided at once with that reason, and other events are
//! not affected.

use crate::common::{TestRng, definition, digest, observation, spec};
use crate::network::Network;
use firstseen_filter::{Digest, Kind};
use firstseen_routing::{AnswerWhen, Decision, FilterPolicies, NodeId, OwnerLimits, Reason, SlicedDefinition};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);
const DOWN: Decision = Decision::Undecided(Reason::SlicesDown);

/// Returns a filter of three slices on three nodes with few positions per event. Some events need only two nodes.
fn small_events() -> SlicedDefinition {
    definition(&spec(Kind::Timing, "1h", 1 << 14, 3), "vertical:3")
}

fn network(answer: AnswerWhen, inflight_events_max: usize) -> Network {
    let policies = FilterPolicies { answer, ..FilterPolicies::default() };
    let limits = OwnerLimits { inflight_events_max, ..OwnerLimits::default() };
    Network::new(&small_events(), policies, &[A, B, C], limits, TestRng(1))
}

/// Returns the nodes that an event of this filter needs.
fn needs(network: &Network, event: Digest) -> Vec<NodeId> {
    let (probes, slice_cells) = (network.probes(&[event]), (1 << 14) / 3 + 1);
    let nodes = probes.positions(0).iter().map(|position| [A, B, C][(position / slice_cells) as usize]);
    let mut nodes: Vec<NodeId> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Returns events with their head on node A that need node C, or that do not need it.
fn events_of_a(network: &Network, needs_c: bool) -> impl Iterator<Item = Digest> {
    let is_so = move |event: &Digest| {
        let needed = needs(network, *event);
        network.head_of(*event).node == A && needed.contains(&B) && needed.contains(&C) == needs_c
    };
    (0..5_000).map(digest).filter(is_so)
}

fn decisions(network: &mut Network) -> Vec<Decision> {
    network.replies.drain(..).flat_map(|reply| reply.answers.decisions().to_vec()).collect()
}

#[test]
fn events_that_need_the_node_are_undecided_at_once_and_leave_nothing() {
    let mut network = network(AnswerWhen::Early, 1 << 10);
    let with_c: Vec<Digest> = events_of_a(&network, true).take(4).collect();
    let without_c: Vec<Digest> = events_of_a(&network, false).take(2).collect();
    network.submit(&with_c[..1], observation(0));
    network.settle();
    assert_eq!(decisions(&mut network), [Decision::FirstSeen]);
    // A known event is tested along the whole way. One such event is being tested, and another one waits for it.
    network.submit(&with_c[..1], observation(1));
    network.submit(&with_c[..1], observation(2));
    assert_eq!(network.inflight(), 2);
    network.reach_changed(&[C]);
    assert_eq!(decisions(&mut network), [DOWN, DOWN]);
    network.submit(&with_c[1..2], observation(3));
    assert_eq!(decisions(&mut network), [DOWN]);
    assert_eq!(network.inflight(), 0, "nothing waits");
    network.submit(&without_c[..1], observation(4));
    network.settle();
    assert_eq!(decisions(&mut network), [Decision::FirstSeen]);
    network.reach_changed(&[]);
    for (number, event) in (5..).zip([with_c[0], with_c[1], without_c[0], with_c[0]]) {
        network.submit(&[event], observation(number));
        network.settle();
    }
    let reached = decisions(&mut network);
    assert_eq!(reached, [Decision::Duplicate, Decision::FirstSeen, Decision::Duplicate, Decision::Duplicate]);
}

#[test]
fn a_node_on_the_way_reports_it_where_the_head_does_not_know() {
    let mut network = network(AnswerWhen::Early, 1 << 10);
    let events: Vec<Digest> = events_of_a(&network, true).take(20).collect();
    let ask = |network: &mut Network, from: u64| {
        for (number, event) in (from..).zip(&events) {
            network.submit(&[*event], observation(number));
            network.settle();
        }
        decisions(network)
    };
    assert_eq!(ask(&mut network, 1), vec![Decision::FirstSeen; 20]);
    // Only node B cannot reach node C. Messages of node A itself continue.
    network.reach_changed_at(B, &[C]);
    let again = ask(&mut network, 100);
    let count = |decision| again.iter().filter(|it| **it == decision).count();
    assert!(count(DOWN) > 0 && count(Decision::Duplicate) > 0 && count(Decision::FirstSeen) == 0, "{again:?}");
    assert_eq!(network.inflight(), 0);
}

#[test]
fn events_being_set_there_stay_in_flight_and_take_no_room() {
    const INFLIGHT_EVENTS_MAX: usize = 8;
    let mut network = network(AnswerWhen::Early, INFLIGHT_EVENTS_MAX);
    let stuck: Vec<Digest> = events_of_a(&network, true).take(INFLIGHT_EVENTS_MAX).collect();
    for (number, event) in (1..).zip(&stuck) {
        network.submit(&[*event], observation(number));
        // Delivers everything except messages to node C.
        while network.deliver_on((A, B)) || network.deliver_on((B, A)) {}
    }
    let early = decisions(&mut network);
    let set = early.iter().filter(|decision| **decision == Decision::FirstSeen).count();
    assert!(set > INFLIGHT_EVENTS_MAX / 2, "{early:?}");
    network.reach_changed(&[C]);
    let abandoned = decisions(&mut network);
    assert_eq!((abandoned.len(), abandoned.iter().all(|decision| *decision == DOWN)), (stuck.len() - set, true));
    assert_eq!(network.inflight(), set as u64, "their cells are not all set");
    // The same number of other events still finds room.
    let others: Vec<Digest> = events_of_a(&network, false).take(INFLIGHT_EVENTS_MAX).collect();
    for (number, event) in (100..).zip(&others) {
        network.submit(&[*event], observation(number));
    }
    while network.deliver_on((A, B)) || network.deliver_on((B, A)) {}
    assert_eq!(decisions(&mut network), vec![Decision::FirstSeen; INFLIGHT_EVENTS_MAX]);
    // An event with the reply first-seen does not get it again, whether or not its sets have arrived.
    for (number, event) in (200..).zip(&stuck) {
        network.submit(&[*event], observation(number));
    }
    let again = decisions(&mut network);
    assert!(again.iter().all(|decision| *decision != Decision::FirstSeen), "{again:?}");
    network.reach_changed(&[]);
    network.settle();
    assert_eq!(network.inflight(), 0);
    for (number, event) in (300..).zip(&stuck) {
        network.submit(&[*event], observation(number));
        network.settle();
    }
    let reached = decisions(&mut network);
    assert_eq!(reached.iter().filter(|decision| **decision == Decision::Duplicate).count(), set, "{reached:?}");
}
