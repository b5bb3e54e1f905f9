//! Keeps a list of the nodes whose disks are nearly full, according to the last report of each node. The leader uses
//! the list to reject changes that are not urgent and need disk space. A report is ignored if the node is marked down
//! or has left the cluster.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use firstseen_routing::{ClusterMap, NodeId};

/// The nodes that have reported a nearly full disk. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullDisks(Arc<Mutex<BTreeSet<NodeId>>>);

impl FullDisks {
    /// Stores a node's report whether its disk has no free space except for the reserved space.
    pub(crate) fn note(&self, node: NodeId, is_nearly_full: bool) {
        let mut short = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_nearly_full {
            short.insert(node)
        } else {
            short.remove(&node)
        };
    }

    /// Returns the reason why a change that can be postponed is not accepted. `None` means that all nodes have enough
    /// space.
    pub(crate) fn reason(&self, map: &ClusterMap) -> Option<String> {
        let short = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut up = short.iter().filter_map(|node| map.nodes.get(node)).filter(|record| !record.is_down);
        up.next().map(|record| reason(&record.name))
    }
}

/// Returns the error message about a node whose disk is nearly full.
pub(crate) fn reason(name: &str) -> String {
    format!(
        "the disk of node `{name}` is nearly full, and the remaining space is reserved for changes that the cluster \
         depends on: nothing has changed; make room on the disk of its data_dir, or drop filters with a journal \
         there, and try again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstseen_routing::{Incarnation, NodeRecord};

    #[test]
    fn a_node_that_is_up_and_short_is_named_and_another_is_not() {
        let record = |name: &str, is_down| NodeRecord {
            name: name.to_owned(),
            site: "here".to_owned(),
            address: "a:1".to_owned(),
            memory_bytes: 1,
            incarnation: Incarnation(1),
            voter: true,
            is_down,
        };
        let nodes = [(NodeId(1), record("a", false)), (NodeId(2), record("b", true)), (NodeId(3), record("c", false))];
        let map = ClusterMap { nodes: nodes.into_iter().collect(), ..ClusterMap::default() };
        let short = FullDisks::default();
        short.note(NodeId(2), true);
        short.note(NodeId(9), true);
        assert_eq!(short.reason(&map), None, "one is down, one is none of the cluster's");
        short.note(NodeId(3), true);
        assert!(short.reason(&map).is_some_and(|reason| reason.contains("node `c`")));
        short.note(NodeId(3), false);
        assert_eq!(short.reason(&map), None);
    }
}
