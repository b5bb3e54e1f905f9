//! Table of the role or right that each call requires, and of the limits on its messages.
//!
//! # Guarantees
//! - Every call of this project's services requires a role. Calls of producers and operators also require a right, if
//!   access control is enabled.
//! - A new call that has no entry in the table may only send small messages, and only operators or nodes may make it.
//!
//! This module does not depend on connections or on what the calls do.

use std::time::Duration;

use firstseen_routing::ClusterVerb::{self, Operate, Security};
use firstseen_routing::FilterVerb::{self, Describe, Lookup, Manage};
use firstseen_wire::limits::{
    DEFINING_MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_TIMEOUT, SMALL_MESSAGE_BYTES_MAX, SMALL_MESSAGE_TIMEOUT,
};
use firstseen_wire::proto::{admin, meta, peer, producer};

use crate::authenticated_caller::{Needs, Right};
use crate::roles::Role;
use crate::shares::Party;

/// Limits on the messages of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bulk {
    /// Maximum size of a message, in bytes.
    pub(super) message_bytes_max: u64,
    /// Whether the call is a stream of messages instead of a single message.
    pub(super) is_stream: bool,
    /// Maximum time that a client may take to send one message completely. On a stream, the time is measured for each
    /// message, from its first byte to its last byte. If a call consists of a single message, the time is measured from
    /// the beginning of the call.
    pub(super) patience: Duration,
}

/// The requirements and limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallRule {
    pub(super) needs: Needs,
    /// The kind of client that usually makes this call.
    pub(super) party: Party,
    pub(super) bulk: Bulk,
}

impl Bulk {
    /// Returns the maximum number of messages that a call may send.
    pub(super) const fn messages_max(self) -> u64 {
        if self.is_stream { u64::MAX } else { 1 }
    }

    const fn small(message_bytes_max: usize) -> Self {
        Self { message_bytes_max: message_bytes_max as u64, is_stream: false, patience: SMALL_MESSAGE_TIMEOUT }
    }

    const fn great(is_stream: bool) -> Self {
        Self { message_bytes_max: MESSAGE_BYTES_MAX as u64, is_stream, patience: MESSAGE_TIMEOUT }
    }
}

const SMALL: Bulk = Bulk::small(SMALL_MESSAGE_BYTES_MAX);
const DEFINING: Bulk = Bulk::small(DEFINING_MESSAGE_BYTES_MAX);

const fn by_role(role: Role) -> Needs {
    Needs { role, right: None }
}

const fn on_cluster(verb: ClusterVerb) -> Needs {
    Needs { role: Role::Operator, right: Some(Right::Cluster(verb)) }
}

const fn on_filter(role: Role, verb: FilterVerb) -> Needs {
    Needs { role, right: Some(Right::Filter(verb)) }
}

const fn on_some(role: Role, verb: FilterVerb) -> Needs {
    Needs { role, right: Some(Right::SomeFilter(verb)) }
}

/// Requirements and limits of the calls of operators.
const ADMIN: [(&str, Needs, Bulk); 25] = [
    ("Identify", on_some(Role::OperatorOrNode, Describe), SMALL),
    ("Init", by_role(Role::Operator), SMALL),
    ("Join", on_cluster(Operate), SMALL),
    ("Adopt", Needs { role: Role::OperatorOrNode, right: Some(Right::Cluster(Operate)) }, SMALL),
    ("Leave", on_cluster(Operate), SMALL),
    ("Status", on_some(Role::Operator, Describe), SMALL),
    ("HoldFormat", on_cluster(Operate), SMALL),
    ("RaiseFormat", on_cluster(Operate), SMALL),
    ("CreateFilter", on_filter(Role::Operator, Manage), DEFINING),
    ("DropFilter", on_filter(Role::Operator, Manage), SMALL),
    ("AddPlace", on_filter(Role::Operator, Manage), SMALL),
    ("RemovePlace", on_filter(Role::Operator, Manage), SMALL),
    ("ForgiveFilter", on_filter(Role::Operator, Manage), SMALL),
    ("AlterFilter", on_filter(Role::Operator, Manage), DEFINING),
    ("FinishAlteration", on_filter(Role::Operator, Manage), SMALL),
    ("PlanMoves", on_cluster(Operate), SMALL),
    ("MoveSlices", on_cluster(Operate), DEFINING),
    ("CancelMoves", on_cluster(Operate), SMALL),
    ("InspectFilter", on_filter(Role::Operator, Describe), SMALL),
    ("ReadCells", on_filter(Role::Operator, Manage), SMALL),
    ("RestoreFilter", on_filter(Role::Operator, Manage), Bulk::great(false)),
    ("WriteCells", on_filter(Role::Operator, Manage), Bulk::great(false)),
    ("FinishRestore", on_filter(Role::Operator, Manage), SMALL),
    ("ListAccess", on_cluster(Security), SMALL),
    ("ChangeAccess", on_cluster(Security), DEFINING),
];

/// Requirements and limits of the calls of producers. A batch also requires a right on its filter, which
/// `streams/rights.rs` checks.
const PRODUCER: [(&str, Needs, Bulk); 3] = [
    ("Observe", on_some(Role::Producer, Lookup), Bulk::great(true)),
    ("DescribeFilter", on_filter(Role::Producer, Describe), SMALL),
    ("WatchMap", on_some(Role::Producer, Describe), SMALL),
];

/// Returns the requirements and limits of the call with the path `/SERVICE/METHOD`.
pub(super) fn of(path: &str) -> CallRule {
    let (service, method) = path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
    let (needs, party, bulk) = match service {
        admin::admin_server::SERVICE_NAME => return in_table(&ADMIN, method, Party::Operators),
        producer::producer_server::SERVICE_NAME => return in_table(&PRODUCER, method, Party::Producers),
        peer::peer_server::SERVICE_NAME => (by_role(Role::Node), Party::Nodes, Bulk::great(method == "Link")),
        meta::meta_server::SERVICE_NAME => (by_role(Role::Node), Party::Agreement, Bulk::great(false)),
        // These are health checks, reflection, and calls that do not exist.
        _ => (by_role(Role::Any), Party::Producers, Bulk { is_stream: true, ..SMALL }),
    };
    CallRule { needs, party, bulk }
}

/// Returns the rule of a call from a table. A call without an entry may only send small messages, and only operators
/// may make it.
fn in_table(table: &[(&str, Needs, Bulk)], method: &str, party: Party) -> CallRule {
    match table.iter().find(|(name, ..)| *name == method) {
        Some((_, needs, bulk)) => CallRule { needs: *needs, party, bulk: *bulk },
        None => CallRule { needs: by_role(Role::Operator), party, bulk: SMALL },
    }
}

#[cfg(test)]
mod tests {
    use firstseen_wire::proto::FILE_DESCRIPTOR_SET;
    use prost::Message;

    use super::*;

    /// Returns the service name and the method name of every call of this project's services.
    fn calls() -> Vec<(String, String)> {
        let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
        let services = set.file.iter().flat_map(|file| {
            file.service.iter().map(move |service| (format!("{}.{}", file.package(), service.name()), service))
        });
        let calls = services.flat_map(|(name, service)| {
            service.method.iter().map(move |method| (name.clone(), method.name().to_owned())).collect::<Vec<_>>()
        });
        calls.collect()
    }

    #[test]
    fn every_call_has_its_row() {
        let calls = calls();
        assert!(calls.len() > 30, "{calls:?}");
        for (service, method) in &calls {
            let rows = match service.as_str() {
                admin::admin_server::SERVICE_NAME => ADMIN.iter().filter(|(name, ..)| name == method).count(),
                producer::producer_server::SERVICE_NAME => PRODUCER.iter().filter(|(name, ..)| name == method).count(),
                _ => {
                    assert_eq!(of(&format!("/{service}/{method}")).needs, by_role(Role::Node), "{service}/{method}");
                    1
                }
            };
            assert_eq!(rows, 1, "{service}/{method}: say here what it needs");
        }
        let names = |service: &str| calls.iter().filter(|(of, _)| of == service).count();
        assert_eq!(names(admin::admin_server::SERVICE_NAME), ADMIN.len(), "a row without a call");
        assert_eq!(names(producer::producer_server::SERVICE_NAME), PRODUCER.len(), "a row without a call");
    }

    /// The documentation page for operators must contain the same table.
    #[test]
    fn the_page_says_what_calls_need() {
        let page = include_str!("../../../../docs/reference/rights.md");
        for (service, table) in [("Admin", &ADMIN[..]), ("Producer", &PRODUCER[..])] {
            for (method, needs, _) in table {
                let right = match needs.right {
                    None => "`admin.firstseen` only".to_owned(),
                    Some(Right::Cluster(verb)) => format!("`{verb}`"),
                    Some(Right::Filter(verb)) => format!("`{verb}` on the filter"),
                    Some(Right::SomeFilter(verb)) => format!("`{verb}` on any filter"),
                };
                let role = match needs.role {
                    Role::Operator => "operator",
                    Role::OperatorOrNode => "operator, node",
                    Role::Producer => "producer, operator, node",
                    Role::Node | Role::Any => panic!("{method} is for everybody, or for nodes"),
                };
                let row = format!("| `{service}.{method}` | {right} | {role} |");
                assert!(page.contains(&row), "docs/reference/rights.md lacks: {row}");
            }
        }
    }

    #[test]
    fn calls_that_do_not_exist_are_for_operators_or_do_nothing() {
        assert_eq!(of("/firstseen.admin.v1.Admin/WhatComesNext").needs, by_role(Role::Operator));
        assert_eq!(of("/firstseen.producer.v1.Producer/WhatComesNext").needs, by_role(Role::Operator));
        for path in ["/grpc.health.v1.Health/Check", "", "/", "//", "firstseen.meta.v1.Meta/Vote"] {
            assert_eq!(of(path).needs, by_role(Role::Any), "{path}");
        }
    }

    #[test]
    fn most_calls_are_small() {
        let bulk = |path: &str| of(path).bulk;
        assert_eq!(bulk("/firstseen.admin.v1.Admin/Status"), SMALL);
        assert_eq!(bulk("/firstseen.producer.v1.Producer/WatchMap"), SMALL);
        assert!(bulk("/firstseen.admin.v1.Admin/WriteCells").message_bytes_max > SMALL.message_bytes_max);
        assert!(
            bulk("/firstseen.peer.v1.Peer/Link").is_stream && bulk("/firstseen.producer.v1.Producer/Observe").is_stream
        );
    }
}
