//! Slices that move to other nodes, and groups that come to a node and leave it.

use firstseen_routing::{GroupOwner, NodeId, NodeRecord, SliceCopy, SliceMove, SliceOwner};

use super::{FILTER, Network};

impl Network {
    /// A node without slices.
    pub(crate) fn add_node(&mut self, node: NodeId) {
        let record = NodeRecord { name: format!("node-{node}"), ..self.map.nodes[&NodeId(1)].clone() };
        self.map.nodes.insert(node, record);
    }

    /// A copy of a slice is to move to another node; no node has the new map yet. Returns whether it may.
    pub(crate) fn begin_move(&mut self, SliceMove { slice, from, to }: SliceMove) -> bool {
        let is_down = self.map.is_down(to);
        let record = self.map.filters.get_mut(&FILTER).unwrap();
        let has = |node: NodeId| record.copies_of(slice).any(|copy| copy.node == node);
        if is_down || !has(from) || has(to) || record.moves().any(|way| way.slice == slice) {
            return false;
        }
        (self.map.version, record.epoch) = (self.map.version + 1, record.epoch.after(1));
        let owner = SliceOwner { node: to, has_gap: true, complete_since: NEVER, ..SliceOwner::default() };
        let place = record.copies.partition_point(|other| other.slice <= slice);
        let since_epoch = record.epoch;
        record.copies.insert(place, SliceCopy { slice, owner, replaces: Some(from), since_epoch });
        true
    }

    /// Copies that have arrived take the places of those that they replace.
    pub(super) fn settle_moves(&mut self) {
        let map = self.map.clone();
        let record = self.map.filters.get_mut(&FILTER).unwrap();
        let arrived = |copy: &&SliceCopy| copy.replaces.is_some() && map.is_complete_copy(&copy.owner);
        for SliceCopy { slice, owner, replaces, .. } in map.filters[&FILTER].copies.iter().filter(arrived) {
            record.copies.retain(|copy| (copy.slice, copy.owner.node) != (*slice, owner.node));
            let mut copies = record.all_copies_mut();
            *copies.find(|(of, copy)| of == slice && Some(copy.node) == *replaces).unwrap().1 = *owner;
        }
    }

    /// A node starts groups whose slices have arrived, and ends those whose slices have left, once they have nothing in
    /// flight.
    pub(super) fn follow_slices(&mut self, node: NodeId) {
        for group in 0..self.prober.groups() {
            let Ok(new) = GroupOwner::build(FILTER, &self.map, group, node, self.limits) else {
                let left = self.owners.get(&(group, node)).is_some_and(|left| left.is_idle());
                if left {
                    self.owners.remove(&(group, node));
                }
                continue;
            };
            if self.views.contains_key(&node) {
                self.owners.entry((group, node)).or_insert(new);
            }
        }
    }
}

/// An incarnation that no node has.
const NEVER: firstseen_routing::Incarnation = firstseen_routing::Incarnation(u64::MAX);
