//! Changes of filters. The guarantees of [`crate::apply`] hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firstseen_filter::GenerationNumber;
use firstseen_routing::check::check_claims;
use firstseen_routing::{ClusterMap, Epoch, FilterHistory, FilterId, FilterRecord, Incarnation, NodeId};

use crate::catalog::{self, check_new, insert_new};
use crate::change::NewFilter;
use crate::command::Outcome;
use crate::names::{check_text, is_reserved};
use crate::node_start::NodeStart;
use crate::placement::{generation_max, owners};
use crate::refusal::Refusal;
use crate::state::State;
use crate::{liveness, moves, tree};

pub(crate) fn create(state: &mut State, asked: NewFilter) -> Result<Outcome, Refusal> {
    let NewFilter { name, definition, policies, secret, if_absent, tree } = asked;
    check_text("the name of a filter", &name)?;
    if is_reserved(&name) {
        let rule = "names of the form restoring:NAME and NAME~former are reserved for filters that are being restored \
                    or altered";
        return Err(Refusal::Text { what: "the name of a filter".to_owned(), value: name, rule: rule.to_owned() });
    }
    let top_down = tree.as_ref().map(|tree| tree.top_down);
    catalog::check_filter(&definition, &policies)
        .and_then(|()| catalog::check_format(&state.map, &policies, tree.is_some()))
        .and_then(|()| check_claims(&definition, &policies, top_down).map_err(|refusal| refusal.to_string()))
        .map_err(|reason| Refusal::Definition { name: name.clone(), reason })?;
    let exists = state.map.filter_named(&name).is_some();
    let places = tree::plan(&state.map, &name, &definition, tree.as_ref(), exists)?;
    if let Some((filter, record)) = state.map.filter_named(&name) {
        let same_tree = tree::is_built_so(&state.map, filter, tree.as_ref(), &places);
        let differs = match (
            record.definition.answers_like(&definition),
            record.policies == policies.with_safe_replies(),
            same_tree,
        ) {
            (false, ..) => "definition",
            (_, false, _) => "set of policies",
            (.., false) => "tree",
            (true, true, true) if if_absent => return Ok(Outcome::FilterCreated { filter, existed: true }),
            (true, true, true) => return Err(Refusal::FilterExists { name }),
        };
        return Err(Refusal::FilterDiffers { name, differs: differs.to_owned() });
    }
    // Either all levels of a tree are created or none.
    let mut map = (*state.map).clone();
    let mut secrets = (*state.secrets).clone();
    let root = map.next_filter;
    for place in &places {
        let name = tree::name_of(&name, place);
        check_new(&map, &name)?;
        let policies = tree::policies(policies, tree.as_ref(), place);
        // The filters of the tree are numbered consecutively, in the order of the places.
        let parent = place.parent.map(|index| FilterId(root.0 + index as u64));
        let (owners, copies) = owners(&map, &name, &place.definition, &place.sites, policies.copies)?;
        let record = FilterRecord {
            name,
            epoch: Epoch::FIRST,
            definition: place.definition.clone(),
            policies,
            owners,
            copies,
            generations: Vec::new(),
            branch: tree.as_ref().map(|tree| tree::branch(tree, root, parent, place)),
            line: FilterHistory::default(),
        };
        secrets.insert(insert_new(&mut map, record)?, secret);
    }
    state.map = Arc::new(map);
    state.secrets = Arc::new(secrets);
    Ok(Outcome::FilterCreated { filter: root, existed: false })
}

pub(crate) fn drop_named(state: &mut State, name: &str) -> Result<Outcome, Refusal> {
    let (filter, record) = catalog::named(&state.map, name)?;
    if let Some(branch) = record.branch.as_ref().filter(|branch| !branch.is_root()) {
        let root = state.map.filters.get(&branch.root).map_or_else(String::new, |root| root.name.clone());
        return Err(Refusal::Level { name: name.to_owned(), root });
    }
    if record.is_closed() {
        let reason = "it is the predecessor of an altered filter: remove it with `filter alter --finish`, or drop the \
                      altered filter";
        return Err(Refusal::Alter { name: name.to_owned(), reason: reason.to_owned() });
    }
    let dropped = tree_and_former(&state.map, filter);
    catalog::forget(state, &dropped);
    Ok(Outcome::Done)
}

/// Returns a filter with the levels below it, and its predecessor if it is being altered.
fn tree_and_former(map: &ClusterMap, filter: FilterId) -> BTreeSet<FilterId> {
    let former = map.former_of(filter).map(|(former, _)| former);
    let tree = map.filters.iter().filter(|(id, record)| catalog::is_in_tree(filter, **id, record));
    tree.map(|(id, _)| *id).chain(former).collect()
}

pub(crate) fn open_generation(
    state: &mut State,
    filter: FilterId,
    group: u32,
    number: GenerationNumber,
) -> Result<Outcome, Refusal> {
    let record = catalog::numbered(&state.map, filter)?;
    let newest = record.generations.get(group as usize).copied().unwrap_or_default();
    check_generation(record, group, newest, number).map_err(|rule| Refusal::Generation {
        filter,
        group,
        number,
        newest,
        rule,
    })?;
    let groups = record.definition.slicing.groups();
    let record = catalog::numbered_mut(state, filter)?;
    record.generations.resize(groups as usize, GenerationNumber::FIRST);
    if let Some(newest) = record.generations.get_mut(group as usize) {
        *newest = number;
    }
    Ok(Outcome::Done)
}

/// Checks whether a group whose newest generation is `newest` may open generation `number`. The error says why not.
fn check_generation(
    record: &FilterRecord,
    group: u32,
    newest: GenerationNumber,
    number: GenerationNumber,
) -> Result<(), String> {
    let groups = record.definition.slicing.groups();
    if group >= groups {
        return Err(format!("there are {groups} groups"));
    }
    if newest >= generation_max(&record.definition)? {
        return Err("no more generations are allowed: make the filter larger with --capacity".to_owned());
    }
    if number != newest.after(1) {
        return Err("only the next generation may be opened".to_owned());
    }
    Ok(())
}

/// A node's report that slices of a group are complete.
pub(crate) struct CompleteReport<'a> {
    pub(crate) filter: FilterId,
    pub(crate) group: u32,
    /// Numbers of the slices within the group.
    pub(crate) slices: &'a [u32],
    /// Epoch of the filter in the map that the report is based on.
    pub(crate) epoch: Epoch,
}

impl CompleteReport<'_> {
    /// Returns the slices that a node has reported as complete, by their numbers within the filter. A report is based
    /// on an epoch of the filter, which is a number that rises when the copies of slices change. If a slice was
    /// assigned to the node only after that epoch, the report cannot be about the present copy of the slice, so the
    /// result does not contain the slice. The report then describes an earlier copy, which was moved away from the
    /// node, or whose move to the node was cancelled.
    fn reported(&self, record: &FilterRecord, node: NodeId) -> BTreeSet<u32> {
        let slicing = record.definition.slicing;
        let first = slicing.slices_of(self.group).start;
        let slices = self.slices.iter().map(|slice| first.saturating_add(*slice));
        slices
            .filter(|slice| slicing.group_of(*slice) == self.group)
            .filter(|slice| record.arriving_since(*slice, node).is_none_or(|since| since <= self.epoch))
            .collect()
    }
}

pub(crate) fn slices_complete(
    state: &mut State,
    report: &CompleteReport<'_>,
    start: NodeStart,
) -> Result<Outcome, Refusal> {
    let NodeStart { node, incarnation } = start;
    let record = catalog::numbered(&state.map, report.filter)?;
    let reported = report.reported(record, node);
    let is_news = record.all_copies().any(|(slice, owner)| {
        let is_complete = owner.complete_since == incarnation && !owner.has_gap;
        owner.node == node && reported.contains(&slice) && owner.missing_in != Some(incarnation) && !is_complete
    });
    if !start.counts_in(&state.map) || !is_news {
        return Ok(Outcome::Done);
    }
    for (slice, owner) in catalog::numbered_mut(state, report.filter)?.all_copies_mut() {
        if owner.node == node && reported.contains(&slice) && owner.missing_in != Some(incarnation) {
            owner.complete_since = incarnation;
            owner.has_gap = false;
        }
    }
    moves::settle(Arc::make_mut(&mut state.map), report.filter);
    Ok(Outcome::Done)
}

pub(crate) fn slices_missing(
    state: &mut State,
    filter: FilterId,
    group: u32,
    start: NodeStart,
) -> Result<Outcome, Refusal> {
    let NodeStart { node, incarnation } = start;
    let record = catalog::numbered(&state.map, filter)?;
    let slicing = record.definition.slicing;
    let is_news = record.all_copies().any(|(slice, owner)| {
        slicing.group_of(slice) == group && owner.node == node && owner.missing_in != Some(incarnation)
    });
    if !start.counts_in(&state.map) || !is_news {
        return Ok(Outcome::Done);
    }
    // If no other node can record events, no event is missed. If a complete copy records events,
    // `open_gaps_beside_complete` marks the gaps after every change.
    let is_elsewhere = record.all_copies().any(|(slice, owner)| slicing.group_of(slice) == group && owner.node != node);
    let may_miss = is_elsewhere && !liveness::waits_for_complete(record);
    let record = catalog::numbered_mut(state, filter)?;
    // Events that had this node as their head node now have another head.
    record.epoch.rise();
    for (slice, owner) in record.all_copies_mut() {
        if slicing.group_of(slice) == group && owner.node == node && owner.missing_in != Some(incarnation) {
            owner.missing_in = Some(incarnation);
            owner.has_gap |= may_miss;
        }
    }
    Ok(Outcome::Done)
}

/// Lets the cluster continue without the slices of a node. The request has an effect only if other nodes have complete
/// copies of these slices, because the cluster must never lose the last complete copy. For example, two nodes with
/// copies of the same slice may both make this request. If the first request leaves only one complete copy, the second
/// request has no effect.
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

/// Accepts the losses of a filter: its incomplete slices count as complete from now on, although they may lack events.
/// The losses are also accepted for all levels of the filter's tree, and for the predecessor of a filter that is being
/// altered.
///
/// The request is rejected if any node is down and is not listed in `ended`. The list names the nodes whose leases have
/// certainly ended. A down node with a valid lease would continue to decide events, and its decisions could contradict
/// those of the remaining nodes.
pub(crate) fn forgive(
    state: &mut State,
    name: &str,
    ended: &BTreeMap<NodeId, Incarnation>,
) -> Result<Outcome, Refusal> {
    let (filter, _) = catalog::named(&state.map, name)?;
    let mut down = state.map.nodes.iter().filter(|(_, record)| record.is_down);
    if let Some((node, _)) = down.find(|(node, record)| ended.get(node) != Some(&record.incarnation)) {
        return Err(Refusal::MayRecord { name: name.to_owned(), node: *node });
    }
    let map = Arc::make_mut(&mut state.map);
    for filter in tree_and_former(map, filter) {
        forgive_one(map, filter);
    }
    Ok(Outcome::Done)
}

fn forgive_one(map: &mut ClusterMap, filter: FilterId) {
    let Some(record) = map.filters.get(&filter) else { return };
    // If one copy is complete, the other copies fetch from it.
    let lost: Vec<bool> = (0..record.owners.len() as u32).map(|slice| !map.is_complete(record, slice)).collect();
    let Some(record) = map.filters.get_mut(&filter) else { return };
    for (_, owner) in record.all_copies_mut().filter(|(slice, _)| lost.get(*slice as usize) == Some(&true)) {
        let node = map.nodes.get(&owner.node).filter(|node| !node.is_down);
        if let Some(node) = node.filter(|node| owner.missing_in != Some(node.incarnation)) {
            owner.complete_since = node.incarnation;
            owner.has_gap = false;
        }
    }
    moves::settle(map, filter);
}
