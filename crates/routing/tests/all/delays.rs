//! Messages that are late, rejected, or from an earlier process. No reply may depend on them.

use crate::common::{TestRng, definition, digest, growing, observation, spec};
use crate::network::{Network, instance};
use firstseen_filter::{Digest, FilterSpec, GenerationNumber, Kind, Limit, Refresh};
use firstseen_routing::{
    AnswerWhen, Decision, FilterPolicies, GroupReply, MonotonicMs, NodeId, Operation, OwnerLimits, PeerBody,
    PeerMessage, Reason, SetAcks, SlicedDefinition, Submission, Thresholds, WhenLost,
};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

const HASHES: u32 = 6;

fn roomy() -> SlicedDefinition {
    definition(&spec(Kind::Timing, "1h", 1 << 14, HASHES), "vertical:3")
}

/// Creates a network of three nodes with one slice each. The filter's policy allows a verdict only if all slices are
/// complete. These tests examine delays, so an empty cell must never be the result of a loss, which would be possible
/// if incomplete slices were tested.
fn network(definition: &SlicedDefinition, answer: AnswerWhen) -> Network {
    limited(definition, answer, OwnerLimits::default())
}

fn limited(definition: &SlicedDefinition, answer: AnswerWhen, limits: OwnerLimits) -> Network {
    let thresholds = Thresholds { min_live: HASHES, set_min: 0 };
    let policies = FilterPolicies { answer, thresholds, when_lost: WhenLost::FirstSeen, ..FilterPolicies::default() };
    Network::new(definition, policies, &[A, B, C], limits, TestRng(1))
}

fn question(reply_to: u64, records: bool) -> Submission {
    let operation = if records { Operation::Observe } else { Operation::Lookup };
    Submission { operation, ..observation(reply_to) }
}

/// Returns events that are tested first on `path[0]`, then on `path[1]`, then on `path[2]`, as long as none is
/// recorded.
fn events_on(path: [NodeId; 3], definition: &SlicedDefinition) -> impl Iterator<Item = Digest> {
    let definition = definition.clone();
    (0..10_000).map(digest).filter(move |event| {
        let mut network = network(&definition, AnswerWhen::Early);
        if network.head_of(*event).node != path[0] {
            return false;
        }
        // Once the event is recorded, a test visits the whole path.
        ask(&mut network, *event, question(1, true));
        network.submit(&[*event], question(2, true));
        let second = network.deliver_on((path[0], path[1]));
        let third = network.deliver_on((path[1], path[2]));
        second && third
    })
}

/// Sends one event, and waits until nothing is in flight.
fn ask(network: &mut Network, event: Digest, question: Submission) -> GroupReply {
    network.replies.clear();
    network.submit(&[event], question);
    network.settle();
    assert_eq!(network.replies.len(), 1, "one reply");
    network.replies.remove(0)
}

#[test]
fn a_late_end_of_a_batch_leaves_its_retry_in_flight() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Safe);
    let events: Vec<Digest> = events_on([A, B, C], &definition).take(2).collect();
    let known = events[1];
    assert_eq!(ask(&mut network, known, question(1, true)).answers.decisions(), [Decision::FirstSeen]);
    network.replies.clear();
    let batch = |reply_to, deadline_ms| Submission { reply_to, deadline_ms, ..question(2, true) };
    let deadline_ms = network.now().monotonic_ms.after(5);
    network.submit(&events, batch(2, deadline_ms));
    network.wait(5);
    // The cells of one event were being set. The other event was only tested, so the retry runs it again.
    let undecided = [Reason::Unknown, Reason::NotReady].map(Decision::Undecided);
    assert_eq!(network.replies.remove(0).answers.decisions(), undecided);
    network.submit(&events, batch(3, MonotonicMs::END));
    // The sets of the first attempt are done. Its tests and those of the retry are still in flight.
    for node in [B, C] {
        assert!(network.deliver_on((A, node)) && network.deliver_on((node, A)));
    }
    network.submit(&events, batch(4, MonotonicMs::END));
    network.settle();
    let numbers: Vec<u64> = network.replies.iter().map(|reply| reply.reply_to).collect();
    assert_eq!(numbers, [4], "the retry is answered once, where it was asked for last");
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
    // This is the second ticket of the new process, like the other event's ticket in the former process. Node C has
    // lost the event, so it is new.
    network.replies.clear();
    network.submit(&events[1..], question(2, true));
    network.put((C, A), stale);
    assert!(network.deliver_on((C, A)) && network.replies.is_empty(), "that was about another event");
    network.settle();
    assert_eq!(network.replies[0].answers.decisions(), [Decision::FirstSeen]);
}

#[test]
fn a_lookup_sees_an_event_with_an_early_reply() {
    let definition = roomy();
    for (path, held) in [([A, B, C], C), ([A, B, C], B), ([A, C, B], B)] {
        let mut network = network(&definition, AnswerWhen::Early);
        let event = events_on(path, &definition).next().expect("an event");
        network.submit(&[event], question(1, true));
        assert_eq!(network.replies[0].answers.decisions(), [Decision::FirstSeen]);
        network.submit(&[event], question(2, false));
        // The set to one node arrives last.
        let links = [(A, path[1]), (path[1], A), (path[1], path[2]), (path[2], A)];
        for ends in links.into_iter().filter(|(from, to)| (*from, *to) != (A, held)) {
            while network.deliver_on(ends) {}
        }
        network.settle();
        assert_eq!(network.replies[1].answers.decisions(), [Decision::Duplicate], "{path:?}, {held} is late");
        assert_eq!(network.inflight(), 0);
    }
}

/// Returns a network in which node A has a copy of every slice, and the other nodes have the second copy of each slice.
/// Also returns an event whose head is node A.
fn copied() -> (Network, Digest) {
    copied_with(&roomy(), OwnerLimits::default())
}

fn copied_with(definition: &SlicedDefinition, limits: OwnerLimits) -> (Network, Digest) {
    let mut network = limited(definition, AnswerWhen::Safe, limits);
    network.add_copies([(0, B), (1, A), (2, A)]);
    network.nodes().into_iter().for_each(|node| network.deliver_map(node));
    let event = (0..).map(digest).find(|event| network.head_of(*event).node == A).expect("an event");
    (network, event)
}

/// Returns the replies by number, sorted by that number.
fn replies(network: &Network) -> Vec<(u64, Decision)> {
    let replies = network.replies.iter().map(|reply| (reply.reply_to, reply.answers.decisions()[0]));
    let mut replies: Vec<(u64, Decision)> = replies.collect();
    replies.sort_unstable_by_key(|(reply_to, _)| *reply_to);
    replies
}

#[test]
fn a_lookup_that_finds_an_event_being_recorded_waits_for_it() {
    let (mut network, event) = copied();
    network.submit(&[event], question(1, true));
    network.submit(&[event], question(2, false));
    assert_eq!(replies(&network), [], "nobody else has it");
    let deadline_ms = network.now().monotonic_ms.after(5);
    network.submit(&[event], Submission { deadline_ms, ..question(3, false) });
    network.wait(5);
    let not_ready = (3, Decision::Undecided(Reason::NotReady));
    assert_eq!(replies(&network), [not_ready]);
    network.settle();
    assert_eq!(replies(&network), [(1, Decision::FirstSeen), (2, Decision::Duplicate), not_ready]);
    assert_eq!(network.inflight(), 0);
    assert_eq!(ask(&mut network, event, question(4, false)).answers.decisions(), [Decision::Duplicate]);
}

#[test]
fn no_lookup_finds_an_event_whose_recording_comes_to_nothing() {
    let (mut network, event) = copied();
    network.submit(&[event], question(1, true));
    network.submit(&[event], question(2, false));
    network.submit(&[event], question(3, true));
    // The head is cut off, and the other nodes continue without it.
    network.take_down(A);
    [B, C, A].into_iter().for_each(|node| network.deliver_map(node));
    network.settle();
    let undecided = [(1, Reason::Unknown), (2, Reason::StaleMap), (3, Reason::StaleMap)];
    assert_eq!(replies(&network), undecided.map(|(asked, reason)| (asked, Decision::Undecided(reason))));
    assert_eq!(network.inflight(), 0);
    network.replies.clear();
    let head = network.head_by(network.map(), event);
    network.submit_at(head, &[event], question(4, true));
    network.settle();
    assert_eq!(replies(&network), [(4, Decision::FirstSeen)]);
}

#[test]
fn submissions_behind_a_lookup_are_run_when_the_event_it_waits_for_is_refused() {
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
    let unknown = Decision::Undecided(Reason::Unknown);
    // The generation has ended on the other node and will soon end here.
    let duplicate = |asked| (asked, Decision::Duplicate);
    let expected = [(1, unknown), duplicate(2), duplicate(3), duplicate(4)];
    assert_eq!(replies(&network), expected);
    assert_eq!(network.inflight(), 0);
}

/// Regression test: the head of an event receives two cluster maps at once. Under the first of them, another node may
/// have been the head and may have decided the event, so the present head cannot know whether the event is new.
///
/// In an earlier version, the cells of such an event were set on the present head only. Later requests at this head
/// then got the reply duplicate. When another node became the head, it replied first-seen to the same event.
#[test]
fn an_event_that_two_maps_have_overtaken_is_unknown_and_recorded_at_all_copies() {
    let (mut network, event) = copied();
    network.submit(&[event], question(1, true));
    network.submit(&[event], question(2, false));
    network.submit(&[event], question(3, true));
    (0..2).for_each(|_| network.complete(C));
    [B, C, A].into_iter().for_each(|node| network.deliver_map(node));
    assert!(network.deliver_on((A, B)) && network.deliver_on((B, A)), "a set, and a refusal");
    network.submit(&[event], question(4, false));
    assert_eq!(replies(&network), [(1, Decision::Undecided(Reason::Unknown))], "its cells are being set");
    network.settle();
    let duplicate = |asked| (asked, Decision::Duplicate);
    let unknown = (1, Decision::Undecided(Reason::Unknown));
    assert_eq!(replies(&network), [unknown, duplicate(2), duplicate(3), duplicate(4)]);
    assert_eq!(network.inflight(), 0);
    network.replies.clear();
    network.take_down(A);
    [B, C].into_iter().for_each(|node| network.deliver_map(node));
    let head = network.head_by(network.map(), event);
    network.submit_at(head, &[event], question(5, true));
    network.settle();
    assert_eq!(replies(&network), [duplicate(5)]);
}

/// Regression test: two heads replied first-seen to the same event. The former head has sent a request to set the
/// event's cells on another node, and the request is delayed. Meanwhile the new head finds the event new and replies
/// first-seen. Then the former head learns that the other node is gone.
///
/// In an earlier version, the former head treated the cells on that node as set, or set them again, and replied
/// first-seen too. The right reply is unknown.
#[test]
fn a_former_head_wins_nothing_when_a_node_that_it_waits_for_is_gone() {
    for goes_down in [true, false] {
        let thresholds = Thresholds { min_live: 1, set_min: 0 };
        let policies = FilterPolicies { answer: AnswerWhen::Safe, thresholds, ..FilterPolicies::default() };
        let mut network = Network::new(&roomy(), policies, &[A, B, C], OwnerLimits::default(), TestRng(1));
        let deliver_map = |network: &mut Network, nodes: &[NodeId]| {
            nodes.iter().for_each(|node| network.deliver_map(*node));
        };
        deliver_map(&mut network, &[A, B, C]);
        network.take_down(A);
        deliver_map(&mut network, &[B, C]);
        let is_one =
            |event: &Digest| network.head_of(*event).node == A && network.head_by(network.map(), *event).node == B;
        let events: Vec<Digest> = (0..1_000).map(digest).filter(is_one).collect();
        let waits_for_another = |(number, event): &(u64, Digest)| {
            network.replies.clear();
            network.submit_at(instance(0, B), &[*event], question(*number, true));
            network.replies.is_empty()
        };
        let (former, event) = (1..).zip(events).find(waits_for_another).expect("an event that B does not have alone");
        network.take((B, C)).expect("a set that is late");
        network.mark_restarted(A);
        deliver_map(&mut network, &[B, C]);
        network.settle();
        let present = former + 1;
        network.submit_at(instance(0, A), &[event], question(present, true));
        network.settle();
        assert_eq!(replies(&network), [(present, Decision::FirstSeen)]);
        if goes_down {
            network.take_down(C);
            deliver_map(&mut network, &[A, B]);
        } else {
            network.restart(C);
        }
        network.settle();
        let unknown = Decision::Undecided(Reason::Unknown);
        assert_eq!(replies(&network), [(former, unknown), (present, Decision::FirstSeen)], "goes down: {goes_down}");
    }
}

#[test]
fn what_nobody_waits_for_any_more_does_not_stay_in_flight_behind_a_set() {
    let (mut network, event) = copied();
    network.submit(&[event], question(1, true));
    let deadline_ms = network.now().monotonic_ms.after(5);
    for asked in 2..6 {
        network.submit(&[event], Submission { deadline_ms, ..question(asked, asked % 2 == 0) });
    }
    network.submit(&[event], question(6, true));
    assert_eq!(network.inflight(), 6);
    network.wait(5);
    assert_eq!(network.inflight(), 2, "the first, and the last that waits for it");
    network.settle();
    let not_ready = |asked| (asked, Decision::Undecided(Reason::NotReady));
    let expected = [2, 3, 4, 5].map(not_ready);
    assert_eq!(replies(&network)[1..5], expected);
    assert_eq!(replies(&network)[5], (6, Decision::Duplicate));
    assert_eq!(network.inflight(), 0);
}

/// A lookup that was tested on other nodes waits behind an event that arrived after it. Both have the same deadline.
#[test]
fn a_lookup_that_is_older_than_what_it_waits_for_ends_with_it() {
    let definition = roomy();
    let event = events_on([A, B, C], &definition).next().expect("an event");
    let mut network = network(&definition, AnswerWhen::Safe);
    network.submit(&[event], question(1, true));
    assert!(network.deliver_on((A, B)) && network.deliver_on((A, C)), "the sets");
    let late = network.take((B, A)).expect("an acknowledgement");
    assert!(network.deliver_on((C, A)), "the other acknowledgement");
    let deadline_ms = network.now().monotonic_ms.after(5);
    network.submit(&[event], Submission { deadline_ms, ..question(2, false) });
    network.submit(&[event], Submission { deadline_ms, ..question(3, true) });
    assert!(
        network.deliver_on((A, B)) && network.deliver_on((B, C)) && network.deliver_on((C, A)),
        "the lookup's test"
    );
    assert_eq!(replies(&network), [], "it is found, and waits behind the submission");
    let PeerBody::SetAcks(acks) = &late.body else { panic!("{late:?}") };
    let refused = SetAcks { refused_numbers: acks.set_numbers.clone(), ..SetAcks::default() };
    network.put((B, A), PeerMessage { body: PeerBody::SetAcks(refused), ..late });
    assert!(network.deliver_on((B, A)), "a refusal");
    network.wait(5);
    let undecided = [(1, Reason::Unknown), (2, Reason::NotReady), (3, Reason::NotReady)];
    assert_eq!(replies(&network), undecided.map(|(number, reason)| (number, Decision::Undecided(reason))));
    network.settle();
    assert_eq!(network.inflight(), 0);
}

#[test]
fn lookups_that_wait_leave_room_for_submissions() {
    let (mut network, event) = copied_with(&roomy(), OwnerLimits { joiners_max: 2, ..OwnerLimits::default() });
    for (asked, records) in [(1, true), (2, false), (3, false), (4, true), (5, true)] {
        network.submit(&[event], question(asked, records));
    }
    network.settle();
    let overloaded = Decision::Undecided(Reason::Overloaded);
    let duplicate = Decision::Duplicate;
    let expected = [(1, Decision::FirstSeen), (2, duplicate), (3, overloaded), (4, duplicate), (5, overloaded)];
    assert_eq!(replies(&network), expected);
}

#[test]
fn a_lookup_does_not_wait_for_what_is_only_recorded_again() {
    let filter = FilterSpec { refresh: Refresh::Refresh, ..spec(Kind::Timing, "1h", 1 << 14, HASHES) };
    let (mut network, event) = copied_with(&definition(&filter, "vertical:3"), OwnerLimits::default());
    assert_eq!(ask(&mut network, event, question(1, true)).answers.decisions(), [Decision::FirstSeen]);
    network.replies.clear();
    network.submit(&[event], question(2, true));
    assert_eq!(replies(&network), [], "its cells are being set");
    network.submit(&[event], question(3, false));
    assert_eq!(replies(&network), [(3, Decision::Duplicate)]);
    network.settle();
    assert_eq!(replies(&network), [(2, Decision::Duplicate), (3, Decision::Duplicate)]);
}

#[test]
fn a_refused_set_is_done_again_in_a_newer_generation() {
    for answer in [AnswerWhen::Early, AnswerWhen::Safe] {
        let definition = definition(&growing(Kind::Timing, "1h", 1000, Limit::Cardinality, 4), "vertical:3");
        let mut network = network(&definition, answer);
        let event = (0..).map(digest).find(|event| network.head_of(*event).node == A).expect("an event");
        network.submit(&[event], question(1, true));
        let set = network.take((A, B)).expect("a set");
        let PeerBody::Set(batch) = &set.body else { panic!("{set:?}") };
        network.asked.push((0, GenerationNumber(1)));
        network.agree();
        let refused = SetAcks { refused_numbers: vec![batch.set_number], ..SetAcks::default() };
        network.put((B, A), PeerMessage { body: PeerBody::SetAcks(refused), ..set });
        network.settle();
        assert_eq!(network.replies[0].answers.decisions(), [Decision::FirstSeen], "{answer:?}");
        assert_eq!(network.inflight(), 0);
        let again = ask(&mut network, event, question(2, false));
        assert_eq!(again.answers.decisions(), [Decision::Duplicate], "{answer:?}: no event with a reply is forgotten");
    }
}

#[test]
fn a_set_says_which_generations_are_committed() {
    let definition = definition(&growing(Kind::Timing, "1h", 1000, Limit::Cardinality, 4), "vertical:3");
    let mut network = network(&definition, AnswerWhen::Early);
    let event_of = |head| (0..).map(digest).find(|event| network.head_of(*event).node == head).expect("an event");
    let (of_a, of_b) = (event_of(A), event_of(B));
    let record = network.record_mut();
    record.generations[0] = GenerationNumber(1);
    network.deliver_map(A);
    network.submit(&[of_a], question(1, true));
    assert!(network.deliver_on((A, B)));
    network.submit(&[of_b], question(2, true));
    let set = network.take((B, C)).expect("a set");
    assert!(matches!(&set.body, PeerBody::Set(set) if set.generation == GenerationNumber(1)), "{set:?}");
}

#[test]
fn an_event_that_passed_an_incomplete_slice_is_degraded() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Early);
    let event = events_on([A, B, C], &definition).next().expect("an event");
    let fresh = events_on([A, B, C], &definition).nth(1).expect("another");
    assert!(!ask(&mut network, event, question(1, true)).answers.is_degraded());
    network.restart(B);
    let found = ask(&mut network, event, question(2, true));
    assert_eq!(
        (found.answers.decisions(), found.answers.is_degraded()),
        (&[Decision::FirstSeen][..], true),
        "the zero lies there"
    );
    let found = ask(&mut network, event, question(3, true));
    assert_eq!(
        (found.answers.decisions(), found.answers.is_degraded()),
        (&[Decision::Duplicate][..], true),
        "it went through"
    );
    assert!(ask(&mut network, fresh, question(4, true)).answers.is_degraded(), "not all of its positions count");
}

#[test]
fn tests_without_a_waiting_flight_are_not_run() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Early);
    let events = events_on([A, B, C], &definition);
    for (event, waited_ms) in events.zip([4, 5]) {
        let left_ms = 5 - waited_ms;
        ask(&mut network, event, question(waited_ms, true));
        let deadline_ms = network.now().monotonic_ms.after(5);
        network.submit(&[event], Submission { deadline_ms, ..question(10 + waited_ms, true) });
        let mut message = network.take((A, B)).expect("a test");
        message.pass_time(waited_ms);
        network.put((A, B), message);
        assert!(network.deliver_on((A, B)));
        match network.take((B, C)).map(|message| message.body) {
            Some(PeerBody::Test(next)) => {
                assert_eq!(u64::from(next.runs[0].deadline_in_ms), left_ms, "for the next node too")
            }
            None => assert_eq!(left_ms, 0),
            Some(other) => panic!("a test goes on as a test: {other:?}"),
        }
    }
    network.wait(5);
    assert_eq!(network.inflight(), 0, "the head has given them up");
}

#[test]
fn a_node_without_the_group_refuses_its_messages() {
    let definition = roomy();
    let mut network = network(&definition, AnswerWhen::Safe);
    let events: Vec<Digest> = events_on([A, B, C], &definition).take(2).collect();
    ask(&mut network, events[0], question(1, true));
    network.mesh.owners_mut().remove(&instance(0, C));
    let tested = ask(&mut network, events[0], question(2, true));
    assert_eq!(tested.answers.decisions(), [Decision::Undecided(Reason::NotReady)]);
    let set = ask(&mut network, events[1], question(3, true));
    assert_eq!(set.answers.decisions(), [Decision::Undecided(Reason::Unknown)], "it may have been recorded elsewhere");
    assert_eq!(network.inflight(), 0);
}

#[test]
fn the_next_process_sets_events_that_a_lost_one_was_to_set() {
    let definition = roomy();
    for answer in [AnswerWhen::Early, AnswerWhen::Safe] {
        let mut network = network(&definition, answer);
        let event = events_on([A, B, C], &definition).next().expect("an event");
        network.submit(&[event], question(1, true));
        network.restart(C);
        network.settle();
        assert_eq!(network.replies.remove(0).answers.decisions(), [Decision::FirstSeen], "{answer:?}");
        assert_eq!(network.inflight(), 0);
        // The first reply first-seen was sent when that process was already gone.
        assert_eq!(
            ask(&mut network, event, question(2, true)).answers.decisions(),
            [Decision::Duplicate],
            "{answer:?}"
        );
    }
}
