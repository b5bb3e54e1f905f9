//! Operations of the test network on moving slices, by which groups come to a node and leave it.

use firstseen_routing::{NodeId, NodeRecord, SliceCopy, SliceMove, SliceOwner};

use super::{FILTER, Network};

impl Network {
    /// Adds a node without slices.
    pub(crate) fn add_node(&mut self, node: NodeId) {
        let nodes = &mut self.mesh.map_mut().nodes;
        let record = NodeRecord { name: format!("node-{node}"), ..nodes[&NodeId(1)].clone() };
        nodes.insert(node, record);
    }

    /// Begins to move a copy of a slice to another node, if that is allowed. Returns whether it is. No node gets the
    /// new map yet.
    pub(crate) fn begin_move(&mut self, SliceMove { slice, from, to }: SliceMove) -> bool {
        let record = self.record();
        let has = |node: NodeId| record.copies_of(slice).any(|copy| copy.node == node);
        let is_down = self.map().is_down(to);
        if is_down || !has(from) || has(to) || record.moves().any(|way| way.slice == slice) {
            return false;
        }
        let record = self.next_record();
        let owner = SliceOwner { node: to, has_gap: true, complete_since: NEVER, ..SliceOwner::default() };
        let place = record.copies.partition_point(|other| other.slice <= slice);
        let since_epoch = record.epoch;
        record.copies.insert(place, SliceCopy { slice, owner, replaces: Some(from), since_epoch });
        true
    }

    /// Lets copies that have arrived replace the copies from which they moved.
    pub(super) fn settle_moves(&mut self) {
        let map = self.map().clone();
        let record = self.record_mut();
        let arrived = |copy: &&SliceCopy| copy.replaces.is_some() && map.is_complete_copy(&copy.owner);
        for SliceCopy { slice, owner, replaces, .. } in map.filters[&FILTER].copies.iter().filter(arrived) {
            record.copies.retain(|copy| (copy.slice, copy.owner.node) != (*slice, owner.node));
            let mut copies = record.all_copies_mut();
            *copies.find(|(of, copy)| of == slice && Some(copy.node) == *replaces).unwrap().1 = *owner;
        }
    }
}

/// An incarnation that no node has.
const NEVER: firstseen_routing::Incarnation = firstseen_routing::Incarnation(u64::MAX);
