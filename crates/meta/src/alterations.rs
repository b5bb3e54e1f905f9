//! Filters that are altered: another one follows under the name, and the one before is closed.
//!
//! The former filter stays beside the other until none of its events counts any more: every node that had slices of it
//! reports that no event of it is in flight there any more, and later that by the node's clock all of its events have
//! expired.
//!
//! Promises: what [`crate::state`] promises; a filter has one former at most; a former goes only when all nodes that
//! have it have reported that, or when somebody asks for its end. Must not know: the same as there, and how producers
//! ask both filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{Ability, Kind, Refresh, Unit, UnitNumber};
use firstseen_routing::check::{check_copies, check_definition, check_durability, check_thresholds};
use firstseen_routing::{
    Closed, ClusterMap, Epoch, FilterId, FilterPolicies, FilterRecord, Line, NodeId, SlicedDefinition,
};

use crate::command::{AlteredFilter, Outcome};
use crate::filters::{check_map, check_new, insert_new, is_current};
use crate::node_start::NodeStart;
use crate::placement::owners;
use crate::refusal::Refusal;
use crate::restore::is_restoring;
use crate::state::State;

/// A former filter has its old name with this behind it.
pub const FORMER_SUFFIX: &str = "~former";

/// Another filter follows under the name, by another definition or secret.
pub(crate) fn alter(state: &mut State, asked: AlteredFilter) -> Result<Outcome, Refusal> {
    let map = plan_alteration(&state.map, &asked)?;
    let (former, successor) = (asked.filter, state.map.next_filter);
    let Some(secret) = asked.secret.or_else(|| state.secrets.get(&former).copied()) else {
        return Err(Refusal::Alter { name: asked.name, reason: "its secret is not known".to_owned() });
    };
    let secrets = Arc::make_mut(&mut state.secrets);
    secrets.insert(successor, secret);
    if asked.forgets {
        secrets.remove(&former);
    }
    state.map = Arc::new(map);
    Ok(Outcome::FilterCreated { filter: successor, existed: false })
}

/// The map as it would be with a filter altered.
///
/// # Errors
/// [`Refusal`]: why it cannot be, and what to do instead.
pub fn plan_alteration(map: &ClusterMap, asked: &AlteredFilter) -> Result<ClusterMap, Refusal> {
    let AlteredFilter { name, filter, definition, secret, forgets } = asked;
    let unknown = || Refusal::FilterUnknown { name: format!("`{name}`") };
    let refused = |reason: &str| Refusal::Alter { name: name.clone(), reason: reason.to_owned() };
    let (meant, record) = map.filter_named(name).ok_or_else(unknown)?;
    if meant != *filter {
        return Err(refused("it has been altered or made anew meanwhile: look at it again"));
    }
    let checked = if *forgets { check_forgotten(map, *filter, record) } else { check_former(map, *filter, record) };
    checked.map_err(|reason| refused(&reason))?;
    if secret.is_none() && !forgets && record.definition.answers_like(definition) {
        let is_same = record.definition == *definition;
        let stays = "its cells would stay as they are: give this together with what changes them";
        return Err(refused(if is_same { "it is so already" } else { stays }));
    }
    if !(*forgets && record.definition == *definition) {
        check_follower(definition, &record.policies)
            .map_err(|reason| Refusal::Definition { name: name.clone(), reason })?;
    }
    let mut next = map.clone();
    let former = next.filters.remove(filter).ok_or_else(unknown)?;
    // The former filter needs its room as long as it is there.
    let (owners, copies) = owners(if *forgets { &next } else { map }, name, definition, &[], former.policies.copies)?;
    let follower = FilterRecord {
        name: name.clone(),
        epoch: Epoch::FIRST,
        definition: definition.clone(),
        policies: former.policies,
        owners,
        copies,
        generations: Vec::new(),
        branch: None,
        line: Line { origin: former.line.origin.or(Some(*filter)), former: Some(*filter), closed: None },
    };
    if !forgets {
        close(&mut next, *filter, former)?;
    }
    insert_new(&mut next, follower)?;
    Ok(next)
}

/// The filter becomes a former one.
fn close(map: &mut ClusterMap, filter: FilterId, mut former: FilterRecord) -> Result<(), Refusal> {
    let former_name = format!("{}{FORMER_SUFFIX}", former.name);
    check_new(map, &former_name)?;
    (former.name, former.epoch) = (former_name, former.epoch.after(1));
    former.line.closed = Some(Closed { successor: map.next_filter, awaited: former.nodes(), ..Closed::default() });
    check_map(map, filter, &former)?;
    map.filters.insert(filter, former);
    Ok(())
}

/// Why a filter cannot be begun anew, and what to do instead.
fn check_forgotten(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), String> {
    let otherwise = "drop it, and create it again";
    match &record.definition.group.unit {
        _ if record.line.closed.is_some() => Err("it is the former one of an alteration: name the other".to_owned()),
        _ if map.former_of(filter).is_some() => {
            Err("it is being altered: end that first with `filter alter --finish`".to_owned())
        }
        _ if is_restoring(&record.name) => Err("it is being restored: wait until it is there".to_owned()),
        _ if record.branch.is_some() => Err(format!("levels of trees cannot be begun anew alone: {otherwise}")),
        _ if record.moves().next().is_some() => {
            Err("slices of it are moving: wait until they are there, or cancel that".to_owned())
        }
        Unit::Endless => Err("it has no window, and so no clock".to_owned()),
        Unit::Events(_) => Err(format!("its window counts events, and so it has no clock: {otherwise}")),
        Unit::Milliseconds(_) | Unit::Calendar(_) => Ok(()),
    }
}

/// Why a filter cannot become a former one, and what to do instead.
fn check_former(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), String> {
    let FilterRecord { definition, branch, line, .. } = record;
    let down = record.all_copies().find(|(_, copy)| map.is_gone(copy)).map(|(_, copy)| copy.node);
    let kind = definition.group.cells.kind();
    let otherwise = "create another filter beside it, and let producers go over to that";
    let refuses = |reason: String| Err(format!("{reason}: {otherwise}"));
    match &definition.group.cells {
        _ if line.closed.is_some() => Err("it is the former one of an alteration: alter the other".to_owned()),
        _ if map.former_of(filter).is_some() => {
            Err("it is being altered: wait until the former one has gone (`filter describe`), or end that with \
                 `filter alter --finish`"
                .to_owned())
        }
        _ if is_restoring(&record.name) => Err("it is being restored: wait until it is there".to_owned()),
        _ if branch.is_some() => refuses("levels of trees cannot be altered".to_owned()),
        _ if record.moves().next().is_some() => {
            Err("slices of it are moving: wait until they are there, or cancel that".to_owned())
        }
        _ if down.is_some() => Err(format!(
            "node {} has slices of it, and is down or cannot read them, so that new events would wait for it: start or repair \
             it, or drain it first",
            down.and_then(|node| map.nodes.get(&node)).map_or("?", |node| &node.name)
        )),
        cells if cells.refresh() == Refresh::Refresh => refuses(
            "every duplicate starts its window again (--rule refresh), so that what it has never expires".into(),
        ),
        _ if !kind.can(Ability::Parts) => refuses(format!("kind {kind} cannot be altered")),
        _ => match definition.group.unit {
            Unit::Endless => refuses("it has no window, so that what it has never expires".to_owned()),
            Unit::Events(_) => {
                refuses("its window counts events, and once it is closed none are counted there any more".to_owned())
            }
            Unit::Milliseconds(_) | Unit::Calendar(_) => Ok(()),
        },
    }
}

/// Why a filter cannot follow another.
fn check_follower(definition: &SlicedDefinition, policies: &FilterPolicies) -> Result<(), String> {
    let kind = definition.group.cells.kind();
    if !kind.can(Ability::Parts) {
        return Err(format!("kind {kind} cannot follow: use kind {}", Kind::names(Ability::Parts)));
    }
    if definition.group.cells.refresh() == Refresh::Refresh {
        return Err(
            "a filter whose duplicates start its window again cannot follow: create it beside this one".to_owned()
        );
    }
    check_definition(definition)
        .and_then(|()| check_durability(definition, policies.durability, false))
        .and_then(|()| check_thresholds(definition, policies.thresholds))
        .and_then(|()| check_copies(definition, policies.copies, false))
        .map_err(|refusal| refusal.to_string())
}

/// A node has no event in flight any more that began before the filter was closed.
pub(crate) fn ended(
    state: &mut State,
    filter: FilterId,
    start: NodeStart,
    newest_unit: UnitNumber,
) -> Result<Outcome, Refusal> {
    let NodeStart { node, .. } = start;
    let is_awaited = |closed: &Closed| closed.awaited.contains(&node);
    if is_current(state, start) && closed_of(state, filter)?.is_some_and(is_awaited) {
        change(state, filter, |record, closed| {
            closed.newest_unit = closed.newest_unit.max(newest_unit);
            end(record, closed, node);
        });
    }
    Ok(Outcome::Done)
}

/// A node need not be waited for any more.
fn end(record: &mut FilterRecord, closed: &mut Closed, node: NodeId) {
    // Reports of expiry from before the last node has ended do not count: they are made again.
    if closed.awaited.remove(&node) && closed.has_ended() {
        record.epoch.rise();
    }
}

/// By the clock of a node all events of the filter have expired. The filter goes when all nodes report that.
pub(crate) fn passed(state: &mut State, filter: FilterId, start: NodeStart) -> Result<Outcome, Refusal> {
    let NodeStart { node, .. } = start;
    let is_news = |closed: &Closed| closed.has_ended() && !closed.passed.contains(&node);
    if !is_current(state, start) || !closed_of(state, filter)?.is_some_and(is_news) {
        return Ok(Outcome::Done);
    }
    change(state, filter, |_, closed| closed.passed.extend([node]));
    let is_over = |record: &FilterRecord| {
        let passed = record.line.closed.as_ref().map(|closed| &closed.passed);
        passed.is_some_and(|passed| record.nodes().is_subset(passed))
    };
    if state.map.filters.get(&filter).is_some_and(is_over) {
        forget(state, &BTreeSet::from([filter]));
    }
    Ok(Outcome::Done)
}

/// The former filter goes now, also where its events still count.
pub(crate) fn finish(state: &mut State, name: &str) -> Result<Outcome, Refusal> {
    let unknown = || Refusal::FilterUnknown { name: format!("`{name}`") };
    let (filter, _) = state.map.filter_named(name).ok_or_else(unknown)?;
    if let Some(former) = state.map.former_of(filter).map(|(former, _)| former) {
        forget(state, &BTreeSet::from([former]));
    }
    Ok(Outcome::Done)
}

/// Nodes that have been given up, and have no slices of a closed filter any more, are not awaited.
pub(crate) fn settle(map: &mut ClusterMap) {
    let lost = |record: &FilterRecord| -> Vec<NodeId> {
        let awaited = record.line.closed.iter().flat_map(|closed| &closed.awaited).copied();
        let is_lost = |node: &NodeId| map.nodes.get(node).is_none_or(|it| it.is_down) && !record.is_on(*node);
        awaited.filter(is_lost).collect()
    };
    let lost: Vec<(FilterId, Vec<NodeId>)> = map.filters.iter().map(|(id, record)| (*id, lost(record))).collect();
    for (filter, nodes) in lost.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
        let Some(record) = map.filters.get_mut(&filter) else { continue };
        let Some(mut closed) = record.line.closed.take() else { continue };
        nodes.into_iter().for_each(|node| end(record, &mut closed, node));
        record.line.closed = Some(closed);
    }
}

/// Where other nodes head events now than before, other clocks count.
pub(crate) fn ask_again(before: &ClusterMap, map: &mut ClusterMap) {
    for (filter, record) in &mut map.filters {
        let is_same = before.filters.get(filter).is_some_and(|former| former.epoch == record.epoch);
        if let Some(closed) = record.line.closed.as_mut().filter(|_| !is_same) {
            closed.passed.clear();
        }
    }
}

/// Forgets these filters, with their secrets.
pub(crate) fn forget(state: &mut State, filters: &BTreeSet<FilterId>) {
    Arc::make_mut(&mut state.map).filters.retain(|id, _| !filters.contains(id));
    Arc::make_mut(&mut state.secrets).retain(|id, _| !filters.contains(id));
}

/// The closed state of a filter; none where it is not closed, or is gone: the map of the node that reports is older.
fn closed_of(state: &State, filter: FilterId) -> Result<Option<&Closed>, Refusal> {
    match state.map.filters.get(&filter) {
        None if filter >= state.map.next_filter => Err(Refusal::FilterUnknown { name: filter.to_string() }),
        record => Ok(record.and_then(|record| record.line.closed.as_ref())),
    }
}

fn change(state: &mut State, filter: FilterId, work: impl FnOnce(&mut FilterRecord, &mut Closed)) {
    let Some(record) = Arc::make_mut(&mut state.map).filters.get_mut(&filter) else { return };
    let Some(mut closed) = record.line.closed.take() else { return };
    work(record, &mut closed);
    record.line.closed = Some(closed);
}

#[cfg(test)]
mod tests;
