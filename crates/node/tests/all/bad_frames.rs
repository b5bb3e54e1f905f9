//! Tests that messages between nodes that cannot be decoded are rejected and counted, and that later messages still
//! arrive.

use std::time::Duration;

use crate::common::{PATIENCE, TestNode};
use firstseen_filter::GenerationNumber;
use firstseen_node::{Clock, SystemClock};
use firstseen_routing::{Epoch, FilterId, GroupPlan, NodeId, PeerBody, PeerMessage, PositionLists, Reason, SetBatch};
use firstseen_wire::net::{self, peer_server};
use firstseen_wire::peer::{self, LinkEnds};
use firstseen_wire::proto::peer::peer_server::Peer;
use firstseen_wire::proto::peer::{
    LinkAck, LinkFrame, SampleReply, SampleRequest, SetBatch as SetMessage, TestBatch as TestMessage, link_frame,
};
use firstseen_wire::ticks::pack_tickets;
use http::uri::PathAndQuery;
use prost::Message;
use prost::bytes::BufMut;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstDecoder;

/// A codec that sends arbitrary bytes.
struct RawCodec;

struct RawEncoder;

impl Codec for RawCodec {
    type Encode = Vec<u8>;
    type Decode = LinkAck;
    type Encoder = RawEncoder;
    type Decoder = ProstDecoder<LinkAck>;

    fn encoder(&mut self) -> Self::Encoder {
        RawEncoder
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

impl Encoder for RawEncoder {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put_slice(&bytes);
        Ok(())
    }
}

/// A cluster member that the test simulates. It acknowledges and stores every message.
struct Played {
    frames: mpsc::Sender<LinkFrame>,
}

#[tonic::async_trait]
impl Peer for Played {
    type LinkStream = ReceiverStream<Result<LinkAck, Status>>;

    async fn sample(&self, _: Request<SampleRequest>) -> Result<Response<SampleReply>, Status> {
        Err(Status::unimplemented("nobody looks"))
    }

    async fn link(&self, request: Request<Streaming<LinkFrame>>) -> Result<Response<Self::LinkStream>, Status> {
        let (acks, outbound) = mpsc::channel(8);
        let (mut incoming, frames) = (request.into_inner(), self.frames.clone());
        tokio::spawn(async move {
            while let Ok(Some(frame)) = incoming.message().await {
                let is_hello = matches!(frame.message, Some(link_frame::Message::Hello(_)));
                let is_sign = is_hello || matches!(frame.message, Some(link_frame::Message::Ping(_)));
                let (number, wall_ms) = (frame.number, SystemClock::new().wall_ms());
                let ack = LinkAck { number, resume: is_hello, wall_ms, takes_tests: is_hello };
                if acks.send(Ok(ack)).await.is_err() || !is_sign && frames.send(frame).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(outbound)))
    }
}

async fn in_time<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited too long: {what}"))
}

/// Node a, which is real, and the link of node b, which the test simulates.
struct Pair {
    a: TestNode,
    ends: LinkEnds,
    filter: FilterId,
    epoch: Epoch,
    /// A position in a slice of node a, and the exclusive upper bound of positions.
    position: u64,
    range: u64,
    /// The shape of the events' positions.
    shape: firstseen_filter::ProbeShape,
    /// The messages from node a to node b.
    from_a: mpsc::Receiver<LinkFrame>,
}

impl Pair {
    async fn start() -> Self {
        let (a, b) = (TestNode::start_without_pings("a").await, TestNode::start_without_pings("b").await);
        a.init().await;
        assert_eq!(a.join(&b).await, 2);
        let filter = a.create("clicks", "vertical:2").await;
        a.ready().await;
        let map = a.map().await;
        b.node.shutdown().await;
        let listener = TcpListener::bind(&map.nodes[&NodeId(2)].address).await.expect("the port of b is free again");
        let (frames, from_a) = mpsc::channel(8);
        let server = net::server_builder().add_service(peer_server(Played { frames }));
        tokio::spawn(server.serve_with_incoming(net::incoming(listener)));
        let record = &map.filters[&filter];
        let plan = GroupPlan::new(&record.definition).expect("a definition").expect("divided cells");
        let slice = record.owners.iter().position(|owner| owner.node == NodeId(1)).expect("a has a slice");
        let ends = LinkEnds {
            cluster: map.cluster,
            from: NodeId(2),
            from_incarnation: map.nodes[&NodeId(2)].incarnation,
            to: NodeId(1),
            to_incarnation: map.nodes[&NodeId(1)].incarnation,
        };
        let (position, range) = (slice as u64 * plan.slice_cells(), plan.group_cells());
        Self { a, ends, filter, epoch: record.epoch, position, range, shape: plan.shape(), from_a }
    }

    /// Opens a stream of b's link. Returns the stream and the number of the last frame that node a has processed.
    async fn open(&self) -> (mpsc::Sender<Vec<u8>>, Streaming<LinkAck>, u64) {
        let (frames, outbound) = mpsc::channel(8);
        frames.send(peer::hello(&self.ends).encode_to_vec()).await.expect("room");
        let mut peer = Grpc::new(self.a.channel());
        peer.ready().await.expect("a connection");
        let path = PathAndQuery::from_static("/firstseen.peer.v1.Peer/Link");
        let link = peer.streaming(Request::new(ReceiverStream::new(outbound)), path, RawCodec).await;
        let mut acks = link.expect("a link").into_inner();
        let first = acks.message().await.expect("a stream").expect("an acknowledgement");
        (frames, acks, first.number)
    }

    /// Creates a set message that node a can execute.
    fn good_set(&self, set_number: u64) -> link_frame::Message {
        let mut cells = PositionLists::default();
        cells.push([self.position]);
        let set = SetBatch { set_number, generation: GenerationNumber::FIRST, cells, stamps: vec![Default::default()] };
        let message = PeerMessage { filter: self.filter, epoch: self.epoch, group: 0, body: PeerBody::Set(set) };
        peer::encode(&message, self.range).expect("a message")
    }

    /// Creates a set message with truncated positions.
    fn bad_set(&self, set_number: u64) -> link_frame::Message {
        link_frame::Message::Set(SetMessage { set_number, events: 3, ..set_message(self.good_set(0)) })
    }

    /// Creates a test message whose events have only tickets.
    fn bad_test(&self, tickets: &[u64]) -> link_frame::Message {
        link_frame::Message::Test(TestMessage {
            filter_id: self.filter.0,
            filter_epoch: self.epoch.0,
            events: tickets.len() as u32,
            tickets: pack_tickets(tickets).into(),
            head_node: 2,
            deadline_ms: 60_000,
            ..TestMessage::default()
        })
    }

    /// Returns the next message that node a sends.
    async fn answer(&mut self) -> PeerBody {
        let frame = in_time("an answer", self.from_a.recv()).await.expect("the played node runs");
        peer::decode(&frame.message.expect("a message"), self.range, self.shape)
            .expect("a message that can be read")
            .body
    }
}

fn set_message(message: link_frame::Message) -> SetMessage {
    match message {
        link_frame::Message::Set(set) => set,
        other => panic!("{other:?}"),
    }
}

async fn acknowledged(acks: &mut Streaming<LinkAck>, number: u64) {
    let waiting = async {
        while acks.message().await.expect("the stream goes on").expect("the stream goes on").number < number {}
    };
    in_time("an acknowledgement", waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_messages_are_refused_and_those_after_them_are_handled() {
    let mut pair = Pair::start().await;
    let (frames, mut acks, handled) = pair.open().await;
    assert_eq!(handled, 0);
    let send = async |number: u64, message: Option<link_frame::Message>| {
        frames.send(LinkFrame { number, message }.encode_to_vec()).await.expect("the stream goes on");
    };
    send(1, Some(pair.bad_set(71))).await;
    let PeerBody::SetAcks(answer) = pair.answer().await else { panic!("not the answer to a set") };
    assert_eq!((answer.set_numbers, answer.refused_numbers), (vec![], vec![71]));
    send(2, Some(pair.bad_test(&[5, 9]))).await;
    let PeerBody::Resolved(answer) = pair.answer().await else { panic!("not the answer to a test") };
    assert_eq!(answer.tickets, [5, 9]);
    assert_eq!(answer.undecided, [(0, Reason::Invalid), (1, Reason::Invalid)]);
    // The first message is of an unknown kind. The second one has truncated tickets, so that no head node can receive a
    // reply.
    send(3, None).await;
    let link_frame::Message::Test(mut nameless) = pair.bad_test(&[1, 2]) else { panic!("a test") };
    nameless.tickets.truncate(1);
    send(4, Some(link_frame::Message::Test(nameless))).await;
    // Frame 5 is not a protobuf message at all. The next message is truncated.
    frames.send(vec![0xff; 100]).await.expect("the stream goes on");
    let mut cut = LinkFrame { number: 6, message: Some(pair.good_set(74)) }.encode_to_vec();
    cut.pop();
    frames.send(cut).await.expect("the stream goes on");
    send(7, Some(pair.good_set(75))).await;
    let PeerBody::SetAcks(answer) = pair.answer().await else { panic!("not the answer to a set") };
    assert_eq!((answer.set_numbers, answer.refused_numbers), (vec![75], vec![]));
    acknowledged(&mut acks, 7).await;

    // A rejected message counts as processed: it is not requested again. If it is sent again nevertheless, it is not
    // rejected a second time.
    drop((frames, acks));
    let (frames, mut acks, handled) = pair.open().await;
    assert_eq!(handled, 7);
    for (number, message) in [(1, pair.bad_set(71)), (8, pair.good_set(76))] {
        let frame = LinkFrame { number, message: Some(message) };
        frames.send(frame.encode_to_vec()).await.expect("the stream goes on");
    }
    acknowledged(&mut acks, 8).await;
    let PeerBody::SetAcks(answer) = pair.answer().await else { panic!("not the answer to a set") };
    assert_eq!((answer.set_numbers, answer.refused_numbers), (vec![76], vec![]));
    let refused = "firstseen_link_messages_refused_total{reason=";
    assert_eq!(pair.a.metric(&format!("{refused}\"unreadable\"}}")).await, 5.0);
    assert_eq!(pair.a.metric(&format!("{refused}\"unknown_kind\"}}")).await, 1.0);
    // None of these messages delays the shutdown.
    tokio::time::timeout(Duration::from_secs(30), pair.a.node.shutdown()).await.expect("it ends");
}
