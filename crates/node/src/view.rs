//! A view: what a node acts on at one time, that is the map, its own place there, and what it needs to route by.
//!
//! Promises: one version of the map in one value, which never changes. It is published only when the owners act on it.
//! Must not know: how the map is agreed on, streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firstseen_filter::ProbeShape;
use firstseen_meta::Identity;
use firstseen_routing::{
    ClusterMap, Durability, FilterId, FilterRecord, GroupPlan, Incarnation, NodeId, Prober, SliceOwner,
    SlicedBuildError,
};
use firstseen_wire::watch;

use crate::group_key::GroupKey;
use crate::keeper::DiskState;
use crate::link_handle::LinkHandle;

/// The views that the node acts on, one after the other.
pub(crate) type Views = watch::Receiver<Arc<View>>;

/// A group that this node should own and cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupFault {
    /// The group.
    pub(crate) key: GroupKey,
    /// Why.
    pub(crate) reason: String,
    /// The disk is the reason: the group is still in memory, and comes back by itself.
    pub(crate) is_of_disk: bool,
}

/// This node, once it belongs to a cluster and its start is known there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Me {
    /// Its cluster and its number.
    pub(crate) identity: Identity,
    /// This start.
    pub(crate) incarnation: Incarnation,
}

/// A filter as batches are routed by it.
#[derive(Clone)]
pub(crate) struct FilterView {
    /// The record.
    pub(crate) record: FilterRecord,
    /// Positions of its events.
    pub(crate) prober: Prober,
    /// Positions between its nodes are below this.
    pub(crate) position_range: u64,
    /// Set where a former filter is to be asked before: whether all nodes have ended their events in flight there.
    pub(crate) former_has_ended: Option<bool>,
}

impl FilterView {
    fn new(map: &ClusterMap, record: &FilterRecord) -> Result<Self, SlicedBuildError> {
        let prober = map.prober(record)?;
        let position_range = match (record.has_flights(), prober.shape()) {
            // The positions are those of the level, not of the root.
            (true, _) => GroupPlan::of_level(&record.definition)?.group_cells(),
            (false, ProbeShape::Spread { cells, .. }) => cells,
            (false, ProbeShape::Blocked { blocks, offset_bits, .. }) => blocks << offset_bits,
        };
        Ok(Self { record: record.clone(), prober, position_range, former_has_ended: None })
    }
}

/// One version of the map, as this node acts on it.
#[derive(Clone, Default)]
pub(crate) struct View {
    /// The map.
    pub(crate) map: Arc<ClusterMap>,
    /// This node; none while it may not serve.
    pub(crate) me: Option<Me>,
    /// The filters of the map that this build can route.
    pub(crate) filters: BTreeMap<FilterId, FilterView>,
    /// The links to the other nodes.
    pub(crate) links: BTreeMap<NodeId, LinkHandle>,
    /// Nodes that have been out of reach of this one for so long that no event is to wait for them.
    pub(crate) unreachable: BTreeSet<NodeId>,
    /// The state of the journal's disk.
    pub(crate) disk: DiskState,
    /// Groups that this node should own and cannot.
    pub(crate) faults: Vec<GroupFault>,
}

impl View {
    /// The view of `map` for `me`.
    pub(crate) fn new(
        map: Arc<ClusterMap>,
        me: Option<Me>,
        links: BTreeMap<NodeId, LinkHandle>,
        unreachable: BTreeSet<NodeId>,
    ) -> Self {
        let mut filters = BTreeMap::new();
        for (id, record) in &map.filters {
            match FilterView::new(&map, record) {
                Ok(filter) => drop(filters.insert(*id, filter)),
                Err(error) => tracing::error!(filter = %record.name, %error, "a filter of the map cannot be routed"),
            }
        }
        for closed in map.filters.values().filter_map(|record| record.line.closed.as_ref()) {
            if let Some(follower) = filters.get_mut(&closed.successor) {
                follower.former_has_ended = Some(closed.has_ended());
            }
        }
        let unreachable = unreachable.into_iter().filter(|node| links.contains_key(node)).collect();
        Self { map, me, filters, links, unreachable, disk: DiskState::Works, faults: Vec::new() }
    }

    /// Whether another node answers this one at this moment; that it is not listed as out of reach may be a second old.
    pub(crate) fn reaches(&self, node: NodeId) -> bool {
        !self.unreachable.contains(&node) && self.links.get(&node).is_some_and(LinkHandle::is_up)
    }

    /// Whether the start `incarnation` of another node answers at this moment.
    pub(crate) fn reaches_start(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.reaches(node) && self.links.get(&node).is_some_and(|link| link.is_to(incarnation))
    }

    /// Whether the view counts this start of the node in.
    pub(crate) fn is_of_start(&self, incarnation: Incarnation) -> bool {
        self.me.is_some_and(|me| me.incarnation == incarnation)
    }

    /// The number of this node.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.me.map(|me| me.identity.node)
    }

    /// Nodes out of reach that are not down: events that need their slices cannot go on.
    pub(crate) fn stalling(&self) -> BTreeSet<NodeId> {
        self.unreachable.iter().copied().filter(|node| !self.map.is_down(*node)).collect()
    }

    /// Group positions of a filter are below this; none where the filter is not known.
    pub(crate) fn position_range(&self, filter: FilterId) -> Option<u64> {
        Some(self.filters.get(&filter)?.position_range)
    }

    /// The bound of positions, with the shape of the filter's events.
    pub(crate) fn shapes(&self, filter: FilterId) -> Option<(u64, ProbeShape)> {
        let filter = self.filters.get(&filter)?;
        Some((filter.position_range, filter.prober.shape()))
    }

    /// The groups of which this node owns at least one slice.
    pub(crate) fn own_groups(&self) -> impl Iterator<Item = GroupKey> {
        let node = self.node();
        self.filters.iter().flat_map(move |(id, filter)| {
            let slicing = filter.record.definition.slicing;
            let own = (0..slicing.groups()).filter(move |group| {
                let mut copies = slicing.slices_of(*group).flat_map(|slice| filter.record.copies_of(slice));
                copies.any(|copy| Some(copy.node) == node)
            });
            own.map(|group| GroupKey { filter: *id, group })
        })
    }

    /// Of these groups, those that the others go on without though this node is up.
    pub(crate) fn are_missing_here(&self, groups: impl Iterator<Item = GroupKey>) -> Vec<GroupKey> {
        let Some(node) = self.node().filter(|node| !self.map.is_down(*node)) else { return Vec::new() };
        let missing = groups.filter(|GroupKey { filter, group }| {
            self.map.filters.get(filter).is_some_and(|record| self.map.is_gone_from(record, *group, node))
        });
        missing.collect()
    }

    /// How the events of a group are persisted.
    pub(crate) fn durability(&self, key: GroupKey) -> Durability {
        self.map.filters.get(&key.filter).map_or(Durability::Memory, |record| record.policies.durability)
    }

    /// Whether a group has a journal.
    pub(crate) fn keeps_journal(&self, key: GroupKey) -> bool {
        self.durability(key).keeps_journal()
    }

    /// Whether the others go on without slices of this node, because of its disk and nothing else.
    pub(crate) fn is_spared(&self) -> bool {
        let missing = self.are_missing_here(self.own_groups().filter(|key| self.keeps_journal(*key)));
        missing.iter().any(|key| self.faults.iter().all(|fault| fault.key != *key || fault.is_of_disk))
    }

    /// Whether this node has cells that no other node has, and a restart would lose them: a node that shares the group
    /// is down, and could not say that nothing was recorded meanwhile.
    pub(crate) fn is_needed_as_it_is(&self) -> bool {
        let Some(node) = self.node() else { return false };
        self.own_groups().any(|GroupKey { filter, group }| {
            let Some(record) = self.map.filters.get(&filter) else { return false };
            let slices = record.definition.slicing.slices_of(group);
            let copies: Vec<&SliceOwner> = slices.flat_map(|slice| record.copies_of(slice)).collect();
            copies.iter().any(|copy| copy.node == node && self.map.is_complete_copy(copy))
                && copies.iter().any(|copy| self.map.is_down(copy.node))
                && !self.map.can_spare(record, group, node)
        })
    }

    /// Groups of which a slice here lacks something that another copy has.
    pub(crate) fn fetching_groups(&self) -> u64 {
        let Some(node) = self.node() else { return 0 };
        let mut groups = BTreeSet::new();
        for (id, FilterView { record, .. }) in &self.filters {
            let lacking = record.all_copies().filter(|(slice, owner)| {
                owner.node == node && !self.map.is_complete_copy(owner) && self.map.is_complete(record, *slice)
            });
            groups.extend(lacking.map(|(slice, _)| (*id, record.definition.slicing.group_of(slice))));
        }
        groups.len() as u64
    }

    /// The first filter of which slices here lack what another copy has, with the number of all such slices; those that a
    /// move brings do not count, as nothing is lost where they come from.
    fn fetching(&self) -> Option<(&FilterRecord, usize)> {
        let node = self.node()?;
        let mut first = None;
        let mut slices = 0;
        for FilterView { record, .. } in self.filters.values() {
            let lacking = record.all_copies().filter(|(slice, owner)| {
                let is_lacking = owner.node == node && !self.map.is_gone(owner) && !self.map.is_complete_copy(owner);
                is_lacking && self.map.is_complete(record, *slice) && record.arriving_since(*slice, node).is_none()
            });
            let lacking = lacking.count();
            slices += lacking;
            if lacking > 0 {
                first.get_or_insert(record);
            }
        }
        Some((first?, slices))
    }

    /// Slices of a filter that this node owns, and that are ready.
    pub(crate) fn slices_ready(&self, id: FilterId) -> u32 {
        let (Some(filter), Some(node)) = (self.filters.get(&id), self.node()) else { return 0 };
        let slicing = filter.record.definition.slicing;
        let own = filter.record.all_copies().filter(|(_, owner)| owner.node == node);
        let held = own.filter(|(slice, _)| {
            let key = GroupKey { filter: id, group: slicing.group_of(*slice) };
            self.fault_at(key).is_none()
        });
        held.count() as u32
    }

    /// Why this node does not have a group that it should own.
    pub(crate) fn fault_at(&self, key: GroupKey) -> Option<&str> {
        let fault = self.faults.iter().find(|fault| fault.key == key)?;
        Some(&fault.reason)
    }

    /// The first group of a filter that this node should own and cannot.
    pub(crate) fn fault_of(&self, id: FilterId) -> Option<&GroupFault> {
        self.faults.iter().find(|fault| fault.key.filter == id)
    }

    /// Why this node cannot serve all that it should; none where it can.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if self.me.is_none() {
            return Some("the node belongs to no cluster, or its start is not known there yet".to_owned());
        }
        if self.map.version == 0 {
            return Some("the map of the cluster is not known yet".to_owned());
        }
        if let Some(fault) = self.faults.first() {
            let more = self.faults.len() - 1;
            return Some(format!(
                "filter {} group {}: {} ({more} more)",
                fault.key.filter, fault.key.group, fault.reason
            ));
        }
        None
    }

    /// Why another copy of a slice must not be stopped, as one here has not fetched what it lacks; none where all may
    /// be.
    pub(crate) fn not_whole(&self) -> Option<String> {
        let (record, slices) = self.fetching()?;
        let name = &record.name;
        Some(format!(
            "filter `{name}`: slices here are fetching what they lack from other copies ({slices} of all filters)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// A map from before says of which start a copy is complete; that another start answers by now does not count.
    #[test]
    fn a_node_is_reached_in_one_of_its_starts() {
        let (peer, away) = (NodeId(2), NodeId(3));
        let (messages, _queue) = mpsc::channel(1);
        let links = [peer, away].map(|node| (node, LinkHandle::to(messages.clone())));
        let view = View::new(Arc::default(), None, links.into(), BTreeSet::from([away]));
        let (present, before) = (Incarnation::default(), Incarnation(7));
        assert!(view.reaches(peer) && view.reaches_start(peer, present));
        assert!(!view.reaches_start(peer, before));
        assert!(!view.reaches_start(away, present) && !view.reaches_start(NodeId(4), present));
    }
}
