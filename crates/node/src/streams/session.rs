//! One Observe stream.
//!
//! Promises: every batch gets one reply, in whatever order; a producer that sends without credit, or takes no replies,
//! has its stream ended. Owners never wait for streams. Must not know: cells, other streams.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstseen_filter::Probes;
use firstseen_routing::{Answers, FilterId, Reason};
use firstseen_wire::WireError;
use firstseen_wire::hello::{self, Credit};
use firstseen_wire::limits::HELLO_TIMEOUT;
use firstseen_wire::proto::producer::{
    Batch, BatchReply, ObserveReply, ObserveRequest, observe_reply, observe_request,
};
use firstseen_wire::reply;
use firstseen_wire::status::ErrorKind;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::StreamContext;
use super::admit::{self, Admitted, AdmittedRun, Refused, StreamSender, refused};
use super::relay::Forward;
use super::relays::Relays;
use super::rights::StreamRights;
use crate::budget::Charge;
use crate::guest::Guest;
use crate::metrics::BatchMeter;
use crate::owner::Run;
use crate::pending::{EarlyInBatch, Ears, PendingBatch, PendingHeader};
use crate::shares::Party;
use crate::view::View;

/// Buffers for events that are kept for the next batches.
const SPARE_PROBES_MAX: usize = 16;

/// Bytes that an event of a batch takes while it waits for its answer, beside those of the message.
const EVENT_BYTES: u64 = 128;

/// Why a stream ends; `None` where the producer has nothing more.
type End = Option<Status>;

/// What a producer sends on a stream.
pub(super) trait Requests: Stream<Item = Result<ObserveRequest, Status>> + Send + Unpin {}

impl<S: Stream<Item = Result<ObserveRequest, Status>> + Send + Unpin> Requests for S {}

/// One Observe stream.
pub(super) struct Session {
    context: Arc<StreamContext>,
    /// The party that is charged for its batches.
    party: Party,
    replies: mpsc::Sender<Result<ObserveReply, Status>>,
    finished: mpsc::Receiver<Arc<PendingBatch>>,
    early: mpsc::Receiver<EarlyInBatch>,
    ears: Ears,
    relayed: mpsc::Receiver<BatchReply>,
    relays: Relays,
    sender: StreamSender,
    rights: StreamRights,
    unanswered: u32,
    spare: Vec<Probes>,
    /// The meters of filters for which batches have come on the stream.
    meters: Vec<(FilterId, BatchMeter)>,
}

impl Session {
    /// A stream of `guest` whose replies go to `replies`, which has room for the credit and two more.
    pub(super) fn new(
        context: Arc<StreamContext>,
        party: Party,
        guest: Arc<Guest>,
        replies: mpsc::Sender<Result<ObserveReply, Status>>,
    ) -> Self {
        let credits = context.limits.inflight_batches_max as usize;
        let (ears, finished, early) = Ears::with_room(credits);
        let (relay, relayed) = mpsc::channel(credits);
        let relays = Relays::new(context.clone(), guest.clone(), relay);
        let rules = context.rules;
        Self {
            context,
            party,
            replies,
            finished,
            early,
            ears,
            relayed,
            relays,
            sender: StreamSender { producer: 0, is_node: guest.caller().roles().node },
            rights: StreamRights::of(guest, rules),
            unanswered: 0,
            spare: Vec::new(),
            meters: Vec::new(),
        }
    }

    /// Serves the stream until it ends.
    pub(super) async fn run(mut self, requests: impl Requests) {
        // Room for the reason of the end, behind the replies.
        let Ok(last_word) = self.replies.clone().reserve_owned().await else { return };
        let end = self.serve(requests).await;
        // This stands behind the last of the producer's events in each queue.
        self.context.owners.end_producer(self.sender.producer);
        self.context.open.batches.fetch_sub(u64::from(self.unanswered), Ordering::Relaxed);
        if let Some(status) = end {
            tracing::debug!(code = ?status.code(), message = status.message(), "a producer's stream is ended");
            last_word.send(Err(status));
        }
    }

    async fn serve(&mut self, mut requests: impl Requests) -> End {
        if let Err(status) = self.greet(&mut requests).await {
            return Some(status);
        }
        let stopping = self.context.departure.stopping.clone();
        let replies = self.replies.clone();
        let mut stopped = pin!(stopping.cancelled());
        let mut closed = pin!(replies.closed());
        let mut more = true;
        loop {
            // Answers before requests: their number is bounded by the credit, so requests come to their turn.
            let done = tokio::select! {
                biased;
                () = &mut stopped => Err(ErrorKind::Unavailable.status("the node is about to stop")),
                () = &mut closed => return None,
                Some(batch) = self.finished.recv() => {
                    self.rights.answered();
                    self.finished(batch)
                }
                Some(early) = self.early.recv() => self.send_early(&early),
                Some(reply) = self.relayed.recv() => {
                    self.rights.answered();
                    self.send_reply(reply)
                }
                request = requests.next(), if more => match request {
                    Some(Ok(request)) => self.request(request),
                    None => {
                        more = false;
                        Ok(())
                    }
                    Some(Err(status)) => Err(status),
                },
            };
            if let Err(status) = done {
                return Some(status);
            }
            if !more && self.unanswered == 0 {
                return None;
            }
        }
    }

    /// The producer says hello, and is welcomed.
    async fn greet(&mut self, requests: &mut impl Requests) -> Result<(), Status> {
        let stopping = self.context.departure.stopping.clone();
        let hello = tokio::time::timeout(HELLO_TIMEOUT, requests.next());
        let first = stopping.run_until_cancelled(hello).await.and_then(|in_time| in_time.unwrap_or(None));
        let Some(first) = first.transpose()? else {
            return Err(ErrorKind::Invalid.status("the first message of a stream must be its hello"));
        };
        self.sender.producer = hello::accept_hello(&first).map_err(|error| match error {
            WireError::Version { .. } => ErrorKind::NotNow.status(error),
            other => ErrorKind::Invalid.status(other),
        })?;
        let view = self.context.views.newest();
        let me = view.me.ok_or_else(|| ErrorKind::Unavailable.status("this node belongs to no cluster yet"))?;
        let limits = &self.context.limits;
        self.put(hello::welcome(&Credit {
            node: me.identity.node,
            incarnation: me.incarnation,
            batch_events_max: limits.batch_events_max,
            inflight_batches_max: limits.inflight_batches_max,
        }))
    }

    fn request(&mut self, request: ObserveRequest) -> Result<(), Status> {
        match request.message {
            Some(observe_request::Message::Batch(batch)) => self.batch(batch),
            Some(observe_request::Message::Hello(_)) => Err(ErrorKind::Invalid.status("hello is said only once")),
            None => Err(ErrorKind::Invalid.status("a message of a kind that this version does not know")),
        }
    }

    fn batch(&mut self, batch: Batch) -> Result<(), Status> {
        let credits = self.context.limits.inflight_batches_max;
        if self.unanswered >= credits {
            let text = format!("{credits} batches are unanswered, and that is all the credit of this stream");
            return Err(ErrorKind::Overloaded.status(text));
        }
        self.unanswered += 1;
        self.context.open.batches.fetch_add(1, Ordering::Relaxed);
        let span = tracing::debug_span!(
            "batch",
            filter = batch.filter_id,
            sequence = batch.sequence,
            events = batch.events,
            traceparent = batch.traceparent
        );
        let _entered = span.enter();
        let view = self.context.views.newest();
        match self.meter(&view, FilterId(batch.filter_id)) {
            Some(meter) => meter.received(&batch),
            None => self.context.metrics.stray_batch(&batch),
        }
        let sequence = batch.sequence;
        let events = batch.events;
        match self.take_up(&view, batch) {
            Ok(()) => Ok(()),
            Err(refused) => self.refuse(&view, sequence, events, refused),
        }
    }

    /// Charges for a batch, and hands it to the owners of its groups here, or to the node that has its slices.
    fn take_up(&mut self, view: &View, batch: Batch) -> Result<(), Refused> {
        let Some(charge) = self.context.budget.charge(self.party, self.bytes_of(&batch)) else {
            let detail = "the node has as much under way as inflight_bytes_max allows";
            return Err(refused(Reason::Overloaded, detail));
        };
        let now_ms = self.context.clock.monotonic_ms();
        let events = batch.events.min(self.context.limits.batch_events_max);
        self.rights.take(&self.context.quotas, view, events, now_ms).map_err(admit::spent)?;
        let done = self.admit(view, batch, charge);
        if done.is_err() {
            self.rights.answered();
        }
        done
    }

    fn admit(&mut self, view: &View, batch: Batch, charge: Charge) -> Result<(), Refused> {
        match admit::admit(&self.context, view, self.sender, &mut self.rights, &batch, &mut self.spare)? {
            Admitted::Here(runs) => {
                let header = PendingHeader {
                    filter: FilterId(batch.filter_id),
                    sequence: batch.sequence,
                    admitted_us: self.context.clock.monotonic_us(),
                    wants_seen: batch.from_filter > 0,
                };
                self.submit(header, runs, charge);
            }
            Admitted::At { node, verb } => {
                let since_ms = self.context.clock.monotonic_ms();
                self.relays.send(view, node, self.sender.producer, Forward { batch, verb, charge, since_ms })?;
                self.context.metrics.relayed();
            }
        }
        Ok(())
    }

    /// The meter of a filter; none for a filter that does not exist, so that producers cannot make up names.
    fn meter(&mut self, view: &View, filter: FilterId) -> Option<&BatchMeter> {
        let index = match self.meters.iter().position(|(known, _)| *known == filter) {
            Some(index) => index,
            None => {
                let meter = self.context.metrics.meter(&view.map.filters.get(&filter)?.name);
                self.meters.push((filter, meter));
                self.meters.len() - 1
            }
        };
        self.meters.get(index).map(|(_, meter)| meter)
    }

    /// Bytes that a batch takes until it is answered: those of the message, and of what is made of it.
    fn bytes_of(&self, batch: &Batch) -> u64 {
        let events = batch.events.min(self.context.limits.batch_events_max);
        batch.encoded_len() as u64 + u64::from(events) * EVENT_BYTES
    }

    fn submit(&mut self, header: PendingHeader, runs: Vec<AdmittedRun>, charge: Charge) {
        let admitted_ms = self.context.clock.monotonic_ms();
        let events: Vec<usize> = runs.iter().map(|run| run.submission.probes.len()).collect();
        let places = PendingBatch::places(header, &events, self.ears.clone(), Some(charge));
        for (AdmittedRun { key, submission }, place) in runs.into_iter().zip(places) {
            self.context.owners.of(key).offer(Run { key, submission, admitted_ms, place });
        }
    }

    /// Sends early duplicates of a batch, where the queue has room beside the replies that must be sent.
    fn send_early(&mut self, early: &EarlyInBatch) -> Result<(), Status> {
        if self.replies.capacity() > self.unanswered as usize + 1 {
            self.put(reply::found(early.sequence, early.batch_events, &early.events, early.clock_ms))
        } else {
            Ok(())
        }
    }

    /// All runs of a batch are answered.
    fn finished(&mut self, batch: Arc<PendingBatch>) -> Result<(), Status> {
        // A sequence may be used again once it is answered, so its early duplicates are sent before, or never.
        while let Ok(early) = self.early.try_recv() {
            self.send_early(&early)?;
        }
        let elapsed_us = self.context.clock.monotonic_us().saturating_sub(batch.header.admitted_us);
        let mut answers = Answers::default();
        batch.replies().for_each(|reply| answers.append(&reply.answers, batch.header.wants_seen));
        if let Some((_, meter)) = self.meters.iter().find(|(filter, _)| *filter == batch.header.filter) {
            meter.answered(elapsed_us);
            if answers.is_degraded() {
                meter.degraded(answers.len());
            }
        }
        let map_version = self.context.views.borrow().map.version;
        let message = reply::encode(batch.header.sequence, &answers, map_version);
        // Another run's owner may still be about to let go of the batch; then its buffers are not used again.
        if let Ok(batch) = Arc::try_unwrap(batch) {
            let room = SPARE_PROBES_MAX.saturating_sub(self.spare.len());
            self.spare.extend(batch.spent().take(room));
        }
        self.send_reply(message)
    }

    fn refuse(&mut self, view: &View, sequence: u64, events: u32, refused: Refused) -> Result<(), Status> {
        let Refused { reason, detail, retry_after_ms } = refused;
        tracing::debug!(sequence, ?reason, detail, "a batch is refused");
        self.context.metrics.refused(reason);
        let refusal = reply::refusal(sequence, events, reason, &detail, view.map.version);
        self.send_reply(BatchReply { retry_after_ms, ..refusal })
    }

    fn send_reply(&mut self, reply: BatchReply) -> Result<(), Status> {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.context.open.batches.fetch_sub(1, Ordering::Relaxed);
        self.context.metrics.reply(&reply);
        self.put(ObserveReply { message: Some(observe_reply::Message::Reply(reply)) })
    }

    /// The queue has room for all of the credit: a producer that fills it has sent more than it took answers for.
    fn put(&mut self, reply: ObserveReply) -> Result<(), Status> {
        match self.replies.try_send(Ok(reply)) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                let full = "the stream's replies are not read: read them, and send within the credit";
                Err(ErrorKind::Overloaded.status(full))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(ErrorKind::Unavailable.status("the stream is closed")),
        }
    }
}
