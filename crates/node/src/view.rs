//! A view is an immutable snapshot of everything that a node needs to route events: one version of the cluster map, the
//! identity of the node, its links to other nodes, and the filters that it can route. All code that handles an event
//! with one view therefore sees the same cluster. A view is published only after all owner threads of the node act on
//! it.

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
use crate::journal_writer::DiskState;
use crate::link_handle::LinkHandle;

/// Receiver of the current view, which is replaced as the cluster map changes.
pub(crate) type Views = watch::Receiver<Arc<View>>;

/// A slice group that this node should own but cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupFault {
    /// The slice group.
    pub(crate) key: GroupKey,
    /// Reason why the node cannot hold the group.
    pub(crate) reason: String,
    /// Whether the disk is the reason. In that case the group is still in memory, and the node resumes it as soon as
    /// the disk works again.
    pub(crate) is_of_disk: bool,
}

/// Identity of this node, once it belongs to a cluster and the cluster knows its current start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Me {
    /// The cluster, and the number of this node in the cluster.
    pub(crate) identity: Identity,
    /// The current start of this node.
    pub(crate) incarnation: Incarnation,
}

/// A filter with the data that batches are routed by.
#[derive(Clone)]
pub(crate) struct FilterView {
    /// The record of the filter in the cluster map.
    pub(crate) record: FilterRecord,
    /// Computes the positions of the filter's events.
    pub(crate) prober: Prober,
    /// Exclusive upper bound of the positions that nodes exchange about this filter.
    pub(crate) position_range: u64,
    /// Whether lookups in this filter must also query its predecessor, and the state of that predecessor. The
    /// predecessor is the filter that this filter has replaced under the same name.
    ///
    /// - `None`: the predecessor is not queried.
    /// - `Some(false)`: it must be queried, and some of its events are still in flight.
    /// - `Some(true)`: it must be queried, and none of its events is in flight any more.
    pub(crate) former_has_ended: Option<bool>,
}

impl FilterView {
    fn new(map: &ClusterMap, record: &FilterRecord) -> Result<Self, SlicedBuildError> {
        let prober = map.prober(record)?;
        let position_range = match (record.has_flights(), prober.shape()) {
            // These positions are positions of the tree level, not of the root.
            (true, _) => GroupPlan::of_level(&record.definition)?.group_cells(),
            (false, ProbeShape::Spread { cells, .. }) => cells,
            (false, ProbeShape::Blocked { blocks, offset_bits, .. }) => blocks << offset_bits,
        };
        Ok(Self { record: record.clone(), prober, position_range, former_has_ended: None })
    }
}

/// One version of the cluster map, as this node acts on it.
#[derive(Clone, Default)]
pub(crate) struct View {
    /// The cluster map.
    pub(crate) map: Arc<ClusterMap>,
    /// Identity of this node. `None` means that the node may not serve.
    pub(crate) me: Option<Me>,
    /// Filters of the cluster map that this version of the software can route.
    pub(crate) filters: BTreeMap<FilterId, FilterView>,
    /// Links to the other nodes.
    pub(crate) links: BTreeMap<NodeId, LinkHandle>,
    /// Nodes that this node has failed to reach for so long that events no longer wait for them.
    pub(crate) unreachable: BTreeSet<NodeId>,
    /// State of the disk that holds the journal.
    pub(crate) disk: DiskState,
    /// Slice groups that this node should own but cannot hold.
    pub(crate) faults: Vec<GroupFault>,
}

impl View {
    /// Creates the view of `map` for the node `me`.
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
                Err(error) => tracing::error!(filter = %record.name, %error, "a filter of the map is not supported"),
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

    /// Returns whether this node can reach another node at this moment. The set of unreachable nodes alone cannot tell,
    /// because it may be about a second old. The link to the other node must therefore also be connected now.
    pub(crate) fn reaches(&self, node: NodeId) -> bool {
        !self.unreachable.contains(&node) && self.links.get(&node).is_some_and(LinkHandle::is_up)
    }

    /// Returns whether another node can be reached at this moment and is still in the start `incarnation`.
    pub(crate) fn reaches_start(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.reaches(node) && self.links.get(&node).is_some_and(|link| link.is_to(incarnation))
    }

    /// Returns whether the view was created for this start of the node.
    pub(crate) fn is_of_start(&self, incarnation: Incarnation) -> bool {
        self.me.is_some_and(|me| me.incarnation == incarnation)
    }

    /// Returns the number of this node.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.me.map(|me| me.identity.node)
    }

    /// Returns the unreachable nodes that the cluster map does not list as down. Events that need slices of these nodes
    /// cannot proceed.
    pub(crate) fn stalling(&self) -> BTreeSet<NodeId> {
        self.unreachable.iter().copied().filter(|node| !self.map.is_down(*node)).collect()
    }

    /// Returns the exclusive upper bound of the positions of a filter. `None` means that the filter is unknown.
    pub(crate) fn position_range(&self, filter: FilterId) -> Option<u64> {
        Some(self.filters.get(&filter)?.position_range)
    }

    /// Returns the exclusive upper bound of the positions of a filter, and the shape of its events' positions.
    pub(crate) fn shapes(&self, filter: FilterId) -> Option<(u64, ProbeShape)> {
        let filter = self.filters.get(&filter)?;
        Some((filter.position_range, filter.prober.shape()))
    }

    /// Returns the slice groups of which this node owns at least one slice.
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

    /// Returns the given slice groups that the other nodes continue without this node although it is up.
    pub(crate) fn are_missing_here(&self, groups: impl Iterator<Item = GroupKey>) -> Vec<GroupKey> {
        let Some(node) = self.node().filter(|node| !self.map.is_down(*node)) else { return Vec::new() };
        let missing = groups.filter(|GroupKey { filter, group }| {
            self.map.filters.get(filter).is_some_and(|record| self.map.is_gone_from(record, *group, node))
        });
        missing.collect()
    }

    /// Returns how the events of a slice group are persisted.
    pub(crate) fn durability(&self, key: GroupKey) -> Durability {
        self.map.filters.get(&key.filter).map_or(Durability::Memory, |record| record.policies.durability)
    }

    /// Returns whether a slice group has a journal.
    pub(crate) fn keeps_journal(&self, key: GroupKey) -> bool {
        self.durability(key).keeps_journal()
    }

    /// Returns whether the other nodes continue without slices of this node, and the only reason is the disk of this
    /// node.
    pub(crate) fn is_spared(&self) -> bool {
        let missing = self.are_missing_here(self.own_groups().filter(|key| self.keeps_journal(*key)));
        missing.iter().any(|key| self.faults.iter().all(|fault| fault.key != *key || fault.is_of_disk))
    }

    /// Returns whether this node must not count as restarted at the moment, because a node that is down will need the
    /// complete copies on this node. This is the case if the down node has copies of the same slices.
    ///
    /// When the down node returns, its copies lack the events of the meantime, and fetch them from the copies on this
    /// node. This works only while the copies on this node count as complete. If this node counted as restarted, its
    /// copies would count as incomplete as well, and the cluster would know of no copy that has all events.
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

    /// Returns the number of slice groups in which a slice on this node lacks data that another copy has.
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

    /// Returns the first filter that has incomplete slices on this node, and the number of incomplete slices of all
    /// filters together. A slice is incomplete if it lacks data that another copy of the slice has. Slices that are
    /// being moved to this node are not counted, because all of their data is still on the node from which they are
    /// moved.
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

    /// Returns the number of slices of a filter that this node owns and that are ready.
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

    /// Returns the reason why this node does not hold a slice group that it should own.
    pub(crate) fn fault_at(&self, key: GroupKey) -> Option<&str> {
        let fault = self.faults.iter().find(|fault| fault.key == key)?;
        Some(&fault.reason)
    }

    /// Returns the first slice group of a filter that this node should own but cannot hold.
    pub(crate) fn fault_of(&self, id: FilterId) -> Option<&GroupFault> {
        self.faults.iter().find(|fault| fault.key.filter == id)
    }

    /// Returns the reason why this node is not fully ready. `None` means that the node can serve everything that it
    /// should.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if self.me.is_none() {
            return Some("the node belongs to no cluster, or the cluster does not know its start yet".to_owned());
        }
        if self.map.version == 0 {
            return Some("the node does not know the cluster map yet".to_owned());
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

    /// Returns the reason why an operator must not stop other nodes at the moment, or `None` if other nodes may be
    /// stopped. The only possible reason is that a slice on this node is fetching missing data from copies on other
    /// nodes. If those nodes stopped, the slice could not fetch its data.
    pub(crate) fn incomplete_reason(&self) -> Option<String> {
        let (record, slices) = self.fetching()?;
        let name = &record.name;
        Some(format!(
            "filter `{name}`: slices here are fetching missing cells from other copies ({slices} of all filters)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// An older cluster map names the start of a node in which a copy is complete. The check fails if the node now
    /// answers in another start.
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
