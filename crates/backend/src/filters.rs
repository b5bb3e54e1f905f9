//! Open filters of an endpoint, which all of its connections share.
//!
//! Every call finds its filter by name. If an administrator drops a filter and creates another filter under the same
//! name, the next call of a client uses the newly created filter.
//!
//! The memory for filter names is bounded, so clients cannot exhaust it by sending many different names.
//!
//! This module does not depend on commands and replies.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use firstseen_client::{
    Batch, CallError, Claiming, Client, Confirming, Filter, FilterError, FilterSecret, SubmissionName, Ttl, Verdict,
};
use firstseen_filter::{Unit, Window, duration};
use firstseen_routing::{Branch, ClusterMap, Fence, FilterRecord, FilterVerb, Hold, Lost, Reason};

use crate::services::Host;

/// Maximum number of filters that are kept open. Further filters are opened for each call.
const OPEN_MAX: usize = 1024;

/// Maximum number of ticks by which an event may outlive its time to live.
const TTL_EXCESS_TICKS_MAX: u64 = 2;
/// Additional time in milliseconds for which a filter may remember an event after the event's time to live. A filter
/// counts time in ticks and not in milliseconds, so it remembers an event for up to [`TTL_EXCESS_TICKS_MAX`] ticks
/// longer than requested.
///
/// An additional time up to this limit is always accepted. A longer additional time is accepted as long as it does not
/// exceed the time to live itself. Otherwise the time to live is rejected.
const TTL_EXCESS_MS_MAX: u64 = 1_000;

/// Filters of a cluster, by name.
pub struct Filters {
    client: Client,
    host: Arc<dyn Host>,
    open: RwLock<HashMap<Arc<str>, Filter>>,
}

/// Operation on events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOperation {
    /// Look up the events without recording them.
    Test,
    /// Record the events that are new.
    Observe,
    /// Claim the events for some time. If the endpoint confirms them, they are recorded before the claim ends.
    Claim {
        /// Lease of the claim.
        lease: Duration,
        /// Whether the endpoint confirms the events before the lease ends.
        is_confirmed_by_endpoint: bool,
    },
    /// Record claimed events on behalf of the client that has claimed them.
    Confirm,
    /// Release claimed events, so that other clients may claim them.
    Release,
}

impl EventOperation {
    /// Returns the right that the operation needs.
    pub fn verb(self) -> FilterVerb {
        if self == Self::Test { FilterVerb::Lookup } else { FilterVerb::Observe }
    }
}

/// Events of one filter that are sent in one call.
pub struct EventCall<'a> {
    /// Keys of the events.
    pub items: &'a [&'a [u8]],
    /// Idempotency keys, one for each event, or empty.
    pub names: &'a [SubmissionName],
    /// Fences of the grants, one for each event that is confirmed or released.
    pub fences: &'a [Fence],
    /// Operation on the events.
    pub act: EventOperation,
    /// Time at which the events occurred, in milliseconds since 1970. If this time is unknown, the value is the reason
    /// why it is unknown. Filters whose nodes assign the time of an event on arrival ignore this value.
    pub at_ms: Result<u64, Reason>,
    /// Time at which each event occurred, if the events did not occur at the same time. The field `at_ms` has no effect
    /// then.
    pub times_ms: &'a [u64],
    /// Time to live of events that are recorded, as returned in [`KeptTtl::Ms`]. `None` means the filter's window.
    pub ttl_ms: Option<u64>,
}

impl<'a> EventCall<'a> {
    /// Creates a call for events that all occurred at the time `at_ms`. The new call has no idempotency keys, no fences
    /// and no time to live. The filter therefore remembers recorded events for its window.
    pub fn new(items: &'a [&'a [u8]], act: EventOperation, at_ms: Result<u64, Reason>) -> Self {
        Self { items, names: &[], fences: &[], act, at_ms, times_ms: &[], ttl_ms: None }
    }
}

/// Way in which a filter applies a time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptTtl {
    /// The filter remembers the events for this number of milliseconds, which is rounded to a whole number of the
    /// filter's ticks. Events with nearly the same time to live therefore get the same value, and can be sent in one
    /// call.
    Ms(u64),
    /// The filter remembers the events for its window, which differs from the time to live by at most two ticks.
    Window,
    /// The filter cannot apply the time to live. The text says why.
    Refused(String),
}

/// Answers to the events of a call, in order.
#[derive(Default)]
pub struct Answers {
    /// Verdict for each event. For claims, confirmations and releases, the verdict first-seen means that the operation
    /// succeeded: the event was claimed, confirmed or released.
    pub verdicts: Vec<Verdict>,
    /// Holders of the events, if the operation was a claim.
    pub holds: Vec<Hold>,
}

impl Answers {
    /// Changes the verdicts of granted claims in this range of events to undecided. This is necessary if the leases of
    /// these claims have ended before the endpoint could reply to the client. The client must then not deliver the
    /// events, but it may claim them again.
    pub fn end_grants(&mut self, events: Range<usize>) {
        let holds = self.holds.get_mut(events.clone()).unwrap_or_default();
        let verdicts = self.verdicts.get_mut(events).unwrap_or_default();
        for (hold, verdict) in holds.iter_mut().zip(verdicts).filter(|(hold, _)| matches!(hold, Hold::Own(_))) {
            (*hold, *verdict) = (Hold::None, Verdict::Undecided(Reason::Overloaded));
        }
    }

    /// Creates the same answer for each of `events` events.
    pub fn alike(verdict: Verdict, events: usize) -> Self {
        Self { verdicts: vec![verdict; events], holds: Vec::new() }
    }
}

/// Properties of a filter that matter to its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Time for which the filter remembers an event.
    pub remembers: Retention,
    /// Longest lease of a claim. `None` means that events cannot be claimed.
    pub lease_max: Option<Duration>,
    /// Whether events must carry their times.
    pub needs_times: bool,
    /// Whether the filter counts how often events occur, instead of giving verdicts.
    pub counts_events: bool,
}

impl Filters {
    /// Creates the set of filters that `client` can open, in the node that `host` represents.
    pub fn new(client: Client, host: Arc<dyn Host>) -> Self {
        Self { client, host, open: RwLock::default() }
    }

    /// Returns the current time of the node, as [`Host::now_ms`] does.
    ///
    /// # Errors
    /// Returns the same errors as [`Host::now_ms`].
    pub fn now_ms(&self) -> Result<u64, Reason> {
        self.host.now_ms()
    }

    /// Returns the version of the cluster map that is used to find filters.
    pub fn map_version(&self) -> u64 {
        self.client.map().version
    }

    /// Returns the cluster map that is used to find filters.
    pub fn map(&self) -> Arc<ClusterMap> {
        self.client.map()
    }

    /// Returns the names of all filters.
    pub fn all(&self) -> Vec<String> {
        let map = self.client.map();
        map.filters.values().filter(|filter| is_user_named(filter)).map(|filter| filter.name.clone()).collect()
    }

    /// Returns the filter with this name.
    ///
    /// # Errors
    /// Returns the same errors as [`Client::filter`].
    pub async fn get(&self, name: &Arc<str>) -> Result<Filter, FilterError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let map = self.client.map();
        if let Some(filter) = open {
            // A filter that was dropped, created again or altered in the meantime has a different number.
            if map.filters.get(&filter.info().id).is_some_and(|record| record.name == **name) {
                return Ok(filter);
            }
            self.forget(name);
        }
        // A name without a filter costs only a lookup in two cluster maps. The node's own map is the first to list a
        // filter that another connection has just created.
        let is_there = match map.filter_named(name) {
            Some((_, record)) => is_user_named(record),
            None => self.host.cell_bytes(name).is_some(),
        };
        if map.version > 0 && !is_there {
            return Err(FilterError::NotFound { name: name.to_string(), there: Vec::new() });
        }
        self.open(name).await
    }

    /// Opens the filter with this name, which the cluster map may not list yet.
    ///
    /// # Errors
    /// Returns the same errors as [`Client::filter`].
    pub async fn open(&self, name: &Arc<str>) -> Result<Filter, FilterError> {
        let filter = self.client.filter(name).await?;
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.len() < OPEN_MAX {
            open.insert(name.clone(), filter.clone());
        }
        Ok(filter)
    }

    /// Removes a filter from the set of open filters.
    pub fn forget(&self, name: &str) {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Sends a call to the filter with the name `name`. Returns one answer for each event, in the order of the events.
    /// If `wait_max` is given, the call waits at most for this time. Events that cannot be submitted to the cluster are
    /// undecided.
    ///
    /// # Errors
    /// Returns the same errors as [`Client::filter`].
    pub async fn ask(
        &self,
        name: &Arc<str>,
        asked: &EventCall<'_>,
        wait_max: Option<Duration>,
    ) -> Result<Answers, FilterError> {
        let answers = self.ask_once(name, asked, wait_max).await?;
        if answers.verdicts.iter().all(|verdict| *verdict == Verdict::Undecided(Reason::UnknownFilter)) {
            self.forget(name);
            return self.ask_once(name, asked, wait_max).await;
        }
        Ok(answers)
    }

    async fn ask_once(
        &self,
        name: &Arc<str>,
        asked: &EventCall<'_>,
        wait_max: Option<Duration>,
    ) -> Result<Answers, FilterError> {
        let filter = self.get(name).await?;
        let answers = ask(&filter, asked, wait_max).await;
        Ok(answers.unwrap_or_else(|error| {
            tracing::debug!(filter = &**name, %error, "a call of a client endpoint has failed");
            Answers::alike(Verdict::Undecided(Reason::Invalid), asked.items.len())
        }))
    }

    /// Returns how the filter with this name applies a time to live of `asked_ms` milliseconds, which must not exceed
    /// its window.
    ///
    /// # Errors
    /// Returns the same errors as [`Client::filter`].
    pub async fn kept_ttl(&self, name: &Arc<str>, asked_ms: u64) -> Result<KeptTtl, FilterError> {
        let filter = self.get(name).await?;
        let group = &filter.info().definition.group;
        let (tick_ms, ttl_ms) = match group.unit {
            Unit::Milliseconds(tick_ms) => (tick_ms, asked_ms.div_ceil(tick_ms.max(1)).saturating_mul(tick_ms)),
            _ => (0, asked_ms),
        };
        let later_ms = TTL_EXCESS_TICKS_MAX * tick_ms;
        Ok(match (filter.takes_ttl(ttl_ms), &group.window) {
            (_, Window::Duration(window_ms)) if ttl_ms.saturating_add(later_ms) >= *window_ms => KeptTtl::Window,
            (Ok(()), _) if later_ms > asked_ms.max(TTL_EXCESS_MS_MAX) => {
                KeptTtl::Refused(coarse_tick_error(name, tick_ms))
            }
            (Ok(()), _) => KeptTtl::Ms(ttl_ms),
            (Err(error), _) => KeptTtl::Refused(error.to_string()),
        })
    }

    /// Returns whether the filter with this name can have granted this fence.
    pub async fn may_have_granted(&self, name: &Arc<str>, fence: Fence) -> bool {
        self.get(name).await.is_ok_and(|filter| filter.info().granted_by.contains(&fence.filter()))
    }

    /// Returns the properties of the filter with this name.
    ///
    /// # Errors
    /// Returns the same errors as [`Client::filter`].
    pub async fn facts(&self, name: &Arc<str>) -> Result<Facts, FilterError> {
        let filter = self.get(name).await?;
        let info = filter.info();
        let remembers = match info.definition.group.window {
            Window::Duration(ms) => Retention::ForMs(ms),
            Window::Unbounded => Retention::ForEver,
            _ => Retention::NoTime,
        };
        Ok(Facts {
            remembers,
            lease_max: info.lease_max,
            needs_times: info.needs_times,
            counts_events: info.definition.group.cells.kind().estimates_frequencies(),
        })
    }
}

async fn ask(filter: &Filter, asked: &EventCall<'_>, wait_max: Option<Duration>) -> Result<Answers, CallError> {
    let needs_times = filter.info().needs_times;
    let at_ms = match asked.at_ms {
        Err(reason) if needs_times && asked.times_ms.is_empty() => {
            return Ok(Answers::alike(Verdict::Undecided(reason), asked.items.len()));
        }
        at_ms => at_ms.unwrap_or_default(),
    };
    let times_ms = match asked.times_ms {
        _ if !needs_times => Vec::new(),
        [] => vec![at_ms; asked.items.len()],
        times_ms => times_ms.to_vec(),
    };
    let hash = |secret: &FilterSecret| asked.items.iter().map(|item| secret.digest(item)).collect();
    let mut batch = Batch::hashed(&hash).times_ms(&times_ms);
    if let Some(wait_max) = wait_max {
        batch = batch.within(wait_max);
    }
    if let Some(ttl_ms) = asked.ttl_ms
        && matches!(asked.act, EventOperation::Observe | EventOperation::Confirm)
    {
        batch = batch.ttl(Ttl { now_ms: at_ms, ttl_ms });
    }
    let verdicts = match asked.act {
        // Events with a time to live have no idempotency keys.
        EventOperation::Observe if asked.ttl_ms.is_some() => filter.observe_batch(batch).await?,
        EventOperation::Observe => filter.observe_batch(batch.names(asked.names)).await?,
        EventOperation::Test => filter.test_batch(batch).await?,
        EventOperation::Claim { lease, .. } => {
            let claimed = filter.claim_batch(batch, lease).await?;
            let (verdicts, holds) = claimed.into_iter().map(granted).unzip();
            return Ok(Answers { verdicts, holds });
        }
        EventOperation::Confirm => filter.confirm_batch(batch, asked.fences).await?.into_iter().map(done).collect(),
        EventOperation::Release => filter.release_batch(batch, asked.fences).await?.into_iter().map(released).collect(),
    };
    Ok(Answers { verdicts, holds: Vec::new() })
}

/// Returns the error text for a filter whose ticks are too long for short times to live.
fn coarse_tick_error(filter: &str, tick_ms: u64) -> String {
    let later = duration(TTL_EXCESS_TICKS_MAX.saturating_mul(tick_ms));
    format!(
        "filter '{filter}' counts in ticks of {}, and would keep it for up to {later} longer: ask for {later} at least, or give such \
         keys a filter with a shorter window or finer ticks (filter create --cell-bits 16)",
        duration(tick_ms)
    )
}

/// Converts the reply to a claim into a verdict and the holder of the claim. If the claim was granted, the result
/// contains its fence, which the endpoint needs to confirm or release the event later.
///
/// In the client library, a granted claim is a value that releases the claim when it is dropped. This function takes
/// the fence out of the value in a way that prevents the release. The claim therefore stays in force until its lease
/// ends, or until the endpoint confirms or releases the event.
fn granted(claiming: Claiming) -> (Verdict, Hold) {
    match claiming {
        Claiming::Claimed(claim) => (Verdict::FirstSeen, Hold::Own(claim.deliver().fence)),
        Claiming::InProgress(left) => {
            let left_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
            (Verdict::Undecided(Reason::Claimed), Hold::Other { left_ms })
        }
        Claiming::Duplicate => (Verdict::Duplicate, Hold::None),
        Claiming::Undecided(reason) => (Verdict::Undecided(reason), Hold::None),
    }
}

/// Converts the answer to a confirmation to a verdict. An event that is already recorded counts as delivered, whichever
/// client delivered it.
fn done(confirming: Confirming) -> Verdict {
    match confirming {
        Confirming::Confirmed => Verdict::FirstSeen,
        Confirming::LeaseLost(Lost::Recorded) => Verdict::Duplicate,
        Confirming::LeaseLost(Lost::NotHeld) => Verdict::Undecided(Reason::Claimed),
        Confirming::Undecided(reason) => Verdict::Undecided(reason),
    }
}

/// Converts the answer to a release to a verdict, which says whether the event was still held.
fn released(was_held: bool) -> Verdict {
    if was_held { Verdict::FirstSeen } else { Verdict::Duplicate }
}

/// Time for which a filter remembers events. A filter that remembers longer compares as greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retention {
    /// No fixed time, because the filter remembers a number of events, or until the next full hour.
    NoTime,
    /// This number of milliseconds.
    ForMs(u64),
    /// Until the filter is dropped.
    ForEver,
}

/// Returns whether a user has given the filter its name. Two sorts of filters have names that the cluster generates:
/// levels of trees, and filters that an alteration has replaced.
fn is_user_named(filter: &FilterRecord) -> bool {
    filter.line.closed.is_none() && filter.branch.as_ref().is_none_or(Branch::is_root)
}
