//! Placement of a slice group, which states which node has which slice. It also states which slices *vote* on events. A
//! slice votes if it is complete, because only then does an empty cell in the slice prove that an event was not
//! recorded.
//!
//! Every position of the group lies in exactly one slice, and every slice lies on at least one node. The cluster map
//! alone determines which node is the head of an event and which slices vote on the event, so all nodes with the same
//! map agree on both.

mod holders;

use std::ops::Range;

use firstseen_filter::HASHES_MAX;

use crate::ids::{Epoch, Incarnation, NodeId, distinct};
use crate::map::{COPIES_MAX, ClusterMap, FilterRecord, SliceMove, SliceOwner, head_place};
use crate::plan::GroupPlan;
use holders::Holders;

/// The nodes of a group's slices, and the positions of each slice.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    plan: GroupPlan,
    epoch: Epoch,
    /// All nodes of the group, each of them once, sorted.
    nodes: Vec<NodeId>,
    /// State of each node, in the order of `nodes`.
    starts: Vec<NodeStart>,
    /// For each slice of the group, the index in `nodes` of the node that is asked about it.
    node_of_slice: Vec<usize>,
    /// For each slice of the group, the nodes that set its cells.
    holders: Vec<Holders>,
    /// Index of this node in `nodes`, or the length of `nodes` if this node has none of the slices.
    me: usize,
    /// State of each slice of the group.
    standings: Vec<SliceStanding>,
    all_complete: bool,
    /// Whether each slice has only one copy.
    is_single: bool,
    any_gone: bool,
    /// Whether events may have been recorded without a slice of this node.
    has_gap_here: bool,
    /// Whether a slice of this node lacks events.
    lacks_here: bool,
    /// Slices that are moving to this node.
    arriving_here: Vec<Arrival>,
    /// Slices that are moving to this node, each with the node from which it moves.
    origins: Vec<(u32, NodeId)>,
    /// Nodes to which slices of this node are moving.
    targets: Vec<NodeId>,
}

/// A slice that is moving to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) slice: u32,
    /// Epoch since which the slice is moving.
    pub(crate) since: Epoch,
}

/// A node of the group, as the cluster map describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeStart {
    /// Incarnation of the node's process.
    incarnation: Incarnation,
    /// Whether the other nodes continue without the slices of this node.
    is_gone: bool,
    /// Whether events may have been recorded without one of the node's slices since that slice was complete.
    has_gap: bool,
}

/// Whether a slice votes, according to the cluster map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceStanding {
    /// The slice has everything that was ever recorded in it, so it votes.
    Complete,
    /// The slice has lost events. It is set, but does not vote.
    Incomplete,
    /// The slice is gone. It is neither set nor asked.
    Gone,
}

/// The positions of an event that are tested, which are the first `len` entries.
pub(crate) struct Voters {
    positions: [u64; HASHES_MAX as usize],
    len: usize,
    /// Number of the event's positions that vote. These lie on slices that are complete and not gone.
    pub(crate) voting: usize,
}

impl Voters {
    pub(crate) fn positions(&self) -> &[u64] {
        &self.positions[..self.len]
    }
}

/// One group as a cluster map describes it.
struct GroupInMap<'map> {
    map: &'map ClusterMap,
    record: &'map FilterRecord,
    group: u32,
    /// Number of slices in the group.
    slices: u32,
}

impl<'map> GroupInMap<'map> {
    /// Returns the slices by their numbers in the group.
    fn slices(&self) -> Range<u32> {
        0..self.slices
    }

    /// Returns the number in the filter of a slice of the group.
    fn in_filter(&self, slice: u32) -> u32 {
        self.group.saturating_mul(self.slices).saturating_add(slice)
    }

    fn copies(&self, slice: u32) -> impl Iterator<Item = &'map SliceOwner> {
        self.record.copies_of(self.in_filter(slice)).take(COPIES_MAX)
    }

    /// Returns the node that is asked about a slice.
    fn asked(&self, slice: u32) -> NodeId {
        let owner = self.map.asked(self.record, self.in_filter(slice));
        owner.map_or(NodeId::default(), |owner| owner.node)
    }

    fn start(&self, node: NodeId) -> NodeStart {
        let incarnation = self.map.nodes.get(&node).map(|node| node.incarnation);
        let mut copies = self.slices().flat_map(|slice| self.copies(slice));
        NodeStart {
            incarnation: incarnation.unwrap_or_default(),
            is_gone: incarnation.is_none() || self.map.is_gone_from(self.record, self.group, node),
            has_gap: copies.any(|copy| copy.node == node && copy.has_gap),
        }
    }

    /// Returns whether a slice votes if node `asked` is asked about it.
    fn standing(&self, slice: u32, asked: NodeId) -> SliceStanding {
        if self.map.is_complete(self.record, self.in_filter(slice)) {
            return SliceStanding::Complete;
        }
        if self.start(asked).is_gone { SliceStanding::Gone } else { SliceStanding::Incomplete }
    }

    /// Returns the epoch since which a slice is moving to a node, or `None` if it is not moving there.
    fn arriving_since(&self, slice: u32, node: NodeId) -> Option<Epoch> {
        self.record.arriving_since(self.in_filter(slice), node)
    }

    fn holders(&self, slice: u32, nodes: &[NodeId]) -> Holders {
        let mut holders = Holders::default();
        for copy in self.copies(slice) {
            let is_arriving = self.arriving_since(slice, copy.node).is_some();
            holders.push(place_of(copy.node, nodes), self.map.is_complete_copy(copy), is_arriving);
        }
        holders
    }

    /// Returns the slices of the group that are moving, by their numbers in the group.
    fn moves(&self) -> impl Iterator<Item = SliceMove> {
        let per_group = self.record.definition.slicing.slices_per_group().max(1);
        let moves = self.record.moves().filter(move |way| way.slice / per_group == self.group);
        moves.map(move |way| SliceMove { slice: way.slice % per_group, ..way })
    }
}

/// Returns the index of a node in `nodes`, or the length of `nodes` if the node is not in it.
fn place_of(node: NodeId, nodes: &[NodeId]) -> usize {
    nodes.binary_search(&node).unwrap_or(nodes.len())
}

impl Placement {
    /// Returns the placement of `group` according to `map`. Slices without an owner in the map belong to no node.
    pub(crate) fn new(map: &ClusterMap, record: &FilterRecord, group: u32, me: NodeId, plan: GroupPlan) -> Self {
        let by_map = GroupInMap { map, record, group, slices: plan.slices_per_group() };
        let owners: Vec<NodeId> = by_map.slices().map(|slice| by_map.asked(slice)).collect();
        let copies = by_map.slices().flat_map(|slice| by_map.copies(slice));
        let nodes = distinct(copies.map(|copy| copy.node).chain(owners.clone()));
        let starts: Vec<NodeStart> = nodes.iter().map(|node| by_map.start(*node)).collect();
        let me_here = place_of(me, &nodes);
        let holders: Vec<Holders> = by_map.slices().map(|slice| by_map.holders(slice, &nodes)).collect();
        let standings: Vec<SliceStanding> =
            by_map.slices().zip(&owners).map(|(slice, owner)| by_map.standing(slice, *owner)).collect();
        let arriving = by_map.slices().filter_map(|slice| {
            let since = by_map.arriving_since(slice, me)?;
            Some(Arrival { slice, since })
        });
        let settled = by_map.slices().filter(|slice| by_map.arriving_since(*slice, me).is_none());
        let mut settled_here = settled.flat_map(|slice| by_map.copies(slice)).filter(|copy| copy.node == me);
        Self {
            plan,
            epoch: record.epoch,
            node_of_slice: owners.iter().map(|owner| place_of(*owner, &nodes)).collect(),
            me: me_here,
            lacks_here: holders.iter().any(|holders| holders.is_incomplete_at(me_here)),
            arriving_here: arriving.collect(),
            origins: by_map.moves().filter(|way| way.to == me).map(|way| (way.slice, way.from)).collect(),
            targets: distinct(by_map.moves().filter(|way| way.from == me).map(|way| way.to)),
            is_single: holders.iter().all(|holders| holders.nodes().len() <= 1),
            holders,
            all_complete: standings.iter().all(|standing| *standing == SliceStanding::Complete),
            any_gone: starts.iter().any(|start| start.is_gone),
            has_gap_here: settled_here.any(|copy| copy.has_gap),
            starts,
            standings,
            nodes,
        }
    }

    /// Returns the epoch of the filter.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns whether in `other` the same nodes have and serve the same slices, so that every event has the same head.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.nodes == other.nodes
            && self.node_of_slice == other.node_of_slice
            && self.starts.iter().zip(&other.starts).all(|(one, other)| one.is_gone == other.is_gone)
            && self.holders.iter().zip(&other.holders).all(|(one, other)| one.nodes() == other.nodes())
    }

    /// Returns whether all slices of this node are complete, except those that are still moving here.
    pub(crate) fn is_complete_here(&self) -> bool {
        self.is_complete_of(self.me)
    }

    /// Returns whether a node has slices that are not still moving there, and all of these contain everything that was
    /// ever recorded in them.
    fn is_complete_of(&self, node: usize) -> bool {
        let own = self.holders.iter().filter(|holders| holders.has(node) && !holders.is_arriving_at(node));
        let mut own = own.peekable();
        own.peek().is_some() && own.all(|holders| holders.is_complete_at(node))
    }

    /// Returns whether every slice has a complete copy that is not gone.
    pub(crate) fn is_all_complete(&self) -> bool {
        self.all_complete
    }

    /// Returns whether a slice about which this node is asked has lost events.
    pub(crate) fn asks_incomplete_here(&self) -> bool {
        let asked = self.node_of_slice.iter().zip(&self.standings).filter(|(node, _)| **node == self.me);
        asked.into_iter().any(|(_, standing)| *standing != SliceStanding::Complete)
    }

    /// Returns the number of slices about which this node is asked.
    pub(crate) fn asked_here(&self) -> usize {
        self.node_of_slice.iter().filter(|node| **node == self.me).count()
    }

    /// Returns whether this node has slices of the group.
    pub(crate) fn has_any_here(&self) -> bool {
        self.nodes.get(self.me).is_some()
    }

    /// Returns whether a slice of this node lacks events.
    pub(crate) fn lacks_here(&self) -> bool {
        self.lacks_here
    }

    /// Returns the slices of this node that lack events.
    pub(crate) fn lacking_here(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.holders).filter(|(_, holders)| holders.is_incomplete_at(self.me)).map(|(slice, _)| slice)
    }

    /// Returns the slices that are moving to this node.
    pub(crate) fn arriving_here(&self) -> &[Arrival] {
        &self.arriving_here
    }

    /// Returns the nodes to which slices of this node are moving.
    pub(crate) fn targets(&self) -> &[NodeId] {
        &self.targets
    }

    /// Returns whether a slice is moving to this node from a node that is not gone.
    pub(crate) fn has_live_origin(&self, slice: u32) -> bool {
        let mut origins = self.origins.iter().filter(|(of, _)| *of == slice);
        origins.any(|(_, from)| self.live_peers().any(|(peer, _)| peer == *from))
    }

    /// Returns the nodes from which slices have moved to this node since the placement `former`. A move counts as soon
    /// as it is finished, even if the slice has been moved on to a third node since then. A move that is still in
    /// progress does not count.
    pub(crate) fn arrived_since(&self, former: &Self) -> Vec<NodeId> {
        let arrived = former.origins.iter().filter(|(slice, from)| {
            let was_asked = former.asked(*slice) == Some(*from);
            was_asked && self.asked(*slice) != Some(*from) && !self.is_arriving_here(*slice)
        });
        distinct(arrived.map(|(_, from)| *from))
    }

    /// Returns the nodes that take over slices from this node when the placement changes to `next`. This node can lose
    /// two sorts of slices: those about which other nodes ask this node, and those that are still moving to this node.
    pub(crate) fn taken_from_here(&self, next: &Self) -> Vec<NodeId> {
        let slices = 0..self.slices() as u32;
        let here =
            slices.filter(|slice| self.node_of_slice[*slice as usize] == self.me || self.is_arriving_here(*slice));
        let going = here.filter(|slice| !next.holders[*slice as usize].has(next.me));
        distinct(going.filter_map(|slice| next.asked(slice)))
    }

    fn asked(&self, slice: u32) -> Option<NodeId> {
        self.nodes.get(*self.node_of_slice.get(slice as usize)?).copied()
    }

    /// Returns whether in `other` the same nodes are asked about the same slices, so that every event has the same
    /// head.
    pub(crate) fn heads_as(&self, other: &Self) -> bool {
        self.heads().eq(other.heads())
    }

    /// Returns for each slice the node that is asked about it, and whether that node is gone.
    fn heads(&self) -> impl Iterator<Item = (NodeId, bool)> {
        self.node_of_slice.iter().map(|index| (self.nodes[*index], self.starts[*index].is_gone))
    }

    /// Returns whether the process that headed an event according to `former` also has copies of some of its slices in
    /// this placement.
    pub(crate) fn has_former_head(&self, former: &Self, head: NodeId, positions: &[u64]) -> bool {
        let Some((is, was)) = self.index_of(head).zip(former.index_of(head)) else { return false };
        let NodeStart { incarnation, is_gone, .. } = self.starts[is];
        !is_gone
            && incarnation == former.starts[was].incarnation
            && positions.iter().any(|position| self.has_copy(is, *position))
    }

    /// Returns whether this node may be the head of events that another node headed according to `former`.
    pub(crate) fn heads_more_than(&self, former: &Self) -> bool {
        let me = self.nodes.get(self.me).copied();
        let mut own = (0..).zip(&self.node_of_slice).filter(|(_, node)| **node == self.me);
        !self.gone_peers().eq(former.gone_peers()) || own.any(|(slice, _)| former.asked(slice) != me)
    }

    /// Returns whether this node gets its first slices of the group by the map of this placement, so that it has
    /// recorded nothing before.
    pub(crate) fn is_fresh_here(&self) -> bool {
        let own = self.holders.iter().filter(|holders| holders.has(self.me)).count();
        own == self.arriving_here.len() && self.arriving_here.iter().all(|arrival| arrival.since == self.epoch)
    }

    /// Returns whether a slice is moving to this node.
    pub(crate) fn is_arriving_here(&self, slice: u32) -> bool {
        self.arriving_here.iter().any(|arrival| arrival.slice == slice)
    }

    /// Returns the slices of this node that lack events, each with a node that has a complete copy of it.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (u32, NodeId)> {
        self.lacking_here().filter_map(|slice| {
            let source = self.holders[slice as usize].complete_nodes().next()?;
            Some((slice, self.nodes[source]))
        })
    }

    /// Returns the complete slices of this node, each with every other node that has a complete copy of it.
    pub(crate) fn complete_twins(&self) -> impl Iterator<Item = (u32, NodeId)> {
        let own = (0..).zip(&self.holders).filter(|(_, holders)| holders.is_complete_at(self.me));
        own.flat_map(move |(slice, holders)| {
            let others = holders.complete_nodes().filter(|node| *node != self.me);
            others.map(move |node| (slice, self.nodes[node]))
        })
    }

    /// Returns whether the given start of this node has everything that was ever recorded in a slice of the group.
    pub(crate) fn is_source(&self, slice: usize, start: Incarnation) -> bool {
        self.is_slice_complete_here(slice)
            && self.starts.get(self.me).is_some_and(|here| here.incarnation == start && !here.is_gone)
    }

    /// Returns whether this node has everything that was ever recorded in a slice of the group.
    pub(crate) fn is_slice_complete_here(&self, slice: usize) -> bool {
        self.holders.get(slice).is_some_and(|holders| holders.is_complete_at(self.me))
    }

    /// Returns whether this node has everything that was ever recorded in the slices of these positions.
    pub(crate) fn has_complete_here(&self, positions: &[u64]) -> bool {
        positions.iter().all(|position| self.is_slice_complete_here(self.locate(*position).0))
    }

    /// Returns whether this node is gone from the group, so that the other nodes continue without its slices.
    pub(crate) fn is_gone_here(&self) -> bool {
        self.starts.get(self.me).is_some_and(|start| start.is_gone)
    }

    /// Returns whether events may have been recorded without one of the slices that this node has.
    pub(crate) fn has_gap_here(&self) -> bool {
        self.has_gap_here
    }

    /// Returns whether, according to the cluster map, events may have been recorded without one of the slices of a
    /// node.
    pub(crate) fn has_gap_at(&self, node: NodeId) -> bool {
        self.index_of(node).is_none_or(|node| self.starts[node].has_gap)
    }

    /// Returns the other nodes of the group that are not gone, with their incarnations.
    pub(crate) fn live_peers(&self) -> impl Iterator<Item = (NodeId, Incarnation)> {
        let nodes = self.nodes.iter().zip(&self.starts).enumerate();
        nodes
            .filter(|(index, (_, start))| *index != self.me && !start.is_gone)
            .map(|(_, (node, start))| (*node, start.incarnation))
    }

    /// Returns the other nodes of the group that are gone.
    pub(crate) fn gone_peers(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter().zip(&self.starts).enumerate();
        nodes.filter(|(index, (_, start))| *index != self.me && start.is_gone).map(|(_, (node, _))| *node)
    }

    /// Returns whether all slices of a node contain everything that was ever recorded in them.
    pub(crate) fn is_complete_at(&self, node: NodeId) -> bool {
        self.index_of(node).is_some_and(|node| self.is_complete_of(node))
    }

    /// Returns the head of an event, at which its test begins.
    #[inline]
    pub(crate) fn head(&self, positions: &[u64]) -> Option<NodeId> {
        let nodes = positions.iter().map(|position| self.node_at(*position));
        head_place(nodes, |node| self.is_gone(*node)).map(|node| self.nodes[node])
    }

    /// Returns whether a node is gone from the group. A node is gone if the cluster map lists it as down, or if it
    /// cannot hold one of its slices. The other nodes then continue without any of its slices.
    #[inline]
    pub(crate) fn is_gone(&self, node: usize) -> bool {
        self.any_gone && self.starts[node].is_gone
    }

    /// Returns the positions of an event that must be tested. Usually these are only the positions in complete slices,
    /// because only an empty cell in a complete slice proves that the event was not recorded.
    ///
    /// If fewer than `asks_all_below` positions are in complete slices, the positions in incomplete slices are tested
    /// too. An empty cell in an incomplete slice is no proof, but some callers can use it nevertheless. For example, a
    /// level of a filter tree sends events with an empty cell to its parent level, which makes the final decision. A
    /// caller that needs a proof passes 0.
    pub(crate) fn voters(&self, positions: &[u64], asks_all_below: usize) -> Voters {
        let voting = if self.all_complete {
            positions.len()
        } else {
            positions.iter().filter(|position| self.standing(**position) == SliceStanding::Complete).count()
        };
        let mut voters = Voters { positions: [0; HASHES_MAX as usize], len: 0, voting };
        for position in positions {
            let is_asked = self.all_complete
                || match self.standing(*position) {
                    SliceStanding::Complete => true,
                    SliceStanding::Incomplete => voting < asks_all_below,
                    SliceStanding::Gone => false,
                };
            if is_asked {
                voters.positions[voters.len] = *position;
                voters.len += 1;
            }
        }
        voters
    }

    fn standing(&self, position: u64) -> SliceStanding {
        self.standings[self.locate(position).0]
    }

    /// Returns whether none of these positions lies on a slice of this node that has lost events.
    pub(crate) fn has_lost_nothing_of(&self, positions: &[u64]) -> bool {
        self.all_complete
            || positions.iter().all(|position| {
                let slice = self.locate(*position).0;
                self.node_of_slice[slice] != self.me || self.standings[slice] == SliceStanding::Complete
            })
    }

    /// Returns the number of slices of the group that are not gone, so that some node serves them.
    pub(crate) fn served_slices(&self) -> usize {
        self.standings.iter().filter(|standing| **standing != SliceStanding::Gone).count()
    }

    pub(crate) fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    pub(crate) fn slices(&self) -> usize {
        self.node_of_slice.len()
    }

    /// Returns the slice of the group that contains a position, and the offset in that slice.
    #[inline]
    pub(crate) fn locate(&self, position: u64) -> (usize, u64) {
        let (slice, offset) = self.plan.place(position);
        (slice as usize, offset)
    }

    /// Returns the index of the node that is asked about this position.
    #[inline]
    pub(crate) fn node_at(&self, position: u64) -> usize {
        self.node_of_slice[self.locate(position).0]
    }

    pub(crate) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(crate) fn index_of(&self, node: NodeId) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }

    /// Returns whether index `node` refers to this node.
    #[inline]
    pub(crate) fn is_me(&self, node: usize) -> bool {
        node == self.me
    }

    /// Returns whether node `node` has a copy of the slice of this position.
    #[inline]
    pub(crate) fn has_copy(&self, node: usize, position: u64) -> bool {
        self.has_slice(node, self.locate(position).0)
    }

    /// Returns whether node `node` has a copy of a slice of the group.
    #[inline]
    pub(crate) fn has_slice(&self, node: usize, slice: usize) -> bool {
        if self.is_single { self.node_of_slice[slice] == node } else { self.holders[slice].has(node) }
    }

    /// Returns whether the change to the placement `next` gives some other node a copy of a slice that node `node` has.
    /// If the other node had a copy before but has restarted, the copy counts as new too.
    pub(crate) fn is_joined_at(&self, node: NodeId, next: &Self) -> bool {
        let Some(place) = self.index_of(node) else { return false };
        let mut slices = self.holders.iter().zip(&next.holders).filter(|(before, _)| before.has(place));
        slices.any(|(before, after)| {
            let mut others = after.nodes().iter().map(|at| usize::from(*at)).filter(|at| next.nodes[*at] != node);
            others.any(|at| !self.had(before, next, at))
        })
    }

    /// Returns whether node `at` of `next` had a copy of a slice in this placement and has not restarted since.
    fn had(&self, slice: &Holders, next: &Self, at: usize) -> bool {
        let Some(here) = self.index_of(next.nodes[at]) else { return false };
        self.starts[here].incarnation == next.starts[at].incarnation && slice.has(here)
    }

    /// Returns whether this node has a copy of the slice of this position.
    #[inline]
    pub(crate) fn has_copy_here(&self, position: u64) -> bool {
        self.has_copy(self.me, position)
    }

    /// Returns whether this node tests a position when an event arrives. It does so if it is asked about the slice, or
    /// has a complete copy of it.
    #[inline]
    pub(crate) fn is_tested_here(&self, position: u64) -> bool {
        self.tests_slice(self.locate(position).0)
    }

    /// Returns whether this node tests a slice when an event arrives.
    #[inline]
    pub(crate) fn tests_slice(&self, slice: usize) -> bool {
        self.node_of_slice[slice] == self.me || !self.is_single && self.holders[slice].is_complete_at(self.me)
    }

    /// Returns whether this node has a copy of a slice.
    pub(crate) fn holds_slice(&self, slice: usize) -> bool {
        self.holders[slice].has(self.me)
    }

    /// Returns whether a list received from outside can be the positions of an event of this group.
    pub(crate) fn admits(&self, positions: &[u64]) -> bool {
        let cells = self.plan.group_cells();
        (1..=self.plan.shape().hashes() as usize).contains(&positions.len())
            && positions.iter().all(|position| *position < cells)
    }
}
