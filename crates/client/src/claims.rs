//! Claims, which let a consumer reserve an event, deliver it, and record it afterwards (`docs/how-to/claims.md`).
//!
//! - Dropping a [`Claim`] releases the event, provided that nodes can be reached.
//! - Dropping a [`Delivery`] does not release the event, so another process can still confirm it.
//!
//! This module does not depend on how nodes grant claims.

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

/// Answer to a claim.
#[derive(Debug)]
pub enum Claiming {
    /// The caller has the exclusive right to deliver the event.
    Claimed(Claim),
    /// Another consumer holds the event. The duration is the longest time until its lease ends, after which the caller
    /// can claim the event again.
    InProgress(Duration),
    /// The event was delivered and recorded earlier, so the caller has nothing to do.
    Duplicate,
    /// The cluster could not decide. The reason says why.
    Undecided(Reason),
}

/// Answer to a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirming {
    /// The event is recorded, so no consumer receives it again.
    Confirmed,
    /// The caller no longer holds the event, for the given reason.
    ///
    /// For a caller that has delivered the event, the reason [`Lost::Recorded`] means success. It can occur if the
    /// client has sent the confirmation twice. The first attempt has recorded the event, but its reply was lost. The
    /// second attempt then finds that the event is already recorded.
    LeaseLost(Lost),
    /// The cluster could not decide. The caller can confirm again, or leave the event to the consumer that claims it
    /// after the lease has ended.
    Undecided(Reason),
}

/// Claim on an event: until the lease ends, only the caller may deliver the event. Dropping this value releases the
/// event, so that another consumer can claim it. The release is a request that waits in a queue. A program should
/// therefore call [`Client::flush`](crate::Client::flush) before it exits, because otherwise the request may never be
/// sent.
#[derive(Debug)]
pub struct Claim {
    /// Number of this grant. If an event is granted twice, the later grant has the greater fence.
    pub fence: Fence,
    held: Held,
    /// Whether dropping the claim releases the event. The value is true until a delivery or an explicit release begins.
    is_released_by_drop: bool,
}

/// Event whose delivery the caller has begun. Because the event may have been delivered already, dropping this value
/// does not release it for other consumers. The caller still holds the event until the lease ends. If its process is
/// restarted, it can therefore still confirm the event with [`Filter::confirm_batch`].
#[derive(Debug)]
#[must_use = "another consumer delivers the event again unless the delivery is confirmed"]
pub struct Delivery {
    /// Number of the grant. A sink that stores this number with the delivered event can tell a later grant from an
    /// earlier one.
    pub fence: Fence,
    held: Held,
}

/// State that claims and deliveries have in common.
#[derive(Debug)]
struct Held {
    filter: Filter,
    key: HeldKey,
    time_ms: Option<u64>,
    until: Instant,
}

/// Key of an event that this client holds, or only its digest under the secret of one filter.
#[derive(Debug)]
enum HeldKey {
    Bytes(Box<[u8]>),
    Digest { digest: Digest, hashed_for: FilterId },
}

impl Claim {
    /// Begins the delivery. From now on, dropping the value no longer releases the event.
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

    /// Releases the event. Returns whether the caller still held it.
    ///
    /// # Errors
    /// Returns [`CallError`] if the request could not be submitted.
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

    /// Takes the event out of this claim, so that dropping the claim no longer releases the event.
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
    /// Returns the remaining time of the lease. The time is counted from the moment at which the client first sent the
    /// claim, and it is measured with the client's clock. The clock of the node may run slightly faster, so the lease
    /// could end earlier on the node. As a safety margin, the result is therefore shortened by one 64th of the whole
    /// lease.
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

    /// Records the event as delivered.
    ///
    /// # Errors
    /// Returns [`CallError`] if the request could not be submitted.
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
    /// Returns the digest of the event under a secret. Returns `None` if only the event's digest under another secret
    /// is known.
    fn digest(&self, secret: &FilterSecret) -> Option<Digest> {
        match &self.key {
            HeldKey::Bytes(key) => Some(secret.digest(key)),
            HeldKey::Digest { digest, hashed_for } => {
                let filter = followers::all(self.filter.claimed_at()).find(|filter| filter.id() == *hashed_for)?;
                (filter.secret() == secret).then_some(*digest)
            }
        }
    }

    /// Sends a request that confirms or releases the event.
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

    /// Queues a request to release the event, without waiting. If the queue has no room, the event stays held until its
    /// lease ends.
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
    /// Claims an event for at most the duration of `lease`.
    ///
    /// If nodes are unreachable, the client retries the claim for at most half of the lease, so that the caller can use
    /// the other half. After that, the event is undecided. If the nodes have no space for another claim, the event is
    /// undecided at once, because a retry would not help.
    ///
    /// A caller that drops the future before the answer arrives does not cancel the claim. If the claim is granted, it
    /// stays in force until its lease ends.
    ///
    /// # Errors
    /// Returns [`CallError`] if events of this filter cannot be claimed, or if the filter does not allow so long a
    /// lease.
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

    /// Claims many events, as [`Self::claim`] does for one event. The answers are in the order of the events.
    ///
    /// # Errors
    /// Returns [`CallError`] for the same reasons as [`Self::claim`].
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

    /// Records many events that were delivered. The caller identifies each event by its key and by the fence of its
    /// claim, so it needs no [`Claim`] value. A restarted consumer can therefore confirm the events that it delivered
    /// before the restart.
    ///
    /// # Errors
    /// Returns [`CallError`] if the request could not be submitted, for example because another filter granted one of
    /// the fences.
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

    /// Releases many events, each by the fence of its grant. Returns for each event whether the caller still held it.
    ///
    /// # Errors
    /// Returns [`CallError`] for the same reasons as [`Self::confirm_batch`].
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
        // Each claim has its own idempotency key, so a node recognises a retry of the claim in any batch.
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
                // A node that grants a claim always returns a hold. An answer without one is invalid.
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

    /// Confirms or releases claimed events, which the caller identifies by the fences of their claims.
    ///
    /// If an administrator has altered the filter, several filters have had its name, and each of them may have granted
    /// some of the claims. The function sends all events to the filter that granted the oldest claim. Events that this
    /// filter does not know are then sent to the next newer filter, and so on.
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

/// Returns the filter that granted a fence. If this client does not know that filter, returns the oldest filter of the
/// chain that it knows.
fn granting(opened: &Arc<FilterCore>, fence: Fence) -> &Arc<FilterCore> {
    let first = followers::first(opened);
    followers::all(first).find(|filter| filter.id() == fence.filter()).unwrap_or(first)
}

/// Converts the decision on a confirmation to its public form.
fn confirming(decision: Decision) -> Confirming {
    match decision {
        Decision::FirstSeen => Confirming::Confirmed,
        Decision::Duplicate => Confirming::LeaseLost(Lost::Recorded),
        Decision::Undecided(Reason::Claimed) => Confirming::LeaseLost(Lost::NotHeld),
        Decision::Undecided(reason) => Confirming::Undecided(reason),
    }
}
