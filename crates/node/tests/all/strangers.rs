//! Tests that clients that only open connections cannot lock out nodes or operators.
//!
//! In the first scenario, node c is stopped, and clients open more connections to the nodes a and b than these nodes
//! have slots. The clients answer pings but make no further calls. When c starts again, it must still be able to rejoin
//! its cluster, and operators must receive replies on new connections. The scenario runs with and without certificates.
//!
//! In the second scenario, many clients connect to a node but do not finish their handshakes, or do not even begin
//! them. The next client that finishes its handshake must be accepted at once.

use std::sync::Arc;
use std::time::Duration;

use crate::common::certs::{Authority, channel, settings};
use crate::common::{PATIENCE, TestNode, unfinished};
use firstseen_wire::net::{Channel, admin_client, producer_client};
use firstseen_wire::proto::admin::{InitRequest, JoinRequest, StatusReply, StatusRequest};
use firstseen_wire::proto::producer::DescribeFilterRequest;
use firstseen_wire::tls::TlsFiles;
use tokio::net::TcpStream;
use tonic::Code;

/// Number of connection slots at each node. It is enough for the connections of three nodes.
const PLACES: u32 = 48;

async fn init(operator: &Channel) {
    admin_client(operator.clone()).init(InitRequest {}).await.expect("init");
}

async fn join(operator: &Channel, node: &TestNode) {
    let request = JoinRequest { command_id: vec![].into(), address: node.node.addr().to_owned() };
    admin_client(operator.clone()).join(request).await.expect("join");
    node.ready().await;
}

async fn status(operator: Channel) -> StatusReply {
    let asking = async move { admin_client(operator).status(StatusRequest::default()).await };
    let reply = tokio::time::timeout(PATIENCE, asking).await.expect("in time");
    reply.expect("an operator is answered").into_inner()
}

/// Opens twice as many connections as a node has slots. Each connection makes one call and afterwards only answers
/// pings. The connections stay open until the caller drops the returned channels.
async fn idle(connect: impl Fn() -> Channel) -> Vec<Channel> {
    let mut held = Vec::new();
    for _ in 0..2 * PLACES {
        let channel = connect();
        let request = DescribeFilterRequest { name: "none".to_owned() };
        let _ = tokio::time::timeout(Duration::from_secs(5), producer_client(channel.clone()).describe_filter(request))
            .await;
        held.push(channel);
    }
    held
}

/// Waits until `nodes` see each other as up and reachable.
async fn together(nodes: [&TestNode; 3], operator: impl Fn(&TestNode) -> Channel) {
    for node in nodes {
        node.ready().await;
        let waiting = async {
            loop {
                let reply = status(operator(node)).await;
                let members = reply.map.map_or(0, |map| map.nodes.iter().filter(|node| !node.down).count());
                if members == 3 && reply.unreachable.is_empty() {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("all three find each other");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_producers_lock_neither_nodes_nor_operators_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let start = async |name: &str| {
        let own = authority.node(name);
        TestNode::start_with(name, |config| {
            config.tls = Some(settings(&own));
            config.limits.connections_max = PLACES;
        })
        .await
    };
    let [a, b, c] = [start("a").await, start("b").await, start("c").await];
    let operator = authority.sign("admin", &["admin.firstseen"]);
    let first = channel(&a, &operator);
    init(&first).await;
    join(&first, &b).await;
    join(&first, &c).await;
    drop(first);

    let producer: TlsFiles = authority.sign("client", &["client.firstseen"]);
    let c = c.stop().await;
    let held = [idle(|| channel(&a, &producer)).await, idle(|| channel(&b, &producer)).await];
    let c = c.start().await;
    together([&a, &b, &c], |node| channel(node, &operator)).await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_certificates_places_are_kept_by_the_first_call() {
    let start = async |name: &str| TestNode::start_with(name, |config| config.limits.connections_max = PLACES).await;
    let [a, b, c] = [start("a").await, start("b").await, start("c").await];
    a.init().await;
    a.join(&b).await;
    a.join(&c).await;
    let c = c.stop().await;
    let held = [idle(|| a.channel()).await, idle(|| b.channel()).await];
    let c = c.start().await;
    together([&a, &b, &c], TestNode::channel).await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_do_not_end_their_handshake_lock_no_others_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = authority.node("a");
    let operator = authority.sign("admin", &["admin.firstseen"]);
    let secure = TestNode::start_with("a", |config| {
        config.tls = Some(settings(&own));
        config.limits.connections_max = PLACES;
    });
    let plain = TestNode::start_with("b", |config| config.limits.connections_max = PLACES);
    let (secure, plain) = (secure.await, plain.await);
    for (node, connect) in [(&secure, channel(&secure, &operator)), (&plain, plain.channel())] {
        let mut held = Vec::new();
        for _ in 0..4 * PLACES {
            held.push(TcpStream::connect(node.node.addr()).await.expect("a connection"));
        }
        // The client behind these connections is accepted at its first attempt.
        status(connect).await;
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_block_neither_health_nor_metrics() {
    let node = TestNode::start_with("a", |_| {}).await;
    let address = node.node.http_addr().expect("http");
    let mut held = Vec::new();
    for _ in 0..128 {
        held.push(TcpStream::connect(address).await.expect("a connection"));
    }
    assert_eq!(node.get("/healthz").await.0, 200);
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbidden_call_is_refused_before_its_message_has_arrived() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = authority.node("a");
    let node = TestNode::start_with("a", |config| config.tls = Some(settings(&own))).await;
    let producer = authority.sign("client", &["client.firstseen"]);
    for path in ["/firstseen.admin.v1.Admin/WriteCells", "/firstseen.meta.v1.Meta/Vote", "/firstseen.peer.v1.Peer/Link"]
    {
        let call = unfinished::call(channel(&node, &producer), path, (1 << 20, 1 << 10), Arc::default());
        let code = tokio::time::timeout(PATIENCE, call).await.expect("an answer, though the message never comes");
        assert_eq!(code, Code::PermissionDenied, "{path}");
    }
    // The producer's own calls may send as much as they need.
    let call = unfinished::call(
        channel(&node, &producer),
        "/firstseen.producer.v1.Producer/DescribeFilter",
        (1 << 20, 0),
        Arc::default(),
    );
    let code = tokio::time::timeout(PATIENCE, call).await.expect("an answer");
    assert_eq!(code, Code::InvalidArgument);
}
