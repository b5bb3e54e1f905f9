//! The committed truth that requests are routed by: nodes, filters, and which node owns which slice.
//!
//! Promises: plain data, the same on every node at the same version. Must not know: how it is agreed on, how it
//! travels, what cells hold.

use firstseen_filter::{GenerationNumber, UnitNumber};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::access::Access;
use super::format::Format;
use super::line::Line;
use super::policies::FilterPolicies;
use super::tree::Branch;
use crate::ids::{ClusterId, Epoch, FilterId, Incarnation, NodeId};
use crate::plan::{PlanError, Prober, SlicedBuildError, SlicedDefinition};

/// What the names of filters begin with that are of a backup and wait for their cells.
pub const RESTORING: &str = "restoring:";

/// A node as the cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The name in the node's certificate; one node of the cluster has it.
    pub name: String,
    /// Datacenter or location.
    pub site: String,
    /// Where others reach the node: `host:port`.
    pub address: String,
    /// The newest start that was committed.
    pub incarnation: Incarnation,
    /// Bytes of cells that the node may be given.
    pub memory_bytes: u64,
    /// Whether the node votes on the map.
    pub voter: bool,
    /// The others go on without the node, until it starts anew: its slices are neither asked nor set.
    pub is_down: bool,
}

/// Upper bound of the copies of a slice: one that answers, two more, and one that is to replace another.
pub const COPIES_MAX: usize = 4;

/// The material of a filter's hash secret; it never prints itself.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretMaterial(pub [u8; 32]);

impl fmt::Debug for SecretMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretMaterial(..)")
    }
}

/// The owner of a copy of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceOwner {
    /// The node.
    pub node: NodeId,
    /// The incarnation since which the cells are complete; a younger one has lost the cells from before its start.
    pub complete_since: Incarnation,
    /// Events may have been recorded without this copy since it was complete last, as its node was down: what it has
    /// persisted is not all.
    pub has_gap: bool,
    /// The start of the node that could not hold the slice: in it, the others go on as if the node was down.
    pub missing_in: Option<Incarnation>,
}

/// A further copy of a slice: it is set as the first copy is, and asked where that cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceCopy {
    /// The slice.
    pub slice: u32,
    /// Who has it.
    pub owner: SliceOwner,
    /// The slice moves here from this node, whose copy goes once this one is complete.
    pub replaces: Option<NodeId>,
    /// The epoch by which the node was given the slice.
    pub since_epoch: Epoch,
}

/// A copy of a slice that is to go to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceMove {
    /// The slice.
    pub slice: u32,
    /// Who has it.
    pub from: NodeId,
    /// Who gets it.
    pub to: NodeId,
}

/// A filter as the cluster knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilterRecord {
    /// What users call it.
    pub name: String,
    /// Rises when events may get another head, or a slice another copy. A new generation does not raise it.
    pub epoch: Epoch,
    /// All that answers depend on, beside the secret.
    pub definition: SlicedDefinition,
    /// What the filter does beside filtering.
    pub policies: FilterPolicies,
    /// By number of the slice: the copy that is asked, where it can answer.
    pub owners: Vec<SliceOwner>,
    /// Further copies, by rising number of the slice; those of one slice in the order in which they are asked.
    pub copies: Vec<SliceCopy>,
    /// The committed number of the newest generation, by group of slices that share events; empty while all are 0.
    pub generations: Vec<GenerationNumber>,
    /// The filter's place in a tree, where it has one.
    pub branch: Option<Branch>,
    /// The filters before and after this one under its name.
    pub line: Line,
}

impl FilterRecord {
    /// Whether events are in flight while they are tested and set: their cells lie in several slices, or levels.
    pub fn has_flights(&self) -> bool {
        self.definition.slicing.divides_cells() || self.branch.is_some()
    }

    /// All copies of slice `slice`, in the order in which they are asked.
    pub fn copies_of(&self, slice: u32) -> impl Iterator<Item = &SliceOwner> {
        self.owners.get(slice as usize).into_iter().chain(self.further_of(slice).map(|copy| &copy.owner))
    }

    fn further_of(&self, slice: u32) -> impl Iterator<Item = &SliceCopy> {
        let first = self.copies.partition_point(|copy| copy.slice < slice);
        self.copies[first..].iter().take_while(move |copy| copy.slice == slice)
    }

    /// All copies of all slices, with the slices.
    pub fn all_copies(&self) -> impl Iterator<Item = (u32, &SliceOwner)> {
        (0..).zip(&self.owners).chain(self.copies.iter().map(|copy| (copy.slice, &copy.owner)))
    }

    /// All copies of all slices, to be changed.
    pub fn all_copies_mut(&mut self) -> impl Iterator<Item = (u32, &mut SliceOwner)> {
        (0..).zip(&mut self.owners).chain(self.copies.iter_mut().map(|copy| (copy.slice, &mut copy.owner)))
    }

    /// The copies of a group's slices that a node has, with the numbers of these slices.
    fn copies_at(&self, group: u32, node: NodeId) -> impl Iterator<Item = (u32, &SliceOwner)> {
        let slicing = self.definition.slicing;
        self.all_copies().filter(move |(slice, copy)| slicing.group_of(*slice) == group && copy.node == node)
    }

    /// Copies that are on their way to other nodes.
    pub fn moves(&self) -> impl Iterator<Item = SliceMove> {
        self.copies.iter().filter_map(|copy| {
            let from = copy.replaces?;
            Some(SliceMove { slice: copy.slice, from, to: copy.owner.node })
        })
    }

    /// Since which epoch the copy of slice `slice` at `node` is on its way there; none where it is not.
    pub fn arriving_since(&self, slice: u32, node: NodeId) -> Option<Epoch> {
        let mut arriving = self.further_of(slice).filter(|copy| copy.replaces.is_some() && copy.owner.node == node);
        arriving.next().map(|copy| copy.since_epoch)
    }

    /// Whether a node has a copy of one of the filter's slices.
    pub fn is_on(&self, node: NodeId) -> bool {
        self.all_copies().any(|(_, owner)| owner.node == node)
    }
}

/// Nodes and filters at one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterMap {
    /// The cluster.
    pub cluster: ClusterId,
    /// Rises with every change.
    pub version: u64,
    /// Members, by number.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// Filters, by number.
    pub filters: BTreeMap<FilterId, FilterRecord>,
    /// The number that the next filter gets. A filter of a lower number that is not here is gone; of filters from this
    /// number on, this map is too old to know.
    pub next_filter: FilterId,
    /// The format in which the cluster writes what it agrees on.
    #[serde(default, skip_serializing_if = "Format::is_first")]
    pub format: Format,
    /// Who may do what. Clients are not told.
    #[serde(default, skip_serializing_if = "says_nothing")]
    pub access: Arc<Access>,
}

fn says_nothing(access: &Arc<Access>) -> bool {
    access.is_empty()
}

impl ClusterMap {
    /// The filter of this name.
    pub fn filter_named(&self, name: &str) -> Option<(FilterId, &FilterRecord)> {
        self.filters.iter().find(|(_, filter)| filter.name == name).map(|(id, filter)| (*id, filter))
    }

    /// The filter whose positions name the events of `filter`: the root of its tree, or itself.
    pub fn root_of<'map>(&'map self, filter: &'map FilterRecord) -> Option<&'map FilterRecord> {
        match &filter.branch {
            Some(branch) if !branch.is_root() => self.filters.get(&branch.root),
            _ => Some(filter),
        }
    }

    /// The name by which rights on `filter` are granted: that of the root for a level of a tree, and for a former filter that of
    /// the one that has followed; one of a backup has that of the filter which it becomes.
    pub fn name_for_rights<'map>(&'map self, filter: &'map FilterRecord) -> &'map str {
        let mut named = self.root_of(filter).unwrap_or(filter);
        // A line has no circle; a map that says otherwise ends this all the same.
        for _ in 0..self.filters.len() {
            let Some(closed) = &named.line.closed else { break };
            let Some(follower) = self.filters.get(&closed.successor) else { break };
            named = follower;
        }
        named.name.strip_prefix(RESTORING).unwrap_or(&named.name)
    }

    /// From digests to the positions that travel: at a level of a tree, events have the positions of its root.
    ///
    /// # Errors
    /// As [`Prober::new`], and [`PlanError::Root`] where the map does not have the root.
    pub fn prober(&self, filter: &FilterRecord) -> Result<Prober, SlicedBuildError> {
        let Some(branch) = filter.branch.as_ref().filter(|branch| !branch.is_root()) else {
            return Prober::new(&filter.definition);
        };
        let root = self.root_of(filter).ok_or(PlanError::Root(branch.root.0))?;
        Prober::of_level(&root.definition, &filter.definition, branch.fold)
    }

    /// The node of this name.
    pub fn node_named(&self, name: &str) -> Option<(NodeId, &NodeRecord)> {
        self.nodes.iter().find(|(_, node)| node.name == name).map(|(id, node)| (*id, node))
    }

    /// The name of a node; `?` if it is not in the map.
    pub fn node_name(&self, node: NodeId) -> &str {
        self.nodes.get(&node).map_or("?", |node| node.name.as_str())
    }

    /// All filters by number, the levels of a tree below its root.
    pub fn filters_in_order(&self) -> Vec<(FilterId, &FilterRecord)> {
        let mut children: BTreeMap<FilterId, Vec<FilterId>> = BTreeMap::new();
        let mut next = Vec::new();
        for (id, record) in self.filters.iter().rev() {
            match record.branch.as_ref().and_then(|branch| branch.parent) {
                Some(parent) => children.entry(parent).or_default().push(*id),
                None => next.push(*id),
            }
        }
        let mut ordered = Vec::with_capacity(self.filters.len());
        while let Some(id) = next.pop() {
            ordered.extend(self.filters.get(&id).map(|record| (id, record)));
            next.extend(children.remove(&id).into_iter().flatten());
        }
        ordered
    }

    /// Whether slice `slice` of `filter` has a complete copy that is not gone.
    pub fn is_complete(&self, filter: &FilterRecord, slice: u32) -> bool {
        filter.copies_of(slice).any(|copy| self.is_complete_copy(copy))
    }

    /// Whether this copy of a slice is complete (it has everything that was ever recorded in the slice), and can be
    /// asked.
    pub fn is_complete_copy(&self, copy: &SliceOwner) -> bool {
        let incarnation = self.nodes.get(&copy.node).map(|node| node.incarnation);
        incarnation == Some(copy.complete_since) && !self.is_gone(copy)
    }

    /// Whether the others go on without this copy of a slice: its node is down, or cannot hold it.
    pub fn is_gone(&self, copy: &SliceOwner) -> bool {
        self.nodes.get(&copy.node).is_none_or(|node| node.is_down || copy.missing_in == Some(node.incarnation))
    }

    /// Whether the others go on without `node`'s slices of a group of `filter`.
    pub fn is_gone_from(&self, filter: &FilterRecord, group: u32, node: NodeId) -> bool {
        self.is_down(node) || filter.copies_at(group, node).any(|(_, copy)| self.is_gone(copy))
    }

    /// Whether others have complete copies of all of `node`'s slices of a group of `filter`.
    pub fn can_spare(&self, filter: &FilterRecord, group: u32, node: NodeId) -> bool {
        filter.copies_at(group, node).all(|(slice, _)| {
            let mut copies = filter.copies_of(slice);
            copies.any(|copy| copy.node != node && self.is_complete_copy(copy))
        })
    }

    /// The copy of slice `slice` of `filter` that is asked: the first that is complete; where none is, the first that
    /// is not gone; where all are, the first.
    pub fn asked(&self, filter: &FilterRecord, slice: u32) -> Option<SliceOwner> {
        let complete = filter.copies_of(slice).find(|copy| self.is_complete_copy(copy));
        let asked = complete.or_else(|| filter.copies_of(slice).find(|copy| !self.is_gone(copy)));
        asked.or_else(|| filter.copies_of(slice).next()).copied()
    }

    /// Whether the others go on without this node.
    pub fn is_down(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.is_down)
    }
}

impl FilterRecord {
    /// Whether the filter is closed: nothing is recorded in it any more.
    pub fn is_closed(&self) -> bool {
        self.line.closed.is_some()
    }

    /// The unit of the filter's clock by which all recorded events have expired, once it is closed and no event is in
    /// flight.
    pub fn passes_at_unit(&self) -> Option<UnitNumber> {
        let closed = self.line.closed.as_ref().filter(|closed| closed.has_ended())?;
        let rule = &self.definition.group.rule;
        Some(rule.expiry(closed.newest_unit).after(rule.lateness_units))
    }

    /// The nodes that have copies of the filter's slices.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.all_copies().map(|(_, owner)| owner.node).collect()
    }
}

impl ClusterMap {
    /// The filter that `filter` has followed, while it is there: it is asked first.
    pub fn former_of(&self, filter: FilterId) -> Option<(FilterId, &FilterRecord)> {
        let former = self.filters.get(&filter)?.line.former?;
        self.filters.get(&former).map(|record| (former, record))
    }

    /// The next filter of the line of `filter`, whose first was `origin`; also where `filter` itself is gone.
    pub fn follower_of(&self, filter: FilterId, origin: FilterId) -> Option<(FilterId, &FilterRecord)> {
        let mut later = self.filters.range(FilterId(filter.0.saturating_add(1))..);
        later.find(|(_, record)| record.line.origin == Some(origin)).map(|(id, record)| (*id, record))
    }
}
