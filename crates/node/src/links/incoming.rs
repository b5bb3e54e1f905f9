//! The receiving end of links between nodes.
//!
//! # Guarantees
//! - For each peer, only the newest stream of the living process is accepted.
//! - A message is passed to its owner once and in order, before it is acknowledged.
//! - After an owner thread is lost, no message is acknowledged any more.
//! - A message that cannot be decoded is rejected and counted, and later messages are still delivered. Sending the same
//!   message again would not make it decodable.
//!
//! This module does not depend on the meaning of messages.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_meta::Meta;
use firstseen_routing::{LinkEnd, LinkReceiver, NodeId, PeerMessage};
use firstseen_wire::WireError;
use firstseen_wire::limits::{HELLO_TIMEOUT, INFLIGHT_FRAMES_MAX};
use firstseen_wire::peer::{self, LinkEnds};
use firstseen_wire::proto::peer::peer_server::Peer;
use firstseen_wire::proto::peer::{LinkAck, LinkFrame, SampleReply, SampleRequest, link_frame};
use firstseen_wire::status::ErrorKind;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::authenticated_caller::AuthenticatedCaller;
use crate::clock::Clock;
use crate::group_key::GroupKey;
use crate::metrics::{LinkMeter, LinkRefusal, Metrics, Scrapes};
use crate::owner::{Owners, Work};
use crate::roles::Caller;
use crate::view::{View, Views};

/// Maximum time that a received message waits until this node has received a newer cluster map. The wait is necessary
/// if the sender has received a new map earlier than this node. The message may then refer to a filter that this node
/// does not know yet, or to a newer epoch of a filter, which is a newer placement of its slices.
const MAP_MAX: Duration = Duration::from_millis(300);

/// The Peer service, which accepts links from other nodes.
pub(crate) struct PeerService {
    pub(crate) meta: Meta,
    pub(crate) views: Views,
    pub(crate) context: ReceiverContext,
    /// Cancelled when links must end.
    pub(crate) stopping: CancellationToken,
    pub(crate) receivers: Receivers,
    /// Source of the status samples of this node.
    pub(crate) samples: Scrapes<SampleReply>,
}

/// Services of the node that the receivers of messages use.
#[derive(Clone)]
pub(crate) struct ReceiverContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) owners: Arc<Owners>,
}

/// Queues to the receivers of all peers.
#[derive(Default)]
pub(crate) struct Receivers(Mutex<BTreeMap<NodeId, mpsc::Sender<Input>>>);

/// Input of the receiver of one peer.
enum Input {
    /// A stream begins.
    Begin { ends: LinkEnds, begun: oneshot::Sender<Begun> },
    /// A frame of a stream arrived.
    Frame { stream: u64, number: u64, content: Content },
    /// A stream has ended.
    End { stream: u64 },
}

/// Content of a frame.
enum Content {
    /// A message.
    Message(PeerMessage),
    /// A keepalive, or a message about a filter that no longer exists.
    Nothing,
    /// A message that cannot be decoded. The second field contains the part that is needed to reject the message.
    Refused(LinkRefusal, Option<PeerMessage>),
}

/// A stream that has begun.
struct Begun {
    stream: u64,
    /// Number of the last frame that was processed. Initially this number comes from earlier streams.
    acks: watch::Receiver<u64>,
}

impl PeerService {
    /// Returns the queue to the receiver of a peer's messages. If there is no receiver, this method starts one.
    fn receiver(&self, peer: NodeId) -> mpsc::Sender<Input> {
        let mut receivers = self.receivers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let inputs = receivers.entry(peer).or_insert_with(|| {
            let (inputs, queue) = mpsc::channel(INFLIGHT_FRAMES_MAX as usize);
            let receiver = Receiver { peer, context: self.context.clone(), link: None, stream: None, streams: 0 };
            tokio::spawn(receiver.run(queue));
            inputs
        });
        inputs.clone()
    }

    /// Returns the error for a link whose receiver has ended.
    fn receiver_gone(&self) -> Status {
        match self.context.owners.loss().reason() {
            Some(lost) => ErrorKind::Unavailable.status(lost),
            None => ErrorKind::Unavailable.status("a newer process of the node already has a link"),
        }
    }
}

#[tonic::async_trait]
impl Peer for PeerService {
    type LinkStream = Pin<Box<dyn Stream<Item = Result<LinkAck, Status>> + Send>>;

    async fn sample(&self, request: Request<SampleRequest>) -> Result<Response<SampleReply>, Status> {
        AuthenticatedCaller::of(&request)?;
        let sample = self.samples.newest().await.map_err(|error| ErrorKind::Unavailable.status(error))?;
        Ok(Response::new(sample))
    }

    async fn link(&self, request: Request<Streaming<LinkFrame>>) -> Result<Response<Self::LinkStream>, Status> {
        let guest = AuthenticatedCaller::of(&request)?;
        let mut frames = request.into_inner();
        let hello = hello(&mut frames).await?;
        let peer = check(&self.views.newest(), &hello, guest.caller())?;
        // If the disk of a node hangs, the other nodes continue without this node. The node cannot learn that from the
        // consensus, so it refuses links on its own.
        let mut hangs = self.meta.disk_hangs();
        if *hangs.borrow() {
            return Err(ErrorKind::Unavailable.status("the disk of this node's consensus log hangs"));
        }
        let inputs = self.receiver(peer);
        let (begun, answer) = oneshot::channel();
        inputs.send(Input::Begin { ends: hello, begun }).await.map_err(|_| self.receiver_gone())?;
        let Begun { stream, acks } = answer.await.map_err(|_| self.receiver_gone())?;
        let handled = *acks.borrow();
        let stopping = self.stopping.clone();
        let views = self.views.clone();
        let metrics = self.context.metrics.clone();
        tokio::spawn(async move {
            let name = views.borrow().map.nodes.get(&peer).map_or_else(String::new, |record| record.name.clone());
            let meter = metrics.link(&name);
            let mut reader = FrameReader { peer, views, meter, has_warned: false };
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                _ = hangs.wait_for(|hangs| *hangs) => {}
                () = reader.read(stream, handled, frames, &inputs) => {}
            }
            let _ = inputs.send(Input::End { stream }).await;
        });
        let mut is_first = true;
        let clock = self.context.clock.clone();
        let acks = WatchStream::new(acks).map(move |number| {
            let resume = std::mem::take(&mut is_first);
            Ok(LinkAck { number, resume, wall_ms: clock.wall_ms(), takes_tests: resume })
        });
        Ok(Response::new(Box::pin(acks)))
    }
}

async fn hello(frames: &mut Streaming<LinkFrame>) -> Result<LinkEnds, Status> {
    let first = tokio::time::timeout(HELLO_TIMEOUT, frames.message()).await;
    let Some(first) = first.unwrap_or(Ok(None))? else {
        return Err(ErrorKind::Invalid.status("the first frame of a link must be its hello"));
    };
    peer::accept_hello(&first).map_err(|error| match error {
        WireError::Version { .. } => ErrorKind::NotNow.status(error),
        other => ErrorKind::Invalid.status(other),
    })
}

/// Checks whether a link may begin, and returns its peer.
fn check(view: &View, hello: &LinkEnds, caller: &Caller) -> Result<NodeId, Status> {
    let me = view.me.ok_or_else(|| ErrorKind::Unavailable.status("this node belongs to no cluster yet"))?;
    if hello.cluster != me.identity.cluster {
        let other = "the node belongs to another cluster: check its data_dir; if this cluster was recovered without \
                     it, remove its data, and let it join again";
        return Err(ErrorKind::Forbidden.status(other));
    }
    let peer = hello.from;
    let Some(node) = view.map.nodes.get(&peer) else {
        return Err(ErrorKind::Forbidden.status(format!("node {peer} is not a member of this cluster: let it join")));
    };
    caller.must_be_named(&node.name)?;
    if (hello.to, hello.to_incarnation) != (me.identity.node, me.incarnation) {
        return Err(ErrorKind::Unavailable
            .status("the link is intended for another process of this node: wait for the newest cluster map"));
    }
    match hello.from_incarnation.cmp(&node.incarnation) {
        std::cmp::Ordering::Equal => Ok(peer),
        std::cmp::Ordering::Less => Err(ErrorKind::NotNow.status("a newer process of the node has started")),
        std::cmp::Ordering::Greater => Err(ErrorKind::Unavailable.status("this node's map is behind: try again")),
    }
}

/// Reads the frames of one stream.
struct FrameReader {
    peer: NodeId,
    views: Views,
    meter: LinkMeter,
    /// Whether a warning about this stream has been logged.
    has_warned: bool,
}

impl FrameReader {
    /// Passes on the frames of `stream` until the stream ends. `last` is the number of the last frame that earlier
    /// streams delivered.
    async fn read(
        &mut self,
        stream: u64,
        mut last: u64,
        mut frames: Streaming<LinkFrame>,
        inputs: &mpsc::Sender<Input>,
    ) {
        let peer = self.peer;
        loop {
            let frame = match frames.message().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(status) => return tracing::debug!(%peer, %status, "a link is broken"),
            };
            self.meter.received(&frame);
            // A frame that could not be decoded has lost its number, but its position in the stream is known.
            let number = if frame == LinkFrame::default() { last.saturating_add(1) } else { frame.number };
            last = number;
            let content = match &frame.message {
                None if frame.number == 0 => {
                    self.warn(number, "it is not a frame");
                    Content::Refused(LinkRefusal::Unreadable, None)
                }
                None => {
                    self.warn(number, "a message of a kind that this version does not know");
                    Content::Refused(LinkRefusal::UnknownKind, None)
                }
                Some(link_frame::Message::Ping(_)) => Content::Nothing,
                Some(message) if !self.knows_map_of(message).await => {
                    // The message is not acknowledged, so the peer sends it again on the next stream.
                    return tracing::debug!(%peer, number, "a message needs a newer cluster map than this node has");
                }
                Some(message) => self.decode(message).unwrap_or_else(|error| {
                    self.warn(number, error);
                    Content::Refused(LinkRefusal::Unreadable, peer::refusable(message))
                }),
            };
            if inputs.send(Input::Frame { stream, number, content }).await.is_err() {
                return;
            }
        }
    }

    /// Logs a frame that cannot be decoded.
    fn warn(&mut self, number: u64, reason: impl std::fmt::Display) {
        let peer = self.peer;
        if std::mem::replace(&mut self.has_warned, true) {
            tracing::debug!(%peer, number, %reason, "a node sends messages that cannot be decoded")
        } else {
            tracing::warn!(
                %peer,
                number,
                %reason,
                "a node sends messages that cannot be decoded (logged once for each stream)"
            )
        };
    }

    /// Waits until the cluster map of this node is new enough to process a message, and returns `false` if no such map
    /// arrives in time. A map is new enough in two cases: it contains the message's filter in the epoch of the message
    /// or in a later one, or it shows that the filter has been dropped.
    async fn knows_map_of(&self, message: &link_frame::Message) -> bool {
        let Some(filter) = peer::filter_of(message) else { return true };
        let epoch = peer::epoch_awaited(message).unwrap_or_default();
        let mut views = self.views.clone();
        let known = views.wait_for(|view| {
            let is_behind = view.map.filters.get(&filter).is_some_and(|record| record.epoch < epoch);
            filter < view.map.next_filter && !is_behind
        });
        tokio::time::timeout(MAP_MAX, known).await.is_ok_and(|seen| seen.is_ok())
    }

    fn decode(&self, message: &link_frame::Message) -> Result<Content, WireError> {
        let filter = peer::filter_of(message).ok_or(WireError::Missing { field: "filter_id" })?;
        let shapes = self.views.borrow().shapes(filter);
        let Some((range, probes)) = shapes else { return Ok(Content::Nothing) };
        peer::decode(message, range, probes).map(Content::Message)
    }
}

/// The receiver that puts the messages of one peer into order.
struct Receiver {
    peer: NodeId,
    context: ReceiverContext,
    link: Option<LinkReceiver>,
    /// The newest stream, with the sender of the number of the last processed frame.
    stream: Option<(u64, watch::Sender<u64>)>,
    streams: u64,
}

impl Receiver {
    async fn run(mut self, mut queue: mpsc::Receiver<Input>) {
        while let Some(input) = queue.recv().await {
            match input {
                Input::Begin { ends, begun } => self.begin(&ends, begun),
                Input::Frame { stream, number, content } => {
                    if !self.frame(stream, number, content).await {
                        return;
                    }
                }
                Input::End { stream } => drop(self.stream.take_if(|(newest, _)| *newest == stream)),
            }
        }
    }

    fn begin(&mut self, ends: &LinkEnds, begun: oneshot::Sender<Begun>) {
        let from = LinkEnd { node: ends.from, incarnation: ends.from_incarnation };
        let to = LinkEnd { node: ends.to, incarnation: ends.to_incarnation };
        let known = self.link.as_ref().map(|link| link.ends().from.incarnation);
        if known.is_some_and(|newest| newest > from.incarnation) {
            return;
        }
        // The link belongs to earlier processes if one of the two nodes has restarted.
        self.link.take_if(|link| (link.ends().from, link.ends().to) != (from, to));
        let link = self.link.get_or_insert_with(|| LinkReceiver::new(firstseen_routing::LinkEnds { from, to }));
        let handled = link.handled();
        self.streams += 1;
        let (sender, acks) = watch::channel(handled);
        self.stream = Some((self.streams, sender));
        let _ = begun.send(Begun { stream: self.streams, acks });
    }

    /// Processes a frame that was received on a link. A frame contains a message, which is passed to the owner thread
    /// that it is intended for. Returns `false` if this owner thread has panicked and therefore cannot receive the
    /// message.
    ///
    /// If the result is `false`, the caller must not acknowledge any further message on this link. An acknowledgement
    /// states how many messages the link has processed, and this number already includes the lost message. With the
    /// next acknowledgement, the peer would therefore believe that the lost message had arrived, and would not send it
    /// again.
    async fn frame(&mut self, stream: u64, number: u64, content: Content) -> bool {
        let Some((_, acks)) = self.stream.as_ref().filter(|(newest, _)| *newest == stream) else { return true };
        let Some(link) = &mut self.link else { return true };
        match link.accept(number) {
            Ok(is_new) => {
                if is_new && !self.context.hand_over(link.ends(), content).await {
                    return false;
                }
                acks.send_replace(link.handled());
            }
            Err(error) => {
                tracing::error!(
                    peer = %self.peer,
                    number,
                    %error,
                    "a message is missing on a link, which is therefore opened again"
                );
                self.stream = None;
            }
        }
        true
    }
}

impl ReceiverContext {
    /// Passes a message or its rejection to the owner. Returns `false` if the owner is lost.
    async fn hand_over(&self, ends: firstseen_routing::LinkEnds, content: Content) -> bool {
        let sender = ends.from.node;
        let (key, work) = match content {
            Content::Message(message) => {
                let received_ms = self.clock.monotonic_ms();
                (GroupKey::of(&message), Work::Peer { from: sender, message, received_ms })
            }
            Content::Refused(refusal, refusable) => {
                self.metrics.link_refused(refusal);
                // A message without a slice group cannot be rejected. The sender that waits for a reply stops waiting
                // at its deadline.
                let Some(message) = refusable else { return true };
                (GroupKey::of(&message), Work::Refused { sender, receiver: ends.to.node, message })
            }
            Content::Nothing => return true,
        };
        self.owners.of(key).hand(work).await
    }
}
