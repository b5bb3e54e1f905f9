//! A filter in a producer's hands.
//!
//! Promises: three verdicts, never two; an event leaves this process as positions under the filter's secret, never as
//! bytes. Must not know: nodes, streams.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::{
    Branch, Fence, FilterId, Hold, Operation, Reason, SlicedDefinition, SubmissionName, TREE_LEVELS_MAX,
};
use tokio::time::Instant;

use crate::audit::AuditReport;
use crate::call::{Answer, ManyCall, lock};
use crate::degraded::Degraded;
use crate::error::CallError;
use crate::frequency::Frequency;
use crate::intake::FilterCore;
use crate::line;
use crate::outage::{MissingSlices, down_nodes};
use crate::queue::{Asked, Events};
use crate::rehash::{HASHED, Rehash};
use crate::trace::TraceParent;
use crate::wait::Wait;

/// The verdict on one event.
pub use firstseen_routing::Decision as Verdict;

/// A filter of the cluster; cheap to clone. Calls may run at the same time, from any task: those that come while a
/// batch is in flight travel together in the next one.
///
/// An event is a slice of bytes, or several parts hashed by [`FilterSecret::digest_parts`] with [`Self::secret`]. Times
/// are milliseconds since 1970; filters with a window of time need them, unless their nodes stamp events.
///
/// A call that is dropped takes nothing back: its events are submitted all the same. An answer that has not come by the
/// deadline is `Undecided`, with a reason that says whether the event may have been recorded.
///
/// A filter that is altered is followed: calls go on, under the new window and the new secret. Only a caller that
/// hashes events by [`Self::secret`] says how they are hashed anew ([`Self::observe_digests_or`]), or opens the filter
/// again where it has another secret: until then events are `Undecided` ([`Reason::Altered`]). While the filter is
/// being altered, a call that is dropped may not be submitted.
#[derive(Clone)]
pub struct Filter {
    /// The filter as it was when it was opened; filters that have followed are behind it.
    core: Arc<FilterCore>,
    wait: Wait,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("name", &self.name()).field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Filter {
    pub(crate) fn new(core: Arc<FilterCore>, wait: Wait) -> Self {
        Self { core, wait }
    }

    /// The filter as it was when it was opened.
    pub(crate) fn opened(&self) -> &Arc<FilterCore> {
        &self.core
    }

    /// The filter that is asked now: the newest of those that have followed.
    pub(crate) fn newest(&self) -> &Arc<FilterCore> {
        line::newest(&self.core)
    }

    /// What users call it.
    pub fn name(&self) -> &str {
        &line::newest(&self.core).record().name
    }

    /// The filter's number: another one after it was altered.
    pub fn id(&self) -> FilterId {
        line::newest(&self.core).id()
    }

    /// All that its answers depend on, beside the secret.
    pub fn definition(&self) -> &SlicedDefinition {
        &line::newest(&self.core).record().definition
    }

    /// Its place in a tree, where it has one.
    pub fn branch(&self) -> Option<&Branch> {
        self.core.record().branch.as_ref()
    }

    /// The key of its hash, for digests that are computed elsewhere; the same for as long as the filter is held.
    pub fn secret(&self) -> &FilterSecret {
        self.core.secret()
    }

    /// Slices that cannot answer now: why events are undecided as [`Reason::SlicesDown`], and whether waiting will help.
    pub fn missing_slices(&self) -> MissingSlices {
        line::newest(&self.core).missing_slices()
    }

    /// Names of the nodes that have slices of the filter and are down, as far as the map says: calls that need those
    /// slices wait for these nodes.
    pub fn down_nodes(&self) -> Vec<String> {
        let filter = line::newest(&self.core);
        let map = filter.core().map();
        map.filters.get(&filter.id()).map_or_else(Vec::new, |record| down_nodes(&map, record))
    }

    /// Whether events must bring their times.
    pub fn needs_times(&self) -> bool {
        line::all(line::first(&self.core)).any(|filter| filter.needs_times())
    }

    /// Asks about an event, and records it if it was not there.
    ///
    /// # Errors
    /// [`CallError`]: the filter needs times or answers other questions; or the client is closed.
    pub async fn observe(&self, event: &[u8]) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, event, None, None).await?.decision)
    }

    /// Like [`Self::observe`], for an event that occurred at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_at(&self, event: &[u8], time_ms: u64) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, event, Some(time_ms), None).await?.decision)
    }

    /// Like [`Self::observe`], for a submission that has a name, say a partition and an offset. The same name gets the
    /// same verdict for as long as the filter's retry horizon, also from a producer that has started anew. Another
    /// event under it is undecided ([`Reason::NameReused`]): it never gets the first one's verdict.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_as(&self, name: SubmissionName, event: &[u8]) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, event, None, Some(name)).await?.decision)
    }

    /// Like [`Self::observe_as`], for an event that occurred at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_as_at(&self, name: SubmissionName, event: &[u8], time_ms: u64) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, event, Some(time_ms), Some(name)).await?.decision)
    }

    /// Asks about many events, one after the other, with one verdict each, in order. `times_ms` holds the time of each,
    /// or nothing where the filter needs none.
    ///
    /// A time far ahead of the others is accepted where the times of the events behind it bear it out, or the time of
    /// day, and undecided ([`Reason::Future`]) where they do not; so `times_ms` may go on with the times of events that
    /// come after these.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_batch<E: AsRef<[u8]> + Sync>(
        &self,
        events: &[E],
        times_ms: &[u64],
    ) -> Result<Vec<Verdict>, CallError> {
        let secret = line::first(&self.core).secret();
        let rehash = |secret: &FilterSecret| -> Vec<Digest> {
            events.iter().map(|event| secret.digest(event.as_ref())).collect()
        };
        let digests = rehash(secret);
        let events = Events::plain(&digests, times_ms);
        self.verdicts(Operation::Observe, events, (secret, &rehash)).await
    }

    /// Like [`Self::observe_batch`], for events that are hashed already, by [`Self::secret`]. However many there are,
    /// they are sent in batches, several of which are in flight; the deadline is that of each batch.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_digests(&self, digests: &[Digest], times_ms: &[u64]) -> Result<Vec<Verdict>, CallError> {
        self.observe_digests_or(digests, times_ms, HASHED).await
    }

    /// Like [`Self::observe_digests`]; where the filter has been altered and has another secret, `rehash` hashes all events
    /// of the call by that one.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_digests_or(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<Verdict>, CallError> {
        self.verdicts(Operation::Observe, Events::plain(digests, times_ms), (self.secret(), rehash)).await
    }

    /// Like [`Self::observe_digests`], for submissions that have names, one an event.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_digests_as(
        &self,
        names: &[SubmissionName],
        digests: &[Digest],
        times_ms: &[u64],
    ) -> Result<Vec<Verdict>, CallError> {
        self.observe_digests_as_or(names, digests, times_ms, HASHED).await
    }

    /// Like [`Self::observe_digests_as`]; where the filter has been altered and has another secret, `rehash` hashes all events of
    /// the call by that one.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_digests_as_or(
        &self,
        names: &[SubmissionName],
        digests: &[Digest],
        times_ms: &[u64],
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<Verdict>, CallError> {
        let events = Events { names, ..Events::plain(digests, times_ms) };
        self.verdicts(Operation::Observe, events, (self.secret(), rehash)).await
    }

    /// Asks about an event and records nothing: `FirstSeen` where [`Self::observe`] would say so.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn test(&self, event: &[u8]) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Lookup, event, None, None).await?.decision)
    }

    /// Like [`Self::test`], as if the event occurred at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn test_at(&self, event: &[u8], time_ms: u64) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Lookup, event, Some(time_ms), None).await?.decision)
    }

    /// Like [`Self::observe_digests`], but records nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn test_digests(&self, digests: &[Digest], times_ms: &[u64]) -> Result<Vec<Verdict>, CallError> {
        self.verdicts(Operation::Lookup, Events::plain(digests, times_ms), (self.secret(), HASHED)).await
    }

    /// Like [`Self::observe_digests_or`], but records nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn test_digests_or(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<Verdict>, CallError> {
        self.verdicts(Operation::Lookup, Events::plain(digests, times_ms), (self.secret(), rehash)).await
    }

    /// Counts an event in a filter of frequencies, and returns its frequency.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn count(&self, event: &[u8], time_ms: Option<u64>) -> Result<Frequency, CallError> {
        Ok(self.one(Operation::Count, event, time_ms, None).await?.into())
    }

    /// The frequency of an event; counts nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn estimate(&self, event: &[u8], time_ms: Option<u64>) -> Result<Frequency, CallError> {
        Ok(self.one(Operation::Estimate, event, time_ms, None).await?.into())
    }

    /// How often the filter errs, as measured by this client; `None` unless it was asked to ([`crate::Builder::audit`]).
    pub fn audit(&self) -> Option<AuditReport> {
        line::newest(&self.core).auditor().map(|auditor| lock(auditor).report())
    }

    /// Duplicates that each level of the filter's tree has found for this client, from the root on; all 0 where the
    /// filter is in no tree.
    pub fn level_hits(&self) -> [u64; TREE_LEVELS_MAX] {
        let mut hits = self.core.level_hits();
        // Events are claimed at the root.
        let at_root = self.core.line().root().map(|root| root.level_hits()).unwrap_or_default();
        hits.iter_mut().zip(at_root).for_each(|(hits, at_root)| *hits += at_root);
        hits
    }

    /// Duplicates that this client has answered itself ([`crate::Builder::local_bytes_max`]).
    pub fn local_hits(&self) -> u64 {
        line::all(&self.core).map(|filter| filter.local_hits()).sum()
    }

    /// Events whose answers rest on fewer slices than usual, as nodes are down or have lost events from before they
    /// started: more of the duplicates among them may be new.
    pub fn degraded_events(&self) -> u64 {
        self.degraded().events
    }

    /// These events, with the rate of false positives that nodes expect among them.
    pub fn degraded(&self) -> Degraded {
        line::all(&self.core).map(|filter| filter.degraded()).fold(Degraded::default(), Degraded::and)
    }

    /// The filter whose heads hold events: the root of its tree, where it is in one; as it was when it was opened.
    pub(crate) fn claimed_at(&self) -> &Arc<FilterCore> {
        self.core.line().root().unwrap_or(&self.core)
    }

    async fn one(
        &self,
        operation: Operation,
        event: &[u8],
        time_ms: Option<u64>,
        name: Option<SubmissionName>,
    ) -> Result<Answer, CallError> {
        let deadline = self.wait.earlier(self.core.core().deadline());
        let mut filter = line::first(&self.core);
        loop {
            let asked = self.ask_one(filter, operation, (event, time_ms, name), deadline);
            let (asked_by, answer) = (self.core.core().map_version(), asked.await?);
            if !filter.passes_on(answer, asked_by) {
                return Ok(answer);
            }
            let Some(next) = filter.next(deadline).await else { return Ok(line::not_found(answer)) };
            filter = next;
        }
    }

    async fn ask_one(
        &self,
        filter: &Arc<FilterCore>,
        operation: Operation,
        (event, time_ms, name): (&[u8], Option<u64>, Option<SubmissionName>),
        deadline: Instant,
    ) -> Result<Answer, CallError> {
        self.check(filter, operation, time_ms.is_some())?;
        let digest = filter.secret().digest(event);
        if let Some(trace) = filter.core().current_trace() {
            let (digests, times_ms, names) = (std::slice::from_ref(&digest), time_ms.as_slice(), name.as_slice());
            let events = Events { names, ..Events::plain(digests, times_ms) };
            // In a box, so that calls which are not traced do not carry its room.
            let (answers, ..) = Box::pin(self.ask_many(filter, operation, events, Some(deadline), Some(trace))).await?;
            return answers.first().copied().ok_or(CallError::Closed);
        }
        if !filter.core().reserve(1, deadline).await? {
            return Ok(Answer::undecided(Reason::Overloaded));
        }
        match filter.queue_one(digest, time_ms, name, Asked { operation, ttl_ms: None, deadline }) {
            Ok(answer) => answer.await.map_err(|_| CallError::Closed),
            Err(answer) => Ok(answer),
        }
    }

    /// Asks about many events, which `secret` has hashed.
    pub(crate) async fn verdicts(
        &self,
        operation: Operation,
        events: Events<'_>,
        (secret, rehash): (&FilterSecret, Rehash<'_>),
    ) -> Result<Vec<Verdict>, CallError> {
        let (answers, _) = self.answers(line::first(&self.core), operation, events, (secret, rehash)).await?;
        Ok(answers.into_iter().map(|answer| answer.decision).collect())
    }

    /// Asks the filter `first` of the line, and those that have followed, about many events, which `secret` has hashed; where
    /// they are claimed, also says who holds them.
    pub(crate) async fn answers(
        &self,
        first: &Arc<FilterCore>,
        operation: Operation,
        events: Events<'_>,
        (secret, rehash): (&FilterSecret, Rehash<'_>),
    ) -> Result<(Vec<Answer>, Vec<Hold>), CallError> {
        let (trace, mut asked_by) = (self.core.core().current_trace(), self.core.core().map_version());
        let mut filter = first;
        let hash = |filter: &Arc<FilterCore>| {
            if filter.secret() == secret { Cow::Borrowed(events.digests) } else { Cow::Owned(rehash(filter.secret())) }
        };
        let hashed = hash(filter);
        if hashed.len() != events.digests.len() {
            return Ok((vec![Answer::undecided(Reason::Altered); events.digests.len()], Vec::new()));
        }
        let all = Events { digests: &hashed, ..events };
        let (mut answers, mut holds, deadline) =
            self.ask_many(filter, operation, all, self.wait.until(self.core.core().deadline()), trace).await?;
        while filter.is_followed() {
            let left: Vec<usize> =
                (0..answers.len()).filter(|event| filter.passes_on(answers[*event], asked_by)).collect();
            if left.is_empty() {
                break;
            }
            let Some(next) = filter.next(deadline).await else {
                left.iter().for_each(|event| answers[*event] = line::not_found(answers[*event]));
                break;
            };
            (filter, asked_by) = (next, self.core.core().map_version());
            let hashed = hash(filter);
            let Some(digests) = left.iter().map(|event| hashed.get(*event).copied()).collect::<Option<Vec<_>>>() else {
                left.iter().for_each(|event| answers[*event] = Answer::undecided(Reason::Altered));
                break;
            };
            let times_ms: Vec<u64> = left.iter().filter_map(|event| events.times_ms.get(*event).copied()).collect();
            let names: Vec<SubmissionName> =
                left.iter().filter_map(|event| events.names.get(*event).copied()).collect();
            let fences: Vec<Fence> = left.iter().filter_map(|event| events.fences.get(*event).copied()).collect();
            let some =
                Events { digests: &digests, times_ms: &times_ms, names: &names, fences: &fences, ttl: events.ttl };
            let (answered, held, _) = self.ask_many(filter, operation, some, Some(deadline), trace).await?;
            if !held.is_empty() {
                holds.resize(answers.len(), Hold::None);
                left.iter().zip(held).for_each(|(event, hold)| holds[*event] = hold);
            }
            left.into_iter().zip(answered).for_each(|(event, answer)| answers[event] = answer);
        }
        Ok((answers, holds))
    }

    /// Asks one filter about many events, or about one event of a traced call; also returns who holds events that are
    /// claimed, and the last deadline.
    async fn ask_many(
        &self,
        filter: &Arc<FilterCore>,
        operation: Operation,
        events: Events<'_>,
        until: Option<Instant>,
        trace: Option<TraceParent>,
    ) -> Result<(Vec<Answer>, Vec<Hold>, Instant), CallError> {
        let Events { digests, names, fences, .. } = events;
        // Each filter of a line counts a ttl by its own window.
        let counted = events.ttl.map(|ttl| filter.count_ttl(ttl)).transpose()?;
        let ttl_ms = counted.and_then(|counted| counted.by_nodes_ms);
        let times_of_ttl = counted.and_then(|counted| counted.time_ms).map(|time_ms| vec![time_ms; digests.len()]);
        let times_ms = if counted.is_some() { times_of_ttl.as_deref().unwrap_or_default() } else { events.times_ms };
        self.check(filter, operation, !times_ms.is_empty() || digests.is_empty())?;
        check_lengths("times", digests.len(), times_ms.len().min(digests.len()))?;
        check_lengths("names", digests.len(), names.len())?;
        check_lengths("fences", digests.len(), fences.len())?;
        let core = filter.core();
        let limits = core.limits();
        let part = limits.batch_events_max.min(limits.queued_events_max) as usize;
        let call = ManyCall::new(digests.len(), trace);
        let mut deadline = until.unwrap_or_else(|| core.deadline());
        for from in (0..digests.len()).step_by(part) {
            let range = from..digests.len().min(from + part);
            deadline = until.unwrap_or_else(|| core.deadline());
            let refused = match core.reserve(range.len() as u32, deadline).await {
                Ok(true) => None,
                Ok(false) => Some(Reason::Overloaded),
                // Some of the events are on their way already: the call has answers.
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
                ttl: None,
            };
            filter.queue_many(&call, from as u32, events, Asked { operation, ttl_ms, deadline });
        }
        let answers = call.wait().await;
        Ok((answers, call.holds(), deadline))
    }

    fn check(&self, filter: &FilterCore, operation: Operation, has_times: bool) -> Result<(), CallError> {
        let is_of_frequencies = filter.record().definition.group.cells.kind().estimates_frequencies();
        let needs_times = filter.needs_times();
        let filter = || self.name().to_owned();
        match operation {
            Operation::Observe | Operation::Lookup if is_of_frequencies => {
                Err(CallError::Frequencies { filter: filter() })
            }
            Operation::Count | Operation::Estimate if !is_of_frequencies => {
                Err(CallError::Verdicts { filter: filter() })
            }
            _ if needs_times && !has_times => Err(CallError::NeedsTimes { filter: filter() }),
            _ => Ok(()),
        }
    }
}

/// A list has one entry an event, or none at all.
fn check_lengths(what: &'static str, events: usize, found: usize) -> Result<(), CallError> {
    match found {
        0 => Ok(()),
        found if found == events => Ok(()),
        found => Err(CallError::Lengths { events, what, found }),
    }
}
