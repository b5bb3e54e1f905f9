//! Tests of networks that vouch for the identity of a connection's peer. Such an identity can remove rights, but never
//! add any.

use std::pin::Pin;

use firstseen_node::{Edges, Incoming, Vouched};
use firstseen_wire::net::{self, Channel};
use firstseen_wire::proto::admin;
use firstseen_wire::tls::PeerRoles;
use tokio_stream::StreamExt;
use tonic::Code;

use crate::common::TestNode;
use crate::common::certs::{Authority, channel, settings};

const CLIENT: PeerRoles = PeerRoles { node: false, client: true, admin: false };
const OPERATOR: PeerRoles = PeerRoles { node: false, client: true, admin: true };

/// Makes the network vouch for every client with the given roles.
fn vouch(edges: &mut Edges, roles: PeerRoles) {
    let none: Incoming = Box::pin(tokio_stream::empty());
    let incoming = std::mem::replace(&mut edges.incoming, none);
    let vouched = Vouched { roles, principal: Some("crawler".to_owned()) };
    let vouched = move |connection: firstseen_node::Connection| connection.vouched_for(Some(vouched.clone()));
    edges.incoming = Pin::from(Box::new(incoming.map(move |accepted| accepted.map(&vouched))));
}

/// Returns the result of a call that only operators may make.
async fn init(to: Channel) -> Result<(), Code> {
    let answer = net::admin_client(to).init(admin::InitRequest {}).await;
    answer.map(drop).map_err(|status| status.code())
}

/// Returns the status code of a request to change access rights.
async fn enable(to: Channel) -> Code {
    let change = Some(admin::change_access_request::Change::Enable(true));
    let request = admin::ChangeAccessRequest { change, ..Default::default() };
    net::admin_client(to).change_access(request).await.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_certificates_it_takes_rights_away() {
    let node = TestNode::start_changed("a", |_| {}, |edges| vouch(edges, CLIENT)).await;
    assert_eq!(init(node.channel()).await, Err(Code::PermissionDenied));
    let node = TestNode::start_changed("a", |_| {}, |edges| vouch(edges, OPERATOR)).await;
    assert_eq!(init(node.channel()).await, Ok(()));
    // Without an identity from the network, the test `rights_take_certificates` expects the opposite.
    let keeper = admin::Grant { verb: admin::Verb::Security.into(), filters: String::new() };
    let rights = admin::Rights { principal: "keeper".to_owned(), grants: vec![keeper] };
    let change = Some(admin::change_access_request::Change::Grant(rights));
    let request = admin::ChangeAccessRequest { change, ..Default::default() };
    net::admin_client(node.channel()).change_access(request).await.expect("a keeper");
    assert_eq!(enable(node.channel()).await, Code::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_certificates_these_alone_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = settings(&authority.node("a"));
    let node = TestNode::start_changed("a", |config| config.tls = Some(own), |edges| vouch(edges, OPERATOR)).await;
    let client = channel(&node, &authority.sign("client", &["client.firstseen", "crawler.client.firstseen"]));
    assert_eq!(init(client).await, Err(Code::PermissionDenied));
    assert_eq!(init(channel(&node, &authority.sign("admin", &["admin.firstseen"]))).await, Ok(()));
}
