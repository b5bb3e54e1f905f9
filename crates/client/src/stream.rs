//! Stream to one node. The client opens it and sends a greeting, then it sends batches and receives replies.
//!
//! A stream exists only after the node has accepted the client's greeting, so both sides speak the same version of the
//! protocol.
//!
//! The stream itself does not limit the number of unanswered batches. The sender that uses the stream is responsible
//! for that limit.

use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::duration;
use firstseen_wire::hello;
use firstseen_wire::limits::{CONNECT_TIMEOUT, INFLIGHT_BATCHES_MAX};
use firstseen_wire::net::producer_client;
use firstseen_wire::proto::producer as proto;
use firstseen_wire::proto::producer::{observe_reply, observe_request};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::shared::{Core, Target};
use crate::watch::complaint;

/// Message of a node about a batch.
#[expect(clippy::large_enum_variant, reason = "nearly all messages are replies")]
pub(crate) enum FromNode {
    /// Verdicts on all events of the batch.
    Reply(proto::BatchReply),
    /// Duplicates that the node has found so far, sent ahead of the complete reply.
    Found(proto::Found),
}

/// Stream on which the node has accepted this producer.
pub(crate) struct NodeStream {
    requests: mpsc::Sender<proto::ObserveRequest>,
    replies: Replies,
    /// Number of batches that may be unanswered.
    pub(crate) credits: usize,
    pub(crate) batch_events_max: usize,
}

/// Source of the node's messages.
enum Replies {
    Far(Box<Streaming<proto::ObserveReply>>),
    /// Channel to a node that runs in this process.
    Here(mpsc::Receiver<Result<proto::ObserveReply, Status>>),
}

impl Replies {
    /// Returns the next message. The future is cancel safe.
    async fn message(&mut self) -> Result<Option<proto::ObserveReply>, Status> {
        match self {
            Self::Far(replies) => replies.message().await,
            Self::Here(replies) => replies.recv().await.transpose(),
        }
    }
}

impl NodeStream {
    /// Waits for `wait_ms` milliseconds, and then opens a stream. The error text says why the stream cannot be opened.
    pub(crate) async fn open(core: Arc<Core>, target: Target, wait_ms: u64) -> Result<Self, String> {
        if wait_ms > 0 {
            sleep(Duration::from_millis(wait_ms)).await;
        }
        let opening = async {
            let (requests, mut replies) = Self::begin(&core, target).await?;
            let first = replies.message().await.map_err(|status| complaint(&status))?;
            Ok::<_, String>((requests, replies, first))
        };
        let (requests, replies, first) = timeout(CONNECT_TIMEOUT, opening)
            .await
            .map_err(|_| format!("no welcome within {}", duration(CONNECT_TIMEOUT.as_millis() as u64)))??;
        let welcome = first.ok_or_else(|| "the node ended the stream without a welcome".to_owned())?;
        let credit = hello::accept_welcome(&welcome).map_err(|error| error.to_string())?;
        Ok(Self {
            requests,
            replies,
            credits: credit.inflight_batches_max as usize,
            batch_events_max: credit.batch_events_max as usize,
        })
    }

    async fn begin(core: &Core, target: Target) -> Result<(mpsc::Sender<proto::ObserveRequest>, Replies), String> {
        if let Some(address) = core.address(target) {
            let (requests, outgoing) = greeted(core)?;
            if let Some(opened) = core.connector().observe_here(&address, outgoing) {
                return Ok((requests, Replies::Here(opened.map_err(|status| complaint(&status))?)));
            }
        }
        let mut client = producer_client(core.channel(target)?);
        let (requests, outgoing) = greeted(core)?;
        let opened = client.observe(ReceiverStream::new(outgoing)).await.map_err(|status| complaint(&status))?;
        Ok((requests, Replies::Far(Box::new(opened.into_inner()))))
    }

    /// Returns whether the node runs in this process.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.replies, Replies::Here(_))
    }

    /// Sends a batch. The error text says why the batch cannot be sent.
    pub(crate) fn send(&mut self, batch: proto::Batch) -> Result<(), String> {
        let request = proto::ObserveRequest { message: Some(observe_request::Message::Batch(batch)) };
        self.requests.try_send(request).map_err(|error| error.to_string())
    }

    /// Returns the node's next message. The error text says why no more messages follow. The future is cancel safe.
    pub(crate) async fn next_message(&mut self) -> Result<FromNode, String> {
        use observe_reply::Message;
        match self.replies.message().await {
            Ok(Some(proto::ObserveReply { message: Some(Message::Reply(reply)) })) => Ok(FromNode::Reply(reply)),
            Ok(Some(proto::ObserveReply { message: Some(Message::Found(found)) })) => Ok(FromNode::Found(found)),
            Ok(Some(_)) => Err("the node sent a message that is not a reply".to_owned()),
            Ok(None) => Err("the node ended the stream".to_owned()),
            Err(status) => Err(complaint(&status)),
        }
    }
}

/// Creates the channel for messages to a node, with the greeting as its first message.
fn greeted(
    core: &Core,
) -> Result<(mpsc::Sender<proto::ObserveRequest>, mpsc::Receiver<proto::ObserveRequest>), String> {
    // The sender counts credits, so the channel never holds more than the greeting and one batch for each credit.
    let (requests, outgoing) = mpsc::channel(INFLIGHT_BATCHES_MAX as usize + 1);
    requests.try_send(hello::hello(core.incarnation())).map_err(|error| error.to_string())?;
    Ok((requests, outgoing))
}
