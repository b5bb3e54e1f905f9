//! Operations of the test network on copies: nodes go down, slices get copies, and nodes lose all of their cells.

use firstseen_routing::{NodeId, SliceCopy, SliceOwner};

use super::Network;

impl Network {
    /// Adds copies of slices before anything has happened.
    pub(crate) fn add_copies(&mut self, copies: impl IntoIterator<Item = (u32, NodeId)>) {
        let incarnation = |node: NodeId| self.map().nodes[&node].incarnation;
        let owner = |node| SliceOwner { node, complete_since: incarnation(node), ..SliceOwner::default() };
        let copies: Vec<SliceCopy> = copies
            .into_iter()
            .map(|(slice, node)| SliceCopy { slice, owner: owner(node), ..SliceCopy::default() })
            .collect();
        let record = self.record_mut();
        (record.policies.copies, record.copies) = (1, copies);
        self.nodes().into_iter().for_each(|node| self.mesh.start(node).unwrap());
    }

    /// Marks a node as down in the next map. No node gets that map yet.
    pub(crate) fn take_down(&mut self, node: NodeId) {
        self.mesh.map_mut().nodes.get_mut(&node).unwrap().is_down = true;
        let own = self.next_record().all_copies_mut().filter(|(_, owner)| owner.node == node);
        own.for_each(|(_, owner)| owner.has_gap = true);
    }

    /// Ends a node's process and marks the node as down in the next map. No node gets that map yet.
    pub(crate) fn lose(&mut self, node: NodeId) {
        self.take_down(node);
        self.mesh.end(&[node].into());
    }

    /// Starts another process of a node with empty slices. No other node gets the new map yet.
    pub(crate) fn start_anew(&mut self, node: NodeId) {
        self.count_start(node);
        self.mesh.start(node).unwrap();
        self.deliver_map(node);
    }

    /// Marks a node as complete although it has lost cells. No node gets the new map yet.
    pub(crate) fn forgive(&mut self, node: NodeId) {
        self.mesh.map_mut().version += 1;
        self.set_complete(node, |_| true);
    }

    /// Marks a node as complete in the next map. No node gets that map yet.
    pub(crate) fn complete(&mut self, node: NodeId) {
        self.complete.clear();
        self.next_record();
        self.set_complete(node, |_| true);
    }

    /// Marks these slices of a node as complete in the map.
    fn set_complete(&mut self, node: NodeId, is_meant: impl Fn(u32) -> bool) {
        let incarnation = self.map().nodes[&node].incarnation;
        let own = self.record_mut().all_copies_mut().filter(|(slice, owner)| owner.node == node && is_meant(*slice));
        own.for_each(|(_, owner)| (owner.complete_since, owner.has_gap) = (incarnation, false));
    }

    /// Adds the reports of nodes about their complete slices to the next map. No node gets that map yet. Returns
    /// whether there were any reports.
    pub(crate) fn agree_on_complete(&mut self) -> bool {
        let claims = std::mem::take(&mut self.complete);
        let per_group = self.record().definition.slicing.slices_per_group();
        for (group, node, claimed, slices) in &claims {
            let map = self.map();
            if *claimed != map.nodes[node].incarnation || map.is_down(*node) {
                self.mesh.map_mut().version += 1;
                continue;
            }
            self.next_record();
            self.set_complete(*node, |slice| slice / per_group == *group && slices.contains(&(slice % per_group)));
            self.settle_moves();
        }
        !claims.is_empty()
    }

    /// Returns whether every copy is complete according to the map.
    pub(crate) fn is_all_complete(&self) -> bool {
        self.record().all_copies().all(|(_, copy)| self.map().is_complete_copy(copy))
    }
}
