//! Handle to one filter of the cluster, with all calls that a producer makes.
//!
//! Each event gets one of three verdicts: first seen, duplicate, or undecided. The key of an event never leaves this
//! process. The client sends only cell positions, which it computes from the key and the filter's secret.
//!
//! This module does not depend on nodes or network streams.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::FilterSecret;
use firstseen_routing::{Branch, Fence, FilterId, Hold, Operation, Reason, SlicedDefinition, TREE_LEVELS_MAX};
use tokio::time::Instant;

use crate::audit::AuditReport;
use crate::batch::{Batch, Event, Ttl};
use crate::call::{Answer, ManyCall, lock};
use crate::degraded::Degraded;
use crate::error::CallError;
use crate::followers;
use crate::frequency::Frequency;
use crate::intake::FilterCore;
use crate::outage::{MissingSlices, down_nodes};
use crate::queue::{Asked, Events, chosen};
use crate::registry::Registry;
use crate::trace::TraceParent;

/// Verdict on one event: first seen, duplicate, or undecided with a reason.
pub use firstseen_routing::Decision as Verdict;

/// Handle to a filter of the cluster. A handle is cheap to clone, and any number of tasks may call it concurrently.
/// Events of concurrent calls are combined into shared batches to reduce the number of messages.
///
/// Dropping the future of a call does not cancel the call: the client still submits its events. If an event has no
/// answer by the deadline, its verdict is `Undecided`. The reason in that verdict tells whether a node may have
/// recorded the event.
///
/// The handle stays valid when an administrator alters the filter. Calls after the alteration use the filter's new
/// window and new secret. There is one restriction: if the caller drops the future of a call while the filter is being
/// altered, the events of this call may not be submitted.
#[derive(Clone)]
pub struct Filter {
    /// State of the filter at the time when it was opened. Filters that replaced this filter since then are reachable
    /// through it.
    core: Arc<FilterCore>,
    registry: Arc<Registry>,
}

/// Description of a filter, as this client knows it now.
#[derive(Clone, Debug)]
pub struct FilterInfo<'a> {
    /// Name that users and commands use for the filter.
    pub name: &'a str,
    /// Number of the filter. The number changes when the filter is altered.
    pub id: FilterId,
    /// Definition of the filter: everything that its verdicts depend on, except the secret.
    pub definition: &'a SlicedDefinition,
    /// Place of the filter in a tree of filters. `None` means that the filter is in no tree.
    pub branch: Option<&'a Branch>,
    /// Secret key of the filter's hash function. Programs that compute the digests of events themselves need this key
    /// ([`Batch::hashed`]).
    pub secret: &'a FilterSecret,
    /// Whether every event must carry the time at which it occurred.
    pub needs_times: bool,
    /// Longest lease that a claim may ask for. `None` means that events of this filter cannot be claimed.
    pub lease_max: Option<Duration>,
    /// Range of filter ids whose claims this handle can confirm. When an administrator alters a filter, the altered
    /// filter has the same name but a new id. The range contains the ids of the current filter and of earlier filters
    /// with its name, because their claims may still be active.
    pub granted_by: RangeInclusive<FilterId>,
}

/// Health of a filter, and counts of the answers that this client has received from the filter so far.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterStatus {
    /// Slices of the filter that cannot answer at the moment. Events that need one of these slices are undecided with
    /// [`Reason::SlicesDown`]. The value distinguishes slices that may return from slices that have lost their data,
    /// for which it is useless to wait.
    pub missing: MissingSlices,
    /// Names of the nodes that own slices of this filter and are marked down in the cluster map. Calls that need these
    /// slices wait until the nodes return.
    pub down_nodes: Vec<String>,
    /// Number of events that were judged by fewer slices than usual, because nodes are down or have lost their data.
    /// With fewer slices, false duplicates are more frequent.
    pub degraded: Degraded,
    /// Number of duplicates that each level of the filter's tree has recognised, counting only events of this client.
    /// The first entry is for the root, the second entry is for the level below it, and so on. All entries are 0 if the
    /// filter is in no tree.
    pub level_hits: [u64; TREE_LEVELS_MAX],
    /// Number of duplicates that this client has recognised from its local memory, without asking a node
    /// ([`ConnectOptions::local_bytes_max`]).
    ///
    /// [`ConnectOptions::local_bytes_max`]: crate::ConnectOptions::local_bytes_max
    pub local_hits: u64,
}

/// Answers to the events of a call, in order. If events were claimed, `holds` tells for each event who holds it;
/// otherwise `holds` is empty.
#[derive(Default)]
pub(crate) struct Answered {
    pub(crate) answers: Vec<Answer>,
    pub(crate) holds: Vec<Hold>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info();
        f.debug_struct("Filter").field("name", &info.name).field("id", &info.id).finish_non_exhaustive()
    }
}

impl Filter {
    pub(crate) fn new(core: Arc<FilterCore>, registry: Arc<Registry>) -> Self {
        Self { core, registry }
    }

    /// Returns a description of the filter.
    ///
    /// ```
    /// # use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// let visits = client.filter("visits").await?;
    /// assert_eq!(visits.info().name, "visits");
    /// assert!(visits.info().needs_times);
    /// # Ok(())
    /// # });
    /// ```
    pub fn info(&self) -> FilterInfo<'_> {
        let newest = followers::newest(&self.core);
        let record = newest.record();
        let granting = followers::newest(self.claimed_at());
        let lease_max_ms = granting.record().policies.claim_lease_max_ms;
        FilterInfo {
            name: &record.name,
            id: newest.id(),
            definition: &record.definition,
            branch: self.core.record().branch.as_ref(),
            secret: self.core.secret(),
            needs_times: followers::all(followers::first(&self.core)).any(|filter| filter.needs_times()),
            lease_max: lease_max_ms.map(|lease_max_ms| Duration::from_millis(lease_max_ms.get().into())),
            granted_by: granting.record().line.origin.unwrap_or(granting.id())..=granting.id(),
        }
    }

    /// Returns how well the filter can answer now, and counts of its answers to this client.
    ///
    /// ```
    /// # use firstseen_client::{Client, MissingSlices};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// let status = clicks.status();
    /// assert_eq!(status.missing, MissingSlices { down: 0, lost: 0 });
    /// assert_eq!(status.degraded.events, 0);
    /// # Ok(())
    /// # });
    /// ```
    pub fn status(&self) -> FilterStatus {
        let newest = followers::newest(&self.core);
        let map = newest.core().map();
        let mut level_hits = self.core.level_hits();
        // Events are claimed at the root of the tree, so the root's count includes duplicates found by claims.
        let root_hits = self.core.line().root().map(|root| root.level_hits()).unwrap_or_default();
        level_hits.iter_mut().zip(root_hits).for_each(|(hits, root_hits)| *hits += root_hits);
        FilterStatus {
            missing: newest.missing_slices(),
            down_nodes: map.filters.get(&newest.id()).map_or_else(Vec::new, |record| down_nodes(&map, record)),
            degraded: followers::all(&self.core)
                .map(|filter| filter.degraded())
                .fold(Degraded::default(), Degraded::and),
            level_hits,
            local_hits: followers::all(&self.core).map(|filter| filter.local_hits()).sum(),
        }
    }

    /// Returns the error rates of the filter as this client has measured them. `None` means that the client does not
    /// audit its verdicts ([`ConnectOptions::audit_rate`](crate::ConnectOptions::audit_rate)).
    ///
    /// ```
    /// # use firstseen_client::{Client, ConnectOptions, Event};
    /// # firstseen_fake::run(async |seed| {
    /// let client = Client::connect(ConnectOptions { audit_rate: 1.0, ..ConnectOptions::from([seed]) }).await?;
    /// let visits = client.filter("visits").await?;
    /// visits.observe(Event::from("alice").at(1_790_000_000_000)).await?;
    /// let report = visits.audit().expect("audit_rate is set");
    /// assert_eq!((report.false_positives.errors, report.false_positives.cases), (0, 1));
    /// # Ok(())
    /// # });
    /// ```
    pub fn audit(&self) -> Option<AuditReport> {
        followers::newest(&self.core).auditor().map(|auditor| lock(auditor).report())
    }

    /// Checks whether the filter can remember an event for `ttl_ms` milliseconds instead of its window
    /// ([`Batch::ttl`]). A filter in a tree supports this only if its events carry their own times and never arrive
    /// late.
    ///
    /// # Errors
    /// Returns [`CallError::Ttl`] with the reason if the filter cannot remember an event for this long.
    ///
    /// ```
    /// # use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// assert!(clicks.takes_ttl(600_000).is_ok());
    /// let longer_than_the_window = clicks.takes_ttl(365 * 86_400_000);
    /// assert!(longer_than_the_window.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub fn takes_ttl(&self, ttl_ms: u64) -> Result<(), CallError> {
        followers::newest(&self.core).takes_ttl(ttl_ms)
    }

    /// Looks up an event, and records it if it is new.
    ///
    /// # Errors
    /// Returns [`CallError`] if the filter needs a time for each event, if it counts frequencies instead of giving
    /// verdicts, or if the client is closed.
    ///
    /// ```
    /// # use firstseen_client::{Client, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// assert_eq!(clicks.observe("click").await?, Verdict::FirstSeen);
    /// assert_eq!(clicks.observe("click").await?, Verdict::Duplicate);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn observe<'a>(&self, event: impl Into<Event<'a>>) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, event.into()).await?.decision)
    }

    /// Looks up many events and records the new ones, as [`Self::observe`] does for one event. The verdicts are in the
    /// order of the events.
    ///
    /// # Errors
    /// Returns [`CallError`] for the same reasons as [`Self::observe`], and if a list of the batch does not have one
    /// entry for each key.
    ///
    /// ```
    /// # use firstseen_client::{Client, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// let verdicts = clicks.observe_batch(&["a", "b", "a"]).await?;
    /// assert_eq!(verdicts, [Verdict::FirstSeen, Verdict::FirstSeen, Verdict::Duplicate]);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn observe_batch<'a>(&self, batch: impl Into<Batch<'a>>) -> Result<Vec<Verdict>, CallError> {
        self.verdicts(Operation::Observe, batch.into()).await
    }

    /// Looks up an event without recording it.
    ///
    /// # Errors
    /// Returns [`CallError`] for the same reasons as [`Self::observe`].
    ///
    /// ```
    /// # use firstseen_client::{Client, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// assert_eq!(clicks.test("click").await?, Verdict::FirstSeen);
    /// assert_eq!(clicks.observe("click").await?, Verdict::FirstSeen);
    /// assert_eq!(clicks.test("click").await?, Verdict::Duplicate);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn test<'a>(&self, event: impl Into<Event<'a>>) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Lookup, event.into()).await?.decision)
    }

    /// Looks up many events without recording them, as [`Self::test`] does for one event. The verdicts are in the order
    /// of the events.
    ///
    /// # Errors
    /// Returns [`CallError`] for the same reasons as [`Self::observe_batch`].
    ///
    /// ```
    /// # use firstseen_client::{Client, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// assert_eq!(clicks.test_batch(&["a", "a"]).await?, [Verdict::FirstSeen; 2]);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn test_batch<'a>(&self, batch: impl Into<Batch<'a>>) -> Result<Vec<Verdict>, CallError> {
        self.verdicts(Operation::Lookup, batch.into()).await
    }

    /// Counts an event in a filter of kind `decaying`, and returns the event's estimated frequency, which includes this
    /// occurrence.
    ///
    /// # Errors
    /// Returns [`CallError`] for the same reasons as [`Self::observe`], or if the filter gives verdicts instead of
    /// frequencies.
    ///
    /// ```
    /// # use firstseen_client::{Client, Frequency};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// let words = client.filter("words").await?;
    /// words.count("to").await?;
    /// assert_eq!(words.count("to").await?, Frequency::Estimate(2.0));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn count<'a>(&self, event: impl Into<Event<'a>>) -> Result<Frequency, CallError> {
        Ok(self.one(Operation::Count, event.into()).await?.into())
    }

    /// Returns the estimated frequency of an event without counting the event.
    ///
    /// # Errors
    /// Returns [`CallError`] for the same reasons as [`Self::count`].
    ///
    /// ```
    /// # use firstseen_client::{Client, Frequency};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let words = client.filter("words").await?;
    /// assert_eq!(words.estimate("to").await?, Frequency::Estimate(0.0));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn estimate<'a>(&self, event: impl Into<Event<'a>>) -> Result<Frequency, CallError> {
        Ok(self.one(Operation::Estimate, event.into()).await?.into())
    }

    /// Returns the filter that grants claims, in the state in which it was opened. In a tree of filters, claims are
    /// granted at the root.
    pub(crate) fn claimed_at(&self) -> &Arc<FilterCore> {
        self.core.line().root().unwrap_or(&self.core)
    }

    async fn one(&self, operation: Operation, event: Event<'_>) -> Result<Answer, CallError> {
        let deadline = self.core.core().deadline();
        let mut filter = followers::first(&self.core);
        loop {
            let asked_by = self.core.core().map_version();
            let answer = self.ask_one(filter, operation, event, deadline).await?;
            if !filter.should_ask_follower(answer, asked_by) {
                return Ok(answer);
            }
            let Some(next) = self.registry.next(filter, deadline).await else {
                return Ok(followers::not_found(answer));
            };
            filter = next;
        }
    }

    async fn ask_one(
        &self,
        filter: &Arc<FilterCore>,
        operation: Operation,
        event: Event<'_>,
        deadline: Instant,
    ) -> Result<Answer, CallError> {
        self.check(filter, operation, event.time_ms.is_some())?;
        let digest = filter.secret().digest(event.key);
        if let Some(trace) = filter.core().current_trace() {
            let events = Events {
                names: event.name.as_slice(),
                ..Events::plain(std::slice::from_ref(&digest), event.time_ms.as_slice())
            };
            // The future of a traced call is boxed, so that calls without a trace do not reserve memory for it.
            let asked = Box::pin(self.ask_many(filter, operation, events, None, Some(deadline), Some(trace)));
            let (answered, _) = asked.await?;
            return answered.answers.first().copied().ok_or(CallError::Closed);
        }
        if !filter.core().reserve(1, deadline).await? {
            return Ok(Answer::undecided(Reason::Overloaded));
        }
        let asked = Asked { operation, ttl_ms: None, deadline };
        match filter.queue_one(digest, event.time_ms, event.name, asked) {
            Ok(answer) => answer.await.map_err(|_| CallError::Closed),
            Err(answer) => Ok(answer),
        }
    }

    async fn verdicts(&self, operation: Operation, mut batch: Batch<'_>) -> Result<Vec<Verdict>, CallError> {
        let times_ms;
        if let Some(ttl) = batch.ttl {
            let newest = followers::newest(&self.core);
            newest.takes_ttl(ttl.ttl_ms)?;
            if let Some(time_ms) = newest.time_for_all_windows(ttl)? {
                times_ms = vec![time_ms; batch.hash(newest.secret()).len()];
                batch = Batch { times_ms: &times_ms, ttl: None, ..batch };
            }
        }
        let answered = self.ask(followers::first(&self.core), operation, &batch, &[]).await?;
        Ok(answered.answers.into_iter().map(|answer| answer.decision).collect())
    }

    /// Sends many events to the filter `first` and returns the answers. If an administrator has altered `first`, a
    /// newer filter has replaced it. Events that `first` does not know are then sent to the newer filter.
    ///
    /// The operation determines two details. If it claims events, each answer also tells who holds the event. If it
    /// confirms or releases events, the caller must pass one fence for each event in `fences`. A fence is the number of
    /// the grant that the claim was based on.
    pub(crate) async fn ask(
        &self,
        first: &Arc<FilterCore>,
        operation: Operation,
        batch: &Batch<'_>,
        fences: &[Fence],
    ) -> Result<Answered, CallError> {
        let core = self.core.core();
        let trace = core.current_trace();
        let mut asked_by = core.map_version();
        let mut filter = first;
        let mut digests = batch.hash(first.secret());
        if digests.is_empty() && !fences.is_empty() {
            let answers = vec![Answer::undecided(Reason::Altered); fences.len()];
            return Ok(Answered { answers, holds: Vec::new() });
        }
        let all = Events { digests: &digests, times_ms: batch.times_ms, names: batch.names, fences };
        let until = batch.wait_max.map(|wait_max| core.deadline().min(Instant::now() + wait_max));
        let (mut answered, deadline) = self.ask_many(filter, operation, all, batch.ttl, until, trace).await?;
        let Answered { answers, holds } = &mut answered;
        while filter.is_followed() {
            let left: Vec<usize> =
                (0..answers.len()).filter(|event| filter.should_ask_follower(answers[*event], asked_by)).collect();
            if left.is_empty() {
                break;
            }
            let Some(next) = self.registry.next(filter, deadline).await else {
                left.iter().for_each(|event| answers[*event] = followers::not_found(answers[*event]));
                break;
            };
            asked_by = core.map_version();
            if next.secret() != filter.secret() {
                digests = batch.hash(next.secret());
            }
            filter = next;
            let Some(some) = left.iter().map(|event| digests.get(*event).copied()).collect::<Option<Vec<_>>>() else {
                left.iter().for_each(|event| answers[*event] = Answer::undecided(Reason::Altered));
                break;
            };
            let times_ms = chosen(batch.times_ms, &left);
            let names = chosen(batch.names, &left);
            let fences = chosen(fences, &left);
            let some = Events { digests: &some, times_ms: &times_ms, names: &names, fences: &fences };
            let (again, _) = self.ask_many(filter, operation, some, batch.ttl, Some(deadline), trace).await?;
            if !again.holds.is_empty() {
                holds.resize(answers.len(), Hold::None);
                left.iter().zip(again.holds).for_each(|(event, hold)| holds[*event] = hold);
            }
            left.into_iter().zip(again.answers).for_each(|(event, answer)| answers[event] = answer);
        }
        Ok(answered)
    }

    /// Sends the events of one call to one filter, in several parts if the call is large. Returns the answers, and the
    /// latest deadline of all parts.
    ///
    /// All parts share the deadline `until`. If `until` is `None`, each part has the usual deadline of the client,
    /// which is counted from the moment at which the client begins to queue the part.
    async fn ask_many(
        &self,
        filter: &Arc<FilterCore>,
        operation: Operation,
        events: Events<'_>,
        ttl: Option<Ttl>,
        until: Option<Instant>,
        trace: Option<TraceParent>,
    ) -> Result<(Answered, Instant), CallError> {
        let Events { digests, names, fences, .. } = events;
        // Each filter in the chain converts the time to live with its own window.
        let counted = ttl.map(|ttl| filter.count_ttl(ttl)).transpose()?;
        let ttl_ms = counted.and_then(|counted| counted.by_nodes_ms);
        let times_of_ttl = counted.and_then(|counted| counted.time_ms).map(|time_ms| vec![time_ms; digests.len()]);
        let times_ms = if counted.is_some() { times_of_ttl.as_deref().unwrap_or_default() } else { events.times_ms };
        self.check(filter, operation, !times_ms.is_empty() || digests.is_empty())?;
        check_lengths("times", digests.len(), times_ms.len().min(digests.len()))?;
        check_lengths("names", digests.len(), names.len())?;
        check_lengths("fences", digests.len(), fences.len())?;
        let core = filter.core();
        let limits = core.options();
        let part = limits.batch_events_max.min(limits.queued_events_max) as usize;
        let call = ManyCall::new(digests.len(), trace);
        let mut deadline = until.unwrap_or_else(|| core.deadline());
        for from in (0..digests.len()).step_by(part) {
            let range = from..digests.len().min(from + part);
            deadline = until.unwrap_or_else(|| core.deadline());
            let refused = match core.reserve(range.len() as u32, deadline).await {
                Ok(true) => None,
                Ok(false) => Some(Reason::Overloaded),
                // Some of the events have been sent already, so the call must return answers rather than an error.
                Err(CallError::Closed) if from > 0 => Some(Reason::NotReady),
                Err(error) => return Err(error),
            };
            if let Some(reason) = refused {
                let rest = range.start as u32..digests.len() as u32;
                call.answer(rest.map(|index| (index, Answer::undecided(reason))));
                break;
            }
            let events = Events {
                digests: &digests[range.clone()],
                times_ms: times_ms.get(range.start..).unwrap_or(&[]),
                names: names.get(range.clone()).unwrap_or(&[]),
                fences: fences.get(range).unwrap_or(&[]),
            };
            filter.queue_many(&call, from as u32, events, Asked { operation, ttl_ms, deadline });
        }
        let answers = call.wait().await;
        Ok((Answered { answers, holds: call.holds() }, deadline))
    }

    fn check(&self, filter: &FilterCore, operation: Operation, has_times: bool) -> Result<(), CallError> {
        let is_of_frequencies = filter.record().definition.group.cells.kind().estimates_frequencies();
        match operation {
            Operation::Observe | Operation::Lookup if is_of_frequencies => {
                Err(CallError::Frequencies { filter: self.name() })
            }
            Operation::Count | Operation::Estimate if !is_of_frequencies => {
                Err(CallError::Verdicts { filter: self.name() })
            }
            _ if filter.needs_times() && !has_times => Err(CallError::NeedsTimes { filter: self.name() }),
            _ => Ok(()),
        }
    }

    /// Returns the current name of the filter, for error messages.
    pub(crate) fn name(&self) -> String {
        followers::newest(&self.core).record().name.clone()
    }
}

/// Checks that a list of a batch is either empty or has one entry for each event.
fn check_lengths(what: &'static str, events: usize, found: usize) -> Result<(), CallError> {
    match found {
        0 => Ok(()),
        found if found == events => Ok(()),
        found => Err(CallError::Lengths { events, what, found }),
    }
}
