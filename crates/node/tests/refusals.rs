//! What a node refuses, and how it says so.

mod common;

use common::{Hashing, RawStream, TestNode};
use firstseen_node::Limits;
use firstseen_wire::hello;
use firstseen_wire::net;
use firstseen_wire::proto::peer::{LinkFrame, LinkHello, link_frame};
use firstseen_wire::proto::producer::{Batch, BatchReply, ObserveRequest, Reason, observe_request};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

async fn node() -> TestNode {
    let node =
        TestNode::start("a", Limits { batch_events_max: 64, inflight_batches_max: 4, ..Limits::default() }).await;
    node.init().await;
    node.create("clicks", "none").await;
    node
}

fn assert_refused(reply: &BatchReply, reason: Reason, detail: &str) {
    assert_eq!(reply.refused, i32::from(reason), "{reply:?}");
    assert!(reply.detail.contains(detail), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_refused_with_their_reason() {
    let node = node().await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    let good = hashing.batch(1, &["a", "b"]);

    let many: Vec<String> = (0..65).map(|event| event.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let reply = stream.ask(hashing.batch(2, &many)).await;
    assert_refused(&reply, Reason::Invalid, "`events` holds 65, at most 64");
    let reply = stream.ask(Batch { filter_epoch: good.filter_epoch - 1, ..good.clone() }).await;
    assert_refused(&reply, Reason::StaleMap, "fetch map");
    let reply = stream.ask(Batch { filter_epoch: good.filter_epoch + 1, ..good.clone() }).await;
    assert_refused(&reply, Reason::NotReady, "not known here yet");
    let reply = stream.ask(Batch { incarnation: good.incarnation + 1, ..good.clone() }).await;
    assert_refused(&reply, Reason::StaleMap, "start");
    let reply = stream.ask(Batch { filter_id: 99, ..good.clone() }).await;
    assert_refused(&reply, Reason::UnknownFilter, "there is no filter 99");
    let reply = stream.ask(Batch { probes: vec![0xff; good.probes.len()].into(), ..good.clone() }).await;
    assert_refused(&reply, Reason::Invalid, "probes");
    let reply = stream.ask(Batch { probes: good.probes.slice(1..), ..good.clone() }).await;
    assert_refused(&reply, Reason::Invalid, "probes");
    let reply = stream.ask(Batch { operation: 77, ..good.clone() }).await;
    assert_refused(&reply, Reason::Invalid, "operation");
    let reply = stream.ask(Batch { runs: vec![5, 2], ..good.clone() }).await;
    assert_refused(&reply, Reason::Invalid, "runs");

    // After all of these, the stream still works, and nothing was set.
    let reply = stream.ask(good).await;
    assert_eq!((reply.refused, reply.events, reply.duplicates.len(), reply.undecided.len()), (0, 2, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_break_the_protocol_are_ended() {
    let node = node().await;
    let hashing = Hashing::of(&node, "clicks").await;

    let mut old = hello::hello(1);
    if let Some(observe_request::Message::Hello(hello)) = &mut old.message {
        hello.protocol_version = 99;
    }
    let status = RawStream::open(&node, old).await.end().await;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("99"), "{status}");

    let silent = ObserveRequest { message: Some(observe_request::Message::Batch(hashing.batch(1, &["a"]))) };
    assert_eq!(RawStream::open(&node, silent).await.end().await.code(), Code::InvalidArgument);

    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    stream.requests.send(hello::hello(1)).await.expect("open");
    assert_eq!(stream.end().await.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sending_without_credit_ends_the_stream() {
    // So slow that no answer comes before the credit is spent.
    let node = TestNode::start_with("a", |config| {
        config.limits = Limits { inflight_batches_max: 4, ..Limits::default() };
        config.owner_rate_max_events_per_s = Some(1);
    })
    .await;
    node.init().await;
    node.create("clicks", "none").await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, credit) = RawStream::greeted(&node, 1).await;
    assert_eq!(credit.inflight_batches_max, 4);
    for sequence in 0..6 {
        stream.send(hashing.batch(sequence, &["a"])).await;
    }
    let status = stream.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("credit"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_never_reads_holds_nobody_up() {
    let node = node().await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (deaf, _) = RawStream::greeted(&node, 1).await;
    for sequence in 0..500 {
        let message = Some(observe_request::Message::Batch(hashing.batch(sequence, &["a"])));
        if deaf.requests.send(ObserveRequest { message }).await.is_err() {
            break;
        }
    }
    let (mut other, _) = RawStream::greeted(&node, 2).await;
    for sequence in 0..50 {
        let reply = other.ask(hashing.batch(sequence, &["b"])).await;
        assert_eq!(reply.refused, 0, "{reply:?}");
    }
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_strangers_are_refused() {
    let node = node().await;
    let map = node.map().await;
    let hello = LinkHello {
        protocol_version: firstseen_wire::limits::PROTOCOL_VERSION,
        from_node: 9,
        from_incarnation: 1,
        to_node: 1,
        to_incarnation: 1,
        cluster_id: map.cluster.0.to_vec().into(),
    };
    let cases = [
        (hello.clone(), Code::PermissionDenied, "node 9 is not a member"),
        (LinkHello { cluster_id: vec![0; 16].into(), ..hello.clone() }, Code::PermissionDenied, "another cluster"),
        (LinkHello { cluster_id: vec![0; 3].into(), ..hello.clone() }, Code::InvalidArgument, "cluster_id"),
        (LinkHello { protocol_version: 2, ..hello.clone() }, Code::FailedPrecondition, "version"),
        (LinkHello { from_node: 1, to_incarnation: 77, ..hello.clone() }, Code::Unavailable, "another process"),
        (LinkHello { from_node: 1, from_incarnation: 0, ..hello.clone() }, Code::FailedPrecondition, "newer process"),
        (LinkHello { from_node: 1, from_incarnation: 77, ..hello }, Code::Unavailable, "map is behind"),
    ];
    for (hello, code, text) in cases {
        let (frames, outbound) = tokio::sync::mpsc::channel(1);
        let frame = LinkFrame { number: 0, message: Some(link_frame::Message::Hello(hello)) };
        frames.send(frame).await.expect("room");
        let mut client = net::peer_client(node.channel());
        let status = client.link(ReceiverStream::new(outbound)).await.expect_err("it is refused");
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(text), "{status}");
    }
}
