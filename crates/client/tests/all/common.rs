//! Clients for tests with fake nodes, which answer as each test decides.

use firstseen_client::{Client, ConnectOptions};
pub(crate) use firstseen_fake::{Arrival, FakeCluster, Fate, SECRET, TIMEOUT, by_sequence, definition, eventually};

/// Returns options for a client of the first node. The deadline is as long as any test waits.
pub(crate) fn options(cluster: &FakeCluster) -> ConnectOptions {
    ConnectOptions {
        incarnation: Some(42),
        deadline_ms: TIMEOUT.as_millis() as u64,
        ..ConnectOptions::from([cluster.seed()])
    }
}

pub(crate) async fn connect(cluster: &FakeCluster) -> Client {
    Client::connect(options(cluster)).await.expect("a client")
}
