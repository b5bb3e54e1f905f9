//! Sends administrative requests to the nodes of a cluster, with the certificate or token that the command uses.
//!
//! If a request fails or its result is unknown, the module sends it again to the next address until a deadline. Each
//! attempt has the same request id, so a node that has executed the request does not execute it again. If no node
//! answers, the module returns an error message that names the addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use firstseen_wire::net::{Channel, Connector, Mismatch, TcpConnector, admin_client};
use firstseen_wire::proto::admin::admin_client::AdminClient;
use firstseen_wire::status::ErrorKind;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Response, Status};

use crate::exit::UsageError;

/// How long a command retries before it fails.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for one attempt. An election and a write to disk normally take less.
const ATTEMPT: Duration = Duration::from_secs(6);
/// Time for which failed attempts are not reported to the user.
const SILENCE: Duration = Duration::from_secs(3);
/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(200);

/// Creates an async runtime for a command that only waits for answers.
///
/// # Errors
/// Returns an error if the system cannot provide a runtime.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start")
}

/// Returns 16 random bytes as an id that no other request has.
pub fn fresh_id() -> Vec<u8> {
    // The standard library uses randomness of the system for the keys of its hash maps.
    let random: [[u8; 8]; 2] = std::array::from_fn(|_| RandomState::new().build_hasher().finish().to_le_bytes());
    random.concat()
}

/// A client that administers a cluster through any of its nodes.
#[derive(Clone)]
pub struct Operator {
    addresses: Vec<String>,
    connector: Arc<dyn Connector>,
    patience: Duration,
    /// One channel per address, created with the first request.
    channels: Arc<OnceLock<Vec<Channel>>>,
    /// Lists of addresses about whose slow replies the user has been told. A command sends several requests to the same
    /// addresses, but prints only one message about them.
    reported: Arc<Mutex<BTreeSet<Vec<String>>>>,
}

impl Operator {
    /// Creates an operator that asks the nodes at `addresses`.
    pub fn new(addresses: Vec<String>, connector: TcpConnector) -> Self {
        Self {
            addresses,
            connector: Arc::new(connector),
            patience: REQUEST_TIMEOUT,
            channels: Arc::default(),
            reported: Arc::default(),
        }
    }

    /// Returns an operator with the same settings that asks only the node at `address`.
    pub fn at(&self, address: &str) -> Self {
        Self { addresses: vec![address.to_owned()], channels: Arc::default(), ..self.clone() }
    }

    /// Returns the same operator, which now retries for `patience`.
    pub fn within(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Sends a request of the admin service, until one of the addresses gives a definite answer.
    ///
    /// # Errors
    /// Returns the error that a node answers, or an error if no node answers.
    pub async fn call<T>(
        &self,
        request: impl AsyncFn(AdminClient<Channel>) -> Result<Response<T>, Status>,
    ) -> anyhow::Result<T> {
        self.ask(async |channel| request(admin_client(channel)).await).await
    }

    /// Does the same as [`Self::call`] for a request of any service.
    ///
    /// # Errors
    /// Returns the error that a node answers, or an error if no node answers.
    pub async fn ask<T>(&self, request: impl AsyncFn(Channel) -> Result<Response<T>, Status>) -> anyhow::Result<T> {
        let begun = Instant::now();
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
            // A status that a node has sent has no source error. tonic adds a source to errors of the connection.
            if status.source().is_some()
                && let Some(mismatch) = self.connector.examine(address, None).await
            {
                mismatches.insert(address.as_str(), mismatch);
                if self.addresses.iter().all(|address| mismatches.contains_key(address.as_str())) {
                    return Err(mismatch_error(&mismatches));
                }
            }
            let kind = ErrorKind::from(&status);
            if !kind.is_worth_retrying() || Instant::now() + PAUSE > deadline {
                return Err(refused(address, kind, &status));
            }
            if begun.elapsed() > SILENCE && self.is_first_report() {
                notice!("firstseen: {address}: {}; asking again for {:.0?} in all", status.message(), self.patience);
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns `true` the first time that it is called for the addresses of this operator, and `false` afterwards. The
    /// caller prints the message about slow replies only the first time.
    fn is_first_report(&self) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.insert(self.addresses.clone())
    }

    /// Returns the channels, which stay open from one request to the next.
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

/// Returns the message about a certificate or a protocol version that does not fit, and what to do. Retrying does not
/// help in this case.
pub fn mismatched(address: &str, mismatch: &Mismatch) -> String {
    if mismatch.concerns_certificates() {
        format!("{address} {mismatch} (--tls-ca, --tls-cert, --tls-key)")
    } else {
        format!("{address} {mismatch}")
    }
}

fn mismatch_error(mismatches: &BTreeMap<&str, Mismatch>) -> anyhow::Error {
    let all = mismatches.iter().map(|(address, mismatch)| mismatched(address, mismatch));
    UsageError(all.collect::<Vec<_>>().join("; ")).into()
}

/// Returns the error for a request that failed.
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
        // If the caller lacks a right or has an invalid token, the node's message already says how to get another.
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
            "the node at {address} gives no definite answer: {message}. Without a majority of the nodes no change can \
             be made; the request may still be executed when there is a majority again: see firstseen cluster status"
        ),
    }
}

/// Returns whether no connection was established, in contrast to a node that answers that it is not ready.
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

#[cfg(test)]
mod tests {
    use firstseen_wire::net::TcpConnector;

    use super::*;

    /// Regression test. A command whose requests took long said twice that it was asking again.
    #[test]
    fn the_same_addresses_are_reported_once() {
        let operator = Operator::new(vec!["a:1".to_owned(), "b:1".to_owned()], TcpConnector::default());
        let again = operator.clone().within(Duration::from_secs(1));
        assert!(operator.is_first_report() && !again.is_first_report());
        assert!(again.at("a:1").is_first_report() && !operator.at("a:1").is_first_report());
    }
}
