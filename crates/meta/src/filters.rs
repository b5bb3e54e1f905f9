//! The changes that concern filters.
//!
//! Promises: what [`crate::state`] promises. Must not know: the same as there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firstseen_filter::GenerationNumber;
use firstseen_routing::check::{check_claims, check_copies, check_definition, check_durability, check_thresholds};
use firstseen_routing::{
    AnswerWhen, ClusterMap, Durability, Epoch, FilterId, FilterRecord, Incarnation, Line, NodeId, SliceOwner,
};
use firstseen_wire::limits::{FILTERS_MAX, MAP_FILTERS_BYTES_MAX};
use firstseen_wire::map::filter_bytes_max;

use crate::alterations::FORMER_SUFFIX;
use crate::command::{NewFilter, Outcome};
use crate::node_start::NodeStart;
use crate::placement::{generation_max, owners};
use crate::refusal::Refusal;
use crate::restore::is_restoring;
use crate::state::{State, check_text};
use crate::{alterations, liveness, moves, tree};

pub(crate) fn create(state: &mut State, asked: NewFilter) -> Result<Outcome, Refusal> {
    let NewFilter { name, definition, mut policies, secret, if_absent, tree } = asked;
    check_text("the name of a filter", &name)?;
    if is_restoring(&name) || name.ends_with(FORMER_SUFFIX) {
        let rule =
            "names of filters that are restored (restoring:NAME) or altered (NAME~former) are given by the cluster";
        return Err(Refusal::Text { what: "the name of a filter".to_owned(), value: name, rule: rule.to_owned() });
    }
    check_definition(&definition)
        .and_then(|()| check_durability(&definition, policies.durability, tree.is_some()))
        .and_then(|()| check_thresholds(&definition, policies.thresholds))
        .and_then(|()| check_copies(&definition, policies.copies, tree.is_some()))
        .and_then(|()| check_claims(&definition, &policies, tree.as_ref().map(|tree| tree.top_down)))
        .map_err(|refusal| Refusal::Definition { name: name.clone(), reason: refusal.to_string() })?;
    if policies.durability == Durability::Durable || policies.copies > 0 {
        // A reply rests on every slice's disk, and on all copies.
        policies.answer = AnswerWhen::Safe;
    }
    let places = tree::plan(&state.map, &name, &definition, tree.as_ref())?;
    if let Some((filter, record)) = state.map.filter_named(&name) {
        let same_tree = tree::is_built_so(&state.map, filter, tree.as_ref(), &places);
        let differs = match (record.definition.answers_like(&definition), record.policies == policies, same_tree) {
            (false, ..) => "definition",
            (_, false, _) => "set of policies",
            (.., false) => "tree",
            (true, true, true) if if_absent => return Ok(Outcome::FilterCreated { filter, existed: true }),
            (true, true, true) => return Err(Refusal::FilterExists { name }),
        };
        return Err(Refusal::FilterDiffers { name, differs: differs.to_owned() });
    }
    // All of the tree, or nothing.
    let (mut map, mut secrets) = ((*state.map).clone(), (*state.secrets).clone());
    let root = map.next_filter;
    for place in &places {
        let name = tree::name_of(&name, place);
        check_new(&map, &name)?;
        let (owners, copies) = owners(&map, &name, &place.definition, &place.sites, policies.copies)?;
        let branch = tree.as_ref().map(|tree| tree::branch(tree, root, place));
        let definition = place.definition.clone();
        let generations = Vec::new();
        let line = Line::default();
        let record =
            FilterRecord { name, epoch: Epoch::FIRST, definition, policies, owners, copies, generations, branch, line };
        secrets.insert(insert_new(&mut map, record)?, secret);
    }
    (state.map, state.secrets) = (Arc::new(map), Arc::new(secrets));
    Ok(Outcome::FilterCreated { filter: root, existed: false })
}

/// Whether a new filter may have this name.
pub(crate) fn check_new(map: &ClusterMap, name: &str) -> Result<(), Refusal> {
    check_text("the name of a filter", name)?;
    match () {
        () if map.filter_named(name).is_some() => Err(Refusal::FilterExists { name: name.to_owned() }),
        () if map.filters.len() >= FILTERS_MAX => {
            Err(Refusal::Full { what: "filters".to_owned(), most: FILTERS_MAX as u64 })
        }
        () => Ok(()),
    }
}

/// Gives a filter the next number.
pub(crate) fn insert_new(map: &mut ClusterMap, record: FilterRecord) -> Result<FilterId, Refusal> {
    let filter = map.next_filter;
    check_map(map, filter, &record)?;
    map.filters.insert(filter, record);
    map.next_filter = FilterId(filter.0 + 1);
    Ok(filter)
}

/// All filters travel with every change of the map, in one message.
pub(crate) fn check_map(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), Refusal> {
    let bytes_of = |(filter, record): (&FilterId, &FilterRecord)| filter_bytes_max(*filter, record);
    let (bytes, used_bytes) = (bytes_of((&filter, record)), map.filters.iter().map(bytes_of).sum());
    let free_bytes = MAP_FILTERS_BYTES_MAX.saturating_sub(used_bytes);
    if bytes <= free_bytes {
        Ok(())
    } else {
        Err(Refusal::MapFull {
            name: record.name.clone(),
            slices: record.definition.slicing.slices(),
            bytes: bytes as u64,
            free_bytes: free_bytes as u64,
        })
    }
}

pub(crate) fn drop_named(state: &mut State, name: &str) -> Result<Outcome, Refusal> {
    let Some((filter, _)) = state.map.filter_named(name) else {
        return Err(Refusal::FilterUnknown { name: format!("`{name}`") });
    };
    if let Some(root) = state.map.filters[&filter].branch.as_ref().filter(|branch| !branch.is_root()) {
        let root = state.map.filters.get(&root.root).map_or_else(String::new, |root| root.name.clone());
        return Err(Refusal::Level { name: name.to_owned(), root });
    }
    if state.map.filters[&filter].is_closed() {
        let reason = "it is the former one of an alteration: end that with `filter alter --finish`, or drop the other";
        return Err(Refusal::Alter { name: name.to_owned(), reason: reason.to_owned() });
    }
    let former = state.map.former_of(filter).map(|(former, _)| former);
    let is_of_it = |id: FilterId, record: &FilterRecord| {
        id == filter || Some(id) == former || record.branch.as_ref().is_some_and(|branch| branch.root == filter)
    };
    let dropped = state.map.filters.iter().filter(|(id, record)| is_of_it(**id, record)).map(|(id, _)| *id).collect();
    alterations::forget(state, &dropped);
    Ok(Outcome::Done)
}

pub(crate) fn open_generation(
    state: &mut State,
    filter: FilterId,
    group: u32,
    number: GenerationNumber,
) -> Result<Outcome, Refusal> {
    let unknown = || Refusal::FilterUnknown { name: filter.to_string() };
    let record = state.map.filters.get(&filter).ok_or_else(unknown)?;
    let newest = record.generations.get(group as usize).copied().unwrap_or_default();
    let refused = |rule: String| Refusal::Generation { filter, group, number, newest, rule };
    let groups = record.definition.slicing.groups();
    if group >= groups {
        return Err(refused(format!("there are {groups} groups")));
    }
    let number_max = generation_max(&record.definition).map_err(refused)?;
    if newest >= number_max {
        return Err(refused("there can be no more: make the filter larger, with --capacity".to_owned()));
    }
    if number != newest.after(1) {
        return Err(refused("only the next one may be opened".to_owned()));
    }
    let record = Arc::make_mut(&mut state.map).filters.get_mut(&filter).ok_or_else(unknown)?;
    record.generations.resize(groups as usize, GenerationNumber::FIRST);
    if let Some(newest) = record.generations.get_mut(group as usize) {
        *newest = number;
    }
    Ok(Outcome::Done)
}

/// Whether a node's report on its slices counts: one of an earlier start does not, as that start's cells are gone, nor
/// one of a node that is down, as it misses events.
pub(crate) fn is_current(state: &State, NodeStart { node, incarnation }: NodeStart) -> bool {
    state.map.nodes.get(&node).is_some_and(|record| record.incarnation == incarnation && !record.is_down)
}

/// A node's report that slices of a group are complete.
pub(crate) struct CompleteReport<'a> {
    pub(crate) filter: FilterId,
    pub(crate) group: u32,
    /// Their numbers in the group.
    pub(crate) slices: &'a [u32],
    /// The epoch of the map that the report is by.
    pub(crate) epoch: Epoch,
}

pub(crate) fn slices_complete(
    state: &mut State,
    report: &CompleteReport<'_>,
    start: NodeStart,
) -> Result<Outcome, Refusal> {
    let CompleteReport { filter, group, slices, epoch } = *report;
    let NodeStart { node, incarnation } = start;
    let unknown = || Refusal::FilterUnknown { name: filter.to_string() };
    let record = state.map.filters.get(&filter).ok_or_else(unknown)?;
    let slicing = record.definition.slicing;
    // A report on a slice that has left again, or was given up, is not one on the slice that has come since.
    let has_come_since = |slice: u32| record.arriving_since(slice, node).is_some_and(|since| since > epoch);
    let meant: BTreeSet<u32> =
        slices.iter().map(|slice| slicing.slices_of(group).start.saturating_add(*slice)).collect();
    let meant: BTreeSet<u32> = meant.into_iter().filter(|slice| !has_come_since(*slice)).collect();
    let is_meant = |slice: u32| slicing.group_of(slice) == group && meant.contains(&slice);
    let is_own = |(slice, owner): &(u32, &SliceOwner)| owner.node == node && is_meant(*slice);
    let is_missing = |owner: &SliceOwner| owner.missing_in == Some(incarnation);
    let is_news =
        |(_, owner): (u32, &SliceOwner)| !is_missing(owner) && (owner.complete_since != incarnation || owner.has_gap);
    if !is_current(state, start) || !record.all_copies().filter(is_own).any(is_news) {
        return Ok(Outcome::Done);
    }
    let map = Arc::make_mut(&mut state.map);
    let record = map.filters.get_mut(&filter).ok_or_else(unknown)?;
    let own = record.all_copies_mut().filter(|(slice, owner)| is_own(&(*slice, owner)) && !is_missing(owner));
    own.for_each(|(_, owner)| (owner.complete_since, owner.has_gap) = (incarnation, false));
    moves::settle(map, filter);
    Ok(Outcome::Done)
}

pub(crate) fn slices_missing(
    state: &mut State,
    filter: FilterId,
    group: u32,
    start: NodeStart,
) -> Result<Outcome, Refusal> {
    let NodeStart { node, incarnation } = start;
    let unknown = || Refusal::FilterUnknown { name: filter.to_string() };
    let record = state.map.filters.get(&filter).ok_or_else(unknown)?;
    let slicing = record.definition.slicing;
    let is_news = |(slice, owner): &(u32, &SliceOwner)| {
        slicing.group_of(*slice) == group && owner.node == node && owner.missing_in != Some(incarnation)
    };
    if !is_current(state, start) || !record.all_copies().any(|copy| is_news(&copy)) {
        return Ok(Outcome::Done);
    }
    // Where no other node may record, nothing is missed; where a complete copy records, gaps are opened after every
    // change.
    let is_elsewhere = |(slice, owner): (u32, &SliceOwner)| slicing.group_of(slice) == group && owner.node != node;
    let may_miss = !liveness::waits_for_complete(record) && record.all_copies().any(is_elsewhere);
    let record = Arc::make_mut(&mut state.map).filters.get_mut(&filter).ok_or_else(unknown)?;
    // Events that it headed have another head.
    record.epoch.rise();
    let own = record.all_copies_mut().filter(|(slice, owner)| is_news(&(*slice, owner)));
    own.for_each(|(_, owner)| (owner.missing_in, owner.has_gap) = (Some(incarnation), owner.has_gap || may_miss));
    Ok(Outcome::Done)
}

/// Of two nodes that ask at once, one is spared: the second one's copies are the last then.
pub(crate) fn slices_spared(
    state: &mut State,
    filter: FilterId,
    group: u32,
    start: NodeStart,
) -> Result<Outcome, Refusal> {
    let record = state.map.filters.get(&filter);
    if record.is_some_and(|record| state.map.can_spare(record, group, start.node)) {
        slices_missing(state, filter, group, start)
    } else {
        Ok(Outcome::Done)
    }
}

/// Of a tree, all levels; of a filter that is being altered, the former one too. Nodes that are down may answer beside those
/// that are called complete, unless they are among those that have `ended`.
pub(crate) fn forgive(
    state: &mut State,
    name: &str,
    ended: &BTreeMap<NodeId, Incarnation>,
) -> Result<Outcome, Refusal> {
    let unknown = || Refusal::FilterUnknown { name: format!("`{name}`") };
    let (filter, _) = state.map.filter_named(name).ok_or_else(unknown)?;
    let former = state.map.former_of(filter).map(|(former, _)| former);
    let mut down = state.map.nodes.iter().filter(|(_, record)| record.is_down);
    if let Some((node, _)) = down.find(|(node, record)| ended.get(node) != Some(&record.incarnation)) {
        return Err(Refusal::MayRecord { name: name.to_owned(), node: *node });
    }
    let map = Arc::make_mut(&mut state.map);
    let is_below = |record: &FilterRecord| record.branch.as_ref().is_some_and(|branch| branch.root == filter);
    let meant = map.filters.iter().filter(|(id, record)| **id == filter || Some(**id) == former || is_below(record));
    let meant: Vec<FilterId> = meant.map(|(id, _)| *id).collect();
    meant.into_iter().for_each(|filter| forgive_one(map, filter));
    Ok(Outcome::Done)
}

fn forgive_one(map: &mut ClusterMap, filter: FilterId) {
    let Some(record) = map.filters.get(&filter) else { return };
    // Where one copy is complete, the others fetch from it.
    let lost: Vec<bool> = (0..record.owners.len() as u32).map(|slice| !map.is_complete(record, slice)).collect();
    let Some(record) = map.filters.get_mut(&filter) else { return };
    for (_, owner) in record.all_copies_mut().filter(|(slice, _)| lost.get(*slice as usize) == Some(&true)) {
        let node = map.nodes.get(&owner.node).filter(|node| !node.is_down);
        if let Some(node) = node.filter(|node| owner.missing_in != Some(node.incarnation)) {
            (owner.complete_since, owner.has_gap) = (node.incarnation, false);
        }
    }
    moves::settle(map, filter);
}
