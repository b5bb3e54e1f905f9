//! Answers events with a filter of a cluster. To keep the nodes busy, the run sends several batches before the first of
//! them is answered. The batches are sent and returned in the order of the input.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firstseen_client::{
    CallError, Client, ConnectError, ConnectOptions, Filter, FilterError, Mismatch, NodeTraffic, Verdict,
};
use firstseen_embedded::BeyondWindow;
use firstseen_filter::{Digest, FilterDefinition, FilterSecret, Unit};
use firstseen_records::Records;
use firstseen_routing::{Answer, Reason};
use tokio::runtime::Runtime;
use tokio::time::{timeout, timeout_at};

use super::ClusterArgs;
use super::claims::Claims;
use super::claims::calls::{CLAIM_REPLY_WAIT_MAX, Claimed, claim_until_end, confirm_until_end, lease_of, release};
use super::outages::Why;
use super::verdicts::Verdicts;
use super::waits::{Waits, answered, connecting, message};
use crate::cluster::connect::mismatched;
use crate::driver::{Decider, Retry, Waiting};
use crate::exit::UsageError;
use crate::input::Batch;
use crate::report::describe::describe;
use crate::report::filter::{ClusterReport, FilterReport, NodeReport, TreeReport};
use crate::terminal::progress::Progress;
use crate::terminal::stop::Stop;
use crate::unjudged::UnjudgedReason;

/// Maximum number of events that the run has sent and the cluster has not answered yet. When this number is reached,
/// the run waits for an answer before it sends the next batch.
///
/// The limit is high enough to keep a cluster busy, but lower than the number of events that the client can queue at
/// once. The queue of the client is therefore never full, so the client accepts every batch immediately and in the
/// order of the input.
const INFLIGHT_EVENTS_MAX: usize = 1 << 16;
/// Maximum number of unanswered batches, however small they are.
const INFLIGHT_BATCHES_MAX: usize = 32;
/// Maximum time that an event may stay unanswered, in milliseconds. A run over a file can wait longer than a web
/// server.
const DEADLINE_MS: u64 = 15_000;

/// Maximum number of retries after a rejection for overload. The number is so large that the deadline ends the retries
/// first.
const OVERLOAD_RETRIES_MAX: u32 = 16;

/// Maximum number of attempts to confirm the claim of a written record. An attempt fails if the cluster cannot decide
/// the request. If all attempts fail, the claim ends with its lease, and the next consumer that claims the event writes
/// the record a second time.
const CONFIRMS_MAX: u32 = 3;

/// Minimum time between two messages that records wait because nodes have problems.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(10);

/// How long a run that ends waits for the release of its claims.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(1);

/// A batch together with the reply about it.
type Answered<R> = (Box<Batch<R>>, Result<Claimed, CallError>);

/// A batch that was sent and is not answered yet.
struct Asking<R> {
    answer: Pin<Box<dyn Future<Output = Answered<R>>>>,
    events: usize,
}

/// A filter of a cluster as a decider.
pub(super) struct Remote<R> {
    addresses: Vec<String>,
    filter: Filter,
    undecided: BTreeMap<Reason, u64>,
    lookup: bool,
    claims: Option<Claims<R>>,
    inflight: VecDeque<Asking<R>>,
    waits: Waits,
    /// Moment of the last message about undecided records.
    noted: Option<Instant>,
    /// Verdicts on the batch that is being handled.
    verdicts: Vec<Verdict>,
    beyond: BeyondWindow,
    // The runtime is the last field, so the client is dropped before it.
    client: Client,
    runtime: Runtime,
}

impl<R: Records> Remote<R> {
    /// Returns the secret with which keys are hashed.
    pub(super) fn secret(&self) -> FilterSecret {
        self.filter.info().secret.clone()
    }

    /// Returns the reason together with the condition of the filter's slices.
    fn cause(&self, reason: Reason) -> Why {
        let missing = self.filter.status().missing;
        Why { reason, has_down: missing.down > 0, has_lost: missing.lost > 0 }
    }

    /// Returns a description of the filter's name and window if its events need times.
    pub(super) fn needs_time(&self) -> Option<String> {
        let window = &self.filter.info().definition.group.window;
        self.filter.info().needs_times.then(|| format!("filter {}, window {window}", self.filter.info().name))
    }

    /// Returns whether the nodes stamp events with the time of day at which these arrive.
    pub(super) fn stamps_on_arrival(&self) -> bool {
        let info = self.filter.info();
        matches!(info.definition.group.unit, Unit::Milliseconds(_)) && !info.needs_times
    }

    /// Returns the name of the filter.
    pub(super) fn name(&self) -> &str {
        self.filter.info().name
    }

    /// Connects to the cluster and finds the filter.
    ///
    /// # Errors
    /// Returns an error if no node answers, or if the filter does not exist.
    pub(super) fn connect(args: &ClusterArgs, lookup: bool) -> anyhow::Result<Self> {
        let mut options = ConnectOptions {
            deadline_ms: DEADLINE_MS,
            overload_retries_max: OVERLOAD_RETRIES_MAX,
            connector: Some(Arc::new(args.tls.connector()?)),
            ..ConnectOptions::from(args.cluster.clone())
        };
        options.site = args.site.clone();
        let name = args.filter.as_deref().unwrap_or_default();
        // One thread serves the connections while the calling thread reads answers and writes records.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("cannot start")?;
        let (client, filter) = runtime.block_on(async {
            let client =
                connecting(Client::connect(options), &args.cluster, DEADLINE_MS).await.map_err(
                    |error| match error {
                        ConnectError::NoSeed | ConnectError::Address(_) | ConnectError::Tls(_) => {
                            anyhow::Error::new(UsageError(error.to_string()))
                        }
                        // The rights of this client cannot be changed by a flag.
                        ConnectError::Settings(seeds)
                            if seeds.iter().all(|seed| matches!(seed.mismatch, Mismatch::Refuses { .. })) =>
                        {
                            let seeds = seeds.iter().map(|seed| mismatched(&seed.address, &seed.mismatch));
                            anyhow::anyhow!("{}", seeds.collect::<Vec<_>>().join("; "))
                        }
                        ConnectError::Settings(seeds) => {
                            let seeds = seeds.iter().map(|seed| mismatched(&seed.address, &seed.mismatch));
                            UsageError(seeds.collect::<Vec<_>>().join("; ")).into()
                        }
                        error => error.into(),
                    },
                )?;
            let filter = client.filter(name).await.map_err(|error| match error {
                FilterError::NotFound { .. } | FilterError::NoPlace { .. } | FilterError::NoLeaf { .. } => {
                    anyhow::Error::new(UsageError(error.to_string()))
                }
                error => error.into(),
            })?;
            if filter.info().definition.group.cells.kind().estimates_frequencies() {
                let text = format!(
                    "filter `{name}` gives frequencies, not duplicates: producers ask it with the client crate"
                );
                return Err(UsageError(text).into());
            }
            if let (Some(site), None) = (&args.site, filter.info().branch) {
                let text = format!("filter `{name}` is in no tree, so it has no place `{site}`: leave --site out");
                return Err(UsageError(text).into());
            }
            anyhow::Ok((client, filter))
        })?;
        let claims = args.claims.map(|lease_ms| lease_of(&filter, lease_ms)).transpose()?.map(Claims::new);
        let beyond = BeyondWindow::new(&filter.info().definition.group.window, 0);
        Ok(Self {
            addresses: args.cluster.clone(),
            filter,
            undecided: BTreeMap::new(),
            lookup,
            claims,
            inflight: VecDeque::new(),
            waits: Waits::new(),
            noted: None,
            beyond,
            verdicts: Vec::new(),
            client,
            runtime,
        })
    }

    /// Makes `batch` the current batch, and stores the verdicts about its events. `asked` is the number of earlier
    /// attempts to claim these events.
    ///
    /// An interrupted run can no longer confirm further records. For such a run, this function releases the claims that
    /// were granted for the batch, and the run does not write the records of these events.
    ///
    /// # Errors
    /// Returns an error if the filter was dropped, because nothing can be judged any more.
    fn begin(&mut self, batch: &Batch<R>, claimed: Claimed, asked: u32) -> anyhow::Result<()> {
        let Claimed { verdicts, answers } = claimed;
        if verdicts.contains(&Verdict::Undecided(Reason::UnknownFilter)) {
            let cure = UnjudgedReason::from(Reason::UnknownFilter).cure();
            bail!(
                "the cluster has no filter `{}` any more, so that nothing more can be judged: {cure}",
                self.filter.info().name
            );
        }
        self.verdicts = verdicts;
        self.call_late(batch);
        let (Some(claims), Some(mut answers)) = (&mut self.claims, answers) else { return Ok(()) };
        if let Some(since) = self.waits.wait_ended_at() {
            let granted = answers.take_granted();
            let released =
                async { timeout_at(since + CLAIM_REPLY_WAIT_MAX, release(&self.filter, batch, &granted)).await };
            // A claim that is not released in time ends with its lease.
            let _ = self.runtime.block_on(released);
        }
        let over = claims.begin(batch.parsed.len(), &answers, asked, Instant::now());
        if !over.is_empty() {
            let released = async { timeout(RELEASE_WAIT_MAX, release(&self.filter, batch, &over)).await };
            let _ = self.runtime.block_on(released);
        }
        Ok(())
    }

    /// Changes duplicates to late events if the equal event may be further away than the window.
    fn call_late(&mut self, batch: &Batch<R>) {
        if !self.filter.info().needs_times {
            return;
        }
        let mut times = Vec::new();
        batch.copy_times_ms(0..batch.parsed.len(), &mut times);
        let mut answers: Vec<Answer> = self.verdicts.iter().copied().map(answer_of).collect();
        // Producers do not learn when the cells of an event were set, so every event is checked.
        self.beyond.call_late(&times, &mut answers, |_| true);
        for (verdict, answer) in self.verdicts.iter_mut().zip(answers) {
            if answer == Answer::Late {
                *verdict = Verdict::Undecided(Reason::Late);
            }
        }
    }

    /// Returns whether a further batch must wait until the oldest batch is answered.
    fn is_full(&self) -> bool {
        let events: usize = self.inflight.iter().map(|asking| asking.events).sum();
        self.inflight.len() >= INFLIGHT_BATCHES_MAX || events >= INFLIGHT_EVENTS_MAX
    }

    /// Sends all events of `batch`. `ahead_ms` has the times of the events after the batch.
    fn ask(&mut self, batch: Box<Batch<R>>, ahead_ms: &[u64]) {
        let filter = self.filter.clone();
        let lookup = self.lookup;
        let ahead_ms = ahead_ms.to_vec();
        let events = batch.parsed.len();
        let wait_ended = self.waits.wait_ended();
        let lease = self.claims.as_ref().map(|claims| claims.lease);
        let mut answer: Pin<Box<dyn Future<Output = Answered<R>>>> = Box::pin(async move {
            let claimed = if let Some(lease) = lease {
                let events: Vec<usize> = (0..events).collect();
                claim_until_end(&filter, lease, &batch, &events, &ahead_ms, wait_ended).await
            } else {
                let asked = verdicts(&filter, lookup, &batch, &ahead_ms);
                match answered(asked, wait_ended, Duration::ZERO).await {
                    Some(verdicts) => verdicts.map(|verdicts| Claimed { verdicts, answers: None }),
                    // Events that are already on their way may be recorded although their verdict is unknown here.
                    None => Ok(Claimed { verdicts: vec![Verdict::Undecided(Reason::Unknown); events], answers: None }),
                }
            };
            (batch, claimed)
        });
        // The first poll puts the events into the client's queue, and therefore ahead of the events of the next batch.
        let entered = self.runtime.enter();
        let polled = answer.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        drop(entered);
        if let Poll::Ready(answered) = polled {
            answer = Box::pin(std::future::ready(answered));
        }
        self.inflight.push_back(Asking { answer, events });
    }

    /// Returns a message about records of the last batch that nodes left undecided, unless such a message was printed
    /// recently.
    fn trouble(&mut self) -> Option<String> {
        let reason = self.claims.as_ref()?.trouble?;
        let now = Instant::now();
        if self.noted.is_some_and(|noted| now.saturating_duration_since(noted) < MESSAGE_INTERVAL) {
            return None;
        }
        self.noted = Some(now);
        let name = UnjudgedReason::from(reason).name();
        let meaning = match reason {
            Reason::Overloaded => ": nodes are busy, or their tables of claims are full (`claims_bytes_max`)",
            _ => self.cause(reason).meaning(),
        };
        Some(format!(
            "firstseen: records are undecided ({name}){meaning}; they are not claimed, and the run asks again"
        ))
    }
}

impl<R: Records> Decider<R> for Remote<R> {
    type Decision = Answer;

    fn step_ms(&self) -> Option<u64> {
        self.filter.info().needs_times.then_some(self.filter.info().definition.group.future_max_ms)
    }

    fn submit(&mut self, batch: Box<Batch<R>>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch<R>>>> {
        self.ask(batch, ahead_ms);
        if self.is_full() { self.oldest() } else { Ok(None) }
    }

    fn oldest(&mut self) -> anyhow::Result<Option<Box<Batch<R>>>> {
        let Some(oldest) = self.inflight.pop_front() else { return Ok(None) };
        let Self { runtime, waits, filter, .. } = self;
        let (batch, claimed) =
            runtime.block_on(waits.until(oldest.answer, || message(DEADLINE_MS, &filter.status().down_nodes)));
        self.begin(&batch, claimed?, 0)?;
        Ok(Some(batch))
    }

    fn decide(&mut self, _: &Batch<R>, chunk: Range<usize>, answers: &mut Vec<Answer>) {
        answers.clear();
        for (index, verdict) in chunk.clone().zip(&self.verdicts[chunk]) {
            if Decider::is_held(self, index) {
                // This event has no answer yet, and is handled when the answer arrives. Until then it does not count as
                // undecided.
                answers.push(Answer::Duplicate);
                continue;
            }
            let answer = answer_of(*verdict);
            if let (Verdict::Undecided(reason), Answer::Undecided) = (verdict, answer) {
                *self.undecided.entry(*reason).or_default() += 1;
            }
            answers.push(answer);
        }
    }

    fn waiting(&self) -> Waiting {
        self.claims.as_ref().map(|claims| claims.waiting(Instant::now())).unwrap_or_default()
    }

    fn is_held(&self, index: usize) -> bool {
        self.claims.as_ref().is_some_and(|claims| claims.is_held(index))
    }

    fn has_claims(&self) -> bool {
        self.claims.is_some()
    }

    fn confirm(&mut self, batch: Box<Batch<R>>, progress: &Progress) -> anyhow::Result<Option<Box<Batch<R>>>> {
        self.trouble().iter().for_each(|line| progress.note(line));
        let Self { runtime, waits, filter, claims, .. } = self;
        let Some(claims) = claims else { return Ok(Some(batch)) };
        claims.written();
        for tried in 1..=CONFIRMS_MAX {
            if claims.granted().is_empty() {
                break;
            }
            let answer = Box::pin(confirm_until_end(filter, &batch, claims.granted(), waits.wait_ended()));
            let answers =
                runtime.block_on(waits.until(answer, || message(DEADLINE_MS, &filter.status().down_nodes)))?;
            claims.confirmed(&answers, tried == CONFIRMS_MAX);
        }
        Ok(claims.defer(batch, Instant::now()))
    }

    fn release(&mut self, batch: &Batch<R>) {
        let Self { runtime, filter, claims, .. } = self;
        let granted = claims.as_mut().map(Claims::take_unwritten).unwrap_or_default();
        let _ = runtime.block_on(async { timeout(RELEASE_WAIT_MAX, release(filter, batch, &granted)).await });
    }

    fn retry(&mut self) -> anyhow::Result<Option<Retry<R>>> {
        let Self { runtime, waits, filter, claims, .. } = self;
        let Some(claims) = claims.as_mut().filter(|_| !Stop::is_requested()) else { return Ok(None) };
        let Some((due, asked)) = claims.take_due(Instant::now()) else { return Ok(None) };
        let answer = claim_until_end(filter, claims.lease, &due.batch, &due.events, &[], waits.wait_ended());
        let claimed =
            runtime.block_on(waits.until(Box::pin(answer), || message(DEADLINE_MS, &filter.status().down_nodes)))?;
        self.begin(&due.batch, claimed, asked)?;
        Ok(Some(due))
    }

    fn leave(&mut self) {
        let Some(claims) = &mut self.claims else { return };
        claims.leave();
        let Self { runtime, inflight, filter, .. } = self;
        let released = async {
            for asking in inflight.drain(..) {
                if let (batch, Ok(Claimed { answers: Some(answers), .. })) = asking.answer.await {
                    release(filter, &batch, &answers.granted()).await;
                }
            }
        };
        // A claim that is not released in time ends with its lease.
        let _ = runtime.block_on(async { timeout(RELEASE_WAIT_MAX, released).await });
    }

    fn is_clean(&self) -> bool {
        let report = self.claims.as_ref().map(|claims| claims.report).unwrap_or_default();
        report.lost + report.unconfirmed + report.left == 0
    }
}

impl<R: Records> Verdicts<R> for Remote<R> {
    fn group(&self) -> &FilterDefinition {
        &self.filter.info().definition.group
    }

    fn why(&self, index: usize) -> Option<Why> {
        let Some(Verdict::Undecided(reason)) = self.verdicts.get(index) else { return None };
        Some(self.cause(*reason))
    }

    fn is_implausible(&self, index: usize) -> bool {
        self.verdicts.get(index) == Some(&Verdict::Undecided(Reason::Future))
    }

    fn report(&mut self) -> FilterReport {
        let definition = self.filter.info().definition;
        let level_hits = self.filter.status().level_hits;
        let tree = self.filter.info().branch.map(|branch| TreeReport {
            place: branch.place.clone(),
            duplicates_by_level: level_hits.into_iter().take(usize::from(branch.level) + 1).collect(),
        });
        FilterReport::Cluster(ClusterReport {
            cluster: self.addresses.clone(),
            filter_name: self.filter.info().name.to_owned(),
            filter: describe(definition),
            window: definition.group.window.to_string(),
            undecided_reasons: self.undecided.clone(),
            degraded_events: self.filter.status().degraded.events,
            expected_false_positives: self.filter.status().degraded.expected_false_positives,
            nodes: self.client.traffic().into_iter().map(node_report).collect(),
            tree,
            claims: self.claims.as_ref().map(|claims| claims.report),
        })
    }
}

/// Converts a verdict of a cluster to an answer.
///
/// If the cluster considers the time of an event implausible, the answer is [`Answer::Undecided`]. The answer
/// [`Answer::Refused`] would be wrong here, because it means that the record itself has a wrong time. This run cannot
/// know that: the cluster compares the time with the events of all producers, and the run sees only its own events.
fn answer_of(verdict: Verdict) -> Answer {
    match verdict {
        Verdict::FirstSeen => Answer::FirstSeen,
        Verdict::Duplicate => Answer::Duplicate,
        Verdict::Undecided(Reason::Late) => Answer::Late,
        Verdict::Undecided(_) => Answer::Undecided,
    }
}

async fn verdicts<R: Records>(
    filter: &Filter,
    lookup: bool,
    batch: &Batch<R>,
    ahead_ms: &[u64],
) -> Result<Vec<Verdict>, CallError> {
    let mut times = Vec::new();
    if filter.info().needs_times {
        batch.copy_times_ms(0..batch.parsed.len(), &mut times);
        times.extend_from_slice(ahead_ms);
    }
    let own = filter.info().secret;
    let hash: &(dyn Fn(&FilterSecret) -> Vec<Digest> + Sync) = &|secret| {
        if secret == own { batch.parsed.digests().to_vec() } else { batch.block.digests_under(&batch.parsed, secret) }
    };
    let asked = firstseen_client::Batch::hashed(hash).times_ms(&times);
    if lookup { filter.test_batch(asked).await } else { filter.observe_batch(asked).await }
}

fn node_report(traffic: NodeTraffic) -> NodeReport {
    let NodeTraffic { name: node, batches, sent_bytes, received_bytes } = traffic;
    NodeReport { node, batches, sent_bytes, received_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_cluster_says_drops_a_record_but_a_duplicate() {
        let answer = |reason| answer_of(Verdict::Undecided(reason));
        assert_eq!((answer(Reason::Future), answer(Reason::SlicesDown)), (Answer::Undecided, Answer::Undecided));
        assert_eq!(answer(Reason::Late), Answer::Late, "--late says what becomes of it");
        assert_eq!(answer_of(Verdict::FirstSeen), Answer::FirstSeen);
        assert_eq!(answer_of(Verdict::Duplicate), Answer::Duplicate);
    }
}
