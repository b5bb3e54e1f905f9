//! A start of a node, by which what an earlier one said is told apart. Must not know: what it says.

use firstseen_routing::{Incarnation, NodeId};

/// A node as of one of its starts.
#[derive(Clone, Copy)]
pub(crate) struct NodeStart {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}
