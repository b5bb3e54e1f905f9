//! The sending end of one link.
//!
//! Promises: frames go out in the order of the queue, and again after a break until they are acknowledged; while the
//! peer does not acknowledge, the queue fills and nothing more is taken. Must not know: what messages mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen_routing::{LinkEnd, LinkSender, NodeId, NodeRecord, PeerMessage};
use firstseen_wire::limits::INFLIGHT_FRAMES_MAX;
use firstseen_wire::net::{self, Connector};
use firstseen_wire::peer::{self, LinkEnds};
use firstseen_wire::proto::peer::{LinkAck, LinkFrame, link_frame};
use firstseen_wire::watch;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::metrics::Metrics;
use crate::view::{Me, View};

/// The first pause after a break; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The sending end of one link.
pub(super) struct Outgoing {
    pub(super) me: Me,
    pub(super) peer: NodeId,
    pub(super) node: NodeRecord,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) queue: mpsc::Receiver<PeerMessage>,
    pub(super) waiting: Arc<AtomicU64>,
    pub(super) views: watch::Receiver<Arc<View>>,
    pub(super) metrics: Arc<Metrics>,
    /// Whether the peer takes messages at present.
    pub(super) up: watch::Sender<bool>,
    /// The peer could not be reached when it was last tried.
    pub(super) is_down: bool,
}

/// Messages as they travel, by number.
type Sender = LinkSender<link_frame::Message>;

impl Outgoing {
    /// Sends until nobody can hand over messages any more.
    pub(super) async fn run(mut self) {
        let from = LinkEnd { node: self.me.identity.node, incarnation: self.me.incarnation };
        let to = LinkEnd { node: self.peer, incarnation: self.node.incarnation };
        let ends = firstseen_routing::LinkEnds { from, to };
        let mut sender = Sender::new(ends, INFLIGHT_FRAMES_MAX as usize);
        let mut pause = PAUSE_MIN;
        loop {
            let ended = self.session(&mut sender, &mut pause).await;
            self.up.send(false);
            match ended {
                Ok(()) => return,
                Err(status) => {
                    let (peer, name) = (self.peer, &self.node.name);
                    match std::mem::replace(&mut self.is_down, true) {
                        false => {
                            tracing::warn!(%peer, name, %status, "node cannot be reached; tried again until it can")
                        }
                        true => tracing::debug!(%peer, name, %status, "node cannot be reached"),
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// One connection's worth of sending.
    async fn session(&mut self, sender: &mut Sender, pause: &mut Duration) -> Result<(), Status> {
        let channel = self.connector.channel(&self.node.address, Some(&self.node.name));
        let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
        let (frames, outbound) = mpsc::channel(INFLIGHT_FRAMES_MAX as usize + 1);
        send(&frames, peer::hello(&self.ends())).await?;
        let mut acks = net::peer_client(channel).link(ReceiverStream::new(outbound)).await?.into_inner();
        let resumed = next_ack(&mut acks).await?;
        if !resumed.resume {
            return Err(Status::internal("the peer's first acknowledgement does not answer the hello"));
        }
        *pause = PAUSE_MIN;
        self.up.send(true);
        if std::mem::take(&mut self.is_down) {
            tracing::info!(peer = %self.peer, name = self.node.name, "node is reached again");
        }
        self.forgetting(sender, |sender| sender.resume(resumed.number))?;
        loop {
            while let Some((number, message)) = sender.next_to_send() {
                let frame = LinkFrame { number, message: Some(message.clone()) };
                self.metrics.link_sent(&frame);
                send(&frames, frame).await?;
            }
            tokio::select! {
                biased;
                ack = next_ack(&mut acks) => self.acknowledged(sender, ack?)?,
                message = self.queue.recv(), if !sender.is_full() => match message {
                    None if sender.unacknowledged_frames() == 0 => return Ok(()),
                    None => self.acknowledged(sender, next_ack(&mut acks).await?)?,
                    Some(message) => self.push(sender, &message),
                },
            }
        }
    }

    fn acknowledged(&self, sender: &mut Sender, ack: LinkAck) -> Result<(), Status> {
        self.metrics.link_received(&ack);
        self.forgetting(sender, |sender| sender.acknowledge(ack.number))
    }

    /// Counts the messages that `change` lets the sender forget.
    fn forgetting(
        &self,
        sender: &mut Sender,
        change: impl FnOnce(&mut Sender) -> Result<(), firstseen_routing::LinkError>,
    ) -> Result<(), Status> {
        let before = sender.unacknowledged_frames();
        change(sender).map_err(|error| {
            tracing::error!(peer = %self.peer, %error, "a link cannot go on");
            Status::internal(error.to_string())
        })?;
        self.waiting.fetch_sub((before - sender.unacknowledged_frames()) as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Numbers a message; one for a filter that is gone is forgotten.
    fn push(&self, sender: &mut Sender, message: &PeerMessage) {
        let pushed = self.encode(message).is_some_and(|message| sender.push(message).is_ok());
        if !pushed {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The message as it travels; none for a filter that is gone.
    fn encode(&self, message: &PeerMessage) -> Option<link_frame::Message> {
        let range = self.views.borrow().position_range(message.filter);
        match range.map(|range| peer::encode(message, range)) {
            Some(Ok(message)) => return Some(message),
            Some(Err(error)) => tracing::error!(peer = %self.peer, %error, "a message cannot be sent"),
            None => {}
        }
        None
    }

    fn ends(&self) -> LinkEnds {
        LinkEnds {
            cluster: self.me.identity.cluster,
            from: self.me.identity.node,
            from_incarnation: self.me.incarnation,
            to: self.peer,
            to_incarnation: self.node.incarnation,
        }
    }
}

async fn send(frames: &mpsc::Sender<LinkFrame>, frame: LinkFrame) -> Result<(), Status> {
    frames.send(frame).await.map_err(|_| Status::unavailable("the connection is closed"))
}

async fn next_ack(acks: &mut Streaming<LinkAck>) -> Result<LinkAck, Status> {
    acks.message().await?.ok_or_else(|| Status::unavailable("the peer has ended the link"))
}
