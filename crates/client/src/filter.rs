//! A filter in a producer's hands.
//!
//! Promises: three verdicts, never two; an event leaves this process as positions under the filter's secret, never as
//! its bytes. Must not know: nodes, streams.

use std::fmt;
use std::sync::Arc;

use firstseen_filter::{Digest, FilterSecret, Kind};
use firstseen_routing::{
    Branch, Decision, FilterId, Operation, Reason, SlicedDefinition, SubmissionName, TREE_LEVELS_MAX,
};

use crate::audit::AuditReport;
use crate::call::{Answer, ManyCall, lock};
use crate::degraded::Degraded;
use crate::error::CallError;
use crate::intake::{Events, FilterCore};
use crate::queue::Asked;
use crate::trace::TraceParent;

/// What is told of one event.
pub use firstseen_routing::Decision as Verdict;

/// What is told of an event by a filter of frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frequency {
    /// How often it came, older sightings counting less.
    Estimate(f32),
    /// Nothing is known.
    Undecided(Reason),
}

impl From<Answer> for Frequency {
    fn from(answer: Answer) -> Self {
        match answer.decision {
            Decision::Undecided(reason) => Self::Undecided(reason),
            Decision::FirstSeen | Decision::Duplicate => Self::Estimate(answer.estimate),
        }
    }
}

/// A filter of the cluster; cheap to clone. Calls may run at the same time, from any task: those that come while a
/// batch is in flight travel together in the next one.
///
/// An event is a slice of bytes, or several parts hashed by [`FilterSecret::digest_parts`] with [`Self::secret`]. Times
/// are milliseconds since 1970; filters with a window of time need them, unless their nodes stamp events.
///
/// A call that is dropped takes nothing back: its events are submitted all the same. An answer that has not come by the
/// deadline is `Undecided`, with a reason that says whether the event may have been recorded.
#[derive(Clone)]
pub struct Filter {
    core: Arc<FilterCore>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("name", &self.name()).field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Filter {
    pub(crate) fn new(core: Arc<FilterCore>) -> Self {
        Self { core }
    }

    /// What users call it.
    pub fn name(&self) -> &str {
        &self.core.record().name
    }

    /// Its number.
    pub fn id(&self) -> FilterId {
        self.core.id()
    }

    /// All that its answers depend on, beside the secret.
    pub fn definition(&self) -> &SlicedDefinition {
        &self.core.record().definition
    }

    /// Its place in a tree, where it has one.
    pub fn branch(&self) -> Option<&Branch> {
        self.core.record().branch.as_ref()
    }

    /// The key of its hash, for digests that are computed elsewhere.
    pub fn secret(&self) -> &FilterSecret {
        self.core.secret()
    }

    /// Whether events must bring their times.
    pub fn needs_times(&self) -> bool {
        self.core.needs_times()
    }

    /// Asks about an event, and records it if it was not there.
    ///
    /// # Errors
    /// [`CallError`]: the filter needs times or answers other questions; or the client is closed.
    pub async fn observe(&self, event: &[u8]) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, self.digest(event), None, None).await?.decision)
    }

    /// Like [`Self::observe`], for an event that occurred at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_at(&self, event: &[u8], time_ms: u64) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, self.digest(event), Some(time_ms), None).await?.decision)
    }

    /// Like [`Self::observe`], for a submission that has a name, say a partition and an offset. The same name gets the
    /// same verdict for as long as the filter's retry horizon, also from a producer that has started anew.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_as(&self, name: SubmissionName, event: &[u8]) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, self.digest(event), None, Some(name)).await?.decision)
    }

    /// Like [`Self::observe_as`], for an event that occurred at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_as_at(&self, name: SubmissionName, event: &[u8], time_ms: u64) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Observe, self.digest(event), Some(time_ms), Some(name)).await?.decision)
    }

    /// Asks about many events, one after the other, with one verdict each, in order. `times_ms` holds the time of each,
    /// or nothing where the filter needs none.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_batch<E: AsRef<[u8]>>(
        &self,
        events: &[E],
        times_ms: &[u64],
    ) -> Result<Vec<Verdict>, CallError> {
        let digests: Vec<Digest> = events.iter().map(|event| self.digest(event.as_ref())).collect();
        self.observe_digests(&digests, times_ms).await
    }

    /// Like [`Self::observe_batch`], for events that are hashed already, by [`Self::secret`]. However many there are,
    /// they are sent in batches, several of which are in flight; the deadline is that of each batch.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn observe_digests(&self, digests: &[Digest], times_ms: &[u64]) -> Result<Vec<Verdict>, CallError> {
        self.verdicts(Operation::Observe, Events { digests, times_ms, names: &[] }).await
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
        self.verdicts(Operation::Observe, Events { digests, times_ms, names }).await
    }

    /// Asks about an event and records nothing: `FirstSeen` if it would be.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn test(&self, event: &[u8]) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Lookup, self.digest(event), None, None).await?.decision)
    }

    /// Like [`Self::test`], as if the event occurred at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn test_at(&self, event: &[u8], time_ms: u64) -> Result<Verdict, CallError> {
        Ok(self.one(Operation::Lookup, self.digest(event), Some(time_ms), None).await?.decision)
    }

    /// Like [`Self::observe_digests`], but records nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn test_digests(&self, digests: &[Digest], times_ms: &[u64]) -> Result<Vec<Verdict>, CallError> {
        self.verdicts(Operation::Lookup, Events { digests, times_ms, names: &[] }).await
    }

    /// Counts an event of a filter of frequencies, and tells its frequency.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn count(&self, event: &[u8], time_ms: Option<u64>) -> Result<Frequency, CallError> {
        Ok(self.one(Operation::Count, self.digest(event), time_ms, None).await?.into())
    }

    /// The frequency of an event; counts nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn estimate(&self, event: &[u8], time_ms: Option<u64>) -> Result<Frequency, CallError> {
        Ok(self.one(Operation::Estimate, self.digest(event), time_ms, None).await?.into())
    }

    /// How often the filter errs, as measured by this client; `None` unless it was asked to ([`crate::Builder::audit`]).
    pub fn audit(&self) -> Option<AuditReport> {
        self.core.auditor().map(|auditor| lock(auditor).report())
    }

    /// Duplicates that each level of the filter's tree has found, as nodes have told this client, from the root on; all 0
    /// where it is in no tree.
    pub fn level_hits(&self) -> [u64; TREE_LEVELS_MAX] {
        self.core.level_hits()
    }

    /// Duplicates that this client has answered itself ([`crate::Builder::local_bytes_max`]).
    pub fn local_hits(&self) -> u64 {
        self.core.local_hits()
    }

    /// Events whose answers rest on fewer slices than usual, as nodes are down or have lost what came before they started:
    /// more of those told to be duplicates may be new.
    pub fn degraded_events(&self) -> u64 {
        self.core.degraded().events
    }

    /// The same, with the rate of false positives that nodes expect among them.
    pub fn degraded(&self) -> Degraded {
        self.core.degraded()
    }

    fn digest(&self, event: &[u8]) -> Digest {
        self.core.secret().digest(event)
    }

    async fn one(
        &self,
        operation: Operation,
        digest: Digest,
        time_ms: Option<u64>,
        name: Option<SubmissionName>,
    ) -> Result<Answer, CallError> {
        self.check(operation, time_ms.is_some())?;
        if let Some(trace) = self.core.core().current_trace() {
            let (digests, times_ms, names) = (std::slice::from_ref(&digest), time_ms.as_slice(), name.as_slice());
            let events = Events { digests, times_ms, names };
            // In a box, so that calls which are not traced do not carry its room.
            let answers = Box::pin(self.many(operation, events, Some(trace))).await?;
            return answers.first().copied().ok_or(CallError::Closed);
        }
        let deadline = self.core.core().deadline();
        if !self.core.core().reserve(1, deadline).await? {
            return Ok(Answer::undecided(Reason::Overloaded));
        }
        match self.core.queue_one(digest, time_ms, name, Asked { operation, deadline }) {
            Ok(answer) => answer.await.map_err(|_| CallError::Closed),
            Err(answer) => Ok(answer),
        }
    }

    async fn verdicts(&self, operation: Operation, events: Events<'_>) -> Result<Vec<Verdict>, CallError> {
        let trace = self.core.core().current_trace();
        Ok(self.many(operation, events, trace).await?.into_iter().map(|answer| answer.decision).collect())
    }

    /// Asks about many events, or about one of a call that is traced.
    async fn many(
        &self,
        operation: Operation,
        events: Events<'_>,
        trace: Option<TraceParent>,
    ) -> Result<Vec<Answer>, CallError> {
        let Events { digests, times_ms, names } = events;
        self.check(operation, !times_ms.is_empty() || digests.is_empty())?;
        check_lengths("times", digests.len(), times_ms.len())?;
        check_lengths("names", digests.len(), names.len())?;
        let core = self.core.core();
        let limits = core.limits();
        let part = limits.batch_events_max.min(limits.queued_events_max) as usize;
        let call = ManyCall::new(digests.len(), trace);
        for from in (0..digests.len()).step_by(part) {
            let range = from..digests.len().min(from + part);
            let deadline = core.deadline();
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
                times_ms: times_ms.get(range.clone()).unwrap_or(&[]),
                names: names.get(range).unwrap_or(&[]),
            };
            self.core.queue_many(&call, from as u32, events, Asked { operation, deadline });
        }
        Ok(call.wait().await)
    }

    fn check(&self, operation: Operation, has_times: bool) -> Result<(), CallError> {
        let filter = || self.name().to_owned();
        let is_of_frequencies = self.definition().group.cells.kind() == Kind::Decaying;
        match operation {
            Operation::Observe | Operation::Lookup if is_of_frequencies => {
                Err(CallError::Frequencies { filter: filter() })
            }
            Operation::Count | Operation::Estimate if !is_of_frequencies => {
                Err(CallError::Verdicts { filter: filter() })
            }
            _ if self.needs_times() && !has_times => Err(CallError::NeedsTimes { filter: filter() }),
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
