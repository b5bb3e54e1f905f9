//! Tests of the queue of messages that wait for a link.

use firstseen_filter::Stamp;
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
    let sent = (0..9).filter(|_| link.send(test_of(events), MonotonicMs::START).is_none()).count();
    assert_eq!((sent, link.waiting(), link.is_half_full()), (8, 8, true));
    assert!(link.send(test_of(1), MonotonicMs::START).is_some(), "no room for one event more");
    queue.try_recv().expect("a message");
    link.counts.queued_events.fetch_sub(events, Ordering::Relaxed);
    assert!(link.send(test_of(1), MonotonicMs::START).is_none(), "room for others");
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
        assert!(link.send(of_head(left_ms), MonotonicMs(1000)).is_none());
        assert_eq!(queue.try_recv().expect("a message").leave(MonotonicMs(1030)), expected);
    }
}

#[test]
fn a_message_with_more_events_than_may_wait_is_sent_alone() {
    let (messages, _queue) = mpsc::channel(1 << 10);
    let link = LinkHandle::to(messages);
    assert!(link.send(test_of(QUEUED_EVENTS_MAX + 1), MonotonicMs::START).is_none());
    assert!(link.send(test_of(1), MonotonicMs::START).is_some());
}

/// Returns the memory that the lists of a message of tests take.
fn held_bytes(queued: &Queued) -> usize {
    let PeerBody::Test(TestBatch { tickets, left, stamps, generations, .. }) = &queued.message.body else {
        panic!("{queued:?}")
    };
    let positions = left.counts.capacity() + 8 * left.positions.capacity();
    8 * tickets.capacity() + positions + size_of::<Stamp>() * stamps.capacity() + 2 * generations.capacity()
}

/// Creates a message with the largest memory use per event that an owner can produce. No other kind of message takes
/// more memory per event.
fn gathered(events: u64) -> PeerMessage {
    let mut message = test_of(events);
    if let PeerBody::Test(test) = &mut message.body {
        test.stamps = vec![Stamp::default(); events as usize];
        test.generations = vec![1; events as usize];
        (0..events).for_each(|_| test.left.push(0..7));
        test.left.positions.shrink_to_fit();
    }
    message
}

/// Two million events for a peer that takes nothing, in far fewer messages than may wait.
#[test]
fn a_link_that_nobody_takes_from_holds_few_bytes() {
    const EVENTS: u64 = 4096;
    let (messages, mut queue) = mpsc::channel(16 << 10);
    let link = LinkHandle::to(messages);
    let refused = (0..512).filter(|_| link.send(gathered(EVENTS), MonotonicMs::START).is_some()).count() as u64;
    let held: Vec<Queued> = std::iter::from_fn(|| queue.try_recv().ok()).collect();
    let bytes: usize = held.iter().map(held_bytes).sum();
    assert!(bytes <= 48 << 20, "{bytes} bytes wait");
    assert_eq!((held.len() as u64, refused), (QUEUED_EVENTS_MAX / EVENTS, 512 - QUEUED_EVENTS_MAX / EVENTS));
}
