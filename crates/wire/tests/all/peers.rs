//! Tests of messages between nodes: encoding and decoding returns the same message, and damaged messages are rejected.

use crate::common::{self, Numbers};
use firstseen_routing::{
    ClaimTests, ClusterId, Incarnation, NodeId, PeerBody, PeerMessage, SetBatch, TestBatch, TestRun,
};
use firstseen_wire::proto::peer::{LinkFrame, Tests, link_frame};
use firstseen_wire::tests_of_heads::by_run;
use firstseen_wire::{WireError, limits, peer};
use prost::Message;

#[test]
fn messages_come_back_and_damaged_ones_are_messages_or_errors() {
    let numbers = &mut Numbers::new(11);
    for (events, range) in [(0, 1), (1, 1), (2, 1000), (17, 1 << 20), (300, 1 << 40), (8192, 14_377_590)] {
        for message in common::peer_messages(events, range, numbers) {
            let encoded = peer::encode(&message, range).expect("within limits");
            assert_eq!(peer::filter_of(&encoded), Some(message.filter));
            let bytes = LinkFrame { number: 5, message: Some(encoded) }.encode_to_vec();
            assert!(bytes.len() < limits::MESSAGE_BYTES_MAX);
            let frame = LinkFrame::decode(&bytes[..]).expect("protobuf");
            assert_eq!(peer::decode(&frame.message.unwrap(), range, common::MIRRORED), Ok(message));
            if events > 300 {
                continue;
            }
            for mutated in common::mutations(&bytes, numbers) {
                let Ok(LinkFrame { message: Some(message), .. }) = LinkFrame::decode(&mutated[..]) else { continue };
                let Ok(decoded) = peer::decode(&message, range, common::MIRRORED) else {
                    let whose = peer::refusable(&message).map(|refusable| refusable.filter);
                    assert!(whose.is_none() || whose == peer::filter_of(&message));
                    continue;
                };
                let again = peer::encode(&decoded, range).expect("every decoded message can be encoded");
                assert_eq!(peer::decode(&again, range, common::MIRRORED), Ok(decoded));
            }
        }
    }
}

/// Returns the part of a lookup message that is needed to refuse its events.
fn numbers_of(test: &TestBatch) -> PeerBody {
    let (runs, tickets) = (test.runs.clone(), test.tickets.clone());
    PeerBody::Test(TestBatch { runs, tickets, ..TestBatch::default() })
}

/// Returns events of several heads, as a value and as an encoded message.
fn of_several_heads() -> (PeerMessage, Tests) {
    let message = common::peer_messages(6, 100, &mut Numbers::new(14)).remove(0);
    match peer::encode(&message, 100) {
        Ok(link_frame::Message::Tests(tests)) => (message, tests),
        other => panic!("the message is not for several head nodes: {other:?}"),
    }
}

#[test]
fn tests_of_several_heads_are_those_of_each() {
    let (message, _) = of_several_heads();
    let PeerBody::Test(whole) = message.body else { panic!("tests") };
    let parts: Vec<TestBatch> = by_run(whole.clone()).collect();
    assert_eq!(parts.iter().map(|part| part.runs.clone()).collect::<Vec<_>>().concat(), whole.runs);
    let mut joined = TestBatch { runs: whole.runs.clone(), ..parts[0].clone() };
    for part in &parts[1..] {
        part.left.iter().for_each(|positions| joined.left.push(positions.iter().copied()));
        joined.tickets.extend(&part.tickets);
        joined.stamps.extend(&part.stamps);
        joined.generations.extend(&part.generations);
        joined.expiries.extend(&part.expiries);
    }
    assert_eq!(joined, whole);
    for part in parts {
        let part = PeerMessage { body: PeerBody::Test(part), ..message };
        let encoded = peer::encode(&part, 100).expect("within limits");
        assert!(
            matches!(encoded, link_frame::Message::Test(_)),
            "events of one head node keep the original message: {encoded:?}"
        );
        assert_eq!(peer::decode(&encoded, 100, common::MIRRORED), Ok(part));
    }
}

#[test]
fn runs_that_are_not_of_all_events_are_refused() {
    let (_, tests) = of_several_heads();
    let runs = |runs: &[u8]| Tests { runs: runs.to_vec().into(), ..tests.clone() };
    let wrong = [
        ("too few events", runs(&[3, 5, 250, 1, 0])),
        ("too many events", runs(&[3, 7, 25, 0])),
        ("no events", runs(&[3, 0, 25, 0, 3, 6, 25, 0])),
        ("unknown flags", runs(&[3, 6, 25, 4])),
        ("something after them", runs(&[3, 6, 25, 0, 1])),
        ("half a run", runs(&[3, 6, 25])),
        ("no batch", Tests { batch: None, ..tests.clone() }),
    ];
    for (what, tests) in wrong {
        let tests = link_frame::Message::Tests(tests);
        assert!(peer::decode(&tests, 100, common::MIRRORED).is_err(), "{what}");
        assert_eq!(peer::refusable(&tests), None, "{what}");
    }
    let right = peer::decode(&link_frame::Message::Tests(runs(&[3, 6, 25, 3])), 100, common::MIRRORED).expect("right");
    let PeerBody::Test(test) = right.body else { panic!("tests") };
    let run = TestRun { head: NodeId(3), events: 6, asks_all: true, degraded: true, deadline_in_ms: 25 };
    assert_eq!(test.runs, [run]);
}

/// Returns whether the message contains lists. Messages of a fixed size have no lists whose lengths could disagree.
fn has_lists(message: &PeerMessage) -> bool {
    use PeerBody::{AskCells, AskPast, HandedOver, Past};
    !matches!(message.body, AskPast | Past(_) | AskCells(_) | HandedOver(_))
}

#[test]
fn lists_that_disagree_are_not_sent() {
    let numbers = &mut Numbers::new(12);
    let messages = common::peer_messages(4, 100, numbers);
    for mut message in messages.into_iter().filter(has_lists) {
        match &mut message.body {
            PeerBody::Test(test) => test.stamps.truncate(1),
            PeerBody::Resolved(resolved) => resolved.hits.push(true),
            PeerBody::Set(set) => set.cells.positions[0] = 100,
            PeerBody::SetAcks(acks) => acks.set_numbers = vec![0; limits::SET_ACKS_MAX + 1],
            PeerBody::Cells(cells) => cells.runs[0].cells = vec![1; limits::CELLS_BYTES_MAX],
            PeerBody::ClaimTests(tests) => tests.events.clear(),
            PeerBody::Mirror(_, mirrored) => std::sync::Arc::make_mut(mirrored).stamps.clear(),
            _ => unreachable!("the message has no lists"),
        }
        assert!(peer::encode(&message, 100).is_err());
    }
}

#[test]
fn claims_of_many_events_are_refused() {
    let test = firstseen_wire::proto::peer::TestBatch { events: u32::MAX, ..Default::default() };
    let refused = peer::decode(&link_frame::Message::Test(test), 100, common::MIRRORED);
    assert!(matches!(refused, Err(WireError::TooGreat { field: "events", max: 8192, .. })), "{refused:?}");
    let set = firstseen_wire::proto::peer::SetBatch { events: 8192, stamps: vec![0].into(), ..Default::default() };
    let refused = peer::decode(&link_frame::Message::Set(set), 100, common::MIRRORED);
    assert!(matches!(refused, Err(WireError::Length { field: "counts", found: 0, expected: 4096 })), "{refused:?}");
}

#[test]
fn what_cannot_be_decoded_can_be_refused_by_its_numbers() {
    for message in common::peer_messages(4, 100, &mut Numbers::new(13)).into_iter().filter(has_lists) {
        let mut encoded = peer::encode(&message, 100).expect("within limits");
        let expected = match (&mut encoded, &message.body) {
            (link_frame::Message::Test(encoded), PeerBody::Test(test)) => {
                encoded.stamps = vec![255].into();
                Some(numbers_of(test))
            }
            (link_frame::Message::Tests(encoded), PeerBody::Test(test)) => {
                encoded.batch.as_mut().expect("a batch").stamps = vec![255].into();
                Some(numbers_of(test))
            }
            (link_frame::Message::ClaimTests(encoded), PeerBody::ClaimTests(tests)) => {
                encoded.events = vec![0; 3].into();
                let PeerBody::Test(test) = numbers_of(&tests.test) else {
                    panic!("the message has no numbers of events")
                };
                Some(PeerBody::ClaimTests(Box::new(ClaimTests { test, events: Vec::new() })))
            }
            (link_frame::Message::Set(encoded), PeerBody::Set(set)) => {
                encoded.counts.clear();
                Some(PeerBody::Set(SetBatch { set_number: set.set_number, ..SetBatch::default() }))
            }
            (link_frame::Message::Resolved(encoded), _) => {
                encoded.events = 5;
                None
            }
            (link_frame::Message::SetAcks(encoded), _) => {
                encoded.set_numbers = vec![0; limits::SET_ACKS_MAX + 1];
                None
            }
            (link_frame::Message::Mirror(encoded), _) => {
                encoded.recorded = encoded.events + 1;
                None
            }
            (link_frame::Message::Cells(encoded), _) => {
                encoded.runs = vec![encoded.runs[0].clone(); limits::CELL_RUNS_MAX + 1];
                None
            }
            other => panic!("{other:?}"),
        };
        assert!(peer::decode(&encoded, 100, common::MIRRORED).is_err());
        assert_eq!(peer::refusable(&encoded), expected.map(|body| PeerMessage { body, ..message }));
        if let link_frame::Message::Test(test) = &mut encoded {
            test.events = u32::MAX;
            assert_eq!(peer::refusable(&encoded), None);
        }
    }
}

#[test]
fn links_begin_with_hello() {
    let ends = peer::LinkEnds {
        cluster: ClusterId([7; 16]),
        from: NodeId(1),
        from_incarnation: Incarnation(2),
        to: NodeId(3),
        to_incarnation: Incarnation(4),
    };
    let mut frame = peer::hello(&ends);
    assert_eq!(peer::accept_hello(&frame), Ok(ends));
    let Some(link_frame::Message::Hello(hello)) = &mut frame.message else { panic!("a hello") };
    hello.protocol_version = 9;
    assert_eq!(peer::accept_hello(&frame), Err(WireError::Version { theirs: 9, ours: 1 }));
    assert!(peer::accept_hello(&LinkFrame::default()).is_err());
}
