//! The client through which a door asks the cluster.

use std::sync::Arc;
use std::time::Duration;

use firstseen_client::{Client, ConnectOptions};
use firstseen_routing::rules::Rules;
use tokio::time::{Instant, sleep};

use crate::home::Home;
use crate::ids::Ids;

/// The pause before the next attempt to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// After this time without a cluster, the log says that the door is not open.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// Connects the clients of this node's doors.
pub(crate) struct OwnClients {
    /// The way to this node.
    pub(crate) home: Arc<Home>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) rules: Rules,
    /// The site of this node.
    pub(crate) site: String,
}

impl OwnClients {
    /// Connects a client to this node, and tries again until the node belongs to a cluster. `clients` says whose door it
    /// is, for the log; `deadline` is how long the client waits for verdicts.
    pub(crate) async fn connect(&self, clients: &str, deadline: Duration) -> Client {
        let begun = Instant::now();
        let mut has_warned = false;
        loop {
            let options = ConnectOptions {
                connector: Some(self.home.clone()),
                incarnation: Some(u128::from_le_bytes(self.ids.next())),
                deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
                rules: self.rules,
                site: Some(self.site.clone()),
                ..ConnectOptions::from([self.home.address.clone()])
            };
            match Client::connect(options).await {
                Ok(client) => return client,
                Err(error) if !has_warned && begun.elapsed() > WARN_AFTER => {
                    has_warned = true;
                    tracing::warn!(%error, "the door for {clients} answers nobody before this node belongs to a cluster");
                }
                Err(error) => tracing::debug!(%error, "the door for {clients} waits for the cluster"),
            }
            sleep(CONNECT_PAUSE).await;
        }
    }
}
