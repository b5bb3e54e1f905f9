//! Finds problems in a cluster map after all faults have ended. Examples of problems are a node that is down and a copy
//! that lacks events. The result depends only on the map. If a filter was altered, its predecessor is checked too, as
//! long as it exists.

use firstseen_routing::{ClusterMap, FilterRecord, Incarnation, NodeId};

use crate::cluster::{FILTER, lagging_copies, line, node_name};

/// Returns a description of a node that is down, of a copy without which the others continue, or of a copy that lacks
/// what another copy has.
pub(crate) fn missing(map: &ClusterMap) -> Option<String> {
    if let Some(node) = map.nodes.values().find(|node| node.is_down) {
        return Some(format!("{} is down", node.name));
    }
    line(map).find_map(|(_, record)| {
        if let Some(closed) = record.line.closed.as_ref().filter(|closed| !closed.has_ended()) {
            return Some(format!("nodes {:?} have not ended what was in flight before the alteration", closed.awaited));
        }
        if let Some((slice, copy)) = record.all_copies().find(|(_, copy)| map.is_gone(copy)) {
            return Some(format!("node {} cannot hold slice {slice} of {}", copy.node.0, record.name));
        }
        let (slice, copy) = lagging_copies(map, record).next()?;
        Some(format!("slice {slice} of {} is not complete on node {}, and elsewhere it is", record.name, copy.node.0))
    })
}

/// Returns a description of a copy that lacks events.
pub(crate) fn incomplete(map: &ClusterMap) -> Option<String> {
    line(map).find_map(|(_, record)| {
        let (slice, copy) = record.all_copies().find(|(_, copy)| !map.is_complete_copy(copy))?;
        Some(format!("slice {slice} of {} is not complete on node {}", record.name, copy.node.0))
    })
}

/// Returns a slice of which this node lacked something from one map to the other, while another copy did not.
pub(crate) fn lacks_throughout(before: &ClusterMap, after: &ClusterMap, node: usize) -> Option<u32> {
    let (number, _) = after.node_named(&node_name(node))?;
    // If a successor has replaced the filter meanwhile, the slices are different ones.
    let (filter, record) = after.filter_named(FILTER)?;
    let (_, former) = before.filter_named(FILTER).filter(|(former, _)| *former == filter)?;
    if !is_same_start(before, after, number) {
        return None;
    }
    let slices = 0..record.owners.len() as u32;
    let mut lacking =
        slices.filter(|slice| lacks(before, former, *slice, number) && lacks(after, record, *slice, number));
    lacking.find(|slice| {
        record.copies_of(*slice).any(|copy| {
            let had_all = former.copies_of(*slice).any(|had| had.node == copy.node && before.is_complete_copy(had));
            is_same_start(before, after, copy.node) && had_all && after.is_complete_copy(copy)
        })
    })
}

/// Returns whether both maps contain the same start of a node and the node is not down.
fn is_same_start(before: &ClusterMap, after: &ClusterMap, node: NodeId) -> bool {
    let [one, other] = [before, after].map(|map| map.nodes.get(&node).filter(|record| !record.is_down));
    one.zip(other).is_some_and(|(one, other)| one.incarnation == other.incarnation)
}

/// Returns whether a node's copy of a slice lacks events and is not moving there.
fn lacks(map: &ClusterMap, record: &FilterRecord, slice: u32, node: NodeId) -> bool {
    let own = record.copies_of(slice).find(|copy| copy.node == node);
    own.is_some_and(|own| !map.is_gone(own) && !map.is_complete_copy(own))
        && record.arriving_since(slice, node).is_none()
}

/// Returns the incarnation of a node in the map.
pub(crate) fn start_of(map: &ClusterMap, node: usize) -> Option<Incarnation> {
    map.node_named(&node_name(node)).map(|(_, record)| record.incarnation)
}

/// Returns the number of a node.
pub(crate) fn index_of(map: &ClusterMap, node: NodeId) -> Option<usize> {
    let name = &map.nodes.get(&node)?.name;
    (0..map.nodes.len()).find(|index| node_name(*index) == *name)
}
