//! More events than an owner can take: what it does not take is refused, and was not set.

mod common;

use common::{Hashing, RawStream, TestNode};
use firstseen_node::Limits;
use firstseen_routing::{Decision, Reason};
use firstseen_wire::proto::producer::observe_reply;
use firstseen_wire::reply;

const BATCHES: u64 = 60;
const BATCH_EVENTS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_was_not_set() {
    let node = TestNode::start_with("a", |config| {
        config.limits = Limits {
            queue_events_max: 128,
            queue_age_max_ms: 50,
            batch_events_max: BATCH_EVENTS as u32,
            ..Limits::default()
        };
        config.owner_rate_max_events_per_s = Some(400);
    })
    .await;
    node.init().await;
    node.create("clicks", "none").await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    let event = |sequence: u64, index: usize| format!("event-{sequence}-{index}");
    let batch = |number: u64, sequence: u64| {
        let events: Vec<String> = (0..BATCH_EVENTS).map(|index| event(sequence, index)).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        hashing.batch(number, &events)
    };
    for sequence in 0..BATCHES {
        stream.send(batch(sequence, sequence)).await;
    }
    let mut refused = Vec::new();
    for _ in 0..BATCHES {
        let answer = stream.next().await.expect("no status").expect("a reply");
        let Some(observe_reply::Message::Reply(answer)) = answer.message else { panic!("{answer:?}") };
        let decisions = reply::decode(&answer, BATCH_EVENTS).expect("answers").decisions;
        if decisions == [Decision::Undecided(Reason::Overloaded); BATCH_EVENTS] {
            refused.push(answer.sequence);
        } else {
            assert_eq!(decisions, [Decision::FirstSeen; BATCH_EVENTS]);
        }
    }
    // 128 events wait at most, and none longer than 50 ms, in which 20 are taken.
    assert!((1..BATCHES as usize).contains(&refused.len()), "{} of {BATCHES} batches refused", refused.len());
    for sequence in refused.into_iter().take(10) {
        let answer = stream.ask(batch(1000 + sequence, sequence)).await;
        let decisions = reply::decode(&answer, BATCH_EVENTS).expect("answers").decisions;
        assert_eq!(decisions, [Decision::FirstSeen; BATCH_EVENTS], "batch {sequence} was refused, but set");
    }
}
