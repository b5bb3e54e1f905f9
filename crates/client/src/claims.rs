//! Claims: who is about to deliver an event, and records it afterwards (`docs/claims.md`).
//!
//! Promises: a claim that is dropped is released, as far as nodes can be reached; a delivery that is dropped is not, so that
//! another process can confirm it. Must not know: how claims are granted.

use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::{CLOCK_RATE_PARTS, Decision, Fence, Hold, Lost, Operation, Reason, SubmissionName};
use tokio::time::Instant;

use crate::call::ManyCall;
use crate::error::CallError;
use crate::filter::Filter;
use crate::intake::FilterCore;
use crate::line;
use crate::queue::{Asked, Events};
use crate::rehash::{HASHED, Rehash};

/// The answer to a claim.
#[derive(Debug)]
pub enum Claiming {
    /// The event is the caller's to deliver.
    Claimed(Claim),
    /// Another consumer holds the event for this time at most: ask again then.
    InProgress(Duration),
    /// The event is recorded: there is nothing to do.
    Duplicate,
    /// Nothing is known.
    Undecided(Reason),
}

/// The answer to a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirming {
    /// The event is recorded, and nobody else is to deliver it.
    Confirmed,
    /// The caller held the event no more. [`Lost::Recorded`] may mean an earlier try of the same confirm: after a delivery it
    /// means "done".
    LeaseLost(Lost),
    /// Nothing is known: confirm again, or leave the event to whoever claims it when the lease is over.
    Undecided(Reason),
}

/// An event that is the caller's to deliver, for as long as its lease lasts. Dropped, it is released: the word is queued, and a
/// program that ends waits for it by [`crate::Client::flush`].
#[derive(Debug)]
pub struct Claim {
    /// None once it was delivered or released: to drop it then lets nothing go.
    held: Option<Held>,
}

/// An event that is being delivered. Dropped, it stays the caller's until the lease is over: a process that starts anew can
/// confirm it by [`Filter::confirm_fence`].
#[derive(Debug)]
#[must_use = "the event is delivered again by somebody else unless this is confirmed"]
pub struct Delivery {
    held: Held,
}

/// What both are.
#[derive(Debug)]
struct Held {
    filter: Filter,
    event: Box<[u8]>,
    time_ms: Option<u64>,
    fence: Fence,
    until: Instant,
}

impl Claim {
    /// The number of the grant: of two grants of an event the later one has the greater fence.
    pub fn fence(&self) -> Option<Fence> {
        self.held.as_ref().map(|held| held.fence)
    }

    /// What is left of the lease, by the caller's clock: counted from when the claim was sent first, less a 64th.
    pub fn left(&self) -> Duration {
        self.held.as_ref().map_or(Duration::ZERO, Held::left)
    }

    /// The delivery begins: from here on nothing is released.
    pub fn deliver(mut self) -> Option<Delivery> {
        self.held.take().map(|held| Delivery { held })
    }

    /// Lets the event go; whether it was still held.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn release(mut self) -> Result<bool, CallError> {
        let Some(Held { filter, event, time_ms, fence, .. }) = self.held.take() else { return Ok(false) };
        filter.release_fence(&event, time_ms, fence).await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.let_go();
        }
    }
}

impl Delivery {
    /// The number of the grant. A sink that keeps it with the delivery can tell a later grant from an earlier one.
    pub fn fence(&self) -> Fence {
        self.held.fence
    }

    /// What is left of the lease, as [`Claim::left`].
    pub fn left(&self) -> Duration {
        self.held.left()
    }

    /// The event was delivered: it is recorded.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn confirm(self) -> Result<Confirming, CallError> {
        let Held { filter, event, time_ms, fence, .. } = self.held;
        filter.confirm_fence(&event, time_ms, fence).await
    }
}

impl Held {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Sends word that the event is let go, if there is room for it, and does not wait.
    fn let_go(&self) {
        let filter = home(self.filter.claimed_at(), self.fence);
        if !filter.core().try_reserve(1) {
            return;
        }
        let digest = [filter.secret().digest(&self.event)];
        let events = Events { fences: &[self.fence], ..Events::plain(&digest, self.time_ms.as_slice()) };
        let asked = Asked { operation: Operation::Release, ttl_ms: None, deadline: filter.core().deadline() };
        filter.queue_many(&ManyCall::new(1, None), 0, events, asked);
    }
}

impl Filter {
    /// The greatest lease of a claim; none where events cannot be claimed.
    pub fn lease_max(&self) -> Option<Duration> {
        let record = line::newest(self.claimed_at()).record();
        record.policies.claim_lease_max_ms.map(|lease_max_ms| Duration::from_millis(lease_max_ms.get().into()))
    }

    /// Claims an event for this time at most. Where nodes are away the claim is sent again for half of the lease at most; where
    /// they have no room for it, it is not sent again. The event is undecided then. A call that is dropped before it is answered
    /// leaves what it is granted to its lease.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn claim(&self, event: &[u8], lease: Duration) -> Result<Claiming, CallError> {
        self.claim_one(event, None, lease).await
    }

    /// Like [`Self::claim`], for an event that occurred at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn claim_at(&self, event: &[u8], time_ms: u64, lease: Duration) -> Result<Claiming, CallError> {
        self.claim_one(event, Some(time_ms), lease).await
    }

    /// Whether a fence may be one of the filter's, or of what it was before it was altered: one of another filter, say of one that
    /// had the same name, is not.
    pub fn has_granted(&self, fence: Fence) -> bool {
        let newest = line::newest(self.claimed_at());
        let own = newest.record().line.origin.unwrap_or(newest.id())..=newest.id();
        own.contains(&fence.filter())
    }

    async fn claim_one(&self, event: &[u8], time_ms: Option<u64>, lease: Duration) -> Result<Claiming, CallError> {
        let claimed = self.claim_batch(&[event], time_ms.as_slice(), lease).await?;
        Ok(claimed.into_iter().next().unwrap_or(Claiming::Undecided(Reason::Unknown)))
    }

    /// Claims many events, with one answer each, in order. `times_ms` holds the time of each, or nothing where the filter needs
    /// none.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn claim_batch<E: AsRef<[u8]> + Sync>(
        &self,
        events: &[E],
        times_ms: &[u64],
        lease: Duration,
    ) -> Result<Vec<Claiming>, CallError> {
        self.check_lease(lease)?;
        let until = Instant::now() + lease - lease / CLOCK_RATE_PARTS as u32;
        let secret = line::first(self.claimed_at()).secret();
        let rehash = rehash(events);
        let claimed = self.claimed(&rehash(secret), times_ms, lease, (secret, &rehash)).await?;
        let claiming = |(index, (decision, hold)): (usize, (Decision, Hold))| match (decision, hold) {
            (_, Hold::Own(fence)) => Claiming::Claimed(Claim {
                held: Some(Held {
                    filter: self.clone(),
                    event: events[index].as_ref().into(),
                    time_ms: times_ms.get(index).copied(),
                    fence,
                    until,
                }),
            }),
            (_, Hold::Other { left_ms }) => Claiming::InProgress(Duration::from_millis(left_ms.into())),
            (Decision::Duplicate, _) => Claiming::Duplicate,
            (Decision::Undecided(reason), _) => Claiming::Undecided(reason),
            // A node that grants says so.
            (Decision::FirstSeen, _) => Claiming::Undecided(Reason::Invalid),
        };
        Ok(claimed.into_iter().enumerate().map(claiming).collect())
    }

    /// Like [`Self::claim_batch`], for events that are hashed already, by [`Self::secret`]: of each the decision, and where that
    /// is undecided as the event is claimed, who holds it. Nothing is released by itself.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn claim_digests(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        lease: Duration,
    ) -> Result<Vec<(Decision, Hold)>, CallError> {
        self.claimed(digests, times_ms, lease, (self.secret(), HASHED)).await
    }

    /// Like [`Self::claim_digests`]; where the filter has been altered and has another secret, `rehash` hashes all events of the
    /// call by that one.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn claim_digests_or(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        lease: Duration,
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<(Decision, Hold)>, CallError> {
        self.claimed(digests, times_ms, lease, (self.secret(), rehash)).await
    }

    async fn claimed(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        lease: Duration,
        hashed: (&FilterSecret, Rehash<'_>),
    ) -> Result<Vec<(Decision, Hold)>, CallError> {
        let lease_ms = self.check_lease(lease)?;
        let first = line::first(self.claimed_at());
        // A claim that comes again is known by its name, in whichever batch it comes.
        let name =
            |_: &Digest| SubmissionName { source: first.core().producer(), number: first.core().next_sequence() };
        let names: Vec<SubmissionName> = digests.iter().map(name).collect();
        let events = Events { names: &names, ..Events::plain(digests, times_ms) };
        let (answers, holds) = self.answers(first, Operation::Claim { lease_ms }, events, hashed).await?;
        let hold = |index: usize| holds.get(index).copied().unwrap_or_default();
        Ok(answers.iter().enumerate().map(|(index, answer)| (answer.decision, hold(index))).collect())
    }

    fn check_lease(&self, lease: Duration) -> Result<u32, CallError> {
        let filter = || self.name().to_owned();
        let most = self.lease_max().ok_or_else(|| CallError::NoClaims { filter: filter() })?;
        let (lease_ms, most_ms) = (lease.as_millis() as u64, most.as_millis() as u64);
        let fits = (1..=most_ms).contains(&lease_ms);
        let lease_ms = u32::try_from(lease_ms).ok().filter(|_| fits);
        lease_ms.ok_or_else(|| CallError::Lease { filter: filter(), lease_ms: lease.as_millis() as u64, most_ms })
    }

    /// Confirms an event by the fence of its grant, say in a process that has started anew.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn confirm_fence(
        &self,
        event: &[u8],
        time_ms: Option<u64>,
        fence: Fence,
    ) -> Result<Confirming, CallError> {
        let confirmed = self.by_fences(Operation::Confirm, &[event], time_ms.as_slice(), &[fence]).await?;
        Ok(confirmed.first().copied().map_or(Confirming::Undecided(Reason::Unknown), confirming))
    }

    /// Confirms many events.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn confirm_batch(&self, deliveries: Vec<Delivery>) -> Result<Vec<Confirming>, CallError> {
        let held: Vec<Held> = deliveries.into_iter().map(|delivery| delivery.held).collect();
        let confirmed = self.by_claims(Operation::Confirm, &held).await?;
        Ok(confirmed.into_iter().map(confirming).collect())
    }

    /// Like [`Self::confirm_batch`], for events that are hashed already.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn confirm_digests(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        fences: &[Fence],
    ) -> Result<Vec<Confirming>, CallError> {
        self.confirm_digests_or(digests, times_ms, fences, HASHED).await
    }

    /// Like [`Self::confirm_digests`], with `rehash` as in [`Self::claim_digests_or`].
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn confirm_digests_or(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        fences: &[Fence],
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<Confirming>, CallError> {
        let events = Events { fences, ..Events::plain(digests, times_ms) };
        let confirmed = self.by_fences_of(Operation::Confirm, events, (self.secret(), rehash)).await?;
        Ok(confirmed.into_iter().map(confirming).collect())
    }

    /// Lets an event go by the fence of its grant; whether it was still held.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn release_fence(&self, event: &[u8], time_ms: Option<u64>, fence: Fence) -> Result<bool, CallError> {
        let released = self.by_fences(Operation::Release, &[event], time_ms.as_slice(), &[fence]).await?;
        Ok(released.first() == Some(&Decision::FirstSeen))
    }

    /// Lets many events go; of each whether it was still held.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn release_batch(&self, claims: Vec<Claim>) -> Result<Vec<bool>, CallError> {
        let held: Vec<Held> = claims.into_iter().filter_map(|mut claim| claim.held.take()).collect();
        let released = self.by_claims(Operation::Release, &held).await?;
        Ok(released.into_iter().map(|decision| decision == Decision::FirstSeen).collect())
    }

    /// Like [`Self::release_batch`], for events that are hashed already.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn release_digests(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        fences: &[Fence],
    ) -> Result<Vec<bool>, CallError> {
        self.release_digests_or(digests, times_ms, fences, HASHED).await
    }

    /// Like [`Self::release_digests`], with `rehash` as in [`Self::claim_digests_or`].
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn release_digests_or(
        &self,
        digests: &[Digest],
        times_ms: &[u64],
        fences: &[Fence],
        rehash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync),
    ) -> Result<Vec<bool>, CallError> {
        let events = Events { fences, ..Events::plain(digests, times_ms) };
        let released = self.by_fences_of(Operation::Release, events, (self.secret(), rehash)).await?;
        Ok(released.into_iter().map(|decision| decision == Decision::FirstSeen).collect())
    }

    async fn by_claims(&self, operation: Operation, held: &[Held]) -> Result<Vec<Decision>, CallError> {
        let events: Vec<&[u8]> = held.iter().map(|held| &held.event[..]).collect();
        // A filter that needs times has granted none of these without one.
        let times_ms: Option<Vec<u64>> = held.iter().map(|held| held.time_ms).collect();
        let fences: Vec<Fence> = held.iter().map(|held| held.fence).collect();
        self.by_fences(operation, &events, &times_ms.unwrap_or_default(), &fences).await
    }

    async fn by_fences(
        &self,
        operation: Operation,
        events: &[&[u8]],
        times_ms: &[u64],
        fences: &[Fence],
    ) -> Result<Vec<Decision>, CallError> {
        let rehash = rehash(events);
        let Some(fence) = fences.iter().min() else { return Ok(Vec::new()) };
        let secret = home(self.claimed_at(), *fence).secret();
        let digests = rehash(secret);
        let events = Events { fences, ..Events::plain(&digests, times_ms) };
        self.by_fences_of(operation, events, (secret, &rehash)).await
    }

    /// Begins at the filter that granted the first: it knows who holds the events.
    pub(crate) async fn by_fences_of(
        &self,
        operation: Operation,
        events: Events<'_>,
        hashed: (&FilterSecret, Rehash<'_>),
    ) -> Result<Vec<Decision>, CallError> {
        if self.lease_max().is_none() {
            return Err(CallError::NoClaims { filter: self.name().to_owned() });
        }
        let Some(fence) = events.fences.iter().min() else { return Ok(Vec::new()) };
        if !events.fences.iter().all(|fence| self.has_granted(*fence)) {
            return Err(CallError::ForeignFence { filter: self.name().to_owned() });
        }
        let (answers, _) = self.answers(home(self.claimed_at(), *fence), operation, events, hashed).await?;
        Ok(answers.into_iter().map(|answer| answer.decision).collect())
    }
}

/// The filter of the line that gave a fence, where this client knows it.
fn home(opened: &Arc<FilterCore>, fence: Fence) -> &Arc<FilterCore> {
    let first = line::first(opened);
    line::all(first).find(|filter| filter.id() == fence.filter()).unwrap_or(first)
}

fn rehash<E: AsRef<[u8]> + Sync>(events: &[E]) -> impl Fn(&FilterSecret) -> Vec<Digest> + Sync {
    |secret| events.iter().map(|event| secret.digest(event.as_ref())).collect()
}

/// The decision on a confirm.
pub(crate) fn confirming(decision: Decision) -> Confirming {
    match decision {
        Decision::FirstSeen => Confirming::Confirmed,
        Decision::Duplicate => Confirming::LeaseLost(Lost::Recorded),
        Decision::Undecided(Reason::Claimed) => Confirming::LeaseLost(Lost::NotHeld),
        Decision::Undecided(reason) => Confirming::Undecided(reason),
    }
}
