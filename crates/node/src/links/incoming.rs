//! The receiving end of links.
//!
//! Promises: of each peer only the living process is heard, on its newest stream; a message is handed to its owner
//! once, in order, before it is acknowledged; once an owner is gone, nothing is acknowledged again. A message that
//! cannot be read is refused and counted, and the messages after it are handed over: sending it again would not make it
//! readable. Must not know: what messages mean.

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

use crate::clock::Clock;
use crate::group_key::GroupKey;
use crate::guest::Guest;
use crate::metrics::{LinkMeter, LinkRefusal, Metrics, Scrapes};
use crate::owner::{Owners, Work};
use crate::roles::Caller;
use crate::view::{View, Views};

/// How long a message waits for a map that this node does not have yet: one with its filter, or of its filter's epoch.
const MAP_MAX: Duration = Duration::from_millis(300);

/// The Peer service.
pub(crate) struct PeerService {
    pub(crate) meta: Meta,
    pub(crate) views: Views,
    pub(crate) context: ReceiverContext,
    /// Cancelled when links end.
    pub(crate) stopping: CancellationToken,
    pub(crate) receivers: Receivers,
    /// How this node fares.
    pub(crate) samples: Scrapes<SampleReply>,
}

/// What the receivers of messages work with.
#[derive(Clone)]
pub(crate) struct ReceiverContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) owners: Arc<Owners>,
}

/// The queues to the receivers of all peers.
#[derive(Default)]
pub(crate) struct Receivers(Mutex<BTreeMap<NodeId, mpsc::Sender<Input>>>);

/// An input of the receiver of one peer.
enum Input {
    /// A stream begins.
    Begin { ends: LinkEnds, begun: oneshot::Sender<Begun> },
    /// A frame of a stream.
    Frame { stream: u64, number: u64, content: Content },
    /// A stream has ended.
    End { stream: u64 },
}

/// What a frame holds.
enum Content {
    /// A message.
    Message(PeerMessage),
    /// A sign of life, or a message of a filter that is gone.
    Nothing,
    /// A message that cannot be read, with the part by which it can be refused.
    Refused(LinkRefusal, Option<PeerMessage>),
}

/// A stream that has begun.
struct Begun {
    stream: u64,
    /// The last number that was handled; at first that of earlier streams.
    acks: watch::Receiver<u64>,
}

impl PeerService {
    /// Returns the queue to the receiver of a peer's messages, and starts the receiver if there is none.
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

    /// Error for a link whose receiver has ended.
    fn receiver_gone(&self) -> Status {
        match self.context.owners.loss().reason() {
            Some(lost) => ErrorKind::Unavailable.status(lost),
            None => ErrorKind::Unavailable.status("a newer process of the node has a link already"),
        }
    }
}

#[tonic::async_trait]
impl Peer for PeerService {
    type LinkStream = Pin<Box<dyn Stream<Item = Result<LinkAck, Status>> + Send>>;

    async fn sample(&self, request: Request<SampleRequest>) -> Result<Response<SampleReply>, Status> {
        Guest::of(&request)?;
        let sample = self.samples.newest().await.map_err(|error| ErrorKind::Unavailable.status(error))?;
        Ok(Response::new(sample))
    }

    async fn link(&self, request: Request<Streaming<LinkFrame>>) -> Result<Response<Self::LinkStream>, Status> {
        let guest = Guest::of(&request)?;
        let mut frames = request.into_inner();
        let hello = hello(&mut frames).await?;
        let peer = check(&self.views.newest(), &hello, guest.caller())?;
        // The others go on without a node whose disk hangs, and it does not learn that from the agreement.
        let mut hangs = self.meta.disk_hangs();
        if *hangs.borrow() {
            return Err(ErrorKind::Unavailable.status("the disk of what this node has agreed on hangs"));
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

/// Whether a link may begin; returns its peer.
fn check(view: &View, hello: &LinkEnds, caller: &Caller) -> Result<NodeId, Status> {
    let me = view.me.ok_or_else(|| ErrorKind::Unavailable.status("this node belongs to no cluster yet"))?;
    if hello.cluster != me.identity.cluster {
        let other = "the node belongs to another cluster: check its data_dir; where this cluster was recovered without it, \
                     remove its data, and let it join anew";
        return Err(ErrorKind::Forbidden.status(other));
    }
    let peer = hello.from;
    let Some(node) = view.map.nodes.get(&peer) else {
        return Err(ErrorKind::Forbidden.status(format!("node {peer} is not a member of this cluster: let it join")));
    };
    caller.must_be_named(&node.name)?;
    if (hello.to, hello.to_incarnation) != (me.identity.node, me.incarnation) {
        return Err(ErrorKind::Unavailable.status("the link is meant for another process: wait for the newest map"));
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
    /// The log has a warning about the stream.
    has_warned: bool,
}

impl FrameReader {
    /// Passes the frames of `stream` on until it ends. They follow frame `last`, which was handled before.
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
            // A frame that was no protobuf has lost its number, but not its place.
            let number = if frame == LinkFrame::default() { last.saturating_add(1) } else { frame.number };
            last = number;
            let content = match &frame.message {
                None if frame.number == 0 => {
                    self.warn(number, "it is no frame");
                    Content::Refused(LinkRefusal::Unreadable, None)
                }
                None => {
                    self.warn(number, "a message of a kind that this version does not know");
                    Content::Refused(LinkRefusal::UnknownKind, None)
                }
                Some(link_frame::Message::Ping(_)) => Content::Nothing,
                Some(message) if !self.knows_map_of(message).await => {
                    // The message is not acknowledged, and so is sent again on the next stream.
                    return tracing::debug!(%peer, number, "a message by a map that has not come here");
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

    /// Logs a frame that cannot be read.
    fn warn(&mut self, number: u64, reason: impl std::fmt::Display) {
        let peer = self.peer;
        if std::mem::replace(&mut self.has_warned, true) {
            tracing::debug!(%peer, number, %reason, "a node sends what cannot be read")
        } else {
            tracing::warn!(%peer, number, %reason, "a node sends what cannot be read (warned once a stream)")
        };
    }

    /// Waits for a map that has the filter of a message, or had it, and is not older than the one that the message is
    /// by; false where none comes.
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

/// The one place where the messages of a peer are put in order.
struct Receiver {
    peer: NodeId,
    context: ReceiverContext,
    link: Option<LinkReceiver>,
    /// The newest stream, with the sender of the number that was handled.
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
        // Either of the two may have begun anew.
        self.link.take_if(|link| (link.ends().from, link.ends().to) != (from, to));
        let link = self.link.get_or_insert_with(|| LinkReceiver::new(firstseen_routing::LinkEnds { from, to }));
        let handled = link.handled();
        self.streams += 1;
        let (sender, acks) = watch::channel(handled);
        self.stream = Some((self.streams, sender));
        let _ = begun.send(Begun { stream: self.streams, acks });
    }

    /// False where its owner is lost: the link has counted the message as handled, so the peer must not hear of this
    /// link again, on no stream.
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
                tracing::error!(peer = %self.peer, number, %error, "a link has a hole and begins anew");
                self.stream = None;
            }
        }
        true
    }
}

impl ReceiverContext {
    /// Hands a message to its owner, or its refusal; false where the owner is lost.
    async fn hand_over(&self, ends: firstseen_routing::LinkEnds, content: Content) -> bool {
        let sender = ends.from.node;
        let (key, work) = match content {
            Content::Message(message) => {
                let received_ms = self.clock.monotonic_ms();
                (GroupKey::of(&message), Work::Peer { from: sender, message, received_ms })
            }
            Content::Refused(refusal, refusable) => {
                self.metrics.link_refused(refusal);
                // A message without a group cannot be refused to anyone. The sender, which waits for an answer, gives
                // up in time.
                let Some(message) = refusable else { return true };
                (GroupKey::of(&message), Work::Refused { sender, receiver: ends.to.node, message })
            }
            Content::Nothing => return true,
        };
        self.owners.of(key).hand(work).await
    }
}
