//! Tests that a stopping node answers the events in flight, and that its metrics are machine-readable.

use std::collections::BTreeMap;

use crate::common::{Hashing, RawStream, TestNode};
use firstseen_node::Limits;
use firstseen_routing::Decision;
use firstseen_wire::proto::admin;
use firstseen_wire::proto::producer::{ObserveReply, ObserveRequest, Reason, observe_reply, observe_request};
use firstseen_wire::reply;
use tonic::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_answers_the_events_that_it_has_admitted() {
    let node = TestNode::start_with("a", |config| {
        config.owner_rate_max_events_per_s = Some(25);
        config.limits.queue_age_max_ms = 60_000;
    })
    .await;
    node.init().await;
    node.create("clicks", "none").await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    const BATCHES: u64 = 8;
    // Each batch has three new events, one event of the previous batch, and one repeated event.
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
    // At 25 events per second, most batches are in flight when two of them have been answered.
    let mut replies = BTreeMap::new();
    let mut stopping = None;
    let mut node = Some(node.node);
    let status = loop {
        match stream.next().await {
            Ok(Some(ObserveReply { message: Some(observe_reply::Message::Reply(reply)) })) => {
                let again = replies.insert(reply.sequence, reply);
                assert!(again.is_none(), "a batch is answered once: {again:?}");
                if let Some(node) = node.take_if(|_| replies.len() == 2) {
                    stopping = Some(tokio::spawn(node.shutdown()));
                    // The stream is either still open or at its end.
                    let late = observe_request::Message::Batch(batch(BATCHES));
                    let _ = stream.requests.send(ObserveRequest { message: Some(late) }).await;
                }
            }
            Ok(None) => panic!("a stream that is ended has a status"),
            Ok(other) => panic!("{other:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let (new, again) = (Decision::FirstSeen, Decision::Duplicate);
    for sequence in 0..BATCHES {
        let reply = replies.remove(&sequence).unwrap_or_else(|| panic!("batch {sequence} was admitted"));
        let answers = reply::decode(&reply, 5).expect("answers").answers;
        // The first batch has no predecessor, so it repeats `event-0`.
        assert_eq!(answers.decisions(), [new, new, new, again, again], "batch {sequence}");
    }
    // A later batch finds the stream closed, or arrives just in time.
    for (sequence, reply) in replies {
        let is_refused = reply.refused == i32::from(Reason::NotReady);
        assert!(sequence == BATCHES && (is_refused || reply.refused == 0), "{reply:?}");
    }
    let stopping = stopping.expect("two batches were answered");
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
    assert_eq!(value("firstseen_producer_received_events_total{filter=\"clicks\"} "), 3.0);
    assert!(value("firstseen_producer_received_bytes_total{filter=\"clicks\"} ") > 0.0);
    assert_eq!(value("firstseen_batch_events_count{filter=\"clicks\"} "), 2.0);
    assert_eq!(value("firstseen_batch_latency_seconds_count{filter=\"clicks\"} "), 2.0);
    let decision = "firstseen_decisions_total{filter=\"clicks\",group=\"0\",decision=";
    assert_eq!(value(&format!("{decision}\"first_seen\"")), 2.0);
    assert_eq!(value(&format!("{decision}\"duplicate\"")), 1.0);
    assert!(value("firstseen_slice_cells_bytes{filter=\"clicks\",slice=\"0\"}") > 0.0);
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(
            (name.starts_with("firstseen_") || name.starts_with("process_")) && value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
    assert!(!text.contains("# EOF"), "who does not ask for OpenMetrics gets the older text");
}

/// Returns the names and labels of the series in their order.
fn series(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_stand_in_one_order_and_do_not_grow_with_slices() {
    let node = TestNode::start_with("a", |config| config.limits.metrics_slices_max = 8).await;
    node.init().await;
    for (name, slicing) in [("wide", "vertical:9"), ("many", "horizontal:64"), ("few", "vertical:8"), ("one", "none")] {
        node.create(name, slicing).await;
        node.knows(name).await;
        let hashing = Hashing::of(&node, name).await;
        let (mut stream, _) = RawStream::greeted(&node, 1).await;
        hashing.observe(&mut stream, 1, &["a", "b", "a", "c"]).await;
    }
    let (_, first) = node.get("/metrics").await;
    let second = node.node.metrics().await;
    assert_eq!(series(&first), series(&second));
    let names: Vec<&str> = second.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(names.is_sorted() && names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    let of = |name: &str, filter: &str| {
        let start = format!("firstseen_{name}{{filter=\"{filter}\"");
        let lines = first.lines().filter(|line| line.starts_with(&start));
        lines
            .map(|line| line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect(line))
            .collect::<Vec<f64>>()
    };
    for (filter, slices) in [("wide", 9.0), ("many", 64.0), ("few", 8.0), ("one", 1.0)] {
        assert_eq!(of("filter_slices", filter), [slices]);
        assert_eq!(of("filter_slices_ready", filter), [slices]);
        let is_shown = slices <= 8.0;
        assert_eq!(of("slice_ready", filter).len(), if is_shown { slices as usize } else { 0 }, "{filter}");
        assert_eq!(!of("submissions_total", filter).is_empty(), is_shown, "{filter}");
        // The events a, b and c are first-seen, and then a repeats.
        assert_eq!(of("filter_decisions_total", filter)[..2], [1.0, 3.0], "{filter}");
        assert_eq!(of("producer_received_events_total", filter), [4.0]);
        assert!(of("queue_age_seconds_count", filter)[0] >= 1.0, "{filter}");
        let fill = ["min", "mean", "max"].map(|what| of(&format!("filter_fill_{what}_ratio"), filter)[0]);
        assert!(fill.is_sorted() && fill[2] > 0.0 && fill[2] < 0.1, "{filter}: {fill:?}");
    }
    let sum = |name: &str| of(name, "few").iter().sum::<f64>();
    for what in ["cells_bytes", "test_visits_total", "set_visits_total", "positions_tested_total"] {
        assert_eq!(sum(&format!("slice_{what}")), sum(&format!("filter_{what}")), "{what}");
    }
    assert_eq!(sum("decisions_total"), sum("filter_decisions_total"));
    assert_eq!(sum("pipeline_slice_visits_total"), sum("filter_pipeline_slice_visits_total"));
}

/// Tests that a scrape returns the cached result of the previous scrape if less than a second has passed. The cache is
/// necessary because a collection of all metrics makes every owner read samples of its cells.
///
/// The test also checks that the series of a dropped filter disappear from the metrics. In earlier versions, a dropped
/// filter left 65 series behind until the node was restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_gathered_once_a_second_and_forget_filters_that_are_dropped() {
    let node = TestNode::start("a", Limits::default()).await;
    node.init().await;
    for name in ["gone", "stays"] {
        node.create(name, "none").await;
        node.knows(name).await;
        let hashing = Hashing::of(&node, name).await;
        let (mut stream, _) = RawStream::greeted(&node, 1).await;
        hashing.observe(&mut stream, 1, &["a", "b"]).await;
    }
    let samples = |text: &str, name: &str| text.matches(&format!("filter=\"{name}\"")).count();
    let before = node.node.metrics().await;
    assert!(samples(&before, "gone") > 65 && samples(&before, "stays") > 65, "{before}");
    let request = admin::DropFilterRequest { name: "gone".to_owned(), ..admin::DropFilterRequest::default() };
    node.admin().drop_filter(request).await.expect("it is dropped");
    let after = node.node.metrics().await;
    assert_eq!((samples(&after, "gone"), samples(&after, "stays")), (0, samples(&before, "stays")), "{after}");

    let begun = std::time::Instant::now();
    let (_, first) = node.get("/metrics").await;
    let second = loop {
        let hashing = Hashing::of(&node, "stays").await;
        let (mut stream, _) = RawStream::greeted(&node, 2).await;
        hashing.observe(&mut stream, 1, &["c"]).await;
        let (_, text) = node.get("/metrics").await;
        if text != first {
            break text;
        }
        assert!(begun.elapsed() < crate::common::PATIENCE, "the first figures are shown for ever");
    };
    assert!(
        begun.elapsed() >= std::time::Duration::from_millis(999),
        "it was gathered anew after {:?}",
        begun.elapsed()
    );
    let events = |text: &str| {
        let name = "firstseen_producer_received_events_total{filter=\"stays\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a counter");
        line.parse::<u64>().expect("a number")
    };
    assert!(events(&first) == 2 && events(&second) > 2);
}
