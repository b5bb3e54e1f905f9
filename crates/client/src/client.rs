//! A client: the watcher of the map, a sender for every node, and the filters that are in use.
//!
//! Promises: when the last handle is dropped, everything ends and every caller is answered. Must not know: how batches are made
//! and sent.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::ClusterMap;
use tokio::sync::oneshot;
use tokio::time::{timeout, timeout_at};

use crate::error::{ConnectError, FilterError};
use crate::filter::Filter;
use crate::options::ConnectOptions;
use crate::registry::Registry;
use crate::sender::Senders;
use crate::shared::Core;
use crate::traffic::NodeTraffic;
use crate::watch::Watcher;

/// A connection to a cluster. Clones share it; when the last is dropped everything is closed, and calls of filters that
/// are still held are refused.
#[derive(Clone)]
pub struct Client {
    parts: Arc<Parts>,
}

/// The parts of a client, which end with it.
struct Parts {
    core: Arc<Core>,
    senders: Arc<Senders>,
    registry: Arc<Registry>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.core.close();
        self.registry.close();
        self.senders.clear();
        self.core.set_relay(None);
    }
}

impl Client {
    /// Connects to a cluster, and waits for its first map for at most the deadline.
    ///
    /// # Errors
    /// [`ConnectError`]: what is missing, or that no node answered.
    ///
    /// ```
    /// use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// let client = Client::connect([seed]).await?;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn connect(options: impl Into<ConnectOptions>) -> Result<Self, ConnectError> {
        // In a box, so that the client is compiled here, and not again in each crate that waits for it.
        let connecting: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(Self::start(options.into()));
        connecting.await
    }

    async fn start(options: ConnectOptions) -> Result<Self, ConnectError> {
        let options = options.checked()?;
        let connector = options.connector()?;
        let incarnation = options.incarnation()?;
        for seed in &options.seeds {
            connector.channel(seed, None)?;
        }
        let core = Arc::new(Core::new(options, connector, incarnation, true));
        let (give_up, hopeless) = oneshot::channel();
        core.spawn(Watcher::new(core.clone(), give_up).run());
        let senders = Senders::start(core.clone());
        let registry = Arc::new(Registry::new(core.clone(), senders.clone()));
        let client = Self { parts: Arc::new(Parts { core: core.clone(), senders, registry }) };
        let mut maps = core.maps();
        let has_map = maps.wait_for(|map| map.version > 0);
        let first = async {
            tokio::select! {
                biased;
                map = has_map => Ok(map.is_ok()),
                // Sent only where no seed can ever answer; until then the map is awaited.
                Ok(mismatches) = hopeless => Err(ConnectError::Settings(mismatches)),
            }
        };
        match timeout_at(core.deadline(), first).await {
            Ok(Ok(true)) => Ok(client),
            Ok(Err(error)) => Err(error),
            _ => Err(ConnectError::Unreachable { waited_ms: core.options().deadline_ms, tried: core.complaints() }),
        }
    }

    /// Opens the filter of this name.
    ///
    /// # Errors
    /// [`FilterError`]: no such filter, no node answers, or the description cannot be used.
    ///
    /// ```
    /// # use firstseen_client::{Client, FilterError};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// let clicks = client.filter("clicks").await?;
    /// assert_eq!(clicks.info().name, "clicks");
    /// assert!(matches!(client.filter("clix").await, Err(FilterError::NotFound { .. })));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn filter(&self, name: &str) -> Result<Filter, FilterError> {
        let registry = &self.parts.registry;
        let core = registry.open(name, self.parts.core.deadline()).await?;
        Ok(Filter::new(core, registry.clone()))
    }

    /// Waits until nothing is queued or on its way any more, as a program does before it ends: answers that nobody awaits, and
    /// the releases of claims that were dropped. Returns whether that was so in time; meanwhile new calls wait.
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// drop(jobs.claim("job-1", Duration::from_secs(5)).await?);
    /// assert!(client.flush(Duration::from_secs(2)).await);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn flush(&self, within: Duration) -> bool {
        timeout(within, self.parts.core.quiet()).await.is_ok()
    }

    /// Returns the map of the cluster as it is now: its nodes, and its filters.
    ///
    /// ```
    /// # use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// assert!(client.map().filter_named("clicks").is_some());
    /// # Ok(())
    /// # });
    /// ```
    pub fn map(&self) -> Arc<ClusterMap> {
        self.parts.core.map()
    }

    /// Returns counts of the batches and bytes that were sent to each node so far.
    ///
    /// ```
    /// # use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// client.filter("clicks").await?.observe("click").await?;
    /// let batches: u64 = client.traffic().iter().map(|node| node.batches).sum();
    /// assert_eq!(batches, 1);
    /// # Ok(())
    /// # });
    /// ```
    pub fn traffic(&self) -> Vec<NodeTraffic> {
        self.parts.senders.traffic()
    }
}
