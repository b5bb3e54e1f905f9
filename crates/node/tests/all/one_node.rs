//! Tests a cluster of one node with a filter, and a stream whose messages the test writes itself.

use crate::common::{Hashing, RawStream, TestNode};
use firstseen_node::Limits;
use firstseen_routing::Decision;
use firstseen_wire::proto::{admin, producer};

const NEW: Decision = Decision::FirstSeen;
const AGAIN: Decision = Decision::Duplicate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_seen_once_in_every_slicing() {
    let node = TestNode::start("a", Limits::default()).await;
    assert!(node.node.not_ready().is_some_and(|why| why.contains("no cluster")));
    assert_eq!(node.get("/readyz").await.0, 503);
    assert_eq!(node.get("/startupz").await.0, 503);
    node.init().await;
    node.ready().await;
    assert_eq!(node.get("/readyz").await, (200, "ready\n".to_owned()));
    assert_eq!(node.get("/startupz").await, (200, "started\n".to_owned()));
    let (mut stream, credit) = RawStream::greeted(&node, 1).await;
    assert_eq!(credit.batch_events_max, Limits::default().batch_events_max);
    let slicings = ["none", "horizontal:4", "vertical:4", "horizontal-vertical:2x2", "vertical-horizontal:2x2"];
    for (number, slicing) in (0u64..).zip(slicings) {
        node.create(slicing, slicing).await;
        let hashing = Hashing::of(&node, slicing).await;
        let first = hashing.observe(&mut stream, number * 100, &["a", "b", "c"]).await;
        assert_eq!(first, [NEW, NEW, NEW], "{slicing}");
        let second = hashing.observe(&mut stream, number * 100 + 10, &["c", "d", "a"]).await;
        assert_eq!(second, [AGAIN, NEW, AGAIN], "{slicing}");
        let retried = hashing.observe(&mut stream, number * 100, &["a", "b", "c"]).await;
        assert_eq!(retried, [NEW, NEW, NEW], "{slicing}: a retry is answered as the first time");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_described_inspected_and_dropped() {
    let node = TestNode::start("a", Limits::default()).await;
    node.init().await;
    let id = node.create("clicks", "horizontal:4").await;
    let mut producer = firstseen_wire::net::producer_client(node.channel());
    let request = producer::DescribeFilterRequest { name: "clicks".to_owned() };
    let described = producer.describe_filter(request.clone()).await.expect("described").into_inner();
    assert_eq!((described.filter.expect("a filter").id, described.slices_ready), (id.0, 4));
    assert_eq!(described.secret.len(), 32);
    let request_state = admin::InspectFilterRequest { name: "clicks".to_owned() };
    let state = node.admin().inspect_filter(request_state).await.expect("inspected").into_inner();
    assert!(state.slices.iter().all(|slice| slice.ready && slice.complete && slice.bytes > 0), "{state:?}");
    assert_eq!(state.slices.len(), 4);
    let drop = admin::DropFilterRequest { command_id: vec![].into(), name: "clicks".to_owned() };
    node.admin().drop_filter(drop.clone()).await.expect("dropped");
    let gone = producer.describe_filter(request).await.expect_err("it is gone");
    assert_eq!(gone.code(), tonic::Code::NotFound);
    let twice = node.admin().drop_filter(drop).await.expect_err("it is gone");
    assert_eq!(twice.code(), tonic::Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_the_map_now_and_when_it_changes() {
    let node = TestNode::start("a", Limits::default()).await;
    node.init().await;
    let mut producer = firstseen_wire::net::producer_client(node.channel());
    let watch = producer::WatchMapRequest { known_version: 0 };
    let mut maps = producer.watch_map(watch).await.expect("watched").into_inner();
    let first = maps.message().await.expect("a map").expect("a map");
    node.create("clicks", "none").await;
    let next = tokio::time::timeout(crate::common::PATIENCE, maps.message()).await.expect("in time");
    let next = next.expect("a map").expect("a map");
    assert!(next.version > first.version && next.filters.len() == 1, "{next:?}");
}
