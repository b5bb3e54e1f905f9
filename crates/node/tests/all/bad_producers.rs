//! Tests that misbehaving producers do not affect other producers.

use std::time::Duration;

use crate::common::{Hashing, RawStream, TestNode};
use firstseen_node::Limits;
use firstseen_routing::Decision;
use firstseen_wire::hello;
use firstseen_wire::limits::{INFLIGHT_BATCHES_MAX, MESSAGE_BYTES_MAX};
use firstseen_wire::net::{self, Channel};
use firstseen_wire::proto::producer::{Batch, ObserveRequest, observe_request};
use tonic::Code;

/// Maximum number of reply bytes that a node may send before the producer reads them. It is enough for a few replies.
const WINDOW_BYTES: u32 = 100;

/// Maximum number of unanswered batches that the node allows.
const CREDIT: u32 = 4;

async fn node(change: impl FnOnce(&mut Limits)) -> TestNode {
    let mut limits = Limits::default();
    change(&mut limits);
    let node = TestNode::start("a", limits).await;
    node.init().await;
    node.create("clicks", "none").await;
    node
}

/// Returns a channel whose streams accept no more than [`WINDOW_BYTES`] unread bytes.
fn narrow(node: &TestNode) -> Channel {
    let endpoint = net::plain_endpoint(node.node.addr()).expect("an address");
    net::without_token(endpoint.initial_stream_window_size(WINDOW_BYTES).connect_lazy())
}

/// Checks that all `events` are first-seen, and then duplicates.
async fn is_served(hashing: &Hashing, stream: &mut RawStream, events: &[&str]) {
    assert_eq!(hashing.observe(stream, 1000, events).await, vec![Decision::FirstSeen; events.len()]);
    assert_eq!(hashing.observe(stream, 1001, events).await, vec![Decision::Duplicate; events.len()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_never_reads_is_ended_and_delays_no_other() {
    const BATCHES: u64 = 500;
    let node = node(|limits| limits.inflight_batches_max = CREDIT).await;
    let (hashing, channel) = (Hashing::of(&node, "clicks").await, narrow(&node));
    let (mut deaf, _) = RawStream::greeted_over(channel.clone(), 1).await;
    let (mut other, _) = RawStream::greeted_over(channel, 2).await;
    for sequence in 0..BATCHES {
        let message = Some(observe_request::Message::Batch(hashing.batch(sequence, &["a"])));
        if deaf.requests.send(ObserveRequest { message }).await.is_err() {
            break;
        }
    }
    // The other stream uses the same connection.
    is_served(&hashing, &mut other, &["b", "c"]).await;
    node.metric_becomes("firstseen_streams_open ", 1.0).await;
    // The node accepts the batches of the credit, those whose replies it stores (the credit plus two), those in the
    // flow-control window, and those in flight in between. Their number does not grow with the number of batches that
    // the producer sends.
    let taken = node.metric("firstseen_producer_received_events_total{filter=\"clicks\"} ").await - 4.0;
    assert!(taken < 40.0, "{taken} of {BATCHES} batches were taken");
    node.metric_becomes("firstseen_batches_inflight ", 0.0).await;
    let status = deaf.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("credit"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_stall_delay_neither_others_nor_the_end() {
    const STREAMS: u32 = 8;
    let node = node(|limits| limits.drain_max_ms = 600_000).await;
    let hashing = Hashing::of(&node, "clicks").await;
    let mut stalled = Vec::new();
    for number in 0..STREAMS {
        // The stream uses its whole credit with batches of one event, and then neither sends nor reads anything.
        let (stream, _) = RawStream::greeted_over(narrow(&node), u128::from(number)).await;
        for sequence in 0..INFLIGHT_BATCHES_MAX {
            stream.send(hashing.batch(sequence.into(), &["a"])).await;
        }
        stalled.push(stream);
    }
    let (mut other, _) = RawStream::greeted(&node, 99).await;
    is_served(&hashing, &mut other, &["b", "c"]).await;
    let sent = f64::from(STREAMS * INFLIGHT_BATCHES_MAX) + 4.0;
    node.metric_becomes("firstseen_producer_received_events_total{filter=\"clicks\"} ", sent).await;
    node.metric_becomes("firstseen_batches_inflight ", 0.0).await;
    assert_eq!(node.metric("firstseen_streams_open ").await, f64::from(STREAMS + 1), "nobody is ended for it");
    let decided = node.metric("firstseen_decisions_total{filter=\"clicks\",group=\"0\",decision=\"first_seen\"").await;
    assert_eq!(decided, 3.0);
    let ending = tokio::time::timeout(Duration::from_secs(30), node.node.shutdown());
    ending.await.expect("it does not wait for those who do not read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_above_the_limit_ends_its_stream_only() {
    let node = node(|_| {}).await;
    let (hashing, channel) = (Hashing::of(&node, "clicks").await, node.channel());
    let (mut other, _) = RawStream::greeted_over(channel.clone(), 2).await;
    for bytes in [MESSAGE_BYTES_MAX, 5 << 20] {
        let (mut stream, _) = RawStream::greeted_over(channel.clone(), 1).await;
        let batch = Batch { probes: vec![0; bytes].into(), ..hashing.batch(1, &["a"]) };
        stream.send(batch).await;
        let status = stream.end().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{bytes}: {status}");
        assert!(status.message().contains(&MESSAGE_BYTES_MAX.to_string()), "{status}");
    }
    // This batch is as large as allowed, and is rejected because of its content.
    let (mut stream, _) = RawStream::greeted_over(channel, 3).await;
    let large = Batch { probes: vec![0; MESSAGE_BYTES_MAX - 4096].into(), ..hashing.batch(1, &["a"]) };
    let reply = stream.ask(large).await;
    assert!(reply.refused != 0 && reply.detail.contains("probes"), "{reply:?}");
    is_served(&hashing, &mut other, &["a", "b"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_goes_away_leaves_nothing_behind() {
    let node = node(|_| {}).await;
    let hashing = Hashing::of(&node, "clicks").await;
    for number in 0..20 {
        let stream = RawStream::open(&node, hello::hello(number)).await;
        let message = Some(observe_request::Message::Batch(hashing.batch(1, &["a"])));
        stream.requests.send(ObserveRequest { message }).await.expect("open");
        drop(stream);
    }
    node.metric_becomes("firstseen_streams_open ", 0.0).await;
    node.metric_becomes("firstseen_batches_inflight ", 0.0).await;
    let (mut other, _) = RawStream::greeted(&node, 99).await;
    is_served(&hashing, &mut other, &["b"]).await;
}
