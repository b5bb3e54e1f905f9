//! The filters that the connections of a door use, opened once for all of them.
//!
//! Promises: a filter that was dropped and made again under its name is found again with the next call; names that clients send
//! take bounded memory. Must not know: commands, replies.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use firstseen_client::{
    Batch, CallError, Claiming, Client, Confirming, Filter, FilterError, FilterSecret, SubmissionName, Ttl, Verdict,
};
use firstseen_filter::{Unit, Window, duration};
use firstseen_routing::{Branch, ClusterMap, Fence, FilterRecord, FilterVerb, Hold, Lost, Reason};

use crate::host::Host;

/// Filters that are kept open at most; beyond that, one is opened for each call.
const OPEN_MAX: usize = 1024;

/// Maximum number of ticks by which an event outlives its time to live.
const LATER_TICKS: u64 = 2;
/// A time to live is refused if an event could outlive it by more than this, and by more than the time to live itself.
const LATER_MAX_MS: u64 = 1_000;

/// The filters of a cluster, by name.
pub struct Filters {
    client: Client,
    host: Arc<dyn Host>,
    open: RwLock<HashMap<Arc<str>, Filter>>,
}

/// What is done with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Asked about, and nothing is recorded.
    Test,
    /// Recorded where they are new.
    Observe,
    /// Claimed for so long, and recorded before that is over if the door confirms it.
    Claim {
        /// The time.
        lease: Duration,
        /// Whether the door confirms it before that is over.
        is_confirmed_by_door: bool,
    },
    /// Recorded by who has claimed them.
    Confirm,
    /// Free again for others to claim.
    Release,
}

impl Act {
    /// The right that it takes.
    pub fn verb(self) -> FilterVerb {
        if self == Self::Test { FilterVerb::Lookup } else { FilterVerb::Observe }
    }
}

/// Events of one filter that are asked about together.
pub struct Asked<'a> {
    /// The events.
    pub items: &'a [&'a [u8]],
    /// The names of their submissions, one each, or none.
    pub names: &'a [SubmissionName],
    /// The grants of those that are confirmed or released, one each.
    pub fences: &'a [Fence],
    /// What is done with them.
    pub act: Act,
    /// When they occurred, in milliseconds since 1970, or the reason why that is not known. It matters only to filters whose events
    /// bring their times.
    pub at_ms: Result<u64, Reason>,
    /// When each of them occurred, where they did not occur at the same time: then `at_ms` does not count.
    pub times_ms: &'a [u64],
    /// Time to live of the events that are recorded, from [`KeptTtl::Ms`]. `None` means the window.
    pub ttl_ms: Option<u64>,
}

impl<'a> Asked<'a> {
    /// Asks about events without names and fences that all occurred at `at_ms` and are remembered for the window.
    pub fn new(items: &'a [&'a [u8]], act: Act, at_ms: Result<u64, Reason>) -> Self {
        Self { items, names: &[], fences: &[], act, at_ms, times_ms: &[], ttl_ms: None }
    }
}

/// How a filter keeps events with a time to live of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptTtl {
    /// For this many milliseconds: whole ticks, so that events which expire together are asked about together.
    Ms(u64),
    /// For the window, which differs from the time to live by at most two ticks.
    Window,
    /// It cannot. The text says why.
    Refused(String),
}

/// What is said of events that were asked about, in their order.
#[derive(Default)]
pub struct Answers {
    /// Of a claim: first-seen if it was granted. Of a confirm or a release: first-seen if that was done.
    pub verdicts: Vec<Verdict>,
    /// Of claims, who holds each event.
    pub holds: Vec<Hold>,
}

impl Answers {
    /// The leases of these events are over: who has claimed them must not deliver them, and may claim them again.
    pub fn end_grants(&mut self, events: Range<usize>) {
        let holds = self.holds.get_mut(events.clone()).unwrap_or_default();
        let verdicts = self.verdicts.get_mut(events).unwrap_or_default();
        for (hold, verdict) in holds.iter_mut().zip(verdicts).filter(|(hold, _)| matches!(hold, Hold::Own(_))) {
            (*hold, *verdict) = (Hold::None, Verdict::Undecided(Reason::Overloaded));
        }
    }

    /// The same of each of so many events.
    pub fn alike(verdict: Verdict, events: usize) -> Self {
        Self { verdicts: vec![verdict; events], holds: Vec::new() }
    }
}

/// What a filter is like for those who ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// For how long it remembers an event.
    pub remembers: Remembers,
    /// The greatest lease of a claim, where events can be claimed.
    pub lease_max: Option<Duration>,
    /// Whether events bring their times.
    pub needs_times: bool,
    /// Whether it counts how often events came, and gives no verdicts.
    pub counts_events: bool,
}

impl Filters {
    /// The filters that `client` finds, in a node that is `host`.
    pub fn new(client: Client, host: Arc<dyn Host>) -> Self {
        Self { client, host, open: RwLock::default() }
    }

    /// Returns the time of day of the node, as [`Host::now_ms`] does.
    ///
    /// # Errors
    /// As [`Host::now_ms`].
    pub fn now_ms(&self) -> Result<u64, Reason> {
        self.host.now_ms()
    }

    /// The version of the map by which filters are found.
    pub fn map_version(&self) -> u64 {
        self.client.map().version
    }

    /// The map by which filters are found.
    pub fn map(&self) -> Arc<ClusterMap> {
        self.client.map()
    }

    /// The names of all filters.
    pub fn all(&self) -> Vec<String> {
        let map = self.client.map();
        map.filters.values().filter(|filter| is_of_users(filter)).map(|filter| filter.name.clone()).collect()
    }

    /// The filter of this name.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub async fn get(&self, name: &Arc<str>) -> Result<Filter, FilterError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let map = self.client.map();
        if let Some(filter) = open {
            // One that was dropped, made again or altered since has another number.
            if map.filters.get(&filter.info().id).is_some_and(|record| record.name == **name) {
                return Ok(filter);
            }
            self.forget(name);
        }
        // Names that are none cost a look at two maps: that of the node knows first what another connection has made.
        let is_there = match map.filter_named(name) {
            Some((_, record)) => is_of_users(record),
            None => self.host.cell_bytes(name).is_some(),
        };
        if map.version > 0 && !is_there {
            return Err(FilterError::NotFound { name: name.to_string(), there: Vec::new() });
        }
        self.open(name).await
    }

    /// Opens the filter of this name, of which the map may not tell yet.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub async fn open(&self, name: &Arc<str>) -> Result<Filter, FilterError> {
        let filter = self.client.filter(name).await?;
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.len() < OPEN_MAX {
            open.insert(name.clone(), filter.clone());
        }
        Ok(filter)
    }

    /// Forgets that the filter was opened.
    pub fn forget(&self, name: &str) {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Asks about events of the filter of this name; one answer each, in order. `wait_max` is for how long they are waited for, where
    /// that is less than a second.
    ///
    /// # Errors
    /// As [`Client::filter`]; events that cannot be asked about are undecided.
    pub async fn ask(
        &self,
        name: &Arc<str>,
        asked: &Asked<'_>,
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
        asked: &Asked<'_>,
        wait_max: Option<Duration>,
    ) -> Result<Answers, FilterError> {
        let filter = self.get(name).await?;
        let answers = ask(&filter, asked, wait_max).await;
        Ok(answers.unwrap_or_else(|error| {
            tracing::debug!(filter = &**name, %error, "a call of the door has failed");
            Answers::alike(Verdict::Undecided(Reason::Invalid), asked.items.len())
        }))
    }

    /// Returns how the filter of this name keeps events with a time to live of `asked_ms`, which is at most its window.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub async fn kept_ttl(&self, name: &Arc<str>, asked_ms: u64) -> Result<KeptTtl, FilterError> {
        let filter = self.get(name).await?;
        let group = &filter.info().definition.group;
        let (tick_ms, ttl_ms) = match group.unit {
            Unit::Milliseconds(tick_ms) => (tick_ms, asked_ms.div_ceil(tick_ms.max(1)).saturating_mul(tick_ms)),
            _ => (0, asked_ms),
        };
        let later_ms = LATER_TICKS * tick_ms;
        Ok(match (filter.takes_ttl(ttl_ms), &group.window) {
            (_, Window::Duration(window_ms)) if ttl_ms.saturating_add(later_ms) >= *window_ms => KeptTtl::Window,
            (Ok(()), _) if later_ms > asked_ms.max(LATER_MAX_MS) => KeptTtl::Refused(too_coarse(name, tick_ms)),
            (Ok(()), _) => KeptTtl::Ms(ttl_ms),
            (Err(error), _) => KeptTtl::Refused(error.to_string()),
        })
    }

    /// Whether a fence may be one of the filter of this name.
    pub async fn has_granted(&self, name: &Arc<str>, fence: Fence) -> bool {
        self.get(name).await.is_ok_and(|filter| filter.info().granted_by.contains(&fence.filter()))
    }

    /// What the filter of this name is like.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub async fn facts(&self, name: &Arc<str>) -> Result<Facts, FilterError> {
        let filter = self.get(name).await?;
        let info = filter.info();
        let remembers = match info.definition.group.window {
            Window::Duration(ms) => Remembers::ForMs(ms),
            Window::Unbounded => Remembers::ForEver,
            _ => Remembers::NoTime,
        };
        Ok(Facts {
            remembers,
            lease_max: info.lease_max,
            needs_times: info.needs_times,
            counts_events: info.definition.group.cells.kind().estimates_frequencies(),
        })
    }
}

async fn ask(filter: &Filter, asked: &Asked<'_>, wait_max: Option<Duration>) -> Result<Answers, CallError> {
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
        && matches!(asked.act, Act::Observe | Act::Confirm)
    {
        batch = batch.ttl(Ttl { now_ms: at_ms, ttl_ms });
    }
    let verdicts = match asked.act {
        // Events with a ttl of their own have no names.
        Act::Observe if asked.ttl_ms.is_some() => filter.observe_batch(batch).await?,
        Act::Observe => filter.observe_batch(batch.names(asked.names)).await?,
        Act::Test => filter.test_batch(batch).await?,
        Act::Claim { lease, .. } => {
            let claimed = filter.claim_batch(batch, lease).await?;
            let (verdicts, holds) = claimed.into_iter().map(granted).unzip();
            return Ok(Answers { verdicts, holds });
        }
        Act::Confirm => filter.confirm_batch(batch, asked.fences).await?.into_iter().map(done).collect(),
        Act::Release => filter.release_batch(batch, asked.fences).await?.into_iter().map(released).collect(),
    };
    Ok(Answers { verdicts, holds: Vec::new() })
}

/// Why a filter with ticks of this length does not keep short times.
fn too_coarse(filter: &str, tick_ms: u64) -> String {
    let later = duration(LATER_TICKS.saturating_mul(tick_ms));
    format!(
        "filter '{filter}' counts in ticks of {}, and would keep it for up to {later} longer: ask for {later} at least, or give such \
         keys a filter with a shorter window or finer ticks (filter create --cell-bits 16)",
        duration(tick_ms)
    )
}

/// Whether an event may be delivered by who has claimed it, and who holds it. A grant is kept until its lease is over: the door
/// confirms or releases it by its fence.
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

/// Whether an event was confirmed: one that is recorded is delivered, by whoever it was.
fn done(confirming: Confirming) -> Verdict {
    match confirming {
        Confirming::Confirmed => Verdict::FirstSeen,
        Confirming::LeaseLost(Lost::Recorded) => Verdict::Duplicate,
        Confirming::LeaseLost(Lost::NotHeld) => Verdict::Undecided(Reason::Claimed),
        Confirming::Undecided(reason) => Verdict::Undecided(reason),
    }
}

/// Whether an event was still held when it was released.
fn released(was_held: bool) -> Verdict {
    if was_held { Verdict::FirstSeen } else { Verdict::Duplicate }
}

/// For how long a filter remembers; what remembers for longer is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remembers {
    /// That is no time: until so many events have come, or the next hour.
    NoTime,
    /// For so many milliseconds.
    ForMs(u64),
    /// Until the filter is dropped.
    ForEver,
}

/// Whether users have given the filter its name: levels of trees and what an alteration leaves have others.
fn is_of_users(filter: &FilterRecord) -> bool {
    filter.line.closed.is_none() && filter.branch.as_ref().is_none_or(Branch::is_root)
}
