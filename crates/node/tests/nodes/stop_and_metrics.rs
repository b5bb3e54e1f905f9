//! A node that stops answers what it has; what it counts can be read by machines.

use std::collections::BTreeMap;

use crate::common::{Hashing, RawStream, TestNode};
use firstseen_node::Limits;
use firstseen_routing::Decision;
use firstseen_wire::proto::producer::{ObserveReply, Reason, observe_reply};
use firstseen_wire::reply;
use tonic::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_answers_what_it_has_admitted() {
    let node = TestNode::start_with("a", |config| {
        config.owner_rate_max_events_per_s = Some(100);
        config.limits.queue_age_max_ms = 60_000;
    })
    .await;
    node.init().await;
    node.create("clicks", "none").await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    const BATCHES: u64 = 8;
    // Three events of their own, one of the batch before, one twice.
    let events = |sequence: u64| {
        let own = |event: u64| format!("event-{}", 3 * sequence + event);
        let before = format!("event-{}", (3 * sequence).saturating_sub(1));
        [own(0), own(1), own(2), before, own(1)]
    };
    let batch = |sequence: u64| {
        let events = events(sequence);
        hashing.batch(sequence, &events.each_ref().map(String::as_str))
    };
    for sequence in 0..BATCHES {
        stream.send(batch(sequence)).await;
    }
    node.metric_becomes("firstseen_producer_received_events_total ", 5.0 * BATCHES as f64).await;
    // At 100 events a second, most of them are in flight.
    let stopping = tokio::spawn(node.node.shutdown());
    stream.send(batch(BATCHES)).await;
    let mut told = BTreeMap::new();
    let status = loop {
        match stream.next().await {
            Ok(Some(ObserveReply { message: Some(observe_reply::Message::Reply(reply)) })) => {
                let again = told.insert(reply.sequence, reply);
                assert!(again.is_none(), "a batch is answered once: {again:?}");
            }
            Ok(None) => panic!("a stream that is ended has a status"),
            Ok(other) => panic!("{other:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let (new, again) = (Decision::FirstSeen, Decision::Duplicate);
    for sequence in 0..BATCHES {
        let reply = told.remove(&sequence).unwrap_or_else(|| panic!("batch {sequence} was admitted"));
        let decisions = reply::decode(&reply, 5).expect("answers").decisions;
        // The first batch has no batch before it: `event-0` stands in.
        assert_eq!(decisions, [new, new, new, again, again], "batch {sequence}");
    }
    // What comes later finds the door closed, or was just in time.
    for (sequence, reply) in told {
        let is_refused = reply.refused == i32::from(Reason::NotReady);
        assert!(sequence == BATCHES && (is_refused || reply.refused == 0), "{reply:?}");
    }
    tokio::time::timeout(crate::common::PATIENCE, stopping).await.expect("it stops").expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_can_be_read() {
    let node = TestNode::start("a", Limits::default()).await;
    node.init().await;
    node.create("clicks", "vertical:2").await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    hashing.observe(&mut stream, 1, &["a", "b"]).await;
    hashing.observe(&mut stream, 2, &["a"]).await;
    let (code, text) = node.get("/metrics").await;
    assert_eq!(code, 200);
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    assert_eq!(value("firstseen_ready "), 1.0);
    assert_eq!(value("firstseen_raft_leader "), 1.0);
    assert_eq!(value("firstseen_producer_received_events_total "), 3.0);
    assert!(value("firstseen_producer_received_bytes_total ") > 0.0);
    assert_eq!(value("firstseen_batch_events_count{filter=\"clicks\"} "), 2.0);
    assert_eq!(value("firstseen_batch_latency_seconds_count{filter=\"clicks\"} "), 2.0);
    let decision = "firstseen_decisions_total{filter=\"clicks\",group=\"0\",decision=";
    assert_eq!(value(&format!("{decision}\"first_seen\"")), 2.0);
    assert_eq!(value(&format!("{decision}\"duplicate\"")), 1.0);
    assert!(value("firstseen_slice_cells_bytes{filter=\"clicks\",slice=\"0\"}") > 0.0);
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(name.starts_with("firstseen_") && value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(text.matches("# EOF").count(), 1);
}
