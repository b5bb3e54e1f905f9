//! Converts the links between filters that replaced each other under one name to and from protobuf messages.
//!
//! No decoded list is longer than a cluster has nodes.

use firstseen_filter::UnitNumber;
use firstseen_routing::{Closed, FilterId, NodeId};

use crate::limits::NODES_MAX;
use crate::map_error::{MapError, check_length};
use crate::proto::producer as proto;

pub(crate) fn closed_message(closed: &Closed) -> proto::Closed {
    proto::Closed {
        successor: closed.successor.0,
        awaited_nodes: closed.awaited.iter().map(|node| node.0).collect(),
        newest_unit: closed.newest_unit.0,
        passed_nodes: closed.passed.iter().map(|node| node.0).collect(),
    }
}

pub(crate) fn closed(message: proto::Closed) -> Result<Closed, MapError> {
    check_length("closed.awaited_nodes", message.awaited_nodes.len(), NODES_MAX)?;
    check_length("closed.passed_nodes", message.passed_nodes.len(), NODES_MAX)?;
    Ok(Closed {
        successor: FilterId(message.successor),
        awaited: message.awaited_nodes.into_iter().map(NodeId).collect(),
        newest_unit: UnitNumber(message.newest_unit),
        passed: message.passed_nodes.into_iter().map(NodeId).collect(),
    })
}
