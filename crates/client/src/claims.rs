//! Claims: who is about to deliver an event, and records it afterwards (`docs/how-to/claims.md`).
//!
//! Promises: a claim that is dropped is released, as far as nodes can be reached; a delivery that is dropped is not, so that
//! another process can confirm it. Must not know: how claims are granted.

use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::{CLOCK_RATE_PARTS, Decision, Fence, FilterId, Hold, Lost, Operation, Reason, SubmissionName};
use tokio::time::Instant;

use crate::batch::{Batch, Event};
use crate::call::ManyCall;
use crate::error::CallError;
use crate::filter::Filter;
use crate::followers;
use crate::intake::FilterCore;
use crate::queue::{Asked, Events};

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

/// An event that is the caller's to deliver, for as long as its lease lasts. A claim that is dropped is released: the request
/// is queued, and a program that ends waits for it with [`Client::flush`](crate::Client::flush).
#[derive(Debug)]
pub struct Claim {
    /// The number of the grant: of two grants of an event the later one has the greater fence.
    pub fence: Fence,
    held: Held,
    /// Whether dropping the claim releases the event: neither a delivery nor a release has begun.
    is_released_by_drop: bool,
}

/// An event that is being delivered. If it is dropped, the event stays the caller's until the lease is over: a restarted
/// process can confirm it with [`Filter::confirm_batch`].
#[derive(Debug)]
#[must_use = "the event is delivered again by somebody else unless this is confirmed"]
pub struct Delivery {
    /// The number of the grant. A sink that keeps it with the delivery can tell a later grant from an earlier one.
    pub fence: Fence,
    held: Held,
}

/// What both are.
#[derive(Debug)]
struct Held {
    filter: Filter,
    key: HeldKey,
    time_ms: Option<u64>,
    until: Instant,
}

/// What is known of an event that is held: its key, or only its digest under the secret of one filter.
#[derive(Debug)]
enum HeldKey {
    Bytes(Box<[u8]>),
    Digest { digest: Digest, hashed_for: FilterId },
}

impl Claim {
    /// Begins the delivery: from here on nothing is released.
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming, Confirming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// if let Claiming::Claimed(claim) = jobs.claim("job-1", Duration::from_secs(5)).await? {
    ///     let delivery = claim.deliver();
    ///     println!("job-1 is delivered, fence {:?}", delivery.fence);
    ///     assert_eq!(delivery.confirm().await?, Confirming::Confirmed);
    /// }
    /// # Ok(())
    /// # });
    /// ```
    pub fn deliver(mut self) -> Delivery {
        Delivery { fence: self.fence, held: self.take() }
    }

    /// Releases the event, and returns whether it was still held.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// let Claiming::Claimed(claim) = jobs.claim("job-1", Duration::from_secs(5)).await? else { return Ok(()) };
    /// assert!(claim.release().await?);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn release(mut self) -> Result<bool, CallError> {
        let fence = self.fence;
        let decision = self.take().ask(Operation::Release, fence).await?;
        Ok(decision == Decision::FirstSeen)
    }

    /// Takes the event: dropping the claim does not release it any more.
    fn take(&mut self) -> Held {
        self.is_released_by_drop = false;
        Held {
            filter: self.held.filter.clone(),
            key: std::mem::replace(&mut self.held.key, HeldKey::Bytes(Box::default())),
            ..self.held
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_released_by_drop {
            self.held.queue_release(self.fence);
        }
    }
}

impl Delivery {
    /// Returns what is left of the lease by the caller's clock: counted from when the claim was sent first, less a 64th.
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// let lease = Duration::from_secs(5);
    /// let Claiming::Claimed(claim) = jobs.claim("job-1", lease).await? else { return Ok(()) };
    /// let delivery = claim.deliver();
    /// assert!(delivery.left() > Duration::ZERO && delivery.left() < lease);
    /// # Ok(())
    /// # });
    /// ```
    pub fn left(&self) -> Duration {
        self.held.until.saturating_duration_since(Instant::now())
    }

    /// Records the event, which was delivered.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming, Confirming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// let Claiming::Claimed(claim) = jobs.claim("job-1", Duration::from_secs(5)).await? else { return Ok(()) };
    /// assert_eq!(claim.deliver().confirm().await?, Confirming::Confirmed);
    /// assert!(matches!(jobs.claim("job-1", Duration::from_secs(5)).await?, Claiming::Duplicate));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn confirm(self) -> Result<Confirming, CallError> {
        let decision = self.held.ask(Operation::Confirm, self.fence).await?;
        Ok(confirming(decision))
    }
}

impl Held {
    /// Returns the digest of the event under a secret. `None` means that only its digest under another one is known.
    fn digest(&self, secret: &FilterSecret) -> Option<Digest> {
        match &self.key {
            HeldKey::Bytes(key) => Some(secret.digest(key)),
            HeldKey::Digest { digest, hashed_for } => {
                let filter = followers::all(self.filter.claimed_at()).find(|filter| filter.id() == *hashed_for)?;
                (filter.secret() == secret).then_some(*digest)
            }
        }
    }

    /// Confirms or releases the event.
    async fn ask(&self, operation: Operation, fence: Fence) -> Result<Decision, CallError> {
        let decisions = self
            .filter
            .by_fences(
                operation,
                &Batch::hashed(&|secret| self.digest(secret).into_iter().collect()).times_ms(self.time_ms.as_slice()),
                &[fence],
            )
            .await?;
        Ok(decisions.first().copied().unwrap_or(Decision::Undecided(Reason::Unknown)))
    }

    /// Queues a release of the event, if there is room for it, and does not wait.
    fn queue_release(&self, fence: Fence) {
        let filter = granting(self.filter.claimed_at(), fence);
        let Some(digest) = self.digest(filter.secret()) else { return };
        if !filter.core().try_reserve(1) {
            return;
        }
        let events =
            Events { fences: &[fence], ..Events::plain(std::slice::from_ref(&digest), self.time_ms.as_slice()) };
        let asked = Asked { operation: Operation::Release, ttl_ms: None, deadline: filter.core().deadline() };
        filter.queue_many(&ManyCall::new(1, None), 0, events, asked);
    }
}

impl Filter {
    /// Claims an event for the time of `lease` at most. Where nodes are away, the claim is sent again for half of the lease at
    /// most; where they have no room for it, it is not sent again. The event is undecided then. If the call is dropped before it
    /// is answered, a grant lasts until its lease is over.
    ///
    /// # Errors
    /// [`CallError`]: events of the filter cannot be claimed, or not for that long.
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// let jobs = client.filter("jobs").await?;
    /// let lease = jobs.info().lease_max.expect("created with --claims");
    /// let claimed = jobs.claim("job-1", lease).await?;
    /// assert!(matches!(claimed, Claiming::Claimed(_)));
    /// assert!(matches!(jobs.claim("job-1", lease).await?, Claiming::InProgress(_)));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn claim<'a>(&self, event: impl Into<Event<'a>>, lease: Duration) -> Result<Claiming, CallError> {
        let event = event.into();
        let keys = [event.key];
        let batch = Batch::from(&keys).times_ms(event.time_ms.as_slice());
        let claimed = self.claim_batch(batch, lease).await?;
        Ok(claimed.into_iter().next().unwrap_or(Claiming::Undecided(Reason::Unknown)))
    }

    /// Claims many events as [`Self::claim`] does, in order.
    ///
    /// # Errors
    /// [`CallError`], as for [`Self::claim`].
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// let jobs_to_do = ["job-1", "job-2"];
    /// let claimed = jobs.claim_batch(&jobs_to_do, Duration::from_secs(5)).await?;
    /// assert!(claimed.iter().all(|claiming| matches!(claiming, Claiming::Claimed(_))));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn claim_batch<'a>(
        &self,
        batch: impl Into<Batch<'a>>,
        lease: Duration,
    ) -> Result<Vec<Claiming>, CallError> {
        self.claim_all(batch.into(), lease).await
    }

    /// Confirms events by the fences of their grants, one an event: many of them, or in a process that was restarted.
    ///
    /// # Errors
    /// [`CallError`]: also where another filter has granted one of them.
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming, Confirming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// # let Claiming::Claimed(claim) = jobs.claim("job-1", Duration::from_secs(5)).await? else { return Ok(()) };
    /// let fence = claim.deliver().fence; // The sink keeps it with the delivery.
    /// assert_eq!(jobs.confirm_batch(&["job-1"], &[fence]).await?, [Confirming::Confirmed]);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn confirm_batch<'a>(
        &self,
        batch: impl Into<Batch<'a>>,
        fences: &[Fence],
    ) -> Result<Vec<Confirming>, CallError> {
        let batch = batch.into();
        if let Some(ttl) = batch.ttl {
            self.takes_ttl(ttl.ttl_ms)?;
        }
        let decisions = self.by_fences(Operation::Confirm, &batch, fences).await?;
        Ok(decisions.into_iter().map(confirming).collect())
    }

    /// Releases events by the fences of their grants, one an event, and returns of each whether it was still held.
    ///
    /// # Errors
    /// [`CallError`], as for [`Self::confirm_batch`].
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// # let Claiming::Claimed(claim) = jobs.claim("job-1", Duration::from_secs(5)).await? else { return Ok(()) };
    /// let fence = claim.deliver().fence;
    /// assert_eq!(jobs.release_batch(&["job-1"], &[fence]).await?, [true]);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn release_batch<'a>(
        &self,
        batch: impl Into<Batch<'a>>,
        fences: &[Fence],
    ) -> Result<Vec<bool>, CallError> {
        let decisions = self.by_fences(Operation::Release, &batch.into(), fences).await?;
        Ok(decisions.into_iter().map(|decision| decision == Decision::FirstSeen).collect())
    }

    async fn claim_all(&self, batch: Batch<'_>, lease: Duration) -> Result<Vec<Claiming>, CallError> {
        let lease_ms = self.check_lease(lease)?;
        let until = Instant::now() + lease - lease / CLOCK_RATE_PARTS as u32;
        let first = followers::first(self.claimed_at());
        let digests = batch.hash(first.secret());
        // A claim that comes again is known by its name, in whichever batch it comes.
        let source = first.core().incarnation();
        let numbers = std::iter::repeat_with(|| first.core().next_sequence());
        let names: Vec<_> = numbers.take(digests.len()).map(|number| SubmissionName { source, number }).collect();
        let batch = batch.names(&names);
        let answered = self.ask(first, Operation::Claim { lease_ms }, &batch, &[]).await?;
        let mut claimed = Vec::with_capacity(digests.len());
        for (event, answer) in answered.answers.into_iter().enumerate() {
            let hold = answered.holds.get(event).copied().unwrap_or_default();
            claimed.push(match (hold, answer.decision) {
                (Hold::Own(fence), _) => {
                    let key = match batch.key(event) {
                        Some(key) => HeldKey::Bytes(key.into()),
                        None => HeldKey::Digest { digest: digests[event], hashed_for: first.id() },
                    };
                    let time_ms = batch.times_ms.get(event).copied();
                    let held = Held { filter: self.clone(), key, time_ms, until };
                    Claiming::Claimed(Claim { fence, held, is_released_by_drop: true })
                }
                (Hold::Other { left_ms }, _) => Claiming::InProgress(Duration::from_millis(left_ms.into())),
                (Hold::None, Decision::Duplicate) => Claiming::Duplicate,
                (Hold::None, Decision::Undecided(reason)) => Claiming::Undecided(reason),
                // A node that grants says so.
                (Hold::None, Decision::FirstSeen) => Claiming::Undecided(Reason::Invalid),
            });
        }
        Ok(claimed)
    }

    fn check_lease(&self, lease: Duration) -> Result<u32, CallError> {
        let Some(lease_max) = self.info().lease_max else {
            return Err(CallError::NoClaims { filter: self.name() });
        };
        let lease_ms = lease.as_millis() as u64;
        let most_ms = lease_max.as_millis() as u64;
        match u32::try_from(lease_ms) {
            Ok(fitting_ms) if (1..=most_ms).contains(&lease_ms) => Ok(fitting_ms),
            _ => Err(CallError::Lease { filter: self.name(), lease_ms, most_ms }),
        }
    }

    /// Confirms or releases events. Begins at the filter that granted the first: it knows who holds the events.
    async fn by_fences(
        &self,
        operation: Operation,
        batch: &Batch<'_>,
        fences: &[Fence],
    ) -> Result<Vec<Decision>, CallError> {
        let info = self.info();
        if info.lease_max.is_none() {
            return Err(CallError::NoClaims { filter: self.name() });
        }
        let Some(oldest) = fences.iter().min() else { return Ok(Vec::new()) };
        if !fences.iter().all(|fence| info.granted_by.contains(&fence.filter())) {
            return Err(CallError::ForeignFence { filter: self.name() });
        }
        let answered = self.ask(granting(self.claimed_at(), *oldest), operation, batch, fences).await?;
        Ok(answered.answers.into_iter().map(|answer| answer.decision).collect())
    }
}

/// The filter of the line that gave a fence, where this client knows it.
fn granting(opened: &Arc<FilterCore>, fence: Fence) -> &Arc<FilterCore> {
    let first = followers::first(opened);
    followers::all(first).find(|filter| filter.id() == fence.filter()).unwrap_or(first)
}

/// The decision on a confirm.
fn confirming(decision: Decision) -> Confirming {
    match decision {
        Decision::FirstSeen => Confirming::Confirmed,
        Decision::Duplicate => Confirming::LeaseLost(Lost::Recorded),
        Decision::Undecided(Reason::Claimed) => Confirming::LeaseLost(Lost::NotHeld),
        Decision::Undecided(reason) => Confirming::Undecided(reason),
    }
}
