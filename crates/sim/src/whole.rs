//! What is not as it should be in a map, when there are no faults.
//!
//! Promises: the same map gives the same answer; where a filter was altered, the former one counts as well, while it is
//! there. Must not know: which faults there were.

use firstseen_routing::{ClusterMap, Incarnation, NodeId, SliceOwner};

use crate::cluster::{FILTER, line, node_name};

/// A node that is down, a copy that the others go on without, or one that lacks what another has.
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
        let lags = |(slice, copy): &(u32, &SliceOwner)| map.is_complete(record, *slice) && !map.is_complete_copy(copy);
        let (slice, copy) = record.all_copies().find(lags)?;
        Some(format!("slice {slice} of {} is not complete on node {}, and elsewhere it is", record.name, copy.node.0))
    })
}

/// A copy that lacks something.
pub(crate) fn incomplete(map: &ClusterMap) -> Option<String> {
    line(map).find_map(|(_, record)| {
        let (slice, copy) = record.all_copies().find(|(_, copy)| !map.is_complete_copy(copy))?;
        Some(format!("slice {slice} of {} is not complete on node {}", record.name, copy.node.0))
    })
}

/// A slice of which this node has lacked something from one map to the other, while another copy has not.
pub(crate) fn lacking_all_the_while(before: &ClusterMap, after: &ClusterMap, node: usize) -> Option<u32> {
    let (number, _) = after.node_named(&node_name(node))?;
    let is_same = |node: NodeId| {
        let [one, other] = [before, after].map(|map| map.nodes.get(&node).filter(|record| !record.is_down));
        one.zip(other).is_some_and(|(one, other)| one.incarnation == other.incarnation)
    };
    let copies = |map: &ClusterMap, slice: u32| -> Vec<SliceOwner> {
        map.filter_named(FILTER).map_or_else(Vec::new, |(_, record)| record.copies_of(slice).copied().collect())
    };
    let is_complete = |map: &ClusterMap, slice: u32, node: NodeId| {
        copies(map, slice).iter().any(|copy| copy.node == node && map.is_complete_copy(copy))
    };
    let lacks = |map: &ClusterMap, slice: u32| {
        let has_come = || map.filter_named(FILTER).is_some_and(|(_, of)| of.arriving_since(slice, number).is_none());
        let own = copies(map, slice).into_iter().find(|copy| copy.node == number);
        own.is_some_and(|own| !map.is_gone(&own) && !map.is_complete_copy(&own)) && has_come()
    };
    let has = |slice: u32, copy: &SliceOwner| {
        is_same(copy.node) && is_complete(before, slice, copy.node) && is_complete(after, slice, copy.node)
    };
    // Where another filter has followed meanwhile, the slices are other ones.
    let (filter, record) = after.filter_named(FILTER)?;
    before.filter_named(FILTER).filter(|(former, _)| *former == filter)?;
    let slices = 0..record.owners.len() as u32;
    let mut lacking = slices.filter(|slice| is_same(number) && lacks(before, *slice) && lacks(after, *slice));
    lacking.find(|slice| copies(after, *slice).iter().any(|copy| has(*slice, copy)))
}

/// The start in which the map knows a node.
pub(crate) fn start_of(map: &ClusterMap, node: usize) -> Option<Incarnation> {
    map.node_named(&node_name(node)).map(|(_, record)| record.incarnation)
}

/// The number of a node.
pub(crate) fn index_of(map: &ClusterMap, node: NodeId) -> Option<usize> {
    let name = &map.nodes.get(&node)?.name;
    (0..map.nodes.len()).find(|index| node_name(*index) == *name)
}
