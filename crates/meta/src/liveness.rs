//! Which nodes are down, so that the others go on without them.
//!
//! One node that cannot reach another may be the one that is cut off, so each node reports what it sees, and a node is
//! down when more than half of those that could report it do. It is down until it starts anew, or counts as started
//! anew: events that were recorded meanwhile are missing there, whether its process has ended or not.
//!
//! Besides the guarantees of [`crate::apply`], the report of a single node never marks another one as down if further
//! nodes could report it. This module does not know how nodes are reached.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId, WhenLost};

use crate::command::Outcome;
use crate::node_start::NodeStart;
use crate::placement::runs;
use crate::refusal::Refusal;
use crate::state::State;

/// What one node sees of another.
pub(crate) fn peer_reached(
    state: &mut State,
    seer: NodeStart,
    seen: NodeStart,
    is_reached: bool,
) -> Result<Outcome, Refusal> {
    let NodeStart { node: by, .. } = seer;
    let NodeStart { node: peer, .. } = seen;
    // A report on an earlier start, or by one, says nothing.
    if by == peer || !seer.counts_in(&state.map) || !seen.counts_in(&state.map) {
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

/// A node has started: reports on it, and by it, are forgotten.
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

/// A node has left for good.
pub(crate) fn left(state: &mut State, node: NodeId) {
    forget(state, node);
    judge(state);
}

fn forget(state: &mut State, node: NodeId) {
    state.doubts.remove(&node);
    no_longer_says(state, node);
}

/// Reports by a node count no more.
fn no_longer_says(state: &mut State, node: NodeId) {
    for doubters in state.doubts.values_mut() {
        doubters.remove(&node);
    }
}

/// Takes nodes down that more than half of the others cannot reach, one after the other: a node that is down has no
/// say.
fn judge(state: &mut State) {
    while let Some(node) = outvoted(state) {
        no_longer_says(state, node);
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

/// Where another copy of a slice is asked now than before, events have other heads.
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

/// From now on events are recorded without the slices of `node`, where others have slices of the same group.
fn open_gaps(map: &mut ClusterMap, node: NodeId) {
    for record in map.filters.values_mut().filter(|record| !waits_for_complete(record)) {
        let slicing = record.definition.slicing;
        let others = record.all_copies().filter(|(_, owner)| owner.node != node);
        let shared: BTreeSet<u32> = others.map(|(slice, _)| slicing.group_of(slice)).collect();
        let own = record.all_copies_mut().filter(|(_, owner)| owner.node == node);
        own.filter(|(slice, _)| shared.contains(&slicing.group_of(*slice))).for_each(|(_, owner)| owner.has_gap = true);
    }
}

/// Whether only a complete copy may call an event new: then nothing is recorded as long as there is none.
pub(crate) fn waits_for_complete(record: &FilterRecord) -> bool {
    let is_alone = record.definition.slicing.slices_per_group() <= 1 && record.branch.is_none();
    is_alone && record.policies.when_lost != WhenLost::FirstSeen
}

/// Complete copies record from now on without the copies that the others go on without: these get gaps.
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

/// Other nodes head events from now on, or do no longer; or a copy begins to fetch what it lacks, and must not miss
/// events that are still recorded by the map before.
fn raise_epochs(map: &mut ClusterMap, of: impl Fn(&FilterRecord) -> bool) {
    map.filters.values_mut().filter(|record| of(record)).for_each(|record| record.epoch.rise());
}
