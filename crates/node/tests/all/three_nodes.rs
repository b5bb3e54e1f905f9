//! Tests three nodes, the messages between them, and requests to each of them.

use crate::common::{Hashing, RawStream};
use firstseen_routing::Decision;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_endpoint_gives_the_same_answers() {
    let nodes = crate::common::three_nodes().await;
    for (number, slicing) in (1u64..).zip(["horizontal:6", "vertical:6", "horizontal-vertical:2x3"]) {
        nodes[0].create(slicing, slicing).await;
        for node in &nodes {
            node.knows(slicing).await;
        }
        let hashing = Hashing::of(&nodes[0], slicing).await;
        let owners: std::collections::BTreeSet<_> = hashing.record.owners.iter().map(|owner| owner.node).collect();
        assert_eq!(owners.len(), 3, "{slicing}: the slices are spread");
        let events: Vec<String> = (0..200).map(|event| format!("event-{event}")).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        for (endpoint, node) in (0u64..).zip(&nodes) {
            let (mut stream, _) = RawStream::greeted(node, u128::from(endpoint + 1)).await;
            let decisions = hashing.observe(&mut stream, number * 1000 + endpoint * 10, &events).await;
            let expected = if endpoint == 0 { Decision::FirstSeen } else { Decision::Duplicate };
            let others: Vec<_> = decisions.iter().filter(|decision| **decision != expected).collect();
            assert!(others.is_empty(), "{slicing}, endpoint {endpoint}: {others:?} among {}", decisions.len());
        }
    }
}
