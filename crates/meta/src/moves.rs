//! Moves copies of slices to other nodes. A move first adds a further copy on the target node. The new copy receives
//! all events that are recorded from now on, and fetches all earlier events from an existing copy. When the new copy is
//! complete, a single change of the cluster map marks it as complete and removes the old copy. A copy is therefore
//! never removed before its replacement is complete.
//!
//! The guarantees of [`crate::apply`] hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_routing::check::check_copies;
use firstseen_routing::{
    COPIES_MAX, ClusterMap, FilterId, FilterRecord, Incarnation, NodeId, SliceCopy, SliceMove, SliceOwner,
};

use crate::catalog::{self, check_size};
use crate::command::Outcome;
use crate::placement::{slice_bytes, used_bytes};
use crate::refusal::Refusal;
use crate::state::State;

/// Starts to move all these copies, or none of them.
pub(crate) fn begin(state: &mut State, filter: FilterId, moves: &[SliceMove]) -> Result<Outcome, Refusal> {
    let mut record = catalog::numbered(&state.map, filter)?.clone();
    let name = record.name.clone();
    check_copies(&record.definition, 1)
        .map_err(|_| refused(&name, "slices of its kind cannot be moved: drop the filter and create it again"))?;
    let bytes = slice_bytes(&record.definition).map_err(|reason| refused(&name, &reason))?;
    let mut used = used_bytes(&state.map);
    for way in moves {
        check(&state.map, &record, *way, bytes, &mut used).map_err(|reason| refused(&name, &reason))?;
        let owner = SliceOwner { node: way.to, has_gap: true, ..SliceOwner::default() };
        let copy = SliceCopy { slice: way.slice, owner, replaces: Some(way.from), since_epoch: record.epoch.after(1) };
        let place = record.copies.partition_point(|other| other.slice <= way.slice);
        record.copies.insert(place, copy);
    }
    let mut map = (*state.map).clone();
    map.filters.remove(&filter);
    check_size(&map, filter, &record)?;
    map.filters.insert(filter, record);
    if !moves.is_empty() {
        state.map = Arc::new(map);
    }
    Ok(Outcome::Done)
}

fn refused(name: &str, reason: &str) -> Refusal {
    Refusal::Move { name: name.to_owned(), reason: reason.to_owned() }
}

/// Checks whether this copy may be moved, and reserves the memory that it needs.
fn check(
    map: &ClusterMap,
    record: &FilterRecord,
    SliceMove { slice, from, to }: SliceMove,
    bytes: u64,
    used: &mut BTreeMap<NodeId, u64>,
) -> Result<(), String> {
    let Some(node) = map.nodes.get(&to).filter(|node| node.incarnation != Incarnation::default()) else {
        return Err(format!("node {to} is not in the cluster, or has not started"));
    };
    let copies: Vec<&SliceOwner> = record.copies_of(slice).collect();
    if !copies.iter().any(|copy| copy.node == from) {
        return Err(format!(
            "node {from} does not have slice {slice}, because the cluster map has changed: plan the moves again"
        ));
    }
    if copies.iter().any(|copy| copy.node == to) {
        return Err(format!("node {to} has slice {slice} already"));
    }
    if record.moves().any(|way| way.slice == slice) || copies.len() >= COPIES_MAX {
        return Err(format!(
            "a copy of slice {slice} is already being moved: wait until it has arrived, or cancel all moves with \
             `firstseen cluster rebalance --cancel`"
        ));
    }
    let is_gone = record.all_copies().any(|(_, copy)| copy.node == to && map.is_gone(copy));
    if node.is_down || is_gone {
        return Err(format!("node {to} is down, or cannot hold its slices: see `status`"));
    }
    let used = used.entry(to).or_default();
    *used = used.saturating_add(bytes);
    if *used <= node.memory_bytes {
        Ok(())
    } else {
        Err(format!("node {to} does not have {bytes} bytes left for slice {slice}: raise its memory limit"))
    }
}

/// Cancels the moves of a filter that are in progress. Their target nodes discard the copies.
pub(crate) fn cancel(state: &mut State, name: &str) -> Result<Outcome, Refusal> {
    let (filter, record) = catalog::named(&state.map, name)?;
    if record.moves().next().is_some()
        && let Some(record) = Arc::make_mut(&mut state.map).filters.get_mut(&filter)
    {
        record.copies.retain(|copy| copy.replaces.is_none());
    }
    Ok(Outcome::Done)
}

/// Replaces copies by the copies that have arrived in their place.
pub(crate) fn settle(map: &mut ClusterMap, filter: FilterId) {
    let Some(record) = map.filters.get(&filter) else { return };
    let moving = record.copies.iter().filter(|copy| copy.replaces.is_some());
    let arrived: Vec<SliceCopy> = moving.filter(|copy| map.is_complete_copy(&copy.owner)).copied().collect();
    let Some(record) = map.filters.get_mut(&filter) else { return };
    for SliceCopy { slice, owner, replaces, .. } in arrived {
        record.copies.retain(|copy| (copy.slice, copy.owner.node) != (slice, owner.node));
        let mut copies = record.all_copies_mut();
        if let Some((_, former)) = copies.find(|(of, copy)| *of == slice && Some(copy.node) == replaces) {
            *former = owner;
        }
    }
}

#[cfg(test)]
mod tests;
