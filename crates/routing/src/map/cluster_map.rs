//! The cluster map, which determines where requests are sent. It lists the nodes, the filters, and the node that owns
//! each slice. The map is plain data. Every change of the map is committed by the consensus group, so all nodes that
//! have the same version of the map have the same content.

use firstseen_filter::{GenerationNumber, UnitNumber};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::access::Access;
use super::filter_history::FilterHistory;
use super::format::Format;
use super::policies::FilterPolicies;
use super::tree::Branch;
use crate::ids::{ClusterId, Epoch, FilterId, Incarnation, NodeId};
use crate::plan::{PlanError, Prober, SlicedBuildError, SlicedDefinition};

/// Prefix of the name of a filter that is being restored from a backup and does not have its cells yet.
pub const RESTORING: &str = "restoring:";

/// Node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name in the node's certificate, which is unique within the cluster.
    pub name: String,
    /// Datacenter or location of the node.
    pub site: String,
    /// Address at which other nodes reach the node, as `host:port`.
    pub address: String,
    /// Incarnation of the node: the number of its latest start that was committed.
    pub incarnation: Incarnation,
    /// Maximum memory for cells on the node, in bytes.
    pub memory_bytes: u64,
    /// Whether the node votes in the consensus group.
    pub voter: bool,
    /// Whether the node is marked down. The other nodes then neither test nor set its slices, until the node starts
    /// again.
    pub is_down: bool,
}

/// Maximum number of copies of a slice: one that answers, two further copies, and one that will replace another copy.
pub const COPIES_MAX: usize = 4;

/// Material of a filter's hash secret. The `Debug` output does not contain the secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretMaterial(pub [u8; 32]);

impl fmt::Debug for SecretMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretMaterial(..)")
    }
}

/// Owner of one copy of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceOwner {
    /// Node that has the copy.
    pub node: NodeId,
    /// Incarnation of the node at the time when this copy became complete. The incarnation is a number that increases
    /// with each restart of the node. If the current incarnation is higher, the node has restarted since then and may
    /// have lost the cells, so the copy counts as incomplete.
    pub complete_since: Incarnation,
    /// Whether events may have been recorded without this copy since it was last complete, because its node was down.
    /// If this is the case, the data that the node has stored on its disk lacks these events too.
    pub has_gap: bool,
    /// Incarnation of the node in which it reported that it cannot hold the slice, or `None` if it can. The incarnation
    /// increases with each restart. Until the node restarts, the other nodes treat this copy as if its node was down.
    pub missing_in: Option<Incarnation>,
}

/// Further copy of a slice. Nodes set its cells together with those of the first copy, and test them if the first copy
/// cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceCopy {
    /// Number of the slice.
    pub slice: u32,
    /// Owner of the copy.
    pub owner: SliceOwner,
    /// Node from which the slice moves to the owner of this copy. Once this copy is complete, that node's copy is
    /// removed.
    pub replaces: Option<NodeId>,
    /// Epoch in which the node received the slice.
    pub since_epoch: Epoch,
}

/// Move of a copy of a slice from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceMove {
    /// Number of the slice.
    pub slice: u32,
    /// Node that has the copy.
    pub from: NodeId,
    /// Node that receives the copy.
    pub to: NodeId,
}

/// Filter of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilterRecord {
    /// Name of the filter.
    pub name: String,
    /// Epoch of the filter, a version number that rises whenever events may get another head node or a slice may get
    /// another copy. Opening a new generation does not change the epoch, because head nodes and copies stay the same.
    pub epoch: Epoch,
    /// Definition of the filter. Together with the secret, it determines all answers.
    pub definition: SlicedDefinition,
    /// Policies of the filter, which cover everything apart from the filtering itself.
    pub policies: FilterPolicies,
    /// First copy of each slice, indexed by the number of the slice. The first copy answers if it can.
    pub owners: Vec<SliceOwner>,
    /// Further copies, sorted by slice. The copies of the same slice are in the order in which they are asked.
    pub copies: Vec<SliceCopy>,
    /// Committed number of the newest generation of each group. The list is empty while all numbers are 0.
    pub generations: Vec<GenerationNumber>,
    /// Place of the filter in a tree, or `None` if the filter does not belong to a tree.
    pub branch: Option<Branch>,
    /// Predecessor and successor of this filter under the same name.
    pub line: FilterHistory,
}

impl FilterRecord {
    /// Returns whether events of this filter can be in flight, which means that their decision takes several messages
    /// between nodes. This is the case if the cells of an event belong to several slices, or if the filter is part of a
    /// tree with several levels.
    pub fn has_flights(&self) -> bool {
        self.definition.slicing.divides_cells() || self.branch.is_some()
    }

    /// Returns all copies of slice `slice`, in the order in which they are asked.
    pub fn copies_of(&self, slice: u32) -> impl Iterator<Item = &SliceOwner> {
        self.owners.get(slice as usize).into_iter().chain(self.further_of(slice).map(|copy| &copy.owner))
    }

    fn further_of(&self, slice: u32) -> impl Iterator<Item = &SliceCopy> {
        let first = self.copies.partition_point(|copy| copy.slice < slice);
        self.copies[first..].iter().take_while(move |copy| copy.slice == slice)
    }

    /// Returns all copies of all slices, each with the number of its slice.
    pub fn all_copies(&self) -> impl Iterator<Item = (u32, &SliceOwner)> {
        (0..).zip(&self.owners).chain(self.copies.iter().map(|copy| (copy.slice, &copy.owner)))
    }

    /// Returns mutable references to all copies of all slices, each with the number of its slice.
    pub fn all_copies_mut(&mut self) -> impl Iterator<Item = (u32, &mut SliceOwner)> {
        (0..).zip(&mut self.owners).chain(self.copies.iter_mut().map(|copy| (copy.slice, &mut copy.owner)))
    }

    /// Returns the copies of a group's slices that a node has, each with the number of its slice.
    fn copies_at(&self, group: u32, node: NodeId) -> impl Iterator<Item = (u32, &SliceOwner)> {
        let slicing = self.definition.slicing;
        self.all_copies().filter(move |(slice, copy)| slicing.group_of(*slice) == group && copy.node == node)
    }

    /// Returns the copies that are moving to other nodes.
    pub fn moves(&self) -> impl Iterator<Item = SliceMove> {
        self.copies.iter().filter_map(|copy| {
            let from = copy.replaces?;
            Some(SliceMove { slice: copy.slice, from, to: copy.owner.node })
        })
    }

    /// Returns the epoch since which a copy of slice `slice` has been moving to `node`, or `None` if no copy is moving
    /// there.
    pub fn arriving_since(&self, slice: u32, node: NodeId) -> Option<Epoch> {
        let mut arriving = self.further_of(slice).filter(|copy| copy.replaces.is_some() && copy.owner.node == node);
        arriving.next().map(|copy| copy.since_epoch)
    }

    /// Returns whether a node has a copy of one of the filter's slices.
    pub fn is_on(&self, node: NodeId) -> bool {
        self.all_copies().any(|(_, owner)| owner.node == node)
    }
}

/// Cluster map: all nodes and filters at one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterMap {
    /// Identifier of the cluster.
    pub cluster: ClusterId,
    /// Version of the map, which rises with every change.
    pub version: u64,
    /// Members of the cluster, by number.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// Filters, by number.
    pub filters: BTreeMap<FilterId, FilterRecord>,
    /// Number that the next created filter will get. If this map does not contain a requested filter, the number shows
    /// the reason. A filter with a lower number was created earlier, so it must have been dropped. A filter with this
    /// number or a higher one was created later, so this map is outdated.
    pub next_filter: FilterId,
    /// Format in which the cluster encodes its committed data.
    #[serde(default, skip_serializing_if = "Format::is_first")]
    pub format: Format,
    /// Rights of principals. This part of the map is not sent to clients.
    #[serde(default, skip_serializing_if = "says_nothing")]
    pub access: Arc<Access>,
}

fn says_nothing(access: &Arc<Access>) -> bool {
    access.is_empty()
}

impl ClusterMap {
    /// Returns the filter with this name.
    pub fn filter_named(&self, name: &str) -> Option<(FilterId, &FilterRecord)> {
        self.filters.iter().find(|(_, filter)| filter.name == name).map(|(id, filter)| (*id, filter))
    }

    /// Returns the filter whose cell positions are used in messages about events of `filter`. For a level of a filter
    /// tree, this is the root of the tree, because all levels of a tree exchange the positions at the root. For any
    /// other filter, it is the filter itself.
    pub fn root_of<'map>(&'map self, filter: &'map FilterRecord) -> Option<&'map FilterRecord> {
        match &filter.branch {
            Some(branch) if !branch.is_root() => self.filters.get(&branch.root),
            _ => Some(filter),
        }
    }

    /// Returns the name that determines which rights apply to `filter`. This is usually the name of the filter, with
    /// three exceptions:
    ///
    /// - For a level of a tree, it is the name of the root.
    /// - For a filter that was replaced by a successor, it is the name of the successor.
    /// - For a filter that is being restored from a backup, it is the name that the restored filter will have.
    pub fn name_for_rights<'map>(&'map self, filter: &'map FilterRecord) -> &'map str {
        let mut named = self.root_of(filter).unwrap_or(filter);
        // A chain of successors has no cycle. If a corrupt map has one, the limit on the number of steps ends the loop.
        for _ in 0..self.filters.len() {
            let Some(closed) = &named.line.closed else { break };
            let Some(follower) = self.filters.get(&closed.successor) else { break };
            named = follower;
        }
        named.name.strip_prefix(RESTORING).unwrap_or(&named.name)
    }

    /// Returns the prober of a filter, which computes the positions of an event from its digest. These positions are
    /// sent in messages between nodes. At a level of a tree, the positions are those of the root.
    ///
    /// # Errors
    /// Returns the same errors as [`Prober::new`], and [`PlanError::Root`] if the map does not contain the root.
    pub fn prober(&self, filter: &FilterRecord) -> Result<Prober, SlicedBuildError> {
        let Some(branch) = filter.branch.as_ref().filter(|branch| !branch.is_root()) else {
            return Prober::new(&filter.definition);
        };
        let root = self.root_of(filter).ok_or(PlanError::Root(branch.root.0))?;
        Prober::of_level(&root.definition, &filter.definition, branch.fold)
    }

    /// Returns the node with this name.
    pub fn node_named(&self, name: &str) -> Option<(NodeId, &NodeRecord)> {
        self.nodes.iter().find(|(_, node)| node.name == name).map(|(id, node)| (*id, node))
    }

    /// Returns the name of a node, or `?` if the node is not in the map.
    pub fn node_name(&self, node: NodeId) -> &str {
        self.nodes.get(&node).map_or("?", |node| node.name.as_str())
    }

    /// Returns all filters sorted by number, except that the levels of a tree follow their root.
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

    /// Returns whether slice `slice` of `filter` has a complete copy whose node is not gone.
    pub fn is_complete(&self, filter: &FilterRecord, slice: u32) -> bool {
        filter.copies_of(slice).any(|copy| self.is_complete_copy(copy))
    }

    /// Returns whether this copy of a slice is complete and can answer. A complete copy has everything that was ever
    /// recorded in the slice.
    pub fn is_complete_copy(&self, copy: &SliceOwner) -> bool {
        let incarnation = self.nodes.get(&copy.node).map(|node| node.incarnation);
        incarnation == Some(copy.complete_since) && !self.is_gone(copy)
    }

    /// Returns whether this copy of a slice is gone, so that the cluster continues without it. A copy is gone if its
    /// node is marked down in the cluster map, or was not able to hold the slice.
    pub fn is_gone(&self, copy: &SliceOwner) -> bool {
        self.nodes.get(&copy.node).is_none_or(|node| node.is_down || copy.missing_in == Some(node.incarnation))
    }

    /// Returns whether the slices that `node` has in a group of `filter` are gone, so that the cluster continues
    /// without them.
    pub fn is_gone_from(&self, filter: &FilterRecord, group: u32, node: NodeId) -> bool {
        self.is_down(node) || filter.copies_at(group, node).any(|(_, copy)| self.is_gone(copy))
    }

    /// Returns whether other nodes have complete copies of all slices that `node` has in a group of `filter`.
    pub fn can_spare(&self, filter: &FilterRecord, group: u32, node: NodeId) -> bool {
        filter.copies_at(group, node).all(|(slice, _)| {
            let mut copies = filter.copies_of(slice);
            copies.any(|copy| copy.node != node && self.is_complete_copy(copy))
        })
    }

    /// Returns the copy that answers requests for slice `slice`. This is the first complete copy. If no copy is
    /// complete, it is the first copy that is not gone. If all copies are gone, the first copy is returned, although
    /// its node cannot answer.
    pub fn asked(&self, filter: &FilterRecord, slice: u32) -> Option<SliceOwner> {
        let complete = filter.copies_of(slice).find(|copy| self.is_complete_copy(copy));
        let asked = complete.or_else(|| filter.copies_of(slice).find(|copy| !self.is_gone(copy)));
        asked.or_else(|| filter.copies_of(slice).next()).copied()
    }

    /// Returns whether the node is marked down, so that the cluster continues without it.
    pub fn is_down(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.is_down)
    }
}

impl FilterRecord {
    /// Returns whether the filter is closed. No events are recorded in a closed filter any more.
    pub fn is_closed(&self) -> bool {
        self.line.closed.is_some()
    }

    /// Returns the unit of the filter's clock at which all events of a closed filter have expired. From that unit on,
    /// the filter can be removed. Returns `None` if the filter is not closed, or if events of the filter are still in
    /// flight.
    pub fn passes_at_unit(&self) -> Option<UnitNumber> {
        let closed = self.line.closed.as_ref().filter(|closed| closed.has_ended())?;
        let rule = &self.definition.group.rule;
        Some(rule.expiry(closed.newest_unit).after(rule.lateness_units))
    }

    /// Returns the nodes that have copies of the filter's slices.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.all_copies().map(|(_, owner)| owner.node).collect()
    }
}

impl ClusterMap {
    /// Returns the predecessor of `filter`, which is asked first, as long as the predecessor exists.
    pub fn former_of(&self, filter: FilterId) -> Option<(FilterId, &FilterRecord)> {
        let former = self.filters.get(&filter)?.line.former?;
        self.filters.get(&former).map(|record| (former, record))
    }

    /// Returns the filter that replaced `filter`. `origin` is the first filter in the chain of filters that replaced
    /// each other under one name. The successor is found by `origin`, so the search also works if `filter` itself has
    /// already been removed.
    pub fn follower_of(&self, filter: FilterId, origin: FilterId) -> Option<(FilterId, &FilterRecord)> {
        let mut later = self.filters.range(FilterId(filter.0.saturating_add(1))..);
        later.find(|(_, record)| record.line.origin == Some(origin)).map(|(id, record)| (*id, record))
    }
}
