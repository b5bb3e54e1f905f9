//! Messages that are late, refused, or of another time: nothing that was told rests on them.

use crate::common::{Dice, definition, digest, growing, spec};
use crate::network::{self, Network, Question};
use firstseen_filter::{Digest, Kind, Limit};
use firstseen_routing::{
    AnswerWhen, Decision, FilterPolicies, GroupReply, NodeId, OwnerLimits, PeerBody, PeerMessage, Reason, SetAcks,
    SlicedDefinition, Thresholds, Times, WhenLost,
};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

const HASHES: u32 = 6;

fn roomy() -> SlicedDefinition {
    definition(&spec(Kind::Timing, "1h", 1 << 14, HASHES), "vertical:3")
}

/// One slice on each of three nodes, all of which must be complete for a zero to be told from what was lost.
fn network(definition: &SlicedDefinition, answer: AnswerWhen) -> Network {
    let thresholds = Thresholds { min_live: HASHES, set_min: 0 };
    let policies = FilterPolicies { answer, thresholds, when_lost: WhenLost::FirstSeen, ..FilterPolicies::default() };
    Network::new(definition, policies, &[A, B, C], OwnerLimits::default(), Dice(1))
}

fn question(reply_to: u64, records: bool) -> Question {
    let (names, times) = (Vec::new(), Times::default());
    Question { reply_to, records, producer: 1, sequence: reply_to, names, times, deadline_ms: u64::MAX, again: false }
}

/// Events that go from `path[0]` over `path[1]` to `path[2]`, while none is recorded.
fn events_on(path: [NodeId; 3], definition: &SlicedDefinition) -> impl Iterator<Item = Digest> {
    let definition = definition.clone();
    (0..10_000).map(digest).filter(move |event| {
        let mut network = network(&definition, AnswerWhen::Early);
        if network.head_of(*event).1 != path[0] {
            return false;
        }
        // Recorded, it is asked for along the whole way.
        ask(&mut network, *event, question(1, true));
        network.submit(&[*event], question(2, true));
        let second = network.deliver_on((path[0], path[1]));
        let third = network.deliver_on((path[1], path[2]));
        second && third
    })
}

/// Asks about one event, and waits until nothing is on its way.
fn ask(network: &mut Network, event: Digest, question: Question) -> GroupReply {
    network.replies.clear();
    network.submit(&[event], question);
    network.settle();
    assert_eq!(network.replies.len(), 1, "one reply");
    network.replies.remove(0)
}

#[test]
fn what_a_batch_comes_to_late_leaves_its_retry_in_flight() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Safe);
    let events: Vec<Digest> = events_on([A, B, C], &definition).take(2).collect();
    let known = events[1];
    assert_eq!(ask(&mut network, known, question(1, true)).decisions, [Decision::FirstSeen]);
    network.replies.clear();
    let batch = |reply_to, deadline_ms| Question { reply_to, deadline_ms, ..question(2, true) };
    let deadline_ms = network.now.monotonic_ms + 5;
    network.submit(&events, batch(2, deadline_ms));
    network.wait(5);
    // One event was being set; the other was only tested, so the retry runs it again.
    let told = [Reason::Unknown, Reason::NotReady].map(Decision::Undecided);
    assert_eq!(network.replies.remove(0).decisions, told);
    network.submit(&events, batch(3, u64::MAX));
    // The sets of the first attempt are done; its tests and those of the retry are still on their way.
    for node in [B, C] {
        assert!(network.deliver_on((A, node)) && network.deliver_on((node, A)));
    }
    network.submit(&events, batch(4, u64::MAX));
    network.settle();
    let told: Vec<u64> = network.replies.iter().map(|reply| reply.reply_to).collect();
    assert_eq!(told, [4], "the retry is answered once, where it was asked for last");
}

#[test]
fn answers_to_the_process_before_say_nothing() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Early);
    let events: Vec<Digest> = events_on([A, B, C], &definition).take(2).collect();
    ask(&mut network, events[0], question(1, true));
    network.submit(&events[..1], question(2, true));
    assert!(network.deliver_on((A, B)) && network.deliver_on((B, C)));
    let stale = network.take((C, A)).expect("what was found");
    network.restart(A);
    ask(&mut network, events[1], question(1, true));
    network.restart(C);
    // The second of its process, as the other was. Node C has forgotten it, so it is new.
    network.replies.clear();
    network.submit(&events[1..], question(2, true));
    network.put((C, A), stale);
    assert!(network.deliver_on((C, A)) && network.replies.is_empty(), "that was about another event");
    network.settle();
    assert_eq!(network.replies[0].decisions, [Decision::FirstSeen]);
}

#[test]
fn a_lookup_sees_what_was_told_early() {
    let definition = roomy();
    for (path, held) in [([A, B, C], C), ([A, B, C], B), ([A, C, B], B)] {
        let mut network = network(&definition, AnswerWhen::Early);
        let event = events_on(path, &definition).next().expect("an event");
        network.submit(&[event], question(1, true));
        assert_eq!(network.replies[0].decisions, [Decision::FirstSeen]);
        network.submit(&[event], question(2, false));
        // The set of one node comes last.
        let links = [(A, path[1]), (path[1], A), (path[1], path[2]), (path[2], A)];
        for ends in links.into_iter().filter(|(from, to)| (*from, *to) != (A, held)) {
            while network.deliver_on(ends) {}
        }
        network.settle();
        assert_eq!(network.replies[1].decisions, [Decision::Duplicate], "{path:?}, {held} is late");
        assert_eq!(network.inflight(), 0);
    }
}

/// A head that has a copy of every slice, and other nodes that have another of each; an event of that head.
fn copied() -> (Network, Digest) {
    let mut network = network(&roomy(), AnswerWhen::Safe);
    network.add_copies([(0, B), (1, A), (2, A)]);
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    let event = (0..).map(digest).find(|event| network.head_of(*event).1 == A).expect("an event");
    (network, event)
}

/// What was told, by what was asked.
fn told(network: &Network) -> Vec<(u64, Decision)> {
    let told = network.replies.iter().map(|reply| (reply.reply_to, reply.decisions[0]));
    let mut told: Vec<(u64, Decision)> = told.collect();
    told.sort_unstable_by_key(|(reply_to, _)| *reply_to);
    told
}

#[test]
fn a_lookup_that_finds_what_is_being_recorded_waits_for_it() {
    let (mut network, event) = copied();
    network.submit(&[event], question(1, true));
    network.submit(&[event], question(2, false));
    assert_eq!(told(&network), [], "nobody else has it");
    let deadline_ms = network.now.monotonic_ms + 5;
    network.submit(&[event], Question { deadline_ms, ..question(3, false) });
    network.wait(5);
    let not_ready = (3, Decision::Undecided(Reason::NotReady));
    assert_eq!(told(&network), [not_ready]);
    network.settle();
    assert_eq!(told(&network), [(1, Decision::FirstSeen), (2, Decision::Duplicate), not_ready]);
    assert_eq!(network.inflight(), 0);
    assert_eq!(ask(&mut network, event, question(4, false)).decisions, [Decision::Duplicate]);
}

#[test]
fn no_lookup_is_told_of_what_comes_to_nothing() {
    let (mut network, event) = copied();
    network.submit(&[event], question(1, true));
    network.submit(&[event], question(2, false));
    network.submit(&[event], question(3, true));
    // The head is cut off, and the others go on without it.
    network.take_down(A);
    [B, C, A].into_iter().for_each(|node| network.deliver_map(node));
    network.settle();
    let undecided = [(1, Reason::Unknown), (2, Reason::StaleMap), (3, Reason::StaleMap)];
    assert_eq!(told(&network), undecided.map(|(asked, reason)| (asked, Decision::Undecided(reason))));
    assert_eq!(network.inflight(), 0);
    network.replies.clear();
    let head = network.head_by(&network.map, event);
    network.submit_at(head, &[event], question(4, true));
    network.settle();
    assert_eq!(told(&network), [(4, Decision::FirstSeen)]);
}

#[test]
fn submissions_that_wait_behind_a_lookup_are_run_when_what_they_wait_for_is_refused() {
    let (mut network, event) = copied();
    network.submit(&[event], question(1, true));
    [(2, false), (3, true), (4, false)].into_iter().for_each(|(asked, records)| {
        network.submit(&[event], question(asked, records));
    });
    let set = network.take((A, B)).expect("a set");
    let PeerBody::Set(batch) = &set.body else { panic!("{set:?}") };
    let refused = SetAcks { refused_numbers: vec![batch.set_number], ..SetAcks::default() };
    network.put((B, A), PeerMessage { body: PeerBody::SetAcks(refused), ..set });
    network.settle();
    let asked: Vec<u64> = told(&network).into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(asked, [1, 2, 3, 4]);
    assert_eq!(told(&network)[0].1, Decision::Undecided(Reason::Unknown));
    assert_eq!(network.inflight(), 0);
}

#[test]
fn a_refused_set_is_done_again_in_a_newer_generation() {
    for answer in [AnswerWhen::Early, AnswerWhen::Safe] {
        let definition = definition(&growing(Kind::Timing, "1h", 1000, Limit::Cardinality, 4), "vertical:3");
        let mut network = network(&definition, answer);
        let event = (0..).map(digest).find(|event| network.head_of(*event).1 == A).expect("an event");
        network.submit(&[event], question(1, true));
        let set = network.take((A, B)).expect("a set");
        let PeerBody::Set(batch) = &set.body else { panic!("{set:?}") };
        network.asked.push((0, 1));
        network.agree();
        let refused = SetAcks { refused_numbers: vec![batch.set_number], ..SetAcks::default() };
        network.put((B, A), PeerMessage { body: PeerBody::SetAcks(refused), ..set });
        network.settle();
        assert_eq!(network.replies[0].decisions, [Decision::FirstSeen], "{answer:?}");
        assert_eq!(network.inflight(), 0);
        let again = ask(&mut network, event, question(2, false));
        assert_eq!(again.decisions, [Decision::Duplicate], "{answer:?}: nothing that was told is forgotten");
    }
}

#[test]
fn a_set_tells_which_generations_are_committed() {
    let definition = definition(&growing(Kind::Timing, "1h", 1000, Limit::Cardinality, 4), "vertical:3");
    let mut network = network(&definition, AnswerWhen::Early);
    let event_of = |head| (0..).map(digest).find(|event| network.head_of(*event).1 == head).expect("an event");
    let (of_a, of_b) = (event_of(A), event_of(B));
    let record = network.map.filters.get_mut(&network::FILTER).expect("the filter");
    record.generations[0] = 1;
    network.deliver_map(A);
    network.submit(&[of_a], question(1, true));
    assert!(network.deliver_on((A, B)));
    network.submit(&[of_b], question(2, true));
    let set = network.take((B, C)).expect("a set");
    assert!(matches!(&set.body, PeerBody::Set(set) if set.generation == 1), "{set:?}");
}

#[test]
fn what_passed_an_incomplete_slice_is_degraded() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Early);
    let event = events_on([A, B, C], &definition).next().expect("an event");
    let fresh = events_on([A, B, C], &definition).nth(1).expect("another");
    assert!(!ask(&mut network, event, question(1, true)).degraded);
    network.restart(B);
    let found = ask(&mut network, event, question(2, true));
    assert_eq!((&found.decisions[..], found.degraded), (&[Decision::FirstSeen][..], true), "the zero lies there");
    let found = ask(&mut network, event, question(3, true));
    assert_eq!((&found.decisions[..], found.degraded), (&[Decision::Duplicate][..], true), "it went through");
    assert!(ask(&mut network, fresh, question(4, true)).degraded, "not all of its positions count");
}

#[test]
fn tests_that_nobody_waits_for_are_not_run() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Early);
    let events = events_on([A, B, C], &definition);
    for (event, waited_ms) in events.zip([4, 5]) {
        let left_ms = 5 - waited_ms;
        ask(&mut network, event, question(waited_ms, true));
        let deadline_ms = network.now.monotonic_ms + 5;
        network.submit(&[event], Question { deadline_ms, ..question(10 + waited_ms, true) });
        let mut message = network.take((A, B)).expect("a test");
        message.pass_time(waited_ms);
        network.put((A, B), message);
        assert!(network.deliver_on((A, B)));
        match network.take((B, C)).map(|message| message.body) {
            Some(PeerBody::Test(next)) => assert_eq!(u64::from(next.deadline_in_ms), left_ms, "for the next node too"),
            None => assert_eq!(left_ms, 0),
            Some(other) => panic!("a test goes on as a test: {other:?}"),
        }
    }
    network.wait(5);
    assert_eq!(network.inflight(), 0, "the head has given them up");
}

#[test]
fn a_node_without_the_group_refuses_what_it_is_asked() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Safe);
    let events: Vec<Digest> = events_on([A, B, C], &definition).take(2).collect();
    ask(&mut network, events[0], question(1, true));
    network.owners.remove(&(0, C));
    let tested = ask(&mut network, events[0], question(2, true));
    assert_eq!(tested.decisions, [Decision::Undecided(Reason::NotReady)]);
    let set = ask(&mut network, events[1], question(3, true));
    assert_eq!(set.decisions, [Decision::Undecided(Reason::Unknown)], "it may have been recorded elsewhere");
    assert_eq!(network.inflight(), 0);
}

#[test]
fn what_a_lost_process_was_to_set_the_next_one_sets() {
    let definition = roomy();
    for answer in [AnswerWhen::Early, AnswerWhen::Safe] {
        let mut network = network(&definition, answer);
        let event = events_on([A, B, C], &definition).next().expect("an event");
        network.submit(&[event], question(1, true));
        network.restart(C);
        network.settle();
        assert_eq!(network.replies.remove(0).decisions, [Decision::FirstSeen], "{answer:?}");
        assert_eq!(network.inflight(), 0);
        // It was told first-seen when that process was gone already.
        assert_eq!(ask(&mut network, event, question(2, true)).decisions, [Decision::Duplicate], "{answer:?}");
    }
}
