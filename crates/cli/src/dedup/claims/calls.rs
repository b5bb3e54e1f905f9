//! Calls of claims for events of a batch: claim, confirm, release.
//!
//! Promises: what is granted to a run that ends is let go, as far as nodes can be reached in time; what it has written is confirmed,
//! within a bound of its own. Must not know: which events are to be written.

use std::time::{Duration, Instant};

use firstseen_client::{self as client, CallError, Claiming, Confirming, Filter, Verdict};
use firstseen_filter::{Digest, FilterSecret, duration};
use firstseen_records::Records;
use firstseen_routing::{Fence, Reason};
use tokio::time::Instant as TokioInstant;

use super::{Answer, Answers};
use crate::dedup::waits::answered;
use crate::exit::UsageError;
use crate::input::Batch;

/// The reply of a cluster about a batch.
pub(in crate::dedup) struct Claimed {
    /// The verdicts on all of its events.
    pub(in crate::dedup) verdicts: Vec<Verdict>,
    /// Who holds those that were claimed; `None` for a run without claims.
    pub(in crate::dedup) answers: Option<Answers>,
}

/// The least lease that makes sense over a network.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// How long after an interrupt has ended all waits a claim that is on its way may still be answered, and let go: dropped, it
/// would keep its events from others until its lease is over.
pub(in crate::dedup) const LET_GO_WITHIN: Duration = Duration::from_secs(2);
/// How long after an interrupt has ended all waits what is written may still be confirmed: unconfirmed it is written again.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// Claims events as [`claimed`] does. A run that has given up waits for [`LET_GO_WITHIN`], and lets go what it is granted by then.
pub(in crate::dedup) async fn claimed_or_left<R: Records>(
    filter: &Filter,
    lease: Duration,
    batch: &Batch<R>,
    events: &[usize],
    ahead_ms: &[u64],
    given_up: impl Future<Output = TokioInstant>,
) -> Result<Claimed, CallError> {
    let asked = claimed(filter, lease, batch, events, ahead_ms);
    let answers = answered(asked, given_up, LET_GO_WITHIN).await;
    answers.unwrap_or_else(|| Ok(left_to_others(batch, events)))
}

/// Claims some events of a batch; `ahead_ms` has the times of the events behind it, where these are all of them.
async fn claimed<R: Records>(
    filter: &Filter,
    lease: Duration,
    batch: &Batch<R>,
    events: &[usize],
    ahead_ms: &[u64],
) -> Result<Claimed, CallError> {
    let asked = Instant::now();
    let mut times = times_of(filter, batch, events);
    if !times.is_empty() {
        times.extend_from_slice(ahead_ms);
    }
    let answers = filter
        .claim_batch(client::Batch::hashed(&|secret| digests_of(filter, batch, events, secret)).times_ms(&times), lease)
        .await?;
    let mut verdicts = vec![Verdict::Undecided(Reason::Unknown); batch.parsed.len()];
    let mut all = Vec::with_capacity(answers.len());
    for (event, claiming) in events.iter().zip(answers) {
        let answer;
        (verdicts[*event], answer) = meaning(claiming);
        all.push((*event, answer));
    }
    Ok(Claimed { verdicts, answers: Some(Answers { asked, answers: all }) })
}

/// Confirms events as [`confirmed`] does. A run that has given up waits for [`CONFIRMED_WITHIN`].
pub(in crate::dedup) async fn confirmed_or_not<R: Records>(
    filter: &Filter,
    batch: &Batch<R>,
    granted: &[(usize, Fence)],
    given_up: impl Future<Output = TokioInstant>,
) -> Result<Vec<Confirming>, CallError> {
    let answers = answered(confirmed(filter, batch, granted), given_up, CONFIRMED_WITHIN).await;
    answers.unwrap_or_else(|| Ok(vec![Confirming::Undecided(Reason::Unknown); granted.len()]))
}

/// Confirms events of a batch by the fences of their claims.
async fn confirmed<R: Records>(
    filter: &Filter,
    batch: &Batch<R>,
    granted: &[(usize, Fence)],
) -> Result<Vec<Confirming>, CallError> {
    let (events, fences): (Vec<usize>, Vec<Fence>) = granted.iter().copied().unzip();
    let times = times_of(filter, batch, &events);
    filter
        .confirm_batch(
            client::Batch::hashed(&|secret| digests_of(filter, batch, &events, secret)).times_ms(&times),
            &fences,
        )
        .await
}

/// Lets go what was granted of a batch that is not written.
pub(in crate::dedup) async fn release<R: Records>(filter: &Filter, batch: &Batch<R>, granted: &[(usize, Fence)]) {
    let (events, fences): (Vec<usize>, Vec<Fence>) = granted.iter().copied().unzip();
    let times = times_of(filter, batch, &events);
    // What is not let go ends with its lease.
    let _ = filter
        .release_batch(
            client::Batch::hashed(&|secret| digests_of(filter, batch, &events, secret)).times_ms(&times),
            &fences,
        )
        .await;
}

/// Digests of some events of a batch under a secret.
fn digests_of<R: Records>(filter: &Filter, batch: &Batch<R>, events: &[usize], secret: &FilterSecret) -> Vec<Digest> {
    if secret == filter.info().secret {
        some(batch.parsed.digests(), events)
    } else {
        some(&batch.block.digests_under(&batch.parsed, secret), events)
    }
}

/// Times of some events of a batch, where the filter needs them.
fn times_of<R>(filter: &Filter, batch: &Batch<R>, events: &[usize]) -> Vec<u64> {
    if !filter.info().needs_times {
        return Vec::new();
    }
    let mut times = Vec::new();
    batch.copy_times_ms(0..batch.parsed.len(), &mut times);
    some(&times, events)
}

fn some<T: Copy>(all: &[T], events: &[usize]) -> Vec<T> {
    events.iter().filter_map(|event| all.get(*event).copied()).collect()
}

/// What is said of events that are claimed, and that the run waits for no longer: nothing is recorded, and they are left to
/// others.
fn left_to_others<R>(batch: &Batch<R>, events: &[usize]) -> Claimed {
    let answers = events.iter().map(|event| (*event, Answer::Held(Duration::ZERO))).collect();
    let verdicts = vec![Verdict::Undecided(Reason::Unknown); batch.parsed.len()];
    Claimed { verdicts, answers: Some(Answers { asked: Instant::now(), answers }) }
}

/// A lease that the filter gives.
pub(in crate::dedup) fn lease_of(filter: &Filter, lease_ms: u64) -> anyhow::Result<Duration> {
    let name = filter.info().name;
    let lease = Duration::from_millis(lease_ms);
    let text = match filter.info().lease_max {
        None => {
            format!("events of filter `{name}` cannot be claimed: leave --claims out, or create a filter with --claims")
        }
        Some(most) if lease > most => {
            let most = duration(most.as_millis() as u64);
            format!("filter `{name}` gives claims of {most} at most: --claims {most}")
        }
        Some(_) if lease < LEASE_MIN => "a claim lasts 100 ms at least: --claims 10s".to_owned(),
        Some(_) => return Ok(lease),
    };
    Err(UsageError(text).into())
}

/// The verdict on an event that is claimed, and whether it is one yet. A grant is kept until its lease is over: it is confirmed or
/// released by its fence.
fn meaning(claiming: Claiming) -> (Verdict, Answer) {
    match claiming {
        Claiming::Claimed(claim) => (Verdict::FirstSeen, Answer::Granted(claim.deliver().fence)),
        Claiming::InProgress(left) => (Verdict::Undecided(Reason::Claimed), Answer::Held(left)),
        Claiming::Duplicate => (Verdict::Duplicate, Answer::Decided),
        // Nodes that are in trouble may say more later. What they refuse for good is passed on without a claim.
        Claiming::Undecided(reason) if may_pass(reason) => (Verdict::Undecided(reason), Answer::Troubled(reason)),
        Claiming::Undecided(reason) => (Verdict::Undecided(reason), Answer::Decided),
    }
}

/// Whether the event may be decided once the trouble is over.
fn may_pass(reason: Reason) -> bool {
    let ends_by_itself = matches!(reason, Reason::Altered | Reason::ClaimsUnknown);
    ends_by_itself || reason.is_outage() || reason.is_worth_retrying()
}
