//! What each call asks of its caller, and how much it may bring.
//!
//! Promises: every call of this project's services needs a role. A call that is added and not named here is small, and
//! needs the role of an operator, or that of the other calls of its service. Must not know: connections, what calls do.

use std::time::Duration;

use firstseen_wire::limits::{
    DEFINING_MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_TIMEOUT, SMALL_MESSAGE_BYTES_MAX, SMALL_MESSAGE_TIMEOUT,
};
use firstseen_wire::proto::{admin, meta, peer, producer};

use crate::shares::Party;

/// The role that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Node,
    Operator,
    OperatorOrNode,
    Producer,
    Anybody,
}

/// How much a call may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bulk {
    /// Bytes of a message.
    pub(super) message_bytes_max: u64,
    /// Whether it brings message after message, or only one.
    pub(super) is_stream: bool,
    /// How long each message of a stream may take from its first byte to its last; where there is only one, how long all
    /// may take from the call's beginning.
    pub(super) patience: Duration,
}

/// The rule of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallRule {
    pub(super) role: Role,
    /// The party whose work the call usually is.
    pub(super) party: Party,
    pub(super) bulk: Bulk,
}

impl Bulk {
    /// Messages that a call brings.
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

/// The rule of the call of this path: `/SERVICE/METHOD`.
pub(super) fn of(path: &str) -> CallRule {
    let (service, method) = path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
    match service {
        admin::admin_server::SERVICE_NAME => {
            let role = match method {
                "Identify" | "Adopt" => Role::OperatorOrNode,
                _ => Role::Operator,
            };
            let bulk = match method {
                "CreateFilter" | "AlterFilter" | "MoveSlices" => Bulk::small(DEFINING_MESSAGE_BYTES_MAX),
                "RestoreFilter" | "WriteCells" => Bulk::great(false),
                _ => SMALL,
            };
            CallRule { role, party: Party::Operators, bulk }
        }
        producer::producer_server::SERVICE_NAME => {
            let bulk = if method == "Observe" { Bulk::great(true) } else { SMALL };
            CallRule { role: Role::Producer, party: Party::Producers, bulk }
        }
        peer::peer_server::SERVICE_NAME => {
            CallRule { role: Role::Node, party: Party::Nodes, bulk: Bulk::great(method == "Link") }
        }
        meta::meta_server::SERVICE_NAME => {
            CallRule { role: Role::Node, party: Party::Agreement, bulk: Bulk::great(false) }
        }
        // Health, reflection, and calls that do not exist.
        _ => CallRule { role: Role::Anybody, party: Party::Producers, bulk: Bulk { is_stream: true, ..SMALL } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_its_role() {
        let role = |path: &str| of(path).role;
        assert_eq!(role("/firstseen.admin.v1.Admin/Identify"), Role::OperatorOrNode);
        assert_eq!(role("/firstseen.admin.v1.Admin/WhatComesNext"), Role::Operator);
        assert_eq!(role("/firstseen.producer.v1.Producer/Observe"), Role::Producer);
        assert_eq!(role("/firstseen.peer.v1.Peer/Link"), Role::Node);
        assert_eq!(role("/firstseen.meta.v1.Meta/Vote"), Role::Node);
        for path in ["/grpc.health.v1.Health/Check", "", "/", "//", "firstseen.meta.v1.Meta/Vote"] {
            assert_eq!(role(path), Role::Anybody, "{path}");
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
