//! Sends the requests of a run about claims. A run claims the events of a batch, writes the records of the events that
//! it was granted, and then confirms these claims. If a record was not written, the run releases its claim.
//!
//! A run that is interrupted still sends the remaining confirmations and releases. The time for this is limited,
//! because nodes may be unreachable.

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

/// Reply of a cluster about a batch.
pub(in crate::dedup) struct Claimed {
    /// Verdicts on all events of the batch.
    pub(in crate::dedup) verdicts: Vec<Verdict>,
    /// Answers about the events that were claimed. `None` means that the run does not use claims.
    pub(in crate::dedup) answers: Option<Answers>,
}

/// Shortest lease that is useful over a network.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Maximum time for which an interrupted run still waits for the reply to a claim request. The cluster may have granted
/// the claim, and the run needs the reply to release it. If the claim were not released, no other consumer could claim
/// the event until the lease ends.
pub(in crate::dedup) const CLAIM_REPLY_WAIT_MAX: Duration = Duration::from_secs(2);
/// Maximum time for which an interrupted run continues to confirm claims whose records it has written. If a claim is
/// not confirmed in this time, it ends with its lease. Another run can then claim the event, and writes the same record
/// a second time.
const CONFIRM_WAIT_MAX: Duration = Duration::from_secs(5);

/// Claims events like [`claimed`], but stops waiting for the reply soon after the run must end. When `wait_ended`
/// completes, the function waits for at most [`CLAIM_REPLY_WAIT_MAX`] more.
///
/// If no reply arrives in this time, the run does not know which claims were granted. The function then reports all
/// events as held by other consumers, so that the run does not write their records.
pub(in crate::dedup) async fn claim_until_end<R: Records>(
    filter: &Filter,
    lease: Duration,
    batch: &Batch<R>,
    events: &[usize],
    ahead_ms: &[u64],
    wait_ended: impl Future<Output = TokioInstant>,
) -> Result<Claimed, CallError> {
    let asked = claimed(filter, lease, batch, events, ahead_ms);
    let answers = answered(asked, wait_ended, CLAIM_REPLY_WAIT_MAX).await;
    answers.unwrap_or_else(|| Ok(held_by_others(batch, events)))
}

/// Claims some events of a batch. `ahead_ms` has the times of the events after the batch, if the claim covers the whole
/// batch.
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

/// Confirms events like [`confirmed`]. If the run has stopped waiting, this waits for at most [`CONFIRM_WAIT_MAX`]
/// more.
pub(in crate::dedup) async fn confirm_until_end<R: Records>(
    filter: &Filter,
    batch: &Batch<R>,
    granted: &[(usize, Fence)],
    wait_ended: impl Future<Output = TokioInstant>,
) -> Result<Vec<Confirming>, CallError> {
    let answers = answered(confirmed(filter, batch, granted), wait_ended, CONFIRM_WAIT_MAX).await;
    answers.unwrap_or_else(|| Ok(vec![Confirming::Undecided(Reason::Unknown); granted.len()]))
}

/// Confirms events of a batch. Each event is identified together with the fence of its claim.
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

/// Releases the claims of a batch whose records are not written.
pub(in crate::dedup) async fn release<R: Records>(filter: &Filter, batch: &Batch<R>, granted: &[(usize, Fence)]) {
    let (events, fences): (Vec<usize>, Vec<Fence>) = granted.iter().copied().unzip();
    let times = times_of(filter, batch, &events);
    // A claim that is not released ends with its lease.
    let _ = filter
        .release_batch(
            client::Batch::hashed(&|secret| digests_of(filter, batch, &events, secret)).times_ms(&times),
            &fences,
        )
        .await;
}

/// Returns the digests of some events of a batch, computed with the given secret.
fn digests_of<R: Records>(filter: &Filter, batch: &Batch<R>, events: &[usize], secret: &FilterSecret) -> Vec<Digest> {
    if secret == filter.info().secret {
        some(batch.parsed.digests(), events)
    } else {
        some(&batch.block.digests_under(&batch.parsed, secret), events)
    }
}

/// Returns the times of some events of a batch. The result is empty if the filter does not need times.
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

/// Returns a substitute for the reply to a claim request, for a run that no longer waits for this reply. According to
/// the substitute, other consumers hold all requested events, so the run neither writes nor records these events.
fn held_by_others<R>(batch: &Batch<R>, events: &[usize]) -> Claimed {
    let answers = events.iter().map(|event| (*event, Answer::Held(Duration::ZERO))).collect();
    let verdicts = vec![Verdict::Undecided(Reason::Unknown); batch.parsed.len()];
    Claimed { verdicts, answers: Some(Answers { asked: Instant::now(), answers }) }
}

/// Returns the lease of a claim as a duration, if the filter accepts it.
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

/// Converts the reply to a claim request to a verdict and an answer. A granted claim contains a fence, which is a
/// number that the cluster assigns to each grant. The run needs the fence to confirm or release the claim, so the
/// answer contains it.
fn meaning(claiming: Claiming) -> (Verdict, Answer) {
    match claiming {
        Claiming::Claimed(claim) => (Verdict::FirstSeen, Answer::Granted(claim.deliver().fence)),
        Claiming::InProgress(left) => (Verdict::Undecided(Reason::Claimed), Answer::Held(left)),
        Claiming::Duplicate => (Verdict::Duplicate, Answer::Decided),
        // If nodes have problems, they may decide later. If they reject the event permanently, the record is passed on
        // without a claim.
        Claiming::Undecided(reason) if may_pass(reason) => (Verdict::Undecided(reason), Answer::Troubled(reason)),
        Claiming::Undecided(reason) => (Verdict::Undecided(reason), Answer::Decided),
    }
}

/// Returns whether the event may be decided once the problem has ended.
fn may_pass(reason: Reason) -> bool {
    let ends_by_itself = matches!(reason, Reason::Altered | Reason::ClaimsUnknown);
    ends_by_itself || reason.is_outage() || reason.is_worth_retrying()
}
