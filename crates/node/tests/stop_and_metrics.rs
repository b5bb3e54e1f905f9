//! A node that stops answers what it has; what it counts can be read by machines.

mod common;

use common::{Hashing, RawStream, TestNode};
use firstseen_node::Limits;
use firstseen_wire::proto::producer::{Reason, observe_reply};
use tonic::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_answers_what_it_has_admitted() {
    let node = TestNode::start_with("a", |config| config.owner_rate_max_events_per_s = Some(100)).await;
    node.init().await;
    node.create("clicks", "none").await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    for sequence in 0..8 {
        stream.send(hashing.batch(sequence, &["a", "b", "c", "d", "e"])).await;
    }
    // The first answer says that the node has read the stream; the others follow within half a second.
    let first = stream.next().await.expect("no status").expect("a reply");
    let mut replies = vec![first];
    let stopping = tokio::spawn(node.node.shutdown());
    let status = loop {
        match stream.next().await {
            Ok(Some(reply)) => replies.push(reply),
            Ok(None) => panic!("a stream that is ended has a status"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let mut answered = 0;
    for reply in replies {
        let Some(observe_reply::Message::Reply(reply)) = reply.message else { panic!("{reply:?}") };
        answered += usize::from(reply.refused == 0);
        assert!(reply.refused == 0 || reply.refused == i32::from(Reason::NotReady), "{reply:?}");
    }
    assert!(answered >= 1, "what was admitted is answered");
    tokio::time::timeout(common::PATIENCE, stopping).await.expect("it stops").expect("no panic");
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
    assert_eq!(value("firstseen_batch_events_count "), 2.0);
    assert_eq!(value("firstseen_batch_latency_seconds_count "), 2.0);
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
