//! Connection of a client to a cluster. The connection consists of one task that follows changes of the cluster map,
//! one sender task for each node, and the filters that the program has opened.
//!
//! When the program drops the last handle to the connection, all tasks of the connection end. Every caller that is
//! still waiting receives an answer.

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

/// Connection to a cluster. Clones of a client share one connection. The connection closes when the last clone is
/// dropped. A program may still hold [`Filter`] handles at that point, but their calls return an error.
#[derive(Clone)]
pub struct Client {
    parts: Arc<Parts>,
}

/// Parts of a client. They end when the last handle to the client is dropped.
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
    /// Connects to a cluster, and waits for its first cluster map until the deadline ([`ConnectOptions::deadline_ms`]).
    ///
    /// # Errors
    /// Returns [`ConnectError`] if an option is missing or invalid, or if no node has answered in time.
    ///
    /// ```
    /// use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// let client = Client::connect([seed]).await?;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn connect(options: impl Into<ConnectOptions>) -> Result<Self, ConnectError> {
        // Boxing the future compiles the client once in this crate, instead of again in each crate that awaits it.
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
                // This message is sent only if no seed can ever answer with the present settings. Otherwise the client
                // keeps waiting for the cluster map.
                Ok(mismatches) = hopeless => Err(ConnectError::Settings(mismatches)),
            }
        };
        match timeout_at(core.deadline(), first).await {
            Ok(Ok(true)) => Ok(client),
            Ok(Err(error)) => Err(error),
            _ => Err(ConnectError::Unreachable { waited_ms: core.options().deadline_ms, tried: core.last_errors() }),
        }
    }

    /// Opens the filter with this name.
    ///
    /// # Errors
    /// Returns [`FilterError`] if there is no such filter, if no node answers, or if this version of the client cannot
    /// use the filter's description.
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

    /// Waits until this client has no queued or in-flight events. Returns `true` if the client reached this state
    /// within the given time, and `false` otherwise. New calls wait until the flush has ended.
    ///
    /// A program should call this function before it exits. Otherwise, events whose verdicts the program does not
    /// await, and releases of dropped claims, may never reach the cluster.
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

    /// Returns the current cluster map, which lists the nodes and filters of the cluster.
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

    /// Returns how many batches and bytes this client has sent to each node so far.
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
