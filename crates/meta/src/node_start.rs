//! A start of a node, which tells its messages from those of earlier starts. Must not know: what messages say.

use firstseen_routing::{Incarnation, NodeId};

/// A node as of one of its starts.
#[derive(Clone, Copy)]
pub(crate) struct NodeStart {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}
