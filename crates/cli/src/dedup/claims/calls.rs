//! Calls of claims for events of a batch: claim, confirm, release.
//!
//! Promises: what is granted to a run that ends is let go, as far as nodes can be reached in time; what it has written is confirmed,
//! within a bound of its own. Must not know: which events are to be written.

use std::time::{Duration, Instant};

use firstseen_client::{CallError, Confirming, Filter, Verdict};
use firstseen_filter::{Digest, FilterSecret, duration};
use firstseen_routing::{Decision, Fence, Hold, Reason};
use tokio::time::Instant as TokioInstant;

use super::{Answer, Answers};
use crate::dedup::here::times_ms;
use crate::dedup::waits::answered;
use crate::exit::UsageError;
use crate::input::Batch;

/// The verdicts on all events of a batch, and who holds those that were asked about.
pub(in crate::dedup) type Claimed = (Vec<Verdict>, Option<Answers>);

/// The least lease that makes sense over a network.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// How long after an interrupt has ended all waits a claim that is on its way may still be answered, and let go: dropped, it
/// would keep its events from others until its lease is over.
pub(in crate::dedup) const LET_GO_WITHIN: Duration = Duration::from_secs(2);
/// How long after an interrupt has ended all waits what is written may still be confirmed: unconfirmed it is written again.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// Claims events as [`claimed`] does. A run that has given up waits for [`LET_GO_WITHIN`], and lets go what it is granted by then.
pub(in crate::dedup) async fn claimed_or_left(
    filter: &Filter,
    lease: Duration,
    (batch, events): (&Batch, &[usize]),
    ahead_ms: &[u64],
    given_up: impl Future<Output = TokioInstant>,
) -> Result<Claimed, CallError> {
    let asked = claimed(filter, lease, batch, events, ahead_ms);
    let answers = answered(asked, given_up, LET_GO_WITHIN).await;
    answers.unwrap_or_else(|| Ok(left_to_others(batch, events)))
}

/// Claims some events of a batch; `ahead_ms` has the times of the events behind it, where these are all of them.
async fn claimed(
    filter: &Filter,
    lease: Duration,
    batch: &Batch,
    events: &[usize],
    ahead_ms: &[u64],
) -> Result<Claimed, CallError> {
    let asked = Instant::now();
    let (digests, mut times) = some_of(filter, batch, events);
    if !times.is_empty() {
        times.extend_from_slice(ahead_ms);
    }
    let rehash = |secret: &FilterSecret| some(&batch.parsed.digests_under(secret, &batch.block), events);
    let answers = filter.claim_digests_or(&digests, &times, lease, &rehash).await?;
    let mut verdicts = vec![Verdict::Undecided(Reason::Unknown); batch.parsed.len()];
    let mut all = Vec::with_capacity(answers.len());
    for (event, (verdict, hold)) in events.iter().zip(answers) {
        let answer;
        (verdicts[*event], answer) = meaning(verdict, hold);
        all.push((*event, answer));
    }
    Ok((verdicts, Some(Answers { asked, answers: all })))
}

/// Confirms events as [`confirmed`] does. A run that has given up waits for [`CONFIRMED_WITHIN`].
pub(in crate::dedup) async fn confirmed_or_not(
    filter: &Filter,
    batch: &Batch,
    granted: &[(usize, Fence)],
    given_up: impl Future<Output = TokioInstant>,
) -> Result<Vec<Confirming>, CallError> {
    let answers = answered(confirmed(filter, batch, granted), given_up, CONFIRMED_WITHIN).await;
    answers.unwrap_or_else(|| Ok(vec![Confirming::Undecided(Reason::Unknown); granted.len()]))
}

/// Confirms events of a batch by the fences of their claims.
async fn confirmed(filter: &Filter, batch: &Batch, granted: &[(usize, Fence)]) -> Result<Vec<Confirming>, CallError> {
    let (events, fences): (Vec<usize>, Vec<Fence>) = granted.iter().copied().unzip();
    let (digests, times) = some_of(filter, batch, &events);
    let rehash = |secret: &FilterSecret| some(&batch.parsed.digests_under(secret, &batch.block), &events);
    filter.confirm_digests_or(&digests, &times, &fences, &rehash).await
}

/// Lets go what was granted of a batch that is not written.
pub(in crate::dedup) async fn release(filter: &Filter, batch: &Batch, granted: &[(usize, Fence)]) {
    let (events, fences): (Vec<usize>, Vec<Fence>) = granted.iter().copied().unzip();
    let (digests, times) = some_of(filter, batch, &events);
    let rehash = |secret: &FilterSecret| some(&batch.parsed.digests_under(secret, &batch.block), &events);
    // What is not let go ends with its lease.
    let _ = filter.release_digests_or(&digests, &times, &fences, &rehash).await;
}

/// Digests and times of some events of a batch.
fn some_of(filter: &Filter, batch: &Batch, events: &[usize]) -> (Vec<Digest>, Vec<u64>) {
    let mut times = Vec::new();
    if filter.needs_times() {
        times_ms(batch, 0..batch.parsed.len(), &mut times);
        times = some(&times, events);
    }
    (some(batch.parsed.digests(), events), times)
}

fn some<T: Copy>(all: &[T], events: &[usize]) -> Vec<T> {
    events.iter().filter_map(|event| all.get(*event).copied()).collect()
}

/// What is said of events that are claimed, and that the run waits for no longer: nothing is recorded, and they are left to
/// others.
fn left_to_others(batch: &Batch, events: &[usize]) -> Claimed {
    let answers = events.iter().map(|event| (*event, Answer::Held(Duration::ZERO))).collect();
    let verdicts = vec![Verdict::Undecided(Reason::Unknown); batch.parsed.len()];
    (verdicts, Some(Answers { asked: Instant::now(), answers }))
}

/// A lease that the filter gives.
pub(in crate::dedup) fn lease_of(filter: &Filter, lease_ms: u64) -> anyhow::Result<Duration> {
    let (name, lease) = (filter.name(), Duration::from_millis(lease_ms));
    let text = match filter.lease_max() {
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

/// The verdict on an event that is claimed, and whether it is one yet.
fn meaning(decision: Decision, hold: Hold) -> (Verdict, Answer) {
    match (decision, hold) {
        (_, Hold::Own(fence)) => (Verdict::FirstSeen, Answer::Granted(fence)),
        (verdict, Hold::Other { left_ms }) => (verdict, Answer::Held(Duration::from_millis(left_ms.into()))),
        // Nodes that are in trouble may say more later. What they refuse for good is passed on without a claim.
        (Decision::Undecided(reason), Hold::None) if may_pass(reason) => (decision, Answer::Troubled(reason)),
        // A node that grants says so.
        (Decision::FirstSeen, Hold::None) => (Verdict::Undecided(Reason::Invalid), Answer::Decided),
        (verdict, Hold::None) => (verdict, Answer::Decided),
    }
}

/// Whether the event may be decided once the trouble is over.
fn may_pass(reason: Reason) -> bool {
    let ends_by_itself = matches!(reason, Reason::Altered | Reason::ClaimsUnknown);
    ends_by_itself || reason.is_outage() || reason.is_worth_retrying()
}
