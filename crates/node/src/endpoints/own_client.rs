//! The client through which a Redis or HTTP endpoint sends its requests to the cluster.

use std::sync::Arc;
use std::time::Duration;

use firstseen_client::{Client, ConnectOptions};
use firstseen_routing::rules::Rules;
use tokio::time::{Instant, sleep};

use crate::ids::Ids;
use crate::local_connector::LocalConnector;

/// Pause before the next attempt to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Time without a cluster after which the log reports that the endpoint is not open.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// Creates the clients that this node's endpoints use.
pub(crate) struct OwnClients {
    /// Connector whose requests to this node bypass the network.
    pub(crate) home: Arc<LocalConnector>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) rules: Rules,
    /// Site of this node.
    pub(crate) site: String,
}

impl OwnClients {
    /// Creates a client that sends the requests of an endpoint to this node. This method retries the connection until
    /// the node belongs to a cluster. `clients` is the name of the endpoint's users in log messages, and `deadline` is
    /// the maximum time for which a request waits for its verdicts.
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
                    tracing::warn!(
                        %error,
                        "the endpoint for {clients} is not open, because this node does not belong to a cluster yet"
                    );
                }
                Err(error) => tracing::debug!(%error, "the endpoint for {clients} waits for the cluster"),
            }
            sleep(CONNECT_PAUSE).await;
        }
    }
}
