//! Clients of nodes that do what a test says.

use firstseen_client::{Client, ConnectOptions};
pub(crate) use firstseen_fake::{Arrival, FakeCluster, Fate, PATIENCE, SECRET, by_sequence, definition, eventually};

/// Options for a client of the first node, which waits for as long as any test does.
pub(crate) fn options(cluster: &FakeCluster) -> ConnectOptions {
    ConnectOptions {
        incarnation: Some(42),
        deadline_ms: PATIENCE.as_millis() as u64,
        ..ConnectOptions::from([cluster.seed()])
    }
}

pub(crate) async fn connect(cluster: &FakeCluster) -> Client {
    Client::connect(options(cluster)).await.expect("a client")
}
