//! Tests the access rights of every call on nodes with certificates.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_client::{Client, ConnectOptions, FilterError};
use firstseen_node::AuditSettings;
use firstseen_routing::FilterVerb;
use firstseen_wire::net::{self, Channel};
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::proto::admin::{self, Rights, Verb};
use firstseen_wire::proto::producer::{self, Batch, Operation, Reason};
use firstseen_wire::tls::TlsFiles;
use tonic::Code;

use crate::common::calls::{calls, is_denied};
use crate::common::certs::{Authority, channel, settings};
use crate::common::operator::{change, create};
use crate::common::{RawStream, TestNode, wait_for};

fn right(verb: Verb, filters: &str) -> admin::Grant {
    admin::Grant { verb: verb.into(), filters: filters.to_owned() }
}

async fn grant(operator: &Channel, principal: &str, grants: Vec<admin::Grant>) {
    change(operator, Change::Grant(Rights { principal: principal.to_owned(), grants })).await.expect("rights");
}

/// Returns the client calls that each right permits. A call that is missing here is reserved for nodes or for holders
/// of `admin.firstseen`.
fn allowed() -> BTreeMap<Verb, Vec<&'static str>> {
    const SEEN: [&str; 4] = ["Admin/Identify", "Admin/Status", "Producer/WatchMap", "Producer/DescribeFilter"];
    const INSPECT: &str = "Admin/InspectFilter";
    const MANAGE: [&str; 11] = [
        "Admin/CreateFilter",
        "Admin/DropFilter",
        "Admin/AddPlace",
        "Admin/RemovePlace",
        "Admin/ForgiveFilter",
        "Admin/AlterFilter",
        "Admin/FinishAlteration",
        "Admin/ReadCells",
        "Admin/RestoreFilter",
        "Admin/WriteCells",
        "Admin/FinishRestore",
    ];
    const OPERATE: [&str; 9] = [
        "Admin/Join",
        "Admin/Adopt",
        "Admin/Leave",
        "Admin/HoldFormat",
        "Admin/RaiseFormat",
        "Admin/PlanMoves",
        "Admin/MoveSlices",
        "Admin/CancelMoves",
        INSPECT,
    ];
    let seen = |more: &[&'static str]| SEEN.iter().chain(more).copied().collect::<Vec<_>>();
    BTreeMap::from([
        (Verb::Describe, seen(&[INSPECT])),
        (Verb::Lookup, seen(&[INSPECT, "Producer/Observe"])),
        (Verb::Observe, seen(&[INSPECT, "Producer/Observe"])),
        (Verb::Manage, seen(&[&[INSPECT][..], &MANAGE].concat())),
        (Verb::View, seen(&[INSPECT])),
        (Verb::Operate, seen(&OPERATE)),
        (Verb::Security, vec!["Admin/ListAccess", "Admin/ChangeAccess"]),
    ])
}

/// Starts a node with certificates. Returns the node, the channel of its operator, and the certificate authority.
async fn secured(folder: &std::path::Path) -> (TestNode, Channel, Authority) {
    let authority = Authority::new(folder);
    let own = settings(&authority.node("a"));
    let audit = AuditSettings { file: folder.join("audit.jsonl") };
    let node = TestNode::start_with("a", |config| {
        config.tls = Some(own);
        config.audit = Some(audit);
    })
    .await;
    let operator = channel(&node, &authority.sign("admin", &["admin.firstseen"]));
    net::admin_client(operator.clone()).init(admin::InitRequest {}).await.expect("a cluster");
    (node, operator, authority)
}

fn client(authority: &Authority, name: &str) -> TlsFiles {
    authority.sign(name, &["client.firstseen", &format!("{name}.client.firstseen")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_is_good_for_its_calls_and_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, operator, authority) = secured(folder.path()).await;
    let calls = calls();
    let verbs = allowed();
    assert_eq!(verbs.len(), 7, "every verb has its row");
    // Rights are tested on a filter with an empty name, which an empty message refers to, on all filters, and on
    // another filter.
    let mut principals = Vec::new();
    for verb in verbs.keys().copied() {
        let name = verb.as_str_name().to_ascii_lowercase().replace('_', "-");
        let is_on_filters = FilterVerb::ALL.len() as i32 >= verb.into();
        let names = if is_on_filters { ("*", Some("another")) } else { ("", None) };
        grant(&operator, &name, vec![right(verb, names.0)]).await;
        principals.push((name.clone(), Some(verb)));
        if let Some(other) = names.1 {
            grant(&operator, &format!("{name}-else"), vec![right(verb, other)]).await;
            principals.push((format!("{name}-else"), None));
        }
    }
    grant(&operator, "nothing", Vec::new()).await;
    principals.extend([("nothing".to_owned(), None), ("unknown".to_owned(), None)]);
    change(&operator, Change::Enable(true)).await.expect("somebody has security");
    for (name, verb) in &principals {
        let to = channel(&node, &client(&authority, name));
        for path in &calls {
            let call = path.rsplit_once('.').expect("a package").1;
            // A call whose reply contains only what the caller may see does not name a filter.
            let is_for_any = |call: &str| {
                ["Admin/Identify", "Admin/Status", "Producer/WatchMap", "Producer/Observe"].contains(&call)
            };
            let expected = match verb {
                Some(verb) => verbs[verb].contains(&call),
                None if name.ends_with("-else") => {
                    let granted = verbs
                        .iter()
                        .find(|(verb, _)| name.starts_with(&verb.as_str_name().to_ascii_lowercase().replace('_', "-")));
                    is_for_any(call) && granted.is_some_and(|(_, calls)| calls.contains(&call))
                }
                None => false,
            };
            assert_eq!(!is_denied(to.clone(), path).await, expected, "{name}: {path}");
        }
    }
    // The holder of an operator's certificate may make all calls of clients. The holder of a certificate without a name
    // may make none.
    let nameless = channel(&node, &authority.sign("nameless", &["client.firstseen"]));
    for path in &calls {
        let is_of_nodes = path.contains("Peer/") || path.contains("Meta/");
        assert_eq!(is_denied(operator.clone(), path).await, is_of_nodes, "{path}");
        assert!(is_denied(nameless.clone(), path).await, "{path}");
    }
    let audit = folder.path().join("audit.jsonl");
    let lines = || std::fs::read_to_string(&audit).expect("an audit file");
    wait_for("a line about a denial", || lines().contains(r#""event":"denied","who":"verb-"#)).await;
}

/// Creates a batch with one event.
fn batch(filter: &producer::Filter, sequence: u64, operation: Operation, incarnation: u64) -> Batch {
    let has_ttl = matches!(operation, Operation::ObserveFor | Operation::ConfirmFor);
    Batch {
        ttl_ms: if has_ttl { 60_000 } else { 0 },
        sequence,
        filter_id: filter.id,
        filter_epoch: filter.epoch,
        incarnation,
        operation: operation.into(),
        events: 1,
        ..Batch::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_needs_its_right_and_a_revoked_one_is_over_with_the_next_map() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, operator, authority) = secured(folder.path()).await;
    let filter = create(&operator, "clicks").await;
    let other = create(&operator, "others").await;
    for (name, verb) in [("observer", Verb::Observe), ("looker", Verb::Lookup)] {
        grant(&operator, name, vec![right(verb, "clicks")]).await;
    }
    grant(&operator, "keeper", vec![right(Verb::Security, "")]).await;
    change(&operator, Change::Enable(true)).await.expect("somebody has security");
    let operations: Vec<Operation> = (1..).map_while(|value| Operation::try_from(value).ok()).collect();
    assert_eq!(operations.len(), 11, "an operation was added: say below who may ask for it");
    for (name, may) in
        [("observer", operations.clone()), ("looker", vec![Operation::Lookup, Operation::Estimate, Operation::Verify])]
    {
        let (mut stream, credit) = RawStream::greeted_over(channel(&node, &client(&authority, name)), 1).await;
        for (sequence, operation) in (1..).zip(&operations) {
            let reply = stream.ask(batch(&filter, sequence, *operation, credit.incarnation.0)).await;
            let is_refused = reply.refused() == Reason::Forbidden;
            assert_eq!(!is_refused, may.contains(operation), "{name} {operation:?}: {}", reply.detail);
        }
        let reply = stream.ask(batch(&other, 99, Operation::Lookup, credit.incarnation.0)).await;
        assert!(reply.refused() == Reason::Forbidden && !reply.detail.contains("others"), "{}", reply.detail);
        // The client does not learn the epoch of the filter either.
        let stale = Batch { filter_epoch: 0, ..batch(&other, 98, Operation::Lookup, credit.incarnation.0) };
        let reply = stream.ask(stale).await;
        assert!(reply.refused() == Reason::Forbidden && !reply.detail.contains("epoch"), "{}", reply.detail);
        // When a right is revoked, open streams lose it with the cluster map that contains the change.
        change(&operator, Change::Revoke(Rights { principal: name.to_owned(), grants: vec![] })).await.expect("gone");
        let reply = stream.ask(batch(&filter, 100, Operation::Lookup, credit.incarnation.0)).await;
        assert_eq!(reply.refused(), Reason::Forbidden, "{name}: {}", reply.detail);
        assert!(reply.detail.contains(name), "{}", reply.detail);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_sees_its_filters_and_secrets_only_to_hash_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, operator, authority) = secured(folder.path()).await;
    create(&operator, "clicks").await;
    create(&operator, "views").await;
    grant(&operator, "crawler", vec![right(Verb::Observe, "clicks"), right(Verb::Describe, "views")]).await;
    grant(&operator, "viewer", vec![right(Verb::View, ""), right(Verb::Lookup, "clicks")]).await;
    grant(&operator, "keeper", vec![right(Verb::Security, "")]).await;
    grant(&operator, "tenant", vec![right(Verb::Manage, "shop-*")]).await;
    change(&operator, Change::Enable(true)).await.expect("somebody has security");
    let seen = async |name: &str| {
        let to = channel(&node, &client(&authority, name));
        let status = net::admin_client(to).status(admin::StatusRequest::default()).await.expect("status");
        let filters = status.into_inner().map.expect("a map").filters;
        filters.into_iter().map(|filter| filter.name).collect::<Vec<_>>()
    };
    assert_eq!(seen("crawler").await, ["clicks", "views"]);
    assert_eq!(seen("viewer").await, ["clicks", "views"]);
    assert_eq!(seen("tenant").await, [""; 0]);
    let secret = async |name: &str, filter: &str| {
        let mut to = net::producer_client(channel(&node, &client(&authority, name)));
        let described = to.describe_filter(producer::DescribeFilterRequest { name: filter.to_owned() }).await;
        described.map(|reply| !reply.into_inner().secret.is_empty()).map_err(|status| status.code())
    };
    assert_eq!(secret("crawler", "clicks").await, Ok(true));
    assert_eq!(secret("crawler", "views").await, Ok(false), "who describes a filter learns no secret");
    assert_eq!(secret("viewer", "views").await, Ok(false));
    assert_eq!(secret("viewer", "clicks").await, Ok(true));
    assert_eq!(secret("tenant", "clicks").await, Err(Code::PermissionDenied));
    assert_eq!(secret("tenant", "absent").await, Err(Code::PermissionDenied), "it does not learn which there are");
    assert_eq!(secret("tenant", "shop-absent").await, Err(Code::NotFound));
    // Without the secret, the client would hash events under a different secret, and record other events than it was
    // given.
    let tls = Some(client(&authority, "crawler").client().expect("a certificate"));
    let crawler = ConnectOptions {
        connector: Some(Arc::new(net::TcpConnector { tls, token: None })),
        ..ConnectOptions::from([node.node.addr()])
    };
    let crawler = Client::connect(crawler).await.expect("a client");
    crawler.filter("clicks").await.expect("it may hash for it");
    let refused = crawler.filter("views").await.map(drop).expect_err("it may not");
    assert!(matches!(&refused, FilterError::Refused { reason, .. } if reason.contains("`lookup`")), "{refused}");
    // A tenant can create filters with its own name prefix.
    let tenant = channel(&node, &client(&authority, "tenant"));
    create(&tenant, "shop-clicks").await;
    assert_eq!(seen("tenant").await, ["shop-clicks"]);
    assert_eq!(secret("tenant", "shop-clicks").await, Ok(true));
    let drop = admin::DropFilterRequest { name: "clicks".to_owned(), ..Default::default() };
    let denied = net::admin_client(tenant).drop_filter(drop).await.expect_err("not its own");
    assert!(denied.code() == Code::PermissionDenied && denied.message().contains("--filter clicks --allow manage"));
}

/// A node's certificate remains valid after the node has left the cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_no_member_reads_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, operator, authority) = secured(folder.path()).await;
    create(&operator, "clicks").await;
    let gone = channel(&node, &authority.node("gone"));
    let describe = producer::DescribeFilterRequest { name: "clicks".to_owned() };
    let described = net::producer_client(gone.clone()).describe_filter(describe.clone()).await;
    assert!(described.expect_err("no member").message().contains("not a member of the cluster"));
    let watched = net::producer_client(gone).watch_map(producer::WatchMapRequest::default()).await;
    assert!(watched.expect_err("no member").message().contains("not a member of the cluster"));
    let own = channel(&node, &authority.node("a"));
    net::producer_client(own).describe_filter(describe).await.expect("a member");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_take_certificates() {
    let node = TestNode::start_with("a", |_| {}).await;
    node.init().await;
    let operator = node.channel();
    grant(&operator, "keeper", vec![right(Verb::Security, "")]).await;
    let refused = change(&operator, Change::Enable(true)).await.expect_err("no certificates");
    assert!(refused.code() == Code::FailedPrecondition && refused.message().contains("[tls]"), "{refused}");
    let wrong = right(Verb::View, "clicks");
    let refused = change(&operator, Change::Grant(Rights { principal: "a".to_owned(), grants: vec![wrong] })).await;
    assert_eq!(refused.expect_err("view is on the cluster").code(), Code::InvalidArgument);
}
