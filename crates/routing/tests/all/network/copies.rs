//! Nodes that the others go on without, copies of slices, and nodes that lose all that they had.

use firstseen_routing::{NodeId, SliceCopy, SliceOwner};

use super::{FILTER, Network};

impl Network {
    /// Gives slices further copies, before anything has happened.
    pub(crate) fn add_copies(&mut self, copies: impl IntoIterator<Item = (u32, NodeId)>) {
        let incarnation = |node: NodeId| self.map.nodes[&node].incarnation;
        let owner = |node| SliceOwner { node, complete_since: incarnation(node), ..SliceOwner::default() };
        let copies: Vec<SliceCopy> = copies
            .into_iter()
            .map(|(slice, node)| SliceCopy { slice, owner: owner(node), ..SliceCopy::default() })
            .collect();
        let record = self.map.filters.get_mut(&FILTER).unwrap();
        (record.policies.copies, record.copies) = (1, copies);
        self.nodes().into_iter().for_each(|node| self.start(node));
    }

    /// The cluster goes on without a node; no node has the new map yet.
    pub(crate) fn take_down(&mut self, node: NodeId) {
        self.map.version += 1;
        self.map.nodes.get_mut(&node).unwrap().is_down = true;
        let record = self.map.filters.get_mut(&FILTER).unwrap();
        record.epoch.rise();
        let own = record.all_copies_mut().filter(|(_, owner)| owner.node == node);
        own.for_each(|(_, owner)| owner.has_gap = true);
    }

    /// A node's process ends, and the cluster goes on without it; no node has the new map yet.
    pub(crate) fn lose(&mut self, node: NodeId) {
        self.take_down(node);
        self.owners.retain(|(_, other), _| *other != node);
        self.links.retain(|(from, to), _| *from != node && *to != node);
    }

    /// Another process of a node starts, with empty slices; no other node has the new map yet.
    pub(crate) fn start_anew(&mut self, node: NodeId) {
        self.map.version += 1;
        let record = self.map.nodes.get_mut(&node).unwrap();
        (record.is_down, record.incarnation.0) = (false, record.incarnation.0 + 1);
        self.map.filters.get_mut(&FILTER).unwrap().epoch.rise();
        self.start(node);
        self.deliver_map(node);
    }

    /// The map says that a node is complete; no node has it yet.
    pub(crate) fn complete(&mut self, node: NodeId) {
        (self.map.version, self.complete) = (self.map.version + 1, Vec::new());
        let incarnation = self.map.nodes[&node].incarnation;
        let record = self.map.filters.get_mut(&FILTER).unwrap();
        record.epoch.rise();
        let own = record.all_copies_mut().filter(|(_, owner)| owner.node == node);
        own.for_each(|(_, owner)| (owner.complete_since, owner.has_gap) = (incarnation, false));
    }

    /// The map takes up what nodes have said of their slices; no node has it yet. Returns whether there was anything to
    /// take up.
    pub(crate) fn agree_on_complete(&mut self) -> bool {
        let claims = std::mem::take(&mut self.complete);
        let per_group = self.record().definition.slicing.slices_per_group();
        for (group, node, claimed, slices) in &claims {
            self.map.version += 1;
            let (incarnation, is_down) = (self.map.nodes[node].incarnation, self.map.is_down(*node));
            if *claimed != incarnation || is_down {
                continue;
            }
            let record = self.map.filters.get_mut(&FILTER).unwrap();
            record.epoch.rise();
            let is_meant = |slice: u32| slice / per_group == *group && slices.contains(&(slice % per_group));
            let own = record.all_copies_mut().filter(|(slice, owner)| owner.node == *node && is_meant(*slice));
            own.for_each(|(_, owner)| (owner.complete_since, owner.has_gap) = (incarnation, false));
            self.settle_moves();
        }
        !claims.is_empty()
    }

    /// Whether every copy is complete by the map.
    pub(crate) fn is_all_complete(&self) -> bool {
        self.record().all_copies().all(|(_, copy)| self.map.is_complete_copy(copy))
    }
}
