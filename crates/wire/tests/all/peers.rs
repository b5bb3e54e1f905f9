//! Messages between nodes: there and back, and damaged.

use crate::common::{self, Numbers};
use firstseen_routing::{ClusterId, Incarnation, NodeId, PeerBody, PeerMessage, SetBatch, TestBatch};
use firstseen_wire::proto::peer::{LinkFrame, link_frame};
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
                let again = peer::encode(&decoded, range).expect("what was decoded can be encoded");
                assert_eq!(peer::decode(&again, range, common::MIRRORED), Ok(decoded));
            }
        }
    }
}

/// Messages of a fixed size cannot disagree with themselves.
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
            PeerBody::Mirror(_, mirrored) => std::sync::Arc::make_mut(mirrored).stamps.clear(),
            _ => unreachable!("it has no lists"),
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
                let (head, tickets) = (test.head, test.tickets.clone());
                Some(PeerBody::Test(TestBatch { head, tickets, ..TestBatch::default() }))
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
