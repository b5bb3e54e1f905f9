//! Tests that a node with certificates rejects callers without the required role.

use crate::common::certs::{Authority, channel, settings};
use crate::common::{RawStream, TestNode, request_to_create};
use firstseen_filter::{FilterSpec, Kind, Window};
use firstseen_routing::SlicedDefinition;
use firstseen_wire::net::{self, Channel};
use firstseen_wire::proto::meta::RaftMessage;
use firstseen_wire::proto::producer::{Batch, Reason};
use firstseen_wire::proto::{admin, peer, producer};
use firstseen_wire::tls::TlsFiles;
use tonic::Code;

/// Returns the status codes that a caller receives from the four services, in the order admin, producer, peer, meta.
async fn codes(channel: Channel) -> [Code; 4] {
    let admin = net::admin_client(channel.clone()).identify(admin::IdentifyRequest {}).await;
    let describe = producer::DescribeFilterRequest { name: "none".to_owned() };
    let producer = net::producer_client(channel.clone()).describe_filter(describe).await;
    let peer = net::peer_client(channel.clone()).link(tokio_stream::empty::<peer::LinkFrame>()).await;
    let meta = net::meta_client(channel).vote(RaftMessage::default()).await;
    let code = |status: Option<tonic::Status>| status.map_or(Code::Ok, |status| status.code());
    [code(admin.err()), code(producer.err()), code(peer.err()), code(meta.err())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_service_asks_for_its_role() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = authority.node("a");
    let node = TestNode::start_with("a", |config| config.tls = Some(settings(&own))).await;
    let client = authority.sign("client", &["client.firstseen"]);
    let operator = authority.sign("admin", &["admin.firstseen"]);
    let init = net::admin_client(channel(&node, &own)).init(admin::InitRequest {}).await;
    assert_eq!(init.expect_err("a node is no operator").code(), Code::PermissionDenied);
    let drop = admin::DropFilterRequest { name: "none".to_owned(), ..admin::DropFilterRequest::default() };
    let dropped = net::admin_client(channel(&node, &own)).drop_filter(drop).await;
    assert_eq!(dropped.expect_err("a node is no operator").code(), Code::PermissionDenied);
    net::admin_client(channel(&node, &operator)).init(admin::InitRequest {}).await.expect("an operator may");
    let nobody = authority.sign("nobody", &["nobody.firstseen"]);
    use Code::{InvalidArgument as Malformed, NotFound, Ok, PermissionDenied as Denied};
    assert_eq!(codes(channel(&node, &client)).await, [Denied, NotFound, Denied, Denied]);
    assert_eq!(codes(channel(&node, &operator)).await, [Ok, NotFound, Denied, Denied]);
    assert_eq!(codes(channel(&node, &nobody)).await, [Denied; 4]);
    assert_eq!(codes(channel(&node, &own)).await, [Ok, NotFound, Malformed, Malformed]);
}

/// Tests that no producer can pretend to be a level of a filter tree, because levels are trusted more than producers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_node_may_send_events_of_another_level() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = authority.node("a");
    let node = TestNode::start_with("a", |config| config.tls = Some(settings(&own))).await;
    let operator = channel(&node, &authority.sign("admin", &["admin.firstseen"]));
    net::admin_client(operator.clone()).init(admin::InitRequest {}).await.expect("an operator may");
    let spec = FilterSpec { capacity_events: Some(1_000), ..FilterSpec::new(Kind::Bloom, Window::Unbounded) };
    let definition = SlicedDefinition::new(&spec, "none".parse().expect("a slicing")).expect("a definition");
    let created = net::admin_client(operator).create_filter(request_to_create("clicks", &definition)).await;
    let filter = created.expect("a filter").into_inner().filter.expect("the filter");
    let refusal = async |files: &TlsFiles| {
        let (mut stream, credit) = RawStream::greeted_over(channel(&node, files), 1).await;
        let batch = Batch {
            sequence: 1,
            filter_id: filter.id,
            filter_epoch: filter.epoch,
            incarnation: credit.incarnation.0,
            operation: producer::Operation::Observe.into(),
            events: 1,
            from_filter: filter.id + 1,
            ..Batch::default()
        };
        let reply = stream.ask(batch).await;
        (reply.refused(), reply.detail)
    };
    let client = authority.sign("client", &["client.firstseen"]);
    let (reason, detail) = refusal(&client).await;
    assert!(reason == Reason::Invalid && detail.contains("from_filter"), "{reason:?}: {detail}");
    // A node may do so, if such a level exists.
    let (reason, detail) = refusal(&own).await;
    assert!(reason == Reason::NotReady && detail.contains("as a level of filter"), "{reason:?}: {detail}");
}
