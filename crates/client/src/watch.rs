//! Follows the cluster map through any node that answers.
//!
//! The client follows one node, from which it receives changes of the cluster map, and always uses the newest map that
//! any node has sent. The followed node also relays batches to nodes that the client cannot reach directly.
//!
//! This module does not depend on filters or batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::duration;
use firstseen_wire::limits::CONNECT_TIMEOUT;
use firstseen_wire::map::{UnreadableFilter, readable};
use firstseen_wire::net::{Channel, Mismatch, producer_client};
use firstseen_wire::proto::producer as proto;
use firstseen_wire::status::ErrorKind;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

use crate::error::SeedMismatch;
use crate::retry::Jitter;
use crate::shared::Core;

/// Maximum time for which the client follows a node that has an outdated cluster map. The client knows that a map is
/// outdated if another node has reported a newer version. After this time, it follows a different node, because the
/// lagging node may be cut off from the cluster.
const LAG_MAX: Duration = Duration::from_millis(500);
/// Minimum time for which the client retries a node that denies access. A right that was granted a moment ago may not
/// have reached the node yet, so the first denial is not final.
const REFUSED_MIN: Duration = Duration::from_secs(1);

/// Node that the client can ask for the cluster map.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    address: String,
    /// Name of the node. `None` for a seed address, behind which any node may answer.
    node_name: Option<String>,
}

/// Task that follows the cluster map for as long as the client lives.
pub(crate) struct Watcher {
    core: Arc<Core>,
    jitter: Jitter,
    /// Last error of each address.
    last_errors: BTreeMap<String, String>,
    /// Channel that tells the connecting caller that waiting for a first cluster map is useless.
    hopeless: Option<oneshot::Sender<Vec<SeedMismatch>>>,
    begun: Instant,
}

/// Reason why a candidate did not deliver a cluster map.
struct Failure {
    complaint: String,
    /// Cause that makes every further attempt fail too, if such a cause is known.
    mismatch: Option<Mismatch>,
}

impl From<String> for Failure {
    fn from(complaint: String) -> Self {
        Self { complaint, mismatch: None }
    }
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        Self { complaint: mismatch.to_string(), mismatch: Some(mismatch) }
    }
}

impl Watcher {
    /// Creates a watcher that starts with the client's seeds. A message on `hopeless` means that no seed can be reached
    /// with the present settings.
    pub(crate) fn new(core: Arc<Core>, hopeless: oneshot::Sender<Vec<SeedMismatch>>) -> Self {
        let jitter = core.jitter();
        Self { core, jitter, last_errors: BTreeMap::new(), hopeless: Some(hopeless), begun: Instant::now() }
    }

    /// Tries one candidate after the other, and stays with a candidate for as long as it answers.
    pub(crate) async fn run(mut self) {
        let mut failures = 0;
        loop {
            let candidates = self.candidates();
            let tried = candidates.len();
            let mut mismatches = Vec::new();
            for candidate in candidates {
                let before = self.core.map_version();
                let failure = match self.open(&candidate).await {
                    Ok((channel, maps)) => {
                        self.core.set_relay(Some(channel));
                        self.follow(&candidate, maps).await
                    }
                    Err(failure) => failure,
                };
                let Failure { complaint, mismatch } = failure;
                tracing::debug!(address = candidate.address, complaint, "no map from there any more");
                let address = candidate.address.clone();
                mismatches.extend(mismatch.map(|mismatch| SeedMismatch { address, mismatch }));
                self.last_errors.insert(candidate.address, complaint);
                self.core.set_last_errors(&self.last_errors);
                if self.core.map_version() > before {
                    failures = 0;
                }
            }
            self.give_up(tried, mismatches);
            failures += 1;
            sleep(Duration::from_millis(self.jitter.wait_ms(failures + 2))).await;
        }
    }

    /// Tells the caller that is waiting for the first cluster map that no seed node can deliver a map. The search for a
    /// usable node continues in the background until the caller drops the client.
    fn give_up(&mut self, tried: usize, mismatches: Vec<SeedMismatch>) {
        if self.core.map_version() > 0 {
            self.hopeless = None;
        } else if mismatches.len() == tried
            && let Some(hopeless) = self.hopeless.take()
        {
            // Sending fails if the caller no longer waits, which is not an error.
            let _ = hopeless.send(mismatches);
        }
    }

    /// Returns the seeds, followed by all other nodes of the cluster map.
    fn candidates(&self) -> Vec<Candidate> {
        let seeds = &self.core.options().seeds;
        let mut all: Vec<Candidate> =
            seeds.iter().map(|seed| Candidate { address: seed.clone(), node_name: None }).collect();
        for node in self.core.map().nodes.values() {
            if !seeds.contains(&node.address) {
                all.push(Candidate { address: node.address.clone(), node_name: Some(node.name.clone()) });
            }
        }
        all
    }

    async fn open(&self, candidate: &Candidate) -> Result<(Channel, Streaming<proto::ClusterMap>), Failure> {
        let connector = self.core.connector();
        let channel = connector.channel(&candidate.address, candidate.node_name.as_deref());
        let channel = channel.map_err(|error| error.to_string())?;
        let mut client = producer_client(channel.clone());
        let request = proto::WatchMapRequest { known_version: self.core.map_version() };
        match timeout(CONNECT_TIMEOUT, client.watch_map(request)).await {
            Ok(Ok(maps)) => Ok((channel, maps.into_inner())),
            Ok(Err(status)) => Err(self.failure(candidate, &status).await),
            Err(_) => Err(format!("no answer within {}", duration(CONNECT_TIMEOUT.as_millis() as u64)).into()),
        }
    }

    /// Determines the cause of a failure from a gRPC status. Before the client has received its first cluster map, its
    /// settings may be wrong, for example the address or the TLS settings. The function then opens another connection
    /// to the address and examines what answers there. Later failures have other causes, so the function opens no
    /// connection for them.
    async fn failure(&self, Candidate { address, node_name }: &Candidate, status: &tonic::Status) -> Failure {
        if ErrorKind::from(status) == ErrorKind::Unsupported {
            return Mismatch::OtherService.into();
        }
        // A right that was just granted may not have reached this node yet.
        let is_first = self.core.map_version() == 0;
        if ErrorKind::from(status) == ErrorKind::Forbidden && is_first && self.begun.elapsed() >= REFUSED_MIN {
            return Mismatch::Refuses { reason: status.message().to_owned() }.into();
        }
        // A status that the node sent has no source error. Tonic adds a source only if the connection failed.
        let is_connection = std::error::Error::source(status).is_some();
        let mismatch = if is_connection && self.core.map_version() == 0 {
            self.core.connector().examine(address, node_name.as_deref()).await
        } else {
            None
        };
        mismatch.map_or_else(|| complaint(status).into(), Failure::from)
    }

    /// Receives cluster maps until the stream ends, or until other nodes have reported newer versions for too long.
    async fn follow(&self, candidate: &Candidate, mut maps: Streaming<proto::ClusterMap>) -> Failure {
        let lagging = self.core.map_is_behind_for(LAG_MAX);
        tokio::pin!(lagging);
        loop {
            let message = tokio::select! {
                biased;
                message = maps.message() => message,
                () = &mut lagging => return "other nodes have a newer map".to_owned().into(),
            };
            match message {
                Ok(Some(message)) => match readable(message) {
                    Ok((map, unreadable)) => {
                        warn_of(unreadable);
                        if let Err(complaint) = self.core.set_map(map) {
                            return complaint.into();
                        }
                    }
                    Err(error) => return error.to_string().into(),
                },
                Ok(None) => return "the node ended the watch".to_owned().into(),
                Err(status) => return self.failure(candidate, &status).await,
            }
        }
    }
}

/// Logs a warning for each filter whose definition this version of the client cannot read. The client ignores such
/// filters. If a program tries to open one of them, it gets an error that explains the reason.
fn warn_of(unreadable: Vec<UnreadableFilter>) {
    for UnreadableFilter { name, error } in unreadable {
        tracing::warn!(filter = name, %error, "this client does not understand a filter: does its version match the cluster's?");
    }
}

/// Returns the text of a status and its source errors. Tonic describes failed connections only in the source errors.
pub(crate) fn complaint(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}
