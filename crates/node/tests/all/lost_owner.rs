//! Tests a node in which an owner thread panics. The node must report the loss of the thread and ask to be restarted.
//! Messages from other nodes that the lost thread has not received must not be acknowledged, because their senders
//! would then not send them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Hashing, PATIENCE, RawStream, TestNode};
use firstseen_node::{Clock, SystemClock};
use firstseen_routing::{Decision, Epoch, FilterId, MonotonicMs, NodeId, PeerBody, PeerMessage, Reason, SetAcks};
use firstseen_wire::net::peer_client;
use firstseen_wire::peer::{self, LinkEnds};
use firstseen_wire::proto::peer::{LinkAck, LinkFrame};
use firstseen_wire::reply;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The system clock, which panics on the named thread when the test demands it.
struct DeadlyClock {
    clock: SystemClock,
    thread: &'static str,
    is_deadly: AtomicBool,
}

impl DeadlyClock {
    fn to(thread: &'static str) -> Arc<Self> {
        Arc::new(Self { clock: SystemClock::new(), thread, is_deadly: AtomicBool::new(false) })
    }

    fn strike(&self) {
        self.is_deadly.store(true, Ordering::Relaxed);
    }
}

impl Clock for DeadlyClock {
    fn monotonic_ms(&self) -> MonotonicMs {
        let is_here = || std::thread::current().name() == Some(self.thread);
        assert!(!self.is_deadly.load(Ordering::Relaxed) || !is_here(), "a panic that the test provokes");
        self.clock.monotonic_ms()
    }

    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }
}

async fn in_time<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited too long: {what}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_lost_an_owner_says_so() {
    // There are two owners, and the second one has the only group of filter 1.
    let clock = DeadlyClock::to("a-owner-1");
    let node = TestNode::start_by("a", clock.clone()).await;
    node.init().await;
    assert_eq!(node.create("clicks", "none").await, FilterId(1));
    node.ready().await;
    let hashing = Hashing::of(&node, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&node, 1).await;
    assert_eq!(hashing.observe(&mut stream, 1, &["a"]).await, [Decision::FirstSeen]);
    assert!(node.node.is_alive());
    assert_eq!(node.get("/healthz").await, (200, "ok\n".to_owned()));
    let request = HealthCheckRequest { service: String::new() };
    let mut health = HealthClient::new(node.channel()).watch(request).await.expect("health").into_inner();

    clock.strike();
    // A scrape still succeeds, without the part of the lost owner.
    assert_eq!(node.get("/metrics").await.0, 200);
    let failure = in_time("the failure", node.node.failure()).await.to_string();
    assert!(failure.contains("`a-owner-1`") && failure.contains("start the node again"), "{failure}");
    assert!(!node.node.is_alive());
    for path in ["/healthz", "/readyz"] {
        assert_eq!(node.get(path).await, (503, format!("{failure}\n")), "{path}");
    }
    let not_serving = async {
        while let Some(answer) = health.message().await.expect("health") {
            if answer.status() == ServingStatus::NotServing {
                return true;
            }
        }
        false
    };
    assert!(in_time("not serving", not_serving).await);
    let answer = stream.ask(hashing.batch(2, &["a", "b"])).await;
    let answers = reply::decode(&answer, 2).expect("answers").answers;
    assert_eq!(answers.decisions(), [Decision::Undecided(Reason::NotReady); 2]);
    in_time("the end", node.node.shutdown()).await;
}

/// A link on which the test sends messages in the name of a member that has stopped.
struct RawLink {
    frames: mpsc::Sender<LinkFrame>,
    acks: Streaming<LinkAck>,
}

impl RawLink {
    async fn open(node: &TestNode, ends: &LinkEnds) -> Result<Self, Status> {
        let (frames, outbound) = mpsc::channel(8);
        frames.send(peer::hello(ends)).await.expect("room");
        let acks = peer_client(node.channel()).link(ReceiverStream::new(outbound)).await?.into_inner();
        Ok(Self { frames, acks })
    }

    async fn send(&self, number: u64, filter: FilterId) {
        let body = PeerBody::SetAcks(SetAcks::default());
        let message = peer::encode(&PeerMessage { filter, epoch: Epoch::FIRST, group: 0, body }, 1).expect("a message");
        // Sending fails if the node has already closed the stream.
        let _ = self.frames.send(LinkFrame { number, message: Some(message) }).await;
    }

    /// Returns the last acknowledgement before the node closes the stream.
    async fn last_ack(mut self) -> u64 {
        let mut last = 0;
        while let Ok(Some(ack)) = self.acks.message().await {
            last = ack.number;
        }
        last
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_a_lost_owner_did_not_take_is_never_acknowledged() {
    let clock = DeadlyClock::to("a-owner-1");
    let of_a = clock.clone();
    let a = TestNode::start_changed("a", TestNode::without_pings, |edges| edges.clock = of_a).await;
    let b = TestNode::start_without_pings("b").await;
    a.init().await;
    assert_eq!(a.join(&b).await, 2);
    let filter = a.create("clicks", "vertical:2").await;
    assert_eq!(filter, FilterId(1));
    a.ready().await;
    let map = a.map().await;
    b.node.shutdown().await;
    let ends = LinkEnds {
        cluster: map.cluster,
        from: NodeId(2),
        from_incarnation: map.nodes[&NodeId(2)].incarnation,
        to: NodeId(1),
        to_incarnation: map.nodes[&NodeId(1)].incarnation,
    };
    let mut link = RawLink::open(&a, &ends).await.expect("a link");
    let first = in_time("the first acknowledgement", link.acks.message()).await.expect("a stream").expect("an ack");
    assert_eq!((first.number, first.resume), (0, true));
    link.send(1, filter).await;
    let taken = in_time("an acknowledgement", link.acks.message()).await.expect("a stream").expect("an ack");
    assert_eq!(taken.number, 1, "a message that its owner takes is acknowledged");

    clock.strike();
    // The owner panics at this message. The message waits in its queue, so it may be acknowledged: the link belongs to
    // the process and ends with it.
    link.send(2, filter).await;
    in_time("the failure", a.node.failure()).await;
    link.send(3, filter).await;
    assert!(in_time("the end of the stream", link.last_ack()).await < 3);
    let refused = in_time("an answer", RawLink::open(&a, &ends)).await.err().expect("no link any more");
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(refused.message().contains("`a-owner-1`"), "{refused}");
}
