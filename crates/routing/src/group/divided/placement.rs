//! Where the slices of one group live, and which of them vote: a zero there proves that an event was not recorded.
//!
//! Promises: every position below the group's cells has a slice, and every slice a node; who heads an event and who votes
//! on it is what the map says. Must not know: cells, events.

mod holders;

use std::ops::Range;

use firstseen_filter::HASHES_MAX;

use crate::ids::{Epoch, Incarnation, NodeId, distinct};
use crate::map::{COPIES_MAX, ClusterMap, FilterRecord, SliceMove, SliceOwner, head_place};
use crate::plan::GroupPlan;
use holders::Holders;

/// The nodes of a group's slices, and which positions each slice has.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    plan: GroupPlan,
    epoch: Epoch,
    /// Every node once.
    nodes: Vec<NodeId>,
    /// By node.
    starts: Vec<NodeStart>,
    /// By slice of the group: index into `nodes` of the node that is asked.
    node_of_slice: Vec<usize>,
    /// By slice of the group: the nodes that set.
    holders: Vec<Holders>,
    /// Where `nodes` has this node; one beyond the end where it has none of the slices.
    me: usize,
    /// By slice of the group.
    standings: Vec<SliceStanding>,
    all_complete: bool,
    /// All slices have one copy each.
    is_single: bool,
    any_gone: bool,
    /// Events may have been recorded without a slice here.
    has_gap_here: bool,
    /// A slice here lacks something.
    lacks_here: bool,
    /// Slices that are on their way here.
    arriving_here: Vec<Arrival>,
    /// Slices that are on their way here, and from whom.
    origins: Vec<(u32, NodeId)>,
    /// Nodes that slices of this one are on their way to.
    targets: Vec<NodeId>,
}

/// A slice that is on its way here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) slice: u32,
    /// The epoch since which it is on its way.
    pub(crate) since: Epoch,
}

/// A node of the group, as the map says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeStart {
    /// Which of its processes it is.
    incarnation: Incarnation,
    /// The others go on without its slices.
    is_gone: bool,
    /// Events may have been recorded without one of its slices since that was complete.
    has_gap: bool,
}

/// Whether a slice votes, as the map says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceStanding {
    /// The slice has everything that was ever recorded in it.
    Complete,
    /// The slice has lost something: it is set, but does not vote.
    Incomplete,
    /// The slice is gone: it is neither set nor asked.
    Gone,
}

/// Which positions of an event are tested: the first of these.
pub(crate) struct Voters {
    positions: [u64; HASHES_MAX as usize],
    len: usize,
    /// How many of the event's positions vote: those on slices that are complete, and not gone.
    pub(crate) voting: usize,
}

impl Voters {
    pub(crate) fn positions(&self) -> &[u64] {
        &self.positions[..self.len]
    }
}

/// One group, as a map has it.
struct GroupInMap<'map> {
    map: &'map ClusterMap,
    record: &'map FilterRecord,
    group: u32,
    /// Slices of a group.
    slices: u32,
}

impl<'map> GroupInMap<'map> {
    /// The slices of the group, by their numbers in it.
    fn slices(&self) -> Range<u32> {
        0..self.slices
    }

    /// The number in the filter of a slice of the group.
    fn in_filter(&self, slice: u32) -> u32 {
        self.group.saturating_mul(self.slices).saturating_add(slice)
    }

    fn copies(&self, slice: u32) -> impl Iterator<Item = &'map SliceOwner> {
        self.record.copies_of(self.in_filter(slice)).take(COPIES_MAX)
    }

    /// The node that is asked about a slice.
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

    /// Whether a slice votes, about which `asked` is asked.
    fn standing(&self, slice: u32, asked: NodeId) -> SliceStanding {
        if self.map.is_complete(self.record, self.in_filter(slice)) {
            return SliceStanding::Complete;
        }
        if self.start(asked).is_gone { SliceStanding::Gone } else { SliceStanding::Incomplete }
    }

    /// The epoch since which a slice is on its way to a node, where it is.
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

    /// Slices of the group that are on their way, by their numbers in it.
    fn moves(&self) -> impl Iterator<Item = SliceMove> {
        let per_group = self.record.definition.slicing.slices_per_group().max(1);
        let moves = self.record.moves().filter(move |way| way.slice / per_group == self.group);
        moves.map(move |way| SliceMove { slice: way.slice % per_group, ..way })
    }
}

/// The index of a node in `nodes`; one beyond the end if it is not there.
fn place_of(node: NodeId, nodes: &[NodeId]) -> usize {
    nodes.binary_search(&node).unwrap_or(nodes.len())
}

impl Placement {
    /// The placement of `group` by `map`; slices beyond its owners belong to no node.
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

    /// The epoch of the filter.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the same nodes have and serve the same slices in `other`, so that every event has the same head.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.nodes == other.nodes
            && self.node_of_slice == other.node_of_slice
            && self.starts.iter().zip(&other.starts).all(|(one, other)| one.is_gone == other.is_gone)
            && self.holders.iter().zip(&other.holders).all(|(one, other)| one.nodes() == other.nodes())
    }

    /// Whether all slices that this node has are complete, but for those on their way here.
    pub(crate) fn is_complete_here(&self) -> bool {
        self.is_complete_of(self.me)
    }

    /// Whether a node has slices that are not on their way there, and all of these have had everything that was ever recorded
    /// in them.
    fn is_complete_of(&self, node: usize) -> bool {
        let own = self.holders.iter().filter(|holders| holders.has(node) && !holders.is_arriving_at(node));
        let mut own = own.peekable();
        own.peek().is_some() && own.all(|holders| holders.is_complete_at(node))
    }

    /// Whether every slice has a copy that is not gone, and has had everything.
    pub(crate) fn is_all_complete(&self) -> bool {
        self.all_complete
    }

    /// Whether a slice that is asked here has lost something.
    pub(crate) fn asks_incomplete_here(&self) -> bool {
        let asked = self.node_of_slice.iter().zip(&self.standings).filter(|(node, _)| **node == self.me);
        asked.into_iter().any(|(_, standing)| *standing != SliceStanding::Complete)
    }

    /// Slices that are asked here.
    pub(crate) fn asked_here(&self) -> usize {
        self.node_of_slice.iter().filter(|node| **node == self.me).count()
    }

    /// Whether this node has slices of the group.
    pub(crate) fn has_any_here(&self) -> bool {
        self.nodes.get(self.me).is_some()
    }

    /// Whether an own slice lacks something.
    pub(crate) fn lacks_here(&self) -> bool {
        self.lacks_here
    }

    /// Own slices that lack something.
    pub(crate) fn lacking_here(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.holders).filter(|(_, holders)| holders.is_incomplete_at(self.me)).map(|(slice, _)| slice)
    }

    /// Slices that are on their way here.
    pub(crate) fn arriving_here(&self) -> &[Arrival] {
        &self.arriving_here
    }

    /// Nodes that slices of this one are on their way to.
    pub(crate) fn targets(&self) -> &[NodeId] {
        &self.targets
    }

    /// Whether a slice is on its way here from a node that is not gone.
    pub(crate) fn has_live_origin(&self, slice: u32) -> bool {
        let mut origins = self.origins.iter().filter(|(of, _)| *of == slice);
        origins.any(|(_, from)| self.live_peers().any(|(peer, _)| peer == *from))
    }

    /// Where slices came from that were on their way here by `former`, and have arrived since, whether the slices are
    /// here now or have gone on.
    pub(crate) fn arrived_since(&self, former: &Self) -> Vec<NodeId> {
        let arrived = former.origins.iter().filter(|(slice, from)| {
            let was_asked = former.asked(*slice) == Some(*from);
            was_asked && self.asked(*slice) != Some(*from) && !self.is_arriving_here(*slice)
        });
        distinct(arrived.map(|(_, from)| *from))
    }

    /// Nodes that are asked by `next` about slices that leave this node by `next`, and that are asked here now or are
    /// on their way here.
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

    /// Whether the same nodes are asked about the same slices in `other`: every event has the same head.
    pub(crate) fn heads_as(&self, other: &Self) -> bool {
        self.heads().eq(other.heads())
    }

    /// The node that is asked about each slice, and whether it is gone.
    fn heads(&self) -> impl Iterator<Item = (NodeId, bool)> {
        self.node_of_slice.iter().map(|index| (self.nodes[*index], self.starts[*index].is_gone))
    }

    /// Whether the process that headed an event by `former` has copies of some of its slices by this placement, too.
    pub(crate) fn has_former_head(&self, former: &Self, head: NodeId, positions: &[u64]) -> bool {
        let Some((is, was)) = self.index_of(head).zip(former.index_of(head)) else { return false };
        let NodeStart { incarnation, is_gone, .. } = self.starts[is];
        !is_gone
            && incarnation == former.starts[was].incarnation
            && positions.iter().any(|position| self.has_copy(is, *position))
    }

    /// Whether this node may be the head of events that another one headed by `former`.
    pub(crate) fn heads_more_than(&self, former: &Self) -> bool {
        let me = self.nodes.get(self.me).copied();
        let mut own = (0..).zip(&self.node_of_slice).filter(|(_, node)| **node == self.me);
        !self.gone_peers().eq(former.gone_peers()) || own.any(|(slice, _)| former.asked(slice) != me)
    }

    /// Whether this node has begun to have slices of the group by the map of this placement: it has recorded nothing before.
    pub(crate) fn is_fresh_here(&self) -> bool {
        let own = self.holders.iter().filter(|holders| holders.has(self.me)).count();
        own == self.arriving_here.len() && self.arriving_here.iter().all(|arrival| arrival.since == self.epoch)
    }

    /// Whether a slice is on its way here.
    pub(crate) fn is_arriving_here(&self, slice: u32) -> bool {
        self.arriving_here.iter().any(|arrival| arrival.slice == slice)
    }

    /// Own slices that lack something, each with a node that has all of it.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (u32, NodeId)> {
        self.lacking_here().filter_map(|slice| {
            let source = self.holders[slice as usize].complete_nodes().next()?;
            Some((slice, self.nodes[source]))
        })
    }

    /// Own slices that have everything, each with every other node that has a complete copy of it.
    pub(crate) fn complete_twins(&self) -> impl Iterator<Item = (u32, NodeId)> {
        let own = (0..).zip(&self.holders).filter(|(_, holders)| holders.is_complete_at(self.me));
        own.flat_map(move |(slice, holders)| {
            let others = holders.complete_nodes().filter(|node| *node != self.me);
            others.map(move |node| (slice, self.nodes[node]))
        })
    }

    /// Whether this start of this node has all that was ever recorded in a slice of the group.
    pub(crate) fn is_source(&self, slice: usize, start: Incarnation) -> bool {
        self.is_slice_complete_here(slice)
            && self.starts.get(self.me).is_some_and(|here| here.incarnation == start && !here.is_gone)
    }

    /// Whether all that was ever recorded in a slice of the group is here.
    pub(crate) fn is_slice_complete_here(&self, slice: usize) -> bool {
        self.holders.get(slice).is_some_and(|holders| holders.is_complete_at(self.me))
    }

    /// Whether all that was ever recorded in the slices of these positions is here.
    pub(crate) fn has_complete_here(&self, positions: &[u64]) -> bool {
        positions.iter().all(|position| self.is_slice_complete_here(self.locate(*position).0))
    }

    /// Whether this node is gone from the group: the others go on without its slices.
    pub(crate) fn is_gone_here(&self) -> bool {
        self.starts.get(self.me).is_some_and(|start| start.is_gone)
    }

    /// Whether events may have been recorded without one of the slices that this node has.
    pub(crate) fn has_gap_here(&self) -> bool {
        self.has_gap_here
    }

    /// Whether events may have been recorded without one of the slices of a node, by the map.
    pub(crate) fn has_gap_at(&self, node: NodeId) -> bool {
        self.index_of(node).is_none_or(|node| self.starts[node].has_gap)
    }

    /// The other nodes of the group that are not gone, with their starts.
    pub(crate) fn live_peers(&self) -> impl Iterator<Item = (NodeId, Incarnation)> {
        let nodes = self.nodes.iter().zip(&self.starts).enumerate();
        nodes
            .filter(|(index, (_, start))| *index != self.me && !start.is_gone)
            .map(|(_, (node, start))| (*node, start.incarnation))
    }

    /// The other nodes of the group that are gone.
    pub(crate) fn gone_peers(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter().zip(&self.starts).enumerate();
        nodes.filter(|(index, (_, start))| *index != self.me && start.is_gone).map(|(_, (node, _))| *node)
    }

    /// Whether all slices of a node have had everything that was ever recorded in them.
    pub(crate) fn is_complete_at(&self, node: NodeId) -> bool {
        self.index_of(node).is_some_and(|node| self.is_complete_of(node))
    }

    /// The node at which an event begins.
    #[inline]
    pub(crate) fn head(&self, positions: &[u64]) -> Option<NodeId> {
        let nodes = positions.iter().map(|position| self.node_at(*position));
        head_place(nodes, |node| self.is_gone(*node)).map(|node| self.nodes[node])
    }

    /// Whether a node is gone from the group: it is down, or cannot hold one of its slices, and the others go on
    /// without all of them.
    #[inline]
    pub(crate) fn is_gone(&self, node: usize) -> bool {
        self.any_gone && self.starts[node].is_gone
    }

    /// The positions of an event that are asked: those that vote, as only a zero on a complete slice proves that the
    /// event was not recorded. Where fewer than `asks_all_below` vote, those on incomplete slices are asked too.
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

    /// Whether none of these positions is on a slice here that has lost something.
    pub(crate) fn has_lost_nothing_of(&self, positions: &[u64]) -> bool {
        self.all_complete
            || positions.iter().all(|position| {
                let slice = self.locate(*position).0;
                self.node_of_slice[slice] != self.me || self.standings[slice] == SliceStanding::Complete
            })
    }

    /// Slices of the group that some node serves: those that are not gone.
    pub(crate) fn served_slices(&self) -> usize {
        self.standings.iter().filter(|standing| **standing != SliceStanding::Gone).count()
    }

    pub(crate) fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    pub(crate) fn slices(&self) -> usize {
        self.node_of_slice.len()
    }

    /// Slice of the group, and the position in it.
    #[inline]
    pub(crate) fn locate(&self, position: u64) -> (usize, u64) {
        let (slice, offset) = self.plan.place(position);
        (slice as usize, offset)
    }

    /// The index of the node that is asked about this position.
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

    /// Whether node `node` is this one.
    #[inline]
    pub(crate) fn is_me(&self, node: usize) -> bool {
        node == self.me
    }

    /// Whether node `node` has a copy of the slice of this position.
    #[inline]
    pub(crate) fn has_copy(&self, node: usize, position: u64) -> bool {
        self.has_slice(node, self.locate(position).0)
    }

    /// Whether node `node` has a copy of a slice of the group.
    #[inline]
    pub(crate) fn has_slice(&self, node: usize, slice: usize) -> bool {
        if self.is_single { self.node_of_slice[slice] == node } else { self.holders[slice].has(node) }
    }

    /// Whether other nodes get a slice by `next` that `node` has by this placement: they have come to it, or start anew.
    pub(crate) fn is_joined_at(&self, node: NodeId, next: &Self) -> bool {
        let Some(place) = self.index_of(node) else { return false };
        let mut slices = self.holders.iter().zip(&next.holders).filter(|(before, _)| before.has(place));
        slices.any(|(before, after)| {
            let mut others = after.nodes().iter().map(|at| usize::from(*at)).filter(|at| next.nodes[*at] != node);
            others.any(|at| !self.had(before, next, at))
        })
    }

    /// Whether node `at` of `next` had a copy of a slice by this placement, and has not started anew since.
    fn had(&self, slice: &Holders, next: &Self, at: usize) -> bool {
        let Some(here) = self.index_of(next.nodes[at]) else { return false };
        self.starts[here].incarnation == next.starts[at].incarnation && slice.has(here)
    }

    /// Whether this node has a copy of the slice of this position.
    #[inline]
    pub(crate) fn has_copy_here(&self, position: u64) -> bool {
        self.has_copy(self.me, position)
    }

    /// Whether a position is tested here when an event comes by: this node is the one that is asked, or has a copy that is
    /// as good.
    #[inline]
    pub(crate) fn is_tested_here(&self, position: u64) -> bool {
        self.tests_slice(self.locate(position).0)
    }

    /// Whether a slice is tested here when an event comes by.
    #[inline]
    pub(crate) fn tests_slice(&self, slice: usize) -> bool {
        self.node_of_slice[slice] == self.me || !self.is_single && self.holders[slice].is_complete_at(self.me)
    }

    /// Whether this node has a copy of a slice.
    pub(crate) fn holds_slice(&self, slice: usize) -> bool {
        self.holders[slice].has(self.me)
    }

    /// Whether a list that came from outside can be the positions of an event of this group.
    pub(crate) fn admits(&self, positions: &[u64]) -> bool {
        let cells = self.plan.group_cells();
        (1..=self.plan.shape().hashes() as usize).contains(&positions.len())
            && positions.iter().all(|position| *position < cells)
    }
}
