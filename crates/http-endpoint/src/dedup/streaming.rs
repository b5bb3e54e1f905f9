//! Requests verdicts for the records of a `dedup` stream, piece by piece, and sends the records that are first-seen.
//!
//! The work on a `dedup` stream overlaps: while the cluster decides which records of one piece are duplicates, the next
//! piece is already read and parsed. The first-seen records of a piece are sent to the client as soon as the cluster
//! has decided them. If the stream fails later, the client has already received these records.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use firstseen_backend::{ClientSession, Refused};
use firstseen_client::{Batch, CallError, Filter, FilterSecret, SubmissionName, Verdict};
use firstseen_routing::{FilterVerb, Reason};
use http_body::Frame;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep};

use super::query::Unjudged;
use super::reading::{Progress, RecordBatch, RecordBatches};
use super::selection::Selection;
use super::{Places, REPORT};
use crate::connected_client::refused;
use crate::flushes::Flushes;
use crate::problem::Problem;
use crate::shared::Shared;

/// Maximum number of parts of the reply that wait to be sent.
const PARTS_MAX: usize = 2;
/// Time for which events are retried that nodes refuse temporarily.
const RETRY_FOR: Duration = Duration::from_secs(15);
/// Pause before each retry.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Maximum time that a stream waits for the quota of its principal.
const QUOTA_WAIT_MAX: Duration = Duration::from_secs(60);
/// Number of events that are taken from a quota at once.
const QUOTA_STEP_EVENTS: u32 = 1024;

/// Part of a reply. An error cuts the reply off.
type Part = Result<Frame<Bytes>, String>;

/// Filter and user of a stream.
pub(super) struct Opened {
    pub(super) name: Arc<str>,
    pub(super) filter: Filter,
    pub(super) client_session: Arc<dyn ClientSession>,
    /// Source of the records' idempotency keys.
    pub(super) source: Option<u128>,
    /// Whether records have the time at which they arrive.
    pub(super) by_arrival: bool,
}

/// A `dedup` request in progress.
pub(super) struct Stream {
    shared: Arc<Shared>,
    opened: Opened,
    batches: RecordBatches,
    passing: Selection,
    /// Number of the next record, which is part of its idempotency key.
    next_number: u64,
    _places: Places,
}

impl Stream {
    pub(super) fn new(
        shared: Arc<Shared>,
        opened: Opened,
        batches: RecordBatches,
        unjudged: Unjudged,
        places: Places,
    ) -> Self {
        let passing = Selection::new(unjudged, &opened.filter.info().definition.group.window);
        shared.common.counts.streams.fetch_add(1, Ordering::Relaxed);
        Self { shared, opened, batches, passing, next_number: 0, _places: places }
    }

    /// Waits for the first records, and returns the body of the reply. A task continues to fill the body.
    ///
    /// # Errors
    /// Returns a problem if the beginning of the body cannot be read, or if the client may not look up its records.
    pub(super) async fn begin(mut self, flushes: Arc<Flushes>) -> Result<Body, Problem> {
        let first = self.next().await;
        let first = match first {
            Progress::Failed(why) => return Err(Problem::impossible(format_args!("body: {why}"))),
            Progress::RecordBatch(batch) => Some(self.answered(batch).await.map_err(refused)?),
            Progress::End(lacking) => {
                self.passing.report.lacking = lacking;
                None
            }
        };
        let (sender, parts) = channel(PARTS_MAX);
        tokio::spawn(self.send_all(first, sender));
        Ok(Body::new(Parts { parts, flushes, failed: None }))
    }

    /// Sends the records to keep of the first piece, which is `None` if there is no piece, and then those of all other
    /// pieces.
    async fn send_all(mut self, first: Option<Bytes>, parts: Sender<Part>) {
        let has_ended = first.is_none();
        let mut kept = first.unwrap_or_default();
        let mut ended = has_ended;
        loop {
            if !kept.is_empty() && parts.send(Ok(Frame::data(kept))).await.is_err() {
                return;
            }
            if ended {
                break;
            }
            kept = match self.next().await {
                Progress::RecordBatch(batch) => match self.answered(batch).await {
                    Ok(kept) => kept,
                    Err(why) => return cut_off(&parts, refused(why).detail()).await,
                },
                Progress::End(lacking) => {
                    self.passing.report.lacking = lacking;
                    ended = true;
                    Bytes::new()
                }
                Progress::Failed(why) => return cut_off(&parts, &why).await,
            };
        }
        let report = serde_json::to_string(&self.passing.report).ok();
        // Headers may only contain ASCII. JSON can express all other characters with escape sequences.
        let report = report.map(|text| ascii(&text)).and_then(|text| HeaderValue::from_str(&text).ok());
        let trailers = report.map(|report| HeaderMap::from_iter([(REPORT, report)])).unwrap_or_default();
        let _ = parts.send(Ok(Frame::trailers(trailers))).await;
    }

    async fn next(&mut self) -> Progress {
        match self.batches.read.recv().await {
            Some(progress) => progress,
            None => Progress::Failed("the thread that reads the records has ended".to_owned()),
        }
    }

    /// Judges a piece, and returns the bytes of the piece that are sent back.
    async fn answered(&mut self, batch: Box<RecordBatch>) -> Result<Bytes, Refused> {
        let events = batch.parsed.len();
        let mut times_ms = Vec::new();
        let mut verdicts = Vec::new();
        if events > 0 {
            self.wait_for_quota(events).await?;
            let arrived = if self.opened.by_arrival { Some(self.shared.filters.now_ms()) } else { None };
            match arrived {
                Some(Err(reason)) => verdicts = vec![Verdict::Undecided(reason); events],
                Some(Ok(now_ms)) => times_ms = vec![now_ms; events],
                // The parser rejects times before 1970, so the cast is safe.
                None => times_ms = batch.parsed.times_ms().iter().map(|ms| ms.cast_unsigned()).collect(),
            }
            if verdicts.is_empty() {
                verdicts = self.verdicts(&batch, &times_ms).await;
            }
        }
        self.next_number += events as u64;
        let mut kept = Vec::with_capacity(batch.block.bytes().len());
        self.passing.select(&batch, &mut verdicts, &times_ms, &mut kept);
        let counts = &self.shared.common.counts;
        let undecided = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Undecided(_))).count();
        counts.events.fetch_add(events as u64, Ordering::Relaxed);
        counts.undecided.fetch_add(undecided as u64, Ordering::Relaxed);
        let _ = self.batches.spent.try_send(batch);
        Ok(Bytes::from(kept))
    }

    /// Waits until the principal's quota allows this number of events.
    async fn wait_for_quota(&self, events: usize) -> Result<(), Refused> {
        let until = Instant::now() + QUOTA_WAIT_MAX;
        let mut rest = u32::try_from(events).unwrap_or(u32::MAX);
        while rest > 0 {
            // Events are taken in steps, because a quota may be too small for a whole piece.
            let step = rest.min(QUOTA_STEP_EVENTS);
            match self.opened.client_session.may(FilterVerb::Observe, &self.opened.name, step) {
                Ok(()) => rest -= step,
                Err(Refused::Spent(after)) if Instant::now() + after < until => sleep(after).await,
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    /// Returns the verdicts on the events of a piece. Retries events that nodes refuse temporarily.
    async fn verdicts(&self, batch: &RecordBatch, times_ms: &[u64]) -> Vec<Verdict> {
        let until = Instant::now() + RETRY_FOR;
        let mut verdicts = self.ask(batch, times_ms, None).await;
        loop {
            let again: Vec<usize> =
                (0..verdicts.len()).filter(|event| verdicts.get(*event).is_some_and(is_for_now)).collect();
            if again.is_empty() || Instant::now() >= until || self.shared.stop.is_cancelled() {
                return verdicts;
            }
            sleep(RETRY_PAUSE).await;
            let answers = self.ask(batch, times_ms, Some(&again)).await;
            for (event, answer) in again.into_iter().zip(answers) {
                if let Some(verdict) = verdicts.get_mut(event) {
                    *verdict = answer;
                }
            }
        }
    }

    /// Returns the idempotency keys of the next `events` records. Returns an empty list if the client does not name its
    /// stream.
    fn names(&self, events: usize) -> Vec<SubmissionName> {
        let Some(source) = self.opened.source else { return Vec::new() };
        (self.next_number..).take(events).map(|number| SubmissionName { source, number }).collect()
    }

    /// Requests verdicts on the events of a piece, or on some of them.
    async fn ask(&self, batch: &RecordBatch, times_ms: &[u64], some: Option<&[usize]>) -> Vec<Verdict> {
        let RecordBatch { block, parsed } = batch;
        let filter = &self.opened.filter;
        let own = filter.info().secret;
        let hash = |secret: &FilterSecret| {
            if secret == own {
                chosen(parsed.digests(), some)
            } else {
                chosen(&parsed.digests_under(secret, block), some)
            }
        };
        let times_ms = chosen(times_ms, some);
        let names = chosen(&self.names(parsed.len()), some);
        let answers = filter.observe_batch(Batch::hashed(&hash).times_ms(&times_ms).names(&names)).await;
        answers.unwrap_or_else(|error: CallError| {
            tracing::debug!(filter = filter.info().name, %error, "a call of a dedup stream has failed");
            vec![Verdict::Undecided(Reason::Invalid); some.map_or(parsed.len(), <[usize]>::len)]
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.common.counts.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether an event was not recorded and may soon be decided.
fn is_for_now(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Undecided(reason) if reason.is_worth_retrying() && !reason.may_have_recorded())
}

/// Returns the chosen entries of a list, or all entries.
fn chosen<T: Copy>(all: &[T], some: Option<&[usize]>) -> Vec<T> {
    match some {
        None => all.to_vec(),
        Some(some) => some.iter().filter_map(|event| all.get(*event)).copied().collect(),
    }
}

/// Cuts the reply off.
async fn cut_off(parts: &Sender<Part>, why: &str) {
    tracing::debug!(why, "a dedup stream of an HTTP client ends early");
    let _ = parts.send(Err(why.to_owned())).await;
}

/// Escapes all characters of a JSON text that are not ASCII.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            text.push(letter);
        } else {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
        }
    }
    text
}

/// Parts of a reply, as they become available.
struct Parts {
    parts: Receiver<Part>,
    flushes: Arc<Flushes>,
    /// Error that ends the reply, and the number of flushes before the error.
    failed: Option<(String, u64)>,
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let parts = &mut *self;
        if parts.failed.is_none() {
            match ready!(parts.parts.poll_recv(cx)) {
                Some(Err(error)) => parts.failed = Some((error, parts.flushes.count())),
                part => return Poll::Ready(part),
            }
        }
        let Some((error, flushes)) = &parts.failed else { return Poll::Ready(None) };
        // The records before the error have been recorded, so the client must receive them first.
        ready!(parts.flushes.poll_beyond(*flushes, cx));
        Poll::Ready(Some(Err(error.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_ascii() {
        assert_eq!(ascii("{\"é\":\"😀\"}"), "{\"\\u00e9\":\"\\ud83d\\ude00\"}");
    }

    #[test]
    fn some_events_are_asked_about_again() {
        assert!(
            is_for_now(&Verdict::Undecided(Reason::Overloaded)) && is_for_now(&Verdict::Undecided(Reason::NotReady))
        );
        assert!(!is_for_now(&Verdict::Undecided(Reason::Unknown)), "it may have been recorded");
        assert!(!is_for_now(&Verdict::Undecided(Reason::Full)) && !is_for_now(&Verdict::Duplicate));
        assert_eq!(chosen(&[1, 2, 3], Some(&[2, 0])), [3, 1]);
        assert_eq!(chosen::<u64>(&[], Some(&[2, 0])), [0; 0]);
    }
}
