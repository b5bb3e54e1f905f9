//! The sending end of one link.
//!
//! # Guarantees
//! - Frames are sent in the order of the queue. After a broken connection they are sent again until they are
//!   acknowledged.
//! - While the peer does not acknowledge frames, the queue fills up and then accepts no more messages.
//! - A message that cannot be sent is returned to its owner as rejected.
//! - A peer that acknowledges nothing counts as unreachable even if its connection is open. If no frame is waiting for
//!   an acknowledgement, the link sends a ping.
//!
//! Acknowledgements also carry the peer's time of day. This module does not depend on the meaning of messages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firstseen_routing::{LinkEnd, LinkSender, NodeId, NodeRecord, PeerMessage};
use firstseen_wire::WireError;
use firstseen_wire::limits::INFLIGHT_FRAMES_MAX;
use firstseen_wire::net;
use firstseen_wire::peer::{self, LinkEnds};
use firstseen_wire::proto::peer::{LinkAck, LinkFrame, Ping, link_frame};
use firstseen_wire::watch;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::LinkContext;
use super::probe::Probe;
use super::unnumbered::Unnumbered;
use crate::group_key::GroupKey;
use crate::link_handle::{LinkCounts, Queued};
use crate::metrics::{LinkMeter, LinkRefusal};
use crate::owner::Work;
use crate::view::Me;

/// Shortest pause before the link connects again after its connection was broken. The pause doubles with each failed
/// attempt, up to [`PAUSE_MAX`].
///
/// A peer counts as unreachable when its link has been down for a configured time. Within this time, the link must try
/// to connect several times, because a single attempt can fail by chance. Until the peer counts as unreachable, a pause
/// is therefore never longer than an eighth of the configured time.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Minimum interval between two checks whether the peer is silent.
const LOOK_MIN: Duration = Duration::from_millis(10);
/// Maximum interval between two checks, because the peer's clock may have to be measured.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Longest pause between two connection attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// State of the sending end of one link.
pub(super) struct Outgoing {
    pub(super) me: Me,
    pub(super) peer: NodeId,
    pub(super) node: NodeRecord,
    pub(super) context: LinkContext,
    pub(super) meter: LinkMeter,
    pub(super) queue: mpsc::Receiver<Queued>,
    pub(super) counts: Arc<LinkCounts>,
    /// Whether the peer currently accepts messages.
    pub(super) up: watch::Sender<bool>,
    /// Whether the last attempt to reach the peer failed.
    pub(super) is_down: bool,
    /// Maximum time that an acknowledgement may take.
    pub(super) silence_max: Duration,
    /// Messages from the queue that have no frame number yet.
    pub(super) unnumbered: Unnumbered,
    /// Whether the first unacknowledged message is a ping. No owner waits for a ping.
    pub(super) is_pinged: bool,
    /// Measurements of the peer's clock.
    pub(super) probe: Probe,
}

/// The protocol state of unacknowledged messages, which are encoded and numbered.
type Sender = LinkSender<link_frame::Message>;

impl Outgoing {
    /// Sends messages until all handles of this link have been dropped.
    pub(super) async fn run(mut self) {
        let from = LinkEnd { node: self.me.identity.node, incarnation: self.me.incarnation };
        let to = LinkEnd { node: self.peer, incarnation: self.node.incarnation };
        let ends = firstseen_routing::LinkEnds { from, to };
        let mut sender = Sender::new(ends, INFLIGHT_FRAMES_MAX as usize);
        let mut pause = PAUSE_MIN;
        let mut broken = Instant::now();
        loop {
            let ended = self.session(&mut sender, &mut pause).await;
            self.up.send(false);
            match ended {
                Ok(()) => return,
                Err(status) => {
                    let peer = self.peer;
                    let name = &self.node.name;
                    if std::mem::replace(&mut self.is_down, true) {
                        tracing::debug!(%peer, name, %status, "node cannot be reached")
                    } else {
                        tracing::warn!(
                            %peer,
                            name,
                            %status,
                            "a node cannot be reached; connecting is retried until it succeeds"
                        )
                    }
                }
            }
            if pause == PAUSE_MIN {
                broken = Instant::now();
            }
            tokio::time::sleep(pause).await;
            let pause_max = if broken.elapsed() > self.silence_max * 2 { PAUSE_MAX } else { self.silence_max / 4 };
            pause = (pause * 2).min(pause_max.max(PAUSE_MIN * 2));
        }
    }

    /// Sends messages on one connection until the connection ends.
    async fn session(&mut self, sender: &mut Sender, pause: &mut Duration) -> Result<(), Status> {
        let channel = self.context.connector.channel(&self.node.address, Some(&self.node.name));
        let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
        let (frames, outbound) = mpsc::channel(INFLIGHT_FRAMES_MAX as usize + 1);
        self.probe.begins(self.context.clock.monotonic_ms());
        send(&frames, peer::hello(&self.ends())).await?;
        let mut acks = net::peer_client(channel).link(ReceiverStream::new(outbound)).await?.into_inner();
        let resumed = next_ack(&mut acks).await?;
        if !resumed.resume {
            return Err(Status::internal("the peer's first acknowledgement does not answer the hello"));
        }
        self.measure(&resumed);
        self.unnumbered.hear(resumed.takes_tests);
        *pause = PAUSE_MIN;
        self.up.send(true);
        if std::mem::take(&mut self.is_down) {
            tracing::info!(peer = %self.peer, name = self.node.name, "node is reached again");
        }
        self.forgetting(sender, |sender| sender.resume(resumed.number))?;
        let between_pings = (self.silence_max / 2).max(LOOK_MIN);
        let between_looks = between_pings.min(LOOK_MAX);
        let mut look = tokio::time::interval_at(Instant::now() + between_looks, between_looks);
        let mut pinged = Instant::now();
        let mut heard = Instant::now();
        let mut standstills = self.context.clocks.standstills();
        loop {
            while !sender.is_full()
                && let Some(queued) = self.unnumbered.next()
            {
                self.push(sender, queued).await;
            }
            while let Some((number, message)) = sender.next_to_send() {
                let frame = LinkFrame { number, message: Some(message.clone()) };
                self.meter.sent(&frame);
                self.probe.sends(number, self.context.clock.monotonic_ms());
                send(&frames, frame).await?;
            }
            tokio::select! {
                biased;
                ack = next_ack(&mut acks) => {
                    self.acknowledged(sender, ack?)?;
                    heard = Instant::now();
                    self.set_up(true);
                }
                _ = standstills.changed() => {
                    // The entire node waits until the time of its peers is known.
                    self.probe.restart();
                    if sender.unacknowledged_frames() == 0 {
                        pinged = Instant::now();
                        self.is_pinged = sender.push(link_frame::Message::Ping(Ping {})).is_ok();
                    }
                }
                _ = look.tick() => match sender.unacknowledged_frames() {
                    0 => {
                        heard = Instant::now();
                        if heard + between_looks / 2 >= pinged + between_pings || self.wants_time() {
                            pinged = heard;
                            // If no frame is unacknowledged, there is room for a ping.
                            self.is_pinged = sender.push(link_frame::Message::Ping(Ping {})).is_ok();
                        }
                    }
                    _ => self.set_up(heard.elapsed() <= self.silence_max),
                },
                queued = self.queue.recv(), if !sender.is_full() && self.unnumbered.is_empty() => {
                    if sender.unacknowledged_frames() == 0 {
                        heard = Instant::now();
                    }
                    match queued {
                        None if sender.unacknowledged_frames() == 0 => return Ok(()),
                        None => self.acknowledged(sender, next_ack(&mut acks).await?)?,
                        Some(queued) => self.take_up(queued),
                    }
                }
            }
        }
    }

    /// Takes a message from the queue.
    fn take_up(&mut self, queued: Queued) {
        self.counts.queued_events.fetch_sub(queued.message.events(), Ordering::Relaxed);
        let more = self.unnumbered.take_up(queued);
        self.counts.waiting.fetch_add(more as u64, Ordering::Relaxed);
    }

    fn set_up(&self, up: bool) {
        self.up.send_if_modified(|was_up| std::mem::replace(was_up, up) != up);
    }

    fn acknowledged(&mut self, sender: &mut Sender, ack: LinkAck) -> Result<(), Status> {
        self.meter.received(&ack);
        self.measure(&ack);
        self.forgetting(sender, |sender| sender.acknowledge(ack.number))
    }

    /// Returns whether the peer's clock is unknown, or its measurement is about to become too old.
    fn wants_time(&self) -> bool {
        let now = self.context.clock.now();
        self.probe.is_due(now.monotonic_ms) || self.context.clocks.offset(self.peer, now).is_none()
    }

    /// Uses an acknowledgement to measure the peer's clock.
    fn measure(&mut self, ack: &LinkAck) {
        let now = self.context.clock.now();
        if let Some(exchange) = self.probe.hears(ack, now.monotonic_ms) {
            self.context.clocks.hear(self.peer, exchange, now, &self.context.views.newest());
        }
    }

    /// Applies `change` to the sender, and updates the count of waiting messages by the number of messages that were
    /// acknowledged.
    fn forgetting(
        &mut self,
        sender: &mut Sender,
        change: impl FnOnce(&mut Sender) -> Result<(), firstseen_routing::LinkError>,
    ) -> Result<(), Status> {
        let before = sender.unacknowledged_frames();
        change(sender).map_err(|error| {
            tracing::error!(peer = %self.peer, %error, "a link cannot go on");
            Status::internal(error.to_string())
        })?;
        let forgotten = before - sender.unacknowledged_frames();
        let pings = usize::from(forgotten > 0 && std::mem::take(&mut self.is_pinged));
        self.counts.waiting.fetch_sub((forgotten - pings) as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Assigns a number to a message and queues it for sending. A message that is no longer needed is dropped instead:
    /// its filter may no longer exist, or no head node may wait for its result any more. If the message cannot be
    /// encoded, it is returned to the owner thread that it came from.
    async fn push(&self, sender: &mut Sender, queued: Queued) {
        let Some(message) = queued.leave(self.context.clock.monotonic_ms()) else { return self.forget_one() };
        let range = self.context.views.borrow().position_range(message.filter);
        let is_pushed = match range.map(|range| peer::encode(&message, range)) {
            // A message is taken from the queue only if there is room for it.
            Some(Ok(encoded)) => sender.push(encoded).is_ok(),
            Some(Err(error)) => {
                self.give_back(message, &error).await;
                false
            }
            None => false,
        };
        if !is_pushed {
            self.forget_one();
        }
    }

    /// Counts a message that is dropped instead of being sent.
    fn forget_one(&self) {
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns an unsendable message to the owner thread that created it. Without this message, the owner would wait
    /// for a reply that never comes. If the queue of the owner is full, this call waits for room. The wait cannot cause
    /// a deadlock, because owners never wait for links.
    async fn give_back(&self, message: PeerMessage, error: &WireError) {
        tracing::error!(
            peer = %self.peer,
            filter = %message.filter,
            %error,
            "a message cannot be encoded, so it is returned to its owner"
        );
        self.context.metrics.link_refused(LinkRefusal::Unsendable);
        let owner = self.context.owners.of(GroupKey::of(&message));
        // This call fails if the owner is lost. All its waiting events are then lost too.
        owner.hand(Work::Refused { sender: self.me.identity.node, receiver: self.peer, message }).await;
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
