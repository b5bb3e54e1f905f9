//! Tests that a node with a certificate can send messages only in its own name, and no longer after it has left the
//! cluster.

use crate::common::certs::{Authority, channel, settings};
use crate::common::{TestNode, wait_for};
use firstseen_node::{Edges, NodeConfig};
use firstseen_routing::{ClusterMap, NodeId};
use firstseen_wire::limits::PROTOCOL_VERSION;
use firstseen_wire::net::{Channel, admin_client, meta_client, peer_client};
use firstseen_wire::proto::admin;
use firstseen_wire::proto::meta::{Proposal, RaftMessage};
use firstseen_wire::proto::peer::{LinkFrame, LinkHello, link_frame};
use firstseen_wire::tls::TlsFiles;
use tokio_stream::StreamExt;
use tonic::{Code, Status};

/// Two members with certificates, and the operator's certificate.
struct Pair {
    a: TestNode,
    b: TestNode,
    authority: Authority,
    b_files: TlsFiles,
    admin: TlsFiles,
    _folder: tempfile::TempDir,
}

async fn member(authority: &Authority, name: &str) -> (TestNode, TlsFiles) {
    let files = authority.node(name);
    let node = TestNode::start_with(name, |config| config.tls = Some(settings(&files))).await;
    (node, files)
}

async fn join(through: &TestNode, admin: &TlsFiles, node: &TestNode) -> Result<u64, Status> {
    let request = admin::JoinRequest { command_id: Vec::new().into(), address: node.node.addr().to_owned() };
    Ok(admin_client(channel(through, admin)).join(request).await?.into_inner().node_id)
}

async fn pair() -> Pair {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let admin = authority.sign("admin", &["admin.firstseen"]);
    let (a, _) = member(&authority, "a").await;
    let (b, b_files) = member(&authority, "b").await;
    admin_client(channel(&a, &admin)).init(admin::InitRequest {}).await.expect("init");
    assert_eq!(join(&a, &admin, &b).await.expect("b joins"), 2);
    a.ready().await;
    b.ready().await;
    Pair { a, b, authority, b_files, admin, _folder: folder }
}

fn map_of(node: &TestNode) -> ClusterMap {
    node.node.meta().map().borrow().as_ref().clone()
}

/// Returns a node's reply to a hello message in the name of member `from`.
async fn hello(channel: Channel, map: &ClusterMap, from: u64) -> Result<(), Status> {
    let to = if from == 1 { 2 } else { 1 };
    let hello = LinkHello {
        protocol_version: PROTOCOL_VERSION,
        from_node: from,
        from_incarnation: map.nodes.get(&NodeId(from)).map_or(1, |node| node.incarnation.0),
        to_node: to,
        to_incarnation: map.nodes[&NodeId(to)].incarnation.0,
        cluster_id: map.cluster.0.to_vec().into(),
        protocol_version_max: 0,
    };
    let first = LinkFrame { number: 0, message: Some(link_frame::Message::Hello(hello)) };
    // The stream stays open, as for a real link.
    let frames = tokio_stream::once(first).chain(tokio_stream::pending());
    peer_client(channel).link(frames).await.map(drop)
}

/// Sends a vote request and a proposal to a node in the name of the member `from`, and returns the status codes of the
/// two replies. The messages have contents that cannot be decoded. A node that accepts the sender therefore replies
/// that the message is malformed, and a node that rejects the sender replies with a different code.
async fn meta(channel: Channel, map: &ClusterMap, from: u64, to: u64) -> [Code; 2] {
    let cluster_id = map.cluster.0.to_vec();
    let message = RaftMessage {
        cluster_id: cluster_id.clone().into(),
        from_node: from,
        to_node: to,
        payload: vec![9].into(),
        ..RaftMessage::default()
    };
    let proposal = Proposal { cluster_id: cluster_id.into(), command: vec![9].into(), from_node: from };
    let mut client = meta_client(channel);
    let asked = client.append_entries(message).await.expect_err("it cannot be read").code();
    [asked, client.propose(proposal).await.expect_err("it cannot be read").code()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_can_send_only_in_its_own_name() {
    let Pair { a, b, authority, b_files, admin, _folder } = pair().await;
    let map = map_of(&a);
    let to_a = channel(&a, &b_files);
    assert_eq!(meta(to_a.clone(), &map, 2, 1).await, [Code::InvalidArgument; 2], "b as b");
    hello(to_a, &map, 2).await.expect("b as b");

    // Node c is a third member. Node b sends it messages in the name of node a.
    let (c, c_files) = member(&authority, "c").await;
    assert_eq!(join(&a, &admin, &c).await.expect("c joins"), 3);
    c.ready().await;
    let map = map_of(&c);
    assert_eq!(meta(channel(&c, &b_files), &map, 1, 3).await, [Code::PermissionDenied; 2], "b as a");
    let refused = hello(channel(&b, &c_files), &map, 1).await.expect_err("c as a");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("`a.node.firstseen`"), "{refused}");
    // The message names a node that is not in the cluster map. The receiver has a leader, so its map cannot lack a new
    // node.
    assert_eq!(meta(channel(&c, &b_files), &map, 77, 3).await, [Code::PermissionDenied; 2], "b as nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_left_cannot_propose() {
    let Pair { a, b, b_files, admin, _folder, .. } = pair().await;
    let leave = admin::LeaveRequest { command_id: Vec::new().into(), node_id: 2 };
    admin_client(channel(&a, &admin)).leave(leave).await.expect("b leaves");
    let says_so = || b.node.not_ready().is_some_and(|reason| reason.contains("has left its cluster for good"));
    wait_for("b knows that it has left", says_so).await;
    let map = map_of(&a);
    assert!(!map.nodes.contains_key(&NodeId(2)));
    assert_eq!(meta(channel(&a, &b_files), &map, 2, 1).await, [Code::PermissionDenied; 2], "as itself");
    assert_eq!(meta(channel(&a, &b_files), &map, 3, 1).await, [Code::PermissionDenied; 2], "as the next");
    drop(b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_starts_under_anothers_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Authority::new(folder.path()).node("d");
    let any = "127.0.0.1:0".parse().expect("an address");
    let config = NodeConfig { tls: Some(settings(&files)), ..NodeConfig::new("c", any, folder.path()) };
    let refused = Edges::of_machine(&config).await.err().expect("its certificate is d's").to_string();
    assert!(refused.contains("is not that of node `c`") && refused.contains("c.node.firstseen"), "{refused}");
}
