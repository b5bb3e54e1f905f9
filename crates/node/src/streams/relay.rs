//! A relay forwards the batches of one producer to the node that owns their slices. Every batch receives exactly one
//! reply:
//!
//! - If the owner replies, the relay returns the reply of the owner.
//! - If the batch never left this node, the reply is "not ready".
//! - If the batch was sent and no reply came back, the reply is "unknown".
//!
//! This module does not depend on the content of batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_routing::{FilterId, FilterVerb, MonotonicMs, NodeId, NodeRecord, Reason};
use firstseen_wire::limits::CONNECT_TIMEOUT;
use firstseen_wire::proto::producer::{
    Batch, BatchReply, ObserveReply, ObserveRequest, observe_reply, observe_request,
};
use firstseen_wire::{hello, net, reply};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::StreamContext;
use crate::authenticated_caller::AuthenticatedCaller;
use crate::budget::Charge;

/// A batch to forward.
pub(super) struct Forward {
    pub(super) batch: Batch,
    /// Right on the filter that the sender needs.
    pub(super) verb: FilterVerb,
    /// Bytes that the batch is charged for until it is answered.
    pub(super) charge: Charge,
    /// Time at which the batch arrived, in monotonic milliseconds.
    pub(super) since_ms: MonotonicMs,
}

/// The relay of one producer's batches to one process of another node.
pub(super) struct Relay {
    pub(super) context: Arc<StreamContext>,
    /// The client that sent these batches.
    pub(super) guest: Arc<AuthenticatedCaller>,
    pub(super) target: NodeId,
    pub(super) node: NodeRecord,
    pub(super) producer: u128,
    pub(super) queue: mpsc::Receiver<Forward>,
    pub(super) replies: mpsc::Sender<BatchReply>,
}

/// A stream to the node that owns the slices.
struct Proxy {
    requests: mpsc::Sender<ObserveRequest>,
    replies: Streaming<ObserveReply>,
    credits: usize,
}

/// Batches that were forwarded to another node and have no reply yet, by their sequence number. Each entry contains the
/// number of events in the batch, and the charge for the batch's memory. A sequence number can have several entries,
/// because nothing prevents a producer from using the same number twice.
type Sent = BTreeMap<u64, Vec<(u32, Charge)>>;

impl Relay {
    /// Forwards batches until the producer's stream ends.
    pub(super) async fn run(mut self) {
        while let Some(first) = self.queue.recv().await {
            match self.open().await {
                Ok(proxy) => {
                    let mut sent = Sent::new();
                    let end = self.forward(proxy, first, &mut sent).await;
                    self.abandon(sent).await;
                    if end.is_ok() {
                        return;
                    }
                }
                Err(status) => {
                    let target = self.target;
                    let name = &self.node.name;
                    tracing::debug!(%target, name, %status, "the node that owns the slices cannot be reached");
                    self.refuse(first, &status).await;
                    while let Ok(waiting) = self.queue.try_recv() {
                        self.refuse(waiting, &status).await;
                    }
                }
            }
        }
    }

    async fn open(&self) -> Result<Proxy, Status> {
        let greeted = tokio::time::timeout(CONNECT_TIMEOUT, self.handshake()).await;
        greeted.unwrap_or_else(|_| Err(Status::unavailable("it did not answer in time")))
    }

    async fn handshake(&self) -> Result<Proxy, Status> {
        let channel = self.context.connector.channel(&self.node.address, Some(&self.node.name));
        let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
        let (requests, outbound) = mpsc::channel(self.context.limits.inflight_batches_max as usize + 1);
        send(&requests, hello::hello(self.producer)).await?;
        let mut replies = net::producer_client(channel).observe(ReceiverStream::new(outbound)).await?.into_inner();
        let welcome = replies
            .message()
            .await?
            .ok_or_else(|| Status::unavailable("the node that owns the slices has closed the stream"))?;
        let credit = hello::accept_welcome(&welcome).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Proxy { requests, replies, credits: credit.inflight_batches_max as usize })
    }

    /// Forwards `first` and the batches after it. Returns `Ok` when the producer has closed its stream.
    async fn forward(&mut self, mut proxy: Proxy, first: Forward, sent: &mut Sent) -> Result<(), Status> {
        let mut unanswered = 0;
        let mut more = true;
        let mut next = Some(first);
        loop {
            if let Some(forward) = next.take() {
                if let Err(missing) = self.may_still(&forward) {
                    let Batch { sequence, events, .. } = forward.batch;
                    self.reply(sequence, events, Reason::Forbidden, &missing).await;
                } else {
                    self.send(&proxy.requests, forward, sent).await?;
                    unanswered += 1;
                }
            }
            if !more && unanswered == 0 {
                return Ok(());
            }
            tokio::select! {
                biased;
                reply = proxy.replies.message() => {
                    let reply = reply?.and_then(|reply| reply.message);
                    let Some(observe_reply::Message::Reply(reply)) = reply else {
                        return Err(Status::unavailable("the node that owns the slices has closed the stream"));
                    };
                    unanswered -= usize::from(forget(sent, reply.sequence));
                    if self.replies.send(reply).await.is_err() {
                        return Ok(());
                    }
                }
                queued = self.queue.recv(), if more && unanswered < proxy.credits => {
                    more = queued.is_some();
                    next = queued;
                }
            }
        }
    }

    async fn send(
        &self,
        requests: &mpsc::Sender<ObserveRequest>,
        forward: Forward,
        sent: &mut Sent,
    ) -> Result<(), Status> {
        let Forward { mut batch, charge, since_ms, .. } = forward;
        let waited_ms = self.context.clock.monotonic_ms().since(since_ms);
        if batch.deadline_ms > 0 {
            batch.deadline_ms = batch.deadline_ms.saturating_sub(u32::try_from(waited_ms).unwrap_or(u32::MAX)).max(1);
        }
        sent.entry(batch.sequence).or_default().push((batch.events, charge));
        send(requests, ObserveRequest { message: Some(observe_request::Message::Batch(batch)) }).await
    }

    /// Checks again whether the sender of a batch has the right that the batch requires. The right may have been
    /// revoked while the batch waited for a connection to the other node. This node must make the check, because the
    /// other node sees only the certificate of this node and does not know the sender.
    fn may_still(&self, Forward { batch, verb, .. }: &Forward) -> Result<(), String> {
        let view = self.context.views.newest();
        let Some(filter) = view.map.filters.get(&FilterId(batch.filter_id)) else { return Ok(()) };
        self.guest.may(&view.map, *verb, filter)
    }

    /// Rejects a batch that never left this node.
    async fn refuse(&self, forward: Forward, status: &Status) {
        let detail = format!("node {} cannot be reached: {}", self.target, status.message());
        self.reply(forward.batch.sequence, forward.batch.events, Reason::NotReady, &detail).await;
    }

    /// Replies to batches that left this node and received no reply.
    async fn abandon(&self, sent: Sent) {
        for (sequence, batches) in sent {
            for (events, _) in batches {
                let detail = format!("the connection to node {} is broken", self.target);
                self.reply(sequence, events, Reason::Unknown, &detail).await;
            }
        }
    }

    async fn reply(&self, sequence: u64, events: u32, reason: Reason, detail: &str) {
        let map_version = self.context.views.newest().map.version;
        let _ = self.replies.send(reply::refusal(sequence, events, reason, detail, map_version)).await;
    }
}

async fn send(requests: &mpsc::Sender<ObserveRequest>, request: ObserveRequest) -> Result<(), Status> {
    requests.send(request).await.map_err(|_| Status::unavailable("the connection is closed"))
}

/// Removes one batch with this sequence number from the list. Returns whether there was such a batch.
fn forget(sent: &mut Sent, sequence: u64) -> bool {
    let Some(batches) = sent.get_mut(&sequence) else { return false };
    batches.pop();
    if batches.is_empty() {
        sent.remove(&sequence);
    }
    true
}
