//! Plans which copies of slices should move to other nodes. Copies move for one of two reasons. If nodes are being
//! drained, all copies must leave these nodes. Otherwise, copies move from nodes with many copies to nodes with few
//! copies, so that the load is balanced.
//!
//! # Guarantees
//! - The plan depends only on the map.
//! - No node is assigned more cells than fit into its memory, or two copies of the same slice.
//! - After balancing, the numbers of copies of each filter differ by at most one between nodes, as far as memory, sites
//!   and copies allow. A copy that is being moved counts at its target node.
//! - A slice without a complete copy is not moved to balance nodes, because the move might never complete.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::Unit;
use firstseen_routing::check::check_copies;
use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId, SliceMove};

use crate::placement::{runs, slice_bytes, used_bytes};
use crate::refusal::Refusal;

/// Plans which copies of slices move to other nodes. If `drained` contains nodes, the plan moves all copies away from
/// these nodes. If `drained` is empty, the plan balances the filters, so that all nodes have about the same number of
/// slices of each filter.
///
/// # Errors
/// [`Refusal::Move`] if a slice of a drained node cannot be placed elsewhere.
pub fn plan_moves(map: &ClusterMap, drained: &BTreeSet<NodeId>) -> Result<Vec<(FilterId, Vec<SliceMove>)>, Refusal> {
    let mut used = used_bytes(map);
    let mut plan = Vec::new();
    for (filter, record) in &map.filters {
        let is_drained = record.all_copies().any(|(_, copy)| drained.contains(&copy.node));
        if check_copies(&record.definition, 1).is_err() {
            if is_drained {
                return Err(refused(record, "slices of its kind cannot be moved: drop the filter first".to_owned()));
            }
            continue;
        }
        let bytes = slice_bytes(&record.definition).map_err(|reason| refused(record, reason))?;
        let mut layout = Layout::new(map, record, drained, bytes);
        layout.drain(drained, &mut used).map_err(|reason| refused(record, reason))?;
        // If nodes are being drained, only their copies are moved.
        if drained.is_empty() {
            layout.balance(&mut used);
        }
        if !layout.moves.is_empty() {
            plan.push((*filter, layout.moves));
        }
    }
    Ok(plan)
}

fn refused(record: &FilterRecord, reason: String) -> Refusal {
    Refusal::Move { name: record.name.clone(), reason }
}

/// The locations of a filter's copies, as the planned moves change them.
struct Layout<'map> {
    map: &'map ClusterMap,
    per_group: u32,
    slice_bytes: u64,
    /// The nodes that may have slices.
    rooms: BTreeSet<NodeId>,
    /// For each slice, whether it has a complete copy that other copies can fetch from.
    complete: Vec<bool>,
    /// Whether the filter has a window. In that case an incomplete copy becomes complete when one window has passed.
    has_window: bool,
    /// For each slice, the nodes that have a copy, and whether that copy is part of a move.
    holders: Vec<Vec<(NodeId, bool)>>,
    /// Number of copies on each node.
    counts: BTreeMap<NodeId, u32>,
    /// Number of copies on each node, by slice group.
    counts_of_group: BTreeMap<(u32, NodeId), u32>,
    moves: Vec<SliceMove>,
}

impl<'map> Layout<'map> {
    fn new(map: &'map ClusterMap, record: &FilterRecord, drained: &BTreeSet<NodeId>, slice_bytes: u64) -> Self {
        let sites = sites(map, record);
        let rooms = map.nodes.iter().filter(|(id, node)| {
            let is_there = sites.as_ref().is_none_or(|sites| sites.contains(node.site.as_str()));
            let is_missing = record.all_copies().any(|(_, copy)| copy.node == **id && map.is_gone(copy));
            runs(node) && is_there && !drained.contains(id) && !is_missing
        });
        let mut layout = Self {
            map,
            per_group: record.definition.slicing.slices_per_group().max(1),
            slice_bytes,
            rooms: rooms.map(|(id, _)| *id).collect(),
            complete: (0..record.owners.len() as u32).map(|slice| map.is_complete(record, slice)).collect(),
            has_window: record.definition.group.unit != Unit::Endless,
            holders: vec![Vec::new(); record.owners.len()],
            counts: BTreeMap::new(),
            counts_of_group: BTreeMap::new(),
            moves: Vec::new(),
        };
        let in_progress: BTreeSet<(u32, NodeId)> = record.moves().map(|way| (way.slice, way.from)).collect();
        let moving: BTreeSet<u32> = in_progress.iter().map(|(slice, _)| *slice).collect();
        for (slice, copy) in record.all_copies().filter(|(slice, copy)| !in_progress.contains(&(*slice, copy.node))) {
            layout.holders[slice as usize].push((copy.node, moving.contains(&slice)));
            layout.add(slice, copy.node);
        }
        layout
    }

    fn add(&mut self, slice: u32, node: NodeId) {
        *self.counts.entry(node).or_default() += 1;
        *self.counts_of_group.entry((slice / self.per_group, node)).or_default() += 1;
    }

    fn remove(&mut self, slice: u32, node: NodeId) {
        let of_node = self.counts.entry(node).or_default();
        *of_node = of_node.saturating_sub(1);
        let of_group = self.counts_of_group.entry((slice / self.per_group, node)).or_default();
        *of_group = of_group.saturating_sub(1);
    }

    fn count_of(&self, node: NodeId) -> u32 {
        self.counts.get(&node).copied().unwrap_or(0)
    }

    fn count_in_group(&self, slice: u32, node: NodeId) -> u32 {
        self.counts_of_group.get(&(slice / self.per_group, node)).copied().unwrap_or(0)
    }

    fn fits(&self, node: NodeId, used: &BTreeMap<NodeId, u64>) -> bool {
        let memory_bytes = self.map.nodes.get(&node).map_or(0, |node| node.memory_bytes);
        used.get(&node).copied().unwrap_or(0).saturating_add(self.slice_bytes) <= memory_bytes
    }

    /// Returns whether another copy of the slice is already at the site of `node`. The copy on node `except` is
    /// ignored.
    fn is_near(&self, slice: u32, node: NodeId, except: NodeId) -> bool {
        let site = self.site(node);
        let mut others = self.holders[slice as usize].iter().filter(|(holder, _)| *holder != except);
        others.any(|(holder, _)| self.site(*holder) == site)
    }

    fn site(&self, node: NodeId) -> Option<&str> {
        self.map.nodes.get(&node).map(|node| node.site.as_str())
    }

    fn has(&self, slice: u32, node: NodeId) -> bool {
        self.holders[slice as usize].iter().any(|(holder, _)| *holder == node)
    }

    /// Returns whether the copy of a slice on `from` may be moved. If another copy is being moved, that move must end
    /// first.
    fn may_move(&self, slice: u32, from: NodeId) -> bool {
        self.has(slice, from) && self.holders[slice as usize].iter().all(|(_, is_moving)| !is_moving)
    }

    /// Returns whether a copy of a slice may move to another node in order to balance the nodes. The slice must have a
    /// complete copy, because the new copy fetches its events from there. The move must also not bring two copies of
    /// the slice to the same site.
    fn can_move(&self, slice: u32, from: NodeId, to: NodeId) -> bool {
        let is_nearer = self.is_near(slice, to, from) && !self.is_near(slice, from, from);
        self.complete[slice as usize] && self.may_move(slice, from) && !self.has(slice, to) && !is_nearer
    }

    fn go(&mut self, slice: u32, from: NodeId, to: NodeId, used: &mut BTreeMap<NodeId, u64>) {
        self.remove(slice, from);
        self.add(slice, to);
        // The memory on the source node becomes free only when the new copy is complete.
        let bytes = used.entry(to).or_default();
        *bytes = bytes.saturating_add(self.slice_bytes);
        let holders = &mut self.holders[slice as usize];
        holders.retain(|(node, _)| *node != from);
        holders.iter_mut().for_each(|(_, is_moving)| *is_moving = true);
        holders.push((to, true));
        self.moves.push(SliceMove { slice, from, to });
    }

    /// Moves all copies away from the nodes of `drained`.
    fn drain(&mut self, drained: &BTreeSet<NodeId>, used: &mut BTreeMap<NodeId, u64>) -> Result<(), String> {
        for slice in 0..self.holders.len() as u32 {
            let from = self.holders[slice as usize].iter().map(|(node, _)| *node).find(|node| drained.contains(node));
            let Some(from) = from else { continue };
            if !self.may_move(slice, from) {
                return Err(format!(
                    "a copy of slice {slice} is already being moved: wait until it has arrived, or cancel all moves \
                     with `firstseen cluster rebalance --cancel`"
                ));
            }
            // If a copy is on a node that is down, its losses can only be accepted after the copy has been moved.
            if !self.complete[slice as usize] && !self.has_window && !self.map.is_down(from) {
                return Err(format!(
                    "no copy of slice {slice} is complete, and without a window none will become complete: accept the \
                     loss with `firstseen filter forgive`"
                ));
            }
            let free = self.rooms.iter().copied().filter(|to| !self.has(slice, *to) && self.fits(*to, used));
            let best = free.min_by_key(|to| {
                (self.is_near(slice, *to, from), self.count_in_group(slice, *to), self.count_of(*to), *to)
            });
            let Some(to) = best else {
                let is_everywhere = !self.rooms.is_empty() && self.rooms.iter().all(|node| self.has(slice, *node));
                return Err(if is_everywhere {
                    format!(
                        "every other node that is up has a copy of slice {slice} already: add a node, or drop the filter"
                    )
                } else {
                    format!(
                        "no other node has room for slice {slice} of {} bytes: add a node, or raise memory",
                        self.slice_bytes
                    )
                });
            };
            self.go(slice, from, to, used);
        }
        Ok(())
    }

    /// Moves copies from nodes with many copies to nodes with few.
    fn balance(&mut self, used: &mut BTreeMap<NodeId, u64>) {
        while let Some((slice, from, to)) = self.next(used) {
            self.go(slice, from, to, used);
        }
    }

    /// Returns the next move that makes the numbers of two nodes more equal. The nodes with the greatest difference are
    /// considered first.
    fn next(&self, used: &BTreeMap<NodeId, u64>) -> Option<(u32, NodeId, NodeId)> {
        let mut nodes: Vec<(u32, NodeId)> = self.rooms.iter().map(|node| (self.count_of(*node), *node)).collect();
        nodes.sort_unstable();
        for (few, to) in nodes.iter().filter(|(_, to)| self.fits(*to, used)) {
            for (_, from) in nodes.iter().rev().take_while(|(many, _)| *many > few + 1) {
                let slices = (0..self.holders.len() as u32).filter(|slice| self.can_move(*slice, *from, *to));
                let best = slices.min_by_key(|slice| {
                    let here = self.count_in_group(*slice, *from);
                    let there = self.count_in_group(*slice, *to);
                    (i64::from(there) - i64::from(here), *slice)
                });
                if let Some(slice) = best {
                    return Some((slice, *from, *to));
                }
            }
        }
        None
    }
}

/// Returns the sites that a level of a tree below the root is restricted to. Returns `None` if the filter may be at any
/// site.
fn sites<'map>(map: &'map ClusterMap, record: &FilterRecord) -> Option<BTreeSet<&'map str>> {
    record.branch.as_ref().filter(|branch| !branch.is_root())?;
    let nodes = record.all_copies().filter_map(|(_, copy)| map.nodes.get(&copy.node));
    Some(nodes.map(|node| node.site.as_str()).collect())
}

#[cfg(test)]
mod tests;
