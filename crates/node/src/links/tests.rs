//! What waits for a link.

use firstseen_routing::{Epoch, FilterId, PeerBody, TestBatch, TestRun};

use super::*;

fn test_of(events: u64) -> PeerMessage {
    let test = TestBatch { tickets: (0..events).collect(), ..TestBatch::default() };
    PeerMessage { filter: FilterId(1), epoch: Epoch(1), group: 0, body: PeerBody::Test(test) }
}

#[test]
fn messages_of_many_events_fill_a_link_before_their_number_does() {
    let (messages, mut queue) = mpsc::channel(1 << 10);
    let link = LinkHandle::to(messages);
    let events = QUEUED_EVENTS_MAX / 8;
    let sent = (0..9).filter(|_| link.send(test_of(events), 0).is_none()).count();
    assert_eq!((sent, link.waiting(), link.is_half_full()), (8, 8, true));
    assert!(link.send(test_of(1), 0).is_some(), "no room for one event more");
    queue.try_recv().expect("a message");
    link.queued_events.fetch_sub(events, Ordering::Relaxed);
    assert!(link.send(test_of(1), 0).is_none(), "room for others");
}

#[test]
fn the_time_in_a_queue_is_taken_off_the_time_that_heads_wait() {
    let (messages, mut queue) = mpsc::channel(1);
    let link = LinkHandle::to(messages);
    let of_head = |deadline_in_ms| {
        let runs = vec![TestRun { events: 1, deadline_in_ms, ..TestRun::default() }];
        let mut message = test_of(1);
        message.body = PeerBody::Test(TestBatch { runs, tickets: vec![0], ..TestBatch::default() });
        message
    };
    for (left_ms, expected) in [(100, Some(of_head(70))), (30, None)] {
        assert!(link.send(of_head(left_ms), 1000).is_none());
        assert_eq!(queue.try_recv().expect("a message").leave(1030), expected);
    }
}

#[test]
fn a_message_with_more_events_than_may_wait_is_sent_alone() {
    let (messages, _queue) = mpsc::channel(1 << 10);
    let link = LinkHandle::to(messages);
    assert!(link.send(test_of(QUEUED_EVENTS_MAX + 1), 0).is_none());
    assert!(link.send(test_of(1), 0).is_some());
}
