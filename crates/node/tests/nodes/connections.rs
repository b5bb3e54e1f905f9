//! Connections that only take places: no more of them than allowed, and not for long.

use std::io;

use crate::common::{PATIENCE, TestNode};
use firstseen_wire::net::admin_client;
use firstseen_wire::proto::admin::{InitRequest, StatusRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address).await.expect("a connection")
}

/// Waits until the node closes `stream`, whatever it says before.
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

/// Waits until the node has accepted `stream`: it speaks first.
async fn accepted(stream: &mut TcpStream) {
    let mut frame = [0; 9];
    let reading = stream.read_exact(&mut frame);
    tokio::time::timeout(PATIENCE, reading).await.expect("in time").expect("the settings of the node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_beyond_the_limit_is_closed_and_the_others_work() {
    let node = TestNode::start_with("a", |config| config.limits.connections_max = 3).await;
    // One connection for all that the test asks.
    let channel = node.channel();
    admin_client(channel.clone()).init(InitRequest {}).await.expect("init");
    let mut silent = [connect(node.node.addr()).await, connect(node.node.addr()).await];
    for stream in &mut silent {
        accepted(stream).await;
    }
    assert_eq!(node.metric("firstseen_connections_open{listener=\"nodes\"}").await, 3.0);
    for _ in 0..2 {
        closed(&mut connect(node.node.addr()).await).await;
    }
    assert_eq!(node.metric("firstseen_connections_refused_total{listener=\"nodes\"}").await, 2.0);
    admin_client(channel.clone()).status(StatusRequest::default()).await.expect("it still works");

    // Their places are free again when they go.
    drop(silent);
    node.metric_becomes("firstseen_connections_open{listener=\"nodes\"}", 1.0).await;
    accepted(&mut connect(node.node.addr()).await).await;
    admin_client(channel).status(StatusRequest::default()).await.expect("it still works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_says_nothing_is_closed() {
    let node = TestNode::start_with("a", |_| {}).await;
    let address = node.node.http_addr().expect("http").to_string();
    let mut silent = [connect(node.node.addr()).await, connect(node.node.addr()).await, connect(&address).await];
    // As one that speaks another protocol, slowly.
    silent[1].write_all(b"P").await.expect("sent");
    for stream in &mut silent {
        closed(stream).await;
    }
    assert_eq!(node.metric("firstseen_connections_refused_total{listener=\"nodes\"}").await, 0.0);
}
