//! Follows the cluster's map through any node that answers.
//!
//! Promises: the map here is the newest that any node has sent; a node that answers relays for nodes that the client
//! cannot reach. Must not know: filters, batches.

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

/// How long the map of the node that is followed may lag behind a version that other nodes name.
const LAG_MAX: Duration = Duration::from_millis(500);
/// For so long a node that refuses is asked again: it may not know yet what was just granted.
const REFUSED_MIN: Duration = Duration::from_secs(1);

/// A node to ask for the map.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    address: String,
    /// Unknown of a seed: it may be any node.
    node_name: Option<String>,
}

/// Follows the map for as long as the client lives.
pub(crate) struct Watcher {
    core: Arc<Core>,
    jitter: Jitter,
    /// The last error of each address.
    complaints: BTreeMap<String, String>,
    /// Signalled when it is of no use to wait for a first map.
    hopeless: Option<oneshot::Sender<Vec<SeedMismatch>>>,
    begun: Instant,
}

/// Why there is no map from a candidate.
struct Failure {
    complaint: String,
    /// Why there will be none, where that is known.
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
    /// Follows the map from the client's seeds on; `hopeless` is signalled where no seed can ever be reached with these settings.
    pub(crate) fn new(core: Arc<Core>, hopeless: oneshot::Sender<Vec<SeedMismatch>>) -> Self {
        let jitter = core.jitter();
        Self { core, jitter, complaints: BTreeMap::new(), hopeless: Some(hopeless), begun: Instant::now() }
    }

    /// Goes from one candidate to the next, and stays with one for as long as it answers.
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
                self.complaints.insert(candidate.address, complaint);
                self.core.complain(&self.complaints);
                if self.core.map_version() > before {
                    failures = 0;
                }
            }
            self.give_up(tried, mismatches);
            failures += 1;
            sleep(Duration::from_millis(self.jitter.wait_ms(failures + 2))).await;
        }
    }

    /// Signals the caller that waits for the first map that no seed can ever give it. The search goes on: the caller
    /// ends it.
    fn give_up(&mut self, tried: usize, mismatches: Vec<SeedMismatch>) {
        if self.core.map_version() > 0 {
            self.hopeless = None;
        } else if mismatches.len() == tried
            && let Some(hopeless) = self.hopeless.take()
        {
            // This fails where the caller waits no more.
            let _ = hopeless.send(mismatches);
        }
    }

    /// The seeds first, then all other nodes of the map.
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

    /// The failure behind a status. Only before the first map is a second look at the address worth it: later the
    /// settings are known to be right.
    async fn failure(&self, Candidate { address, node_name }: &Candidate, status: &tonic::Status) -> Failure {
        if ErrorKind::from(status) == ErrorKind::Unsupported {
            return Mismatch::OtherService.into();
        }
        // A right that was just granted may be unknown there for a moment.
        let is_first = self.core.map_version() == 0;
        if ErrorKind::from(status) == ErrorKind::Forbidden && is_first && self.begun.elapsed() >= REFUSED_MIN {
            return Mismatch::Refuses { reason: status.message().to_owned() }.into();
        }
        // A status that a node has sent has no cause; tonic gives a cause where a connection fails.
        let is_connection = std::error::Error::source(status).is_some();
        let mismatch = if is_connection && self.core.map_version() == 0 {
            self.core.connector().examine(address, node_name.as_deref()).await
        } else {
            None
        };
        mismatch.map_or_else(|| complaint(status).into(), Failure::from)
    }

    /// Takes maps until there are no more, or other nodes name newer ones.
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

/// Filters that another version has made are left out: whoever opens one is told what is wrong with it.
fn warn_of(unreadable: Vec<UnreadableFilter>) {
    for UnreadableFilter { name, error } in unreadable {
        tracing::warn!(filter = name, %error, "this client does not understand a filter: does its version match the cluster's?");
    }
}

/// The text of a status, with its cause: tonic names failed connections only there.
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
