//! Determines which nodes are down, so that the other nodes continue without them. If one node cannot reach another
//! node, either of the two may be disconnected. A node is therefore marked as down only if more than half of the other
//! nodes report that they cannot reach it. It remains down until it restarts or asks to count as restarted, even if its
//! process is still running, because it lacks the events that were recorded in the meantime.
//!
//! A single report is not sufficient to mark a node as down, unless no other node could report it. The guarantees of
//! [`crate::apply`] hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId, WhenLost};

use crate::command::Outcome;
use crate::node_start::NodeStart;
use crate::placement::runs;
use crate::refusal::Refusal;
use crate::state::State;

/// Applies a report of one node about another.
pub(crate) fn peer_reached(
    state: &mut State,
    reporter: NodeStart,
    seen: NodeStart,
    is_reached: bool,
) -> Result<Outcome, Refusal> {
    let NodeStart { node: by, .. } = reporter;
    let NodeStart { node: peer, .. } = seen;
    // A report about an earlier start, or by an earlier start, has no meaning.
    if by == peer || !reporter.counts_in(&state.map) || !seen.counts_in(&state.map) {
        return Ok(Outcome::Done);
    }
    let doubters = state.doubts.entry(peer).or_default();
    if is_reached {
        doubters.remove(&by);
    } else {
        doubters.insert(by);
    }
    judge(state);
    Ok(Outcome::Done)
}

/// Discards the reports about a node and by a node when it has started.
pub(crate) fn started(state: &mut State, node: NodeId) {
    forget(state, node);
    let map = Arc::make_mut(&mut state.map);
    let was_down = map.nodes.get_mut(&node).is_some_and(|record| std::mem::take(&mut record.is_down));
    raise_epochs(map, |record| {
        let has_returned = record.all_copies().any(|(_, copy)| copy.node == node && copy.missing_in.is_some());
        record.is_on(node) && (was_down || !record.copies.is_empty() || has_returned)
    });
    let copies = map.filters.values_mut().flat_map(FilterRecord::all_copies_mut);
    copies.filter(|(_, copy)| copy.node == node).for_each(|(_, copy)| copy.missing_in = None);
    judge(state);
}

/// Discards the reports about a node and by a node when it has left the cluster.
pub(crate) fn left(state: &mut State, node: NodeId) {
    forget(state, node);
    judge(state);
}

fn forget(state: &mut State, node: NodeId) {
    state.doubts.remove(&node);
    discard_reports(state, node);
}

/// Discards the reports by a node.
fn discard_reports(state: &mut State, node: NodeId) {
    for doubters in state.doubts.values_mut() {
        doubters.remove(&node);
    }
}

/// Marks every node as down that more than half of the other nodes report as unreachable. A node that is marked as down
/// can no longer report other nodes, so its earlier reports do not count any more. The function therefore marks one
/// node at a time, and counts the remaining reports again before it marks the next node.
fn judge(state: &mut State) {
    while let Some(node) = outvoted(state) {
        discard_reports(state, node);
        let map = Arc::make_mut(&mut state.map);
        if let Some(record) = map.nodes.get_mut(&node) {
            record.is_down = true;
        }
        open_gaps(map, node);
        raise_epochs(map, |record| record.is_on(node));
    }
}

/// Returns the first node that is up and that more than half of the others cannot reach.
fn outvoted(state: &State) -> Option<NodeId> {
    let nodes = &state.map.nodes;
    let up: BTreeSet<NodeId> = nodes.iter().filter(|(_, record)| runs(record)).map(|(node, _)| *node).collect();
    let mut doubts = state.doubts.iter().filter(|(node, _)| up.contains(node));
    doubts.find(|(_, doubters)| doubters.intersection(&up).count() * 2 > up.len() - 1).map(|(node, _)| *node)
}

/// Raises the epochs of filters for which another copy of a slice is now asked, because their events have other head
/// nodes.
pub(crate) fn raise_epochs_since(before: &ClusterMap, map: &mut ClusterMap) {
    let changed = map.filters.iter().filter(|(id, record)| has_other_heads(before, map, **id, record));
    let changed: Vec<FilterId> = changed.map(|(id, _)| *id).collect();
    for id in changed {
        if let Some(record) = map.filters.get_mut(&id) {
            record.epoch.rise();
        }
    }
}

/// Returns whether other copies of a filter are asked than before, under the same epoch.
fn has_other_heads(before: &ClusterMap, map: &ClusterMap, id: FilterId, record: &FilterRecord) -> bool {
    let Some(former) = before.filters.get(&id).filter(|former| former.epoch == record.epoch) else { return false };
    if former.copies.is_empty() && record.copies.is_empty() {
        return false;
    }
    former.copies.len() != record.copies.len() || asked_nodes(before, former) != asked_nodes(map, record)
}

/// Returns the node that is asked for each slice.
fn asked_nodes(map: &ClusterMap, record: &FilterRecord) -> Vec<Option<NodeId>> {
    let slices = 0..record.owners.len() as u32;
    slices.map(|slice| map.asked(record, slice).map(|owner| owner.node)).collect()
}

/// Marks the slices of `node` as incomplete, because `node` is down and will miss events. From now on, the other nodes
/// of each slice group record events that `node` does not receive. If a slice group has no other node, no event can be
/// recorded in it, so the slices of `node` in that group stay complete.
fn open_gaps(map: &mut ClusterMap, node: NodeId) {
    for record in map.filters.values_mut().filter(|record| !waits_for_complete(record)) {
        let slicing = record.definition.slicing;
        let others = record.all_copies().filter(|(_, owner)| owner.node != node);
        let shared: BTreeSet<u32> = others.map(|(slice, _)| slicing.group_of(slice)).collect();
        let own = record.all_copies_mut().filter(|(_, owner)| owner.node == node);
        own.filter(|(slice, _)| shared.contains(&slicing.group_of(*slice))).for_each(|(_, owner)| owner.has_gap = true);
    }
}

/// Returns whether each slice of the filter records events only while at least one of its copies is complete. While all
/// copies of such a slice are incomplete, no event is recorded in the slice, so the copies do not miss any further
/// events.
pub(crate) fn waits_for_complete(record: &FilterRecord) -> bool {
    let is_alone = record.definition.slicing.slices_per_group() <= 1 && record.branch.is_none();
    is_alone && record.policies.when_lost != WhenLost::FirstSeen
}

/// Marks copies as incomplete that the other nodes continue without. From now on, complete copies record events that
/// these copies lack.
pub(crate) fn open_gaps_beside_complete(map: &mut ClusterMap) {
    let mut lacking: Vec<(FilterId, u32, NodeId)> = Vec::new();
    for (id, record) in &map.filters {
        if record.copies.is_empty() || !waits_for_complete(record) {
            continue;
        }
        let gone = record.all_copies().filter(|(_, copy)| !copy.has_gap && map.is_gone(copy));
        let beside = gone.filter(|(slice, _)| map.is_complete(record, *slice));
        lacking.extend(beside.map(|(slice, copy)| (*id, slice, copy.node)));
    }
    for (id, slice, node) in lacking {
        let copies = map.filters.get_mut(&id).into_iter().flat_map(FilterRecord::all_copies_mut);
        copies.filter(|(of, copy)| *of == slice && copy.node == node).for_each(|(_, copy)| copy.has_gap = true);
    }
}

/// Raises the epochs of the selected filters, so that nodes reject messages that are based on the previous cluster map.
/// There are two reasons to reject such messages. First, the head nodes of events, which decide the events, may have
/// changed. Second, a copy may begin to fetch its missing events. A node with the previous map would not send new
/// events to that copy, so the copy would miss them too.
fn raise_epochs(map: &mut ClusterMap, of: impl Fn(&FilterRecord) -> bool) {
    map.filters.values_mut().filter(|record| of(record)).for_each(|record| record.epoch.rise());
}
