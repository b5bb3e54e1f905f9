//! Tests of connections that only occupy slots. Their number is limited, and so is their time.

use std::io;

use crate::common::{PATIENCE, TestNode};
use firstseen_wire::net::{Channel, admin_client, producer_client};
use firstseen_wire::proto::admin::StatusRequest;
use firstseen_wire::proto::producer::WatchMapRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};

async fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address).await.expect("a connection")
}

/// Waits until the node closes `stream`, and ignores bytes that arrive before.
async fn closed(stream: &mut TcpStream) {
    let reading = async {
        let mut bytes = [0; 1024];
        loop {
            match stream.read(&mut bytes).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the node closes it");
}

/// Waits until the node has accepted `stream`, which is the case when it sends its first bytes.
async fn accepted(stream: &mut TcpStream) {
    let mut frame = [0; 9];
    let reading = stream.read_exact(&mut frame);
    tokio::time::timeout(PATIENCE, reading).await.expect("in time").expect("the settings of the node");
}

/// Makes a call on a separate connection, and keeps the connection open.
async fn asked(node: &TestNode) -> Result<Channel, Status> {
    let channel = node.channel();
    admin_client(channel.clone()).status(StatusRequest::default()).await.map(|_| channel)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_beyond_the_limit_is_closed_and_the_others_work() {
    let node = TestNode::start_with("a", |config| config.limits.connections_max = 3).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(asked(&node).await.expect("it works"));
    }
    assert_eq!(node.metric("firstseen_connections_open{listener=\"nodes\"}").await, 3.0);
    assert_eq!(node.metric("firstseen_connections_refused_total{listener=\"nodes\"}").await, 0.0);
    asked(&node).await.expect_err("nobody has been idle for long");
    assert_eq!(node.metric("firstseen_connections_refused_total{listener=\"nodes\"}").await, 1.0);
    for channel in &open {
        admin_client(channel.clone()).status(StatusRequest::default()).await.expect("it still works");
    }

    // The slot becomes free when its connection is closed.
    drop(open.pop());
    node.metric_becomes("firstseen_connections_open{listener=\"nodes\"}", 2.0).await;
    asked(&node).await.expect("it works");
    admin_client(open[0].clone()).status(StatusRequest::default()).await.expect("it still works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_connections_without_a_call_the_oldest_is_closed() {
    let node = TestNode::start_with("a", |config| config.limits.handshakes_max = 2).await;
    let channel = asked(&node).await.expect("it works");
    let mut silent = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(node.node.addr()).await;
        accepted(&mut stream).await;
        silent.push(stream);
    }
    closed(&mut silent[0]).await;
    node.metric_becomes("firstseen_connections_open{listener=\"nodes\"}", 3.0).await;
    assert_eq!(node.metric("firstseen_connections_closed_total{listener=\"nodes\"}").await, 1.0);
    admin_client(channel).status(StatusRequest::default()).await.expect("it still works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_of_the_map_than_allowed_are_refused() {
    let node = TestNode::start_with("a", |config| config.limits.watches_max = 2).await;
    node.init().await;
    let watch = async || producer_client(node.channel()).watch_map(WatchMapRequest { known_version: 0 }).await;
    let open = [watch().await.expect("a stream"), watch().await.expect("a stream")];
    assert_eq!(watch().await.expect_err("one too many").code(), Code::ResourceExhausted);
    drop(open);
    node.metric_becomes("firstseen_watches_open", 0.0).await;
    watch().await.expect("a stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_says_nothing_is_closed() {
    let node = TestNode::start_with("a", |_| {}).await;
    let address = node.node.http_addr().expect("http").to_string();
    let mut silent = [connect(node.node.addr()).await, connect(node.node.addr()).await, connect(&address).await];
    // The client slowly sends the beginning of another protocol.
    silent[1].write_all(b"P").await.expect("sent");
    for stream in &mut silent {
        closed(stream).await;
    }
    assert_eq!(node.metric("firstseen_connections_refused_total{listener=\"nodes\"}").await, 0.0);
}
