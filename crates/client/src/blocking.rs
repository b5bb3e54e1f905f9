//! The client for programs without an async runtime: the same calls, which block.
//!
//! Promises: a thread of its own serves the client's connections, also while no call is under way. Must not be used
//! from within an async runtime: calls would block its thread (they panic there, as `block_on` does).

use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::{Fence, SubmissionName};
use tokio::runtime::{self, Runtime};

use crate::audit::AuditReport;
use crate::claims::{Claim, Claiming, Confirming, Delivery};
use crate::degraded::Degraded;
use crate::error::{CallError, ConnectError, FilterError};
use crate::filter::Verdict;
use crate::frequency::Frequency;
use crate::options::Builder;
use crate::outage::MissingSlices;

/// A connection to a cluster; [`crate::Client`] that blocks. Clones share it.
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects with the usual limits, without TLS.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect<S: Into<String>>(seeds: impl IntoIterator<Item = S>) -> Result<Self, ConnectError> {
        Self::build(crate::Client::builder().seeds(seeds))
    }

    /// Connects as the builder says.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn build(builder: Builder) -> Result<Self, ConnectError> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("firstseen-client")
            .enable_all()
            .build()
            .map_err(ConnectError::Thread)?;
        let client = runtime.block_on(builder.connect())?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// [`crate::Client::flush`].
    pub fn flush(&self, within: Duration) -> bool {
        self.runtime.block_on(self.client.flush(within))
    }

    /// The filter of this name.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn filter(&self, name: &str) -> Result<Filter, FilterError> {
        let filter = self.runtime.block_on(self.client.filter(name))?;
        Ok(Filter { filter, runtime: self.runtime.clone() })
    }
}

/// A filter of the cluster; [`crate::Filter`] that blocks.
#[derive(Clone)]
pub struct Filter {
    filter: crate::Filter,
    runtime: Arc<Runtime>,
}

impl Filter {
    /// The key of its hash.
    pub fn secret(&self) -> &FilterSecret {
        self.filter.secret()
    }

    /// Whether events must bring their times.
    pub fn needs_times(&self) -> bool {
        self.filter.needs_times()
    }

    /// [`crate::Filter::degraded`].
    pub fn degraded(&self) -> Degraded {
        self.filter.degraded()
    }

    /// [`crate::Filter::observe`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn observe(&self, event: &[u8]) -> Result<Verdict, CallError> {
        self.runtime.block_on(self.filter.observe(event))
    }

    /// [`crate::Filter::observe_at`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn observe_at(&self, event: &[u8], time_ms: u64) -> Result<Verdict, CallError> {
        self.runtime.block_on(self.filter.observe_at(event, time_ms))
    }

    /// [`crate::Filter::observe_as`], with a time where the filter needs one.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn observe_as(&self, name: SubmissionName, event: &[u8], time_ms: Option<u64>) -> Result<Verdict, CallError> {
        self.runtime.block_on(async {
            match time_ms {
                Some(time_ms) => self.filter.observe_as_at(name, event, time_ms).await,
                None => self.filter.observe_as(name, event).await,
            }
        })
    }

    /// [`crate::Filter::observe_batch`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn observe_batch<E: AsRef<[u8]> + Sync>(
        &self,
        events: &[E],
        times_ms: &[u64],
    ) -> Result<Vec<Verdict>, CallError> {
        self.runtime.block_on(self.filter.observe_batch(events, times_ms))
    }

    /// [`crate::Filter::observe_digests`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn observe_digests(&self, digests: &[Digest], times_ms: &[u64]) -> Result<Vec<Verdict>, CallError> {
        self.runtime.block_on(self.filter.observe_digests(digests, times_ms))
    }

    /// [`crate::Filter::test`], with a time where the filter needs one.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn test(&self, event: &[u8], time_ms: Option<u64>) -> Result<Verdict, CallError> {
        self.runtime.block_on(async {
            match time_ms {
                Some(time_ms) => self.filter.test_at(event, time_ms).await,
                None => self.filter.test(event).await,
            }
        })
    }

    /// [`crate::Filter::lease_max`].
    pub fn lease_max(&self) -> Option<Duration> {
        self.filter.lease_max()
    }

    /// [`crate::Filter::claim`], with a time where the filter needs one.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn claim(&self, event: &[u8], time_ms: Option<u64>, lease: Duration) -> Result<Claiming, CallError> {
        self.runtime.block_on(async {
            match time_ms {
                Some(time_ms) => self.filter.claim_at(event, time_ms, lease).await,
                None => self.filter.claim(event, lease).await,
            }
        })
    }

    /// [`crate::Filter::claim_batch`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn claim_batch<E: AsRef<[u8]> + Sync>(
        &self,
        events: &[E],
        times_ms: &[u64],
        lease: Duration,
    ) -> Result<Vec<Claiming>, CallError> {
        self.runtime.block_on(self.filter.claim_batch(events, times_ms, lease))
    }

    /// [`Delivery::confirm`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn confirm(&self, delivery: Delivery) -> Result<Confirming, CallError> {
        self.runtime.block_on(delivery.confirm())
    }

    /// [`crate::Filter::confirm_batch`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn confirm_batch(&self, deliveries: Vec<Delivery>) -> Result<Vec<Confirming>, CallError> {
        self.runtime.block_on(self.filter.confirm_batch(deliveries))
    }

    /// [`crate::Filter::confirm_fence`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn confirm_fence(&self, event: &[u8], time_ms: Option<u64>, fence: Fence) -> Result<Confirming, CallError> {
        self.runtime.block_on(self.filter.confirm_fence(event, time_ms, fence))
    }

    /// [`Claim::release`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn release(&self, claim: Claim) -> Result<bool, CallError> {
        self.runtime.block_on(claim.release())
    }

    /// [`crate::Filter::count`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn count(&self, event: &[u8], time_ms: Option<u64>) -> Result<Frequency, CallError> {
        self.runtime.block_on(self.filter.count(event, time_ms))
    }

    /// [`crate::Filter::estimate`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn estimate(&self, event: &[u8], time_ms: Option<u64>) -> Result<Frequency, CallError> {
        self.runtime.block_on(self.filter.estimate(event, time_ms))
    }

    /// [`crate::Filter::missing_slices`].
    pub fn missing_slices(&self) -> MissingSlices {
        self.filter.missing_slices()
    }

    /// [`crate::Filter::audit`].
    pub fn audit(&self) -> Option<AuditReport> {
        self.filter.audit()
    }
}
