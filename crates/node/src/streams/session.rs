//! The session of one Observe stream, on which a producer sends batches and receives replies.
//!
//! # Guarantees
//! - Every batch receives exactly one reply. The replies may arrive in any order.
//! - The stream of a producer ends if the producer exceeds its credit or does not read its replies.
//! - Owner threads never wait for a stream.
//!
//! This module does not depend on cells or on other streams.

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
use crate::authenticated_caller::AuthenticatedCaller;
use crate::budget::Charge;
use crate::metrics::BatchMeter;
use crate::owner::Run;
use crate::reply_queues::{EarlyInBatch, PendingBatch, PendingHeader, ReplyQueues};
use crate::shares::Party;
use crate::view::View;

/// Maximum number of event buffers that are kept for the next batches.
const SPARE_PROBES_MAX: usize = 16;

/// Memory that an event of a batch takes until it is answered, in bytes, in addition to the memory of the message.
const EVENT_BYTES: u64 = 128;

/// Reason why a stream ends. `None` means that the producer has closed the stream.
type End = Option<Status>;

/// Requests that a producer sends on a stream.
pub(super) trait Requests: Stream<Item = Result<ObserveRequest, Status>> + Send + Unpin {}

impl<S: Stream<Item = Result<ObserveRequest, Status>> + Send + Unpin> Requests for S {}

/// State of one Observe stream.
pub(super) struct Session {
    context: Arc<StreamContext>,
    /// The kind of client that is charged for the batches.
    party: Party,
    replies: mpsc::Sender<Result<ObserveReply, Status>>,
    finished: mpsc::Receiver<Arc<PendingBatch>>,
    early: mpsc::Receiver<EarlyInBatch>,
    ears: ReplyQueues,
    relayed: mpsc::Receiver<BatchReply>,
    relays: Relays,
    sender: StreamSender,
    rights: StreamRights,
    unanswered: u32,
    spare: Vec<Probes>,
    /// Meters of the filters that this stream has sent batches to.
    meters: Vec<(FilterId, BatchMeter)>,
}

impl Session {
    /// Creates a session of the client `guest`. Replies go to `replies`, which must have room for the credit and two
    /// more messages.
    pub(super) fn new(
        context: Arc<StreamContext>,
        party: Party,
        guest: Arc<AuthenticatedCaller>,
        replies: mpsc::Sender<Result<ObserveReply, Status>>,
    ) -> Self {
        let credits = context.limits.inflight_batches_max as usize;
        let (ears, finished, early) = ReplyQueues::with_room(credits);
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
        // Reserves room for the final status after all replies.
        let Ok(last_word) = self.replies.clone().reserve_owned().await else { return };
        let end = self.serve(requests).await;
        // In the queue of each owner, this message stands behind the last events of the producer.
        self.context.owners.end_producer(self.sender.producer);
        self.context.open.batches.fetch_sub(u64::from(self.unanswered), Ordering::Relaxed);
        if let Some(status) = end {
            tracing::debug!(code = ?status.code(), message = status.message(), "the stream of a producer is closed");
            last_word.send(Err(status));
        }
    }

    async fn serve(&mut self, mut requests: impl Requests) -> End {
        if let Err(status) = self.handshake(&mut requests).await {
            return Some(status);
        }
        let stopping = self.context.departure.stopping.clone();
        let replies = self.replies.clone();
        let mut stopped = pin!(stopping.cancelled());
        let mut closed = pin!(replies.closed());
        let mut more = true;
        loop {
            // Replies have priority over requests. The credit limits the number of replies, so requests are still
            // processed.
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

    /// Receives the producer's hello message and sends the welcome message.
    async fn handshake(&mut self, requests: &mut impl Requests) -> Result<(), Status> {
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
            Some(observe_request::Message::Hello(_)) => Err(ErrorKind::Invalid.status("hello is sent only once")),
            None => Err(ErrorKind::Invalid.status("a message of a kind that this version does not know")),
        }
    }

    fn batch(&mut self, batch: Batch) -> Result<(), Status> {
        let credits = self.context.limits.inflight_batches_max;
        if self.unanswered >= credits {
            let text = format!("{credits} batches are unanswered, which is the entire credit of this stream");
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

    /// Charges for a batch, and passes it to the owners of its slice groups on this node or to the node that owns its
    /// slices.
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

    /// Returns the meter of a filter. Returns `None` if the filter does not exist, so producers cannot create meters
    /// for invented names.
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

    /// Returns the bytes that a batch takes until it is answered. They include the message and the data that is decoded
    /// from it.
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

    /// Tells the producer early which events of an unfinished batch are duplicates. The producer does not depend on
    /// this early message, because the reply to the batch contains the same verdicts later.
    ///
    /// The early message must not take the place of a reply. The channel to the producer always keeps room for the
    /// replies to all unanswered batches, because these replies must never wait. The early message is therefore dropped
    /// unless the channel has more room than that.
    fn send_early(&mut self, early: &EarlyInBatch) -> Result<(), Status> {
        if self.replies.capacity() > self.unanswered as usize + 1 {
            self.put(reply::found(early.sequence, early.batch_events, &early.events, early.clock_ms))
        } else {
            Ok(())
        }
    }

    /// Sends the reply to a batch after all its runs have been answered.
    fn finished(&mut self, batch: Arc<PendingBatch>) -> Result<(), Status> {
        // The producer may reuse a sequence number as soon as the batch is answered. Early duplicates must therefore be
        // sent before the reply.
        while let Ok(early) = self.early.try_recv() {
            self.send_early(&early)?;
        }
        let elapsed_us = self.context.clock.monotonic_us().saturating_sub(batch.header.admitted_us);
        let mut answers = Answers::default();
        batch.replies().for_each(|reply| answers.append(&reply.answers, batch.header.wants_seen));
        if let Some((_, meter)) = self.meters.iter().find(|(filter, _)| *filter == batch.header.filter) {
            meter.answered(elapsed_us);
            if answers.is_degraded() {
                meter.degraded(answers.degraded_count());
            }
        }
        let map_version = self.context.views.borrow().map.version;
        let message = reply::encode(batch.header.sequence, &answers, map_version);
        // The owner of another run may still hold a reference to the batch. In that case, its buffers are not reused.
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

    /// Adds a message to the channel from which the producer's replies are sent. A producer that sends no more batches
    /// than the credit of its stream cannot fill this channel. If the channel is full, the producer has exceeded its
    /// credit and does not read its replies. The method then returns an error that ends the stream.
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
