//! Requests to the nodes of a cluster: which node is asked, with which certificate, and the message where none answers.
//!
//! Promises: a request that may not have been carried out is sent again under the same id, to each address in turn,
//! until a deadline. Must not know: what the requests are.

use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use firstseen_wire::net::{Channel, Connector, Mismatch, TcpConnector, admin_client};
use firstseen_wire::proto::admin::admin_client::AdminClient;
use firstseen_wire::status::ErrorKind;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Response, Status};

use crate::exit::UsageError;

/// How long a command goes on trying.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long one attempt may take: an election and a write to disk fit well within.
const ATTEMPT: Duration = Duration::from_secs(6);
/// For so long the command prints nothing about attempts that have failed.
const SILENCE: Duration = Duration::from_secs(3);
/// The pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(200);

/// A runtime for a command that only waits for answers.
///
/// # Errors
/// Where the system gives no runtime.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start")
}

/// 16 random bytes: an id that no other request has.
pub fn fresh_id() -> Vec<u8> {
    // The standard library keys its hash maps from the system's randomness.
    let random: [[u8; 8]; 2] = std::array::from_fn(|_| RandomState::new().build_hasher().finish().to_le_bytes());
    random.concat()
}

/// A client that administers a cluster through any of its nodes.
#[derive(Clone)]
pub struct Operator {
    addresses: Vec<String>,
    connector: Arc<dyn Connector>,
    patience: Duration,
    /// One channel an address, made with the first request.
    channels: Arc<OnceLock<Vec<Channel>>>,
}

impl Operator {
    /// An operator that asks the nodes at `addresses`.
    pub fn new(addresses: Vec<String>, connector: TcpConnector) -> Self {
        Self { addresses, connector: Arc::new(connector), patience: PATIENCE, channels: Arc::default() }
    }

    /// The same operator, but it asks the node at `address` only.
    pub fn at(&self, address: &str) -> Self {
        Self { addresses: vec![address.to_owned()], channels: Arc::default(), ..self.clone() }
    }

    /// The same operator, but it goes on trying for `patience`.
    pub fn within(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Sends a request of the admin service until one of the addresses gives a definite answer.
    ///
    /// # Errors
    /// The error that a node answers; that no node answers.
    pub async fn call<T>(
        &self,
        request: impl AsyncFn(AdminClient<Channel>) -> Result<Response<T>, Status>,
    ) -> anyhow::Result<T> {
        self.ask(async |channel| request(admin_client(channel)).await).await
    }

    /// The same as [`Self::call`] for a request of any service.
    ///
    /// # Errors
    /// The error that a node answers; that no node answers.
    pub async fn ask<T>(&self, request: impl AsyncFn(Channel) -> Result<Response<T>, Status>) -> anyhow::Result<T> {
        let begun = Instant::now();
        let mut has_spoken = false;
        let deadline = begun + self.patience;
        let channels = self.channels()?;
        let mut attempts = self.addresses.iter().zip(channels).cycle();
        let mut mismatches = BTreeMap::new();
        loop {
            let Some((address, channel)) = attempts.next() else { bail!(UsageError("no address is given".to_owned())) };
            let answer = timeout(ATTEMPT.min(self.patience), request(channel.clone())).await;
            let status = match answer {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("no answer in time"),
            };
            // A status that a node has sent has no cause; tonic gives one to an error of the connection.
            if status.source().is_some()
                && let Some(mismatch) = self.connector.examine(address, None).await
            {
                mismatches.insert(address.as_str(), mismatch);
                if self.addresses.iter().all(|address| mismatches.contains_key(address.as_str())) {
                    return Err(unfit(&mismatches));
                }
            }
            let kind = ErrorKind::from(&status);
            if !kind.is_worth_retrying() || Instant::now() + PAUSE > deadline {
                return Err(refused(address, kind, &status));
            }
            if !has_spoken && begun.elapsed() > SILENCE {
                notice!("firstseen: {address}: {}; asking again for {:.0?} in all", status.message(), self.patience);
                has_spoken = true;
            }
            sleep(PAUSE).await;
        }
    }

    /// The channels, which stay open from one request to the next.
    fn channels(&self) -> anyhow::Result<&[Channel]> {
        if let Some(channels) = self.channels.get() {
            return Ok(channels);
        }
        let channels = self.addresses.iter().map(|address| self.connector.channel(address, None));
        let channels = channels.collect::<Result<_, _>>();
        let channels = channels.map_err(|error| UsageError(error.to_string()))?;
        Ok(self.channels.get_or_init(|| channels))
    }
}

/// The message about a certificate or protocol that does not fit, where waiting changes nothing, and the remedy.
pub fn mismatched(address: &str, mismatch: &Mismatch) -> String {
    if mismatch.concerns_certificates() {
        format!("{address} {mismatch} (--tls-ca, --tls-cert, --tls-key)")
    } else {
        format!("{address} {mismatch}")
    }
}

fn unfit(mismatches: &BTreeMap<&str, Mismatch>) -> anyhow::Error {
    let all = mismatches.iter().map(|(address, mismatch)| mismatched(address, mismatch));
    UsageError(all.collect::<Vec<_>>().join("; ")).into()
}

/// The error for a request that failed.
fn refused(address: &str, kind: ErrorKind, status: &Status) -> anyhow::Error {
    let message = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    match kind {
        ErrorKind::Invalid => UsageError(message.to_owned()).into(),
        ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::NotNow | ErrorKind::Overloaded => {
            anyhow::anyhow!("{message}")
        }
        // Who lacks a right, or shows a token that does not count, is told already how to come by another.
        ErrorKind::Forbidden if message.contains("firstseen access") => {
            anyhow::anyhow!("the node at {address} refuses: {message}")
        }
        ErrorKind::Unauthenticated | ErrorKind::Forbidden => anyhow::anyhow!(
            "the node at {address} refuses: {message}; give --tls-ca, --tls-cert and --tls-key of a certificate for it"
        ),
        ErrorKind::Unsupported => anyhow::anyhow!(
            "the node at {address} cannot do this: {message}; is it older, or is this its port for health and metrics?"
        ),
        _ if is_connection_refused(status) => anyhow::anyhow!(
            "nothing answers at {address} ({}): is the node running, and does it use TLS (--tls-ca, ...)?",
            root_cause(status)
        ),
        _ => anyhow::anyhow!(
            "the node at {address} gives no definite answer: {message}. Without a majority of the nodes nothing can be \
             agreed on; what was asked for may still be done when there is one: see firstseen cluster status"
        ),
    }
}

/// Whether no connection came about, as opposed to a node that answers that it is not ready.
fn is_connection_refused(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown) && status.source().is_some()
}

fn root_cause(status: &Status) -> String {
    let mut cause: &dyn Error = status;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
