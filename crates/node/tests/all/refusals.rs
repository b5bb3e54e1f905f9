//! Tests of the requests that a node rejects, and of the reasons that it gives.

use crate::common::{Hashing, RawStream, TestNode, request_to_create};
use firstseen_filter::{FilterSpec, Kind, ProbeShape};
use firstseen_node::Limits;
use firstseen_routing::SlicedDefinition;
use firstseen_wire::hello;
use firstseen_wire::net;
use firstseen_wire::packing::event_bits;
use firstseen_wire::proto::admin::{CreateFilterRequest, DropFilterRequest};
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
    assert_refused(&reply, Reason::NotReady, "is unknown here");
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

    // After all these rejections the stream still works, and no cell has been set.
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
    // The owner is so slow that no reply arrives before the credit is used up.
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

/// Tests that a node rejects positions that are outside of a filter. The test sets all bits of the encoded positions,
/// so that every position has the greatest value that its bits can express. This value is outside of every filter of
/// the test. The padding bits at the end of the last byte remain zero, because the node would reject other padding for
/// a different reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_outside_of_the_filter_are_refused() {
    let node = node().await;
    node.create("spread", "vertical:2").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    for (name, sequence) in [("clicks", 10), ("spread", 20)] {
        let hashing = Hashing::of(&node, name).await;
        let places = match hashing.shape() {
            ProbeShape::Spread { cells, .. } => cells,
            ProbeShape::Blocked { blocks, .. } => blocks,
        };
        assert!(!places.is_power_of_two(), "{name}: {places} places leave no position outside");
        let good = hashing.batch(sequence, &["a", "b", "c"]);
        let bits = event_bits(hashing.shape()) * 3;
        let ones = |byte: usize| (0..8).filter(|bit| byte * 8 + bit < bits).fold(0u8, |byte, bit| byte | 1 << bit);
        let outside: Vec<u8> = (0..good.probes.len()).map(ones).collect();
        let reply = stream.ask(Batch { probes: outside.into(), ..good.clone() }).await;
        assert_refused(&reply, Reason::Invalid, "`probes` holds");
        if !bits.is_multiple_of(8) {
            let mut dirty = good.probes.to_vec();
            *dirty.last_mut().expect("bytes") |= 0x80;
            let reply = stream.ask(Batch { probes: dirty.into(), sequence: sequence + 1, ..good.clone() }).await;
            assert_refused(&reply, Reason::Invalid, "`probes` is cut off or damaged");
        }
        let reply = stream.ask(good).await;
        assert_eq!((reply.refused, reply.events, reply.duplicates.len()), (0, 3, 0), "{name}: nothing was set");
    }
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
        protocol_version_max: 0,
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

/// Returns a request for a filter whose slices have `cells` timers of 16 bits each.
fn of_cells(name: &str, slicing: &str, cells: u64) -> CreateFilterRequest {
    let slicing: firstseen_routing::Slicing = slicing.parse().expect("a slicing");
    let spec = FilterSpec {
        cells: Some(cells * u64::from(slicing.slices())),
        cell_bits: Some(16),
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, slicing).expect("a definition");
    request_to_create(name, &definition)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_can_never_be_built_does_not_reach_the_log() {
    let node = node().await;
    let before = node.node.meta().status().last_applied;
    let good = of_cells("wide", "none", 1024);
    for (there, instead, said) in [
        ("\"cell_bits\":16", "\"cell_bits\":1", "`cell_bits` of the definition is 1"),
        ("\"cell_bits\":16", "\"cell_bits\":8", "window does not fit its cells"),
        ("\"cells\":1024", "\"cells\":1099511627777", "choose 1 to 1099511627776"),
        ("\"slicing\":\"none\"", "\"slicing\":\"vertical:4097\"", "choose 1 to 4096"),
        ("\"equal_timers\":0", "\"equal_timers\":99", "`equal_timers` of the definition is 99"),
    ] {
        assert!(good.definition_json.contains(there), "{there} in {}", good.definition_json);
        let definition_json = good.definition_json.replace(there, instead);
        let request = CreateFilterRequest { definition_json, ..good.clone() };
        let refused = node.admin().create_filter(request).await.expect_err(instead);
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(said) && refused.message().contains("`wide`"), "{refused}");
    }
    assert_eq!(node.node.meta().status().last_applied, before, "nothing was proposed");
    node.admin().create_filter(good).await.expect("nothing is wrong with it");
}

/// Tests slices of 2 TiB. No process can address that much memory, so the allocation fails on every machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_whose_slices_find_no_memory_is_created_with_a_warning() {
    let node = TestNode::start_with("a", |config| config.memory_max_bytes = 1 << 50).await;
    node.init().await;
    node.ready().await;
    let refused = node.admin().create_filter(of_cells("huge", "horizontal:256", 1 << 40)).await.expect_err("no memory");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    for said in ["filter `huge` is created", "node a cannot hold group", "no memory for 2199023255552 bytes", "drop"] {
        assert!(refused.message().contains(said), "{refused}");
    }
    assert!(node.map().await.filter_named("huge").is_some(), "the cluster has it");
    assert_eq!(node.get("/readyz").await.0, 503);
    assert_eq!(node.get("/metrics").await.0, 200, "groups that could be built have samples");
    let drop = DropFilterRequest { command_id: vec![].into(), name: "huge".to_owned() };
    node.admin().drop_filter(drop).await.expect("dropped");
    node.ready().await;
}
