//! Filters that are altered: another one follows under the name, and the one before is closed.
//!
//! The former filter stays beside the other until none of its events counts any more: every node that had slices of it
//! reports that no event of it is in flight there any more, and later that by the node's clock all of its events have
//! expired.
//!
//! The guarantees of [`crate::apply`] hold. A filter has one former at most, and a former goes only when all nodes that
//! have it have reported that, or when somebody asks for its end. This module does not know how producers ask both
//! filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{Ability, Kind, Refresh, Unit, UnitNumber};
use firstseen_routing::{
    Closed, ClusterMap, Epoch, FilterId, FilterPolicies, FilterRecord, Line, NodeId, SlicedDefinition,
};

use crate::catalog::{self, check_filter, check_new, check_size, insert_new};
use crate::change::AlteredFilter;
use crate::command::Outcome;
use crate::names::{FORMER_SUFFIX, is_restoring};
use crate::node_start::NodeStart;
use crate::placement::owners;
use crate::refusal::Refusal;
use crate::state::State;

/// What to do instead where a filter cannot become a former one.
const INSTEAD: &str = "create another filter beside it, and let producers go over to that";

/// Another filter follows under the name, by another definition or secret.
pub(crate) fn alter(state: &mut State, asked: AlteredFilter) -> Result<Outcome, Refusal> {
    let map = plan_alteration(&state.map, &asked)?;
    let former = asked.filter;
    let successor = state.map.next_filter;
    let Some(secret) = asked.secret.or_else(|| state.secrets.get(&former).copied()) else {
        return Err(refused(asked.name, "its secret is not known"));
    };
    let secrets = Arc::make_mut(&mut state.secrets);
    secrets.insert(successor, secret);
    if asked.forgets {
        secrets.remove(&former);
    }
    state.map = Arc::new(map);
    Ok(Outcome::FilterCreated { filter: successor, existed: false })
}

fn refused(name: String, reason: impl Into<String>) -> Refusal {
    Refusal::Alter { name, reason: reason.into() }
}

/// The map as it would be with a filter altered.
///
/// # Errors
/// [`Refusal`]: why it cannot be, and what to do instead.
pub fn plan_alteration(map: &ClusterMap, asked: &AlteredFilter) -> Result<ClusterMap, Refusal> {
    let AlteredFilter { name, filter, definition, secret, forgets } = asked;
    let (meant, record) = catalog::named(map, name)?;
    if meant != *filter {
        let reason = "it has been altered or made anew meanwhile: look at it again";
        return Err(refused(name.clone(), reason));
    }
    let checked = if *forgets { check_forgotten(map, *filter, record) } else { check_former(map, *filter, record) };
    checked.map_err(|reason| refused(name.clone(), reason))?;
    let is_same = record.definition == *definition;
    if secret.is_none() && !forgets && record.definition.answers_like(definition) {
        let stays = "its cells would stay as they are: give this together with what changes them";
        return Err(refused(name.clone(), if is_same { "it is so already" } else { stays }));
    }
    if !(*forgets && is_same) {
        check_follower(definition, &record.policies)
            .map_err(|reason| Refusal::Definition { name: name.clone(), reason })?;
    }
    let mut next = map.clone();
    let former = record.clone();
    next.filters.remove(filter);
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
    former.name = former_name;
    former.epoch.rise();
    former.line.closed = Some(Closed { successor: map.next_filter, awaited: former.nodes(), ..Closed::default() });
    check_size(map, filter, &former)?;
    map.filters.insert(filter, former);
    Ok(())
}

/// Checks that a filter can be begun anew; says why it cannot, and what to do instead.
fn check_forgotten(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), String> {
    const OTHERWISE: &str = "drop it, and create it again";
    if record.line.closed.is_some() {
        return Err("it is the former one of an alteration: name the other".to_owned());
    }
    if map.former_of(filter).is_some() {
        return Err("it is being altered: end that first with `filter alter --finish`".to_owned());
    }
    if is_restoring(&record.name) {
        return Err("it is being restored: wait until it is there".to_owned());
    }
    if record.branch.is_some() {
        return Err(format!("levels of trees cannot be begun anew alone: {OTHERWISE}"));
    }
    if record.moves().next().is_some() {
        return Err("slices of it are moving: wait until they are there, or cancel that".to_owned());
    }
    match record.definition.group.unit {
        Unit::Endless => Err("it has no window, and so no clock".to_owned()),
        Unit::Events(_) => Err(format!("its window counts events, and so it has no clock: {OTHERWISE}")),
        Unit::Milliseconds(_) | Unit::Calendar(_) => Ok(()),
    }
}

/// Checks that a filter can become a former one; says why it cannot, and what to do instead.
fn check_former(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), String> {
    if record.line.closed.is_some() {
        return Err("it is the former one of an alteration: alter the other".to_owned());
    }
    if map.former_of(filter).is_some() {
        let reason = "it is being altered: wait until the former one has gone (`filter describe`), or end that with \
                      `filter alter --finish`";
        return Err(reason.to_owned());
    }
    if is_restoring(&record.name) {
        return Err("it is being restored: wait until it is there".to_owned());
    }
    if record.branch.is_some() {
        return Err(format!("levels of trees cannot be altered: {INSTEAD}"));
    }
    if record.moves().next().is_some() {
        return Err("slices of it are moving: wait until they are there, or cancel that".to_owned());
    }
    if let Some((_, copy)) = record.all_copies().find(|(_, copy)| map.is_gone(copy)) {
        let node = map.nodes.get(&copy.node).map_or("?", |node| &node.name);
        return Err(format!(
            "node {node} has slices of it, and is down or cannot read them, so that new events would wait for it: start or repair \
             it, or drain it first"
        ));
    }
    let cells = &record.definition.group.cells;
    if cells.refresh() == Refresh::Refresh {
        return Err(format!(
            "every duplicate starts its window again (--rule refresh), so that what it has never expires: {INSTEAD}"
        ));
    }
    if !cells.kind().can(Ability::Parts) {
        return Err(format!("kind {} cannot be altered: {INSTEAD}", cells.kind()));
    }
    match record.definition.group.unit {
        Unit::Endless => Err(format!("it has no window, so that what it has never expires: {INSTEAD}")),
        Unit::Events(_) => {
            Err(format!("its window counts events, and once it is closed none are counted there any more: {INSTEAD}"))
        }
        Unit::Milliseconds(_) | Unit::Calendar(_) => Ok(()),
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
    check_filter(definition, policies, false)
}

/// A node has no event in flight any more that began before the filter was closed.
pub(crate) fn ended(
    state: &mut State,
    filter: FilterId,
    start: NodeStart,
    newest_unit: UnitNumber,
) -> Result<Outcome, Refusal> {
    // A report that does not count is not refused, even if there is no such filter.
    if !start.counts_in(&state.map) {
        return Ok(Outcome::Done);
    }
    if closed_of(state, filter)?.is_some_and(|closed| closed.awaited.contains(&start.node)) {
        change(Arc::make_mut(&mut state.map), filter, |record, closed| {
            closed.newest_unit = closed.newest_unit.max(newest_unit);
            end(record, closed, start.node);
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
    if !start.counts_in(&state.map) {
        return Ok(Outcome::Done);
    }
    let Some(closed) = closed_of(state, filter)? else { return Ok(Outcome::Done) };
    if !closed.has_ended() || closed.passed.contains(&start.node) {
        return Ok(Outcome::Done);
    }
    let mut is_over = false;
    change(Arc::make_mut(&mut state.map), filter, |record, closed| {
        closed.passed.insert(start.node);
        is_over = record.nodes().is_subset(&closed.passed);
    });
    if is_over {
        catalog::forget(state, &BTreeSet::from([filter]));
    }
    Ok(Outcome::Done)
}

/// The former filter goes now, also where its events still count.
pub(crate) fn finish(state: &mut State, name: &str) -> Result<Outcome, Refusal> {
    let (filter, _) = catalog::named(&state.map, name)?;
    if let Some((former, _)) = state.map.former_of(filter) {
        catalog::forget(state, &BTreeSet::from([former]));
    }
    Ok(Outcome::Done)
}

/// Nodes that have been given up, and have no slices of a closed filter any more, are not awaited.
pub(crate) fn settle(map: &mut ClusterMap) {
    let mut lost: Vec<(FilterId, NodeId)> = Vec::new();
    for (filter, record) in &map.filters {
        for node in record.line.closed.iter().flat_map(|closed| &closed.awaited) {
            let is_given_up = map.nodes.get(node).is_none_or(|it| it.is_down);
            if is_given_up && !record.is_on(*node) {
                lost.push((*filter, *node));
            }
        }
    }
    for (filter, node) in lost {
        change(map, filter, |record, closed| end(record, closed, node));
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

/// The closed state of a filter; none where it is not closed, or is gone: the map of the node that reports is older.
fn closed_of(state: &State, filter: FilterId) -> Result<Option<&Closed>, Refusal> {
    match state.map.filters.get(&filter) {
        None if filter >= state.map.next_filter => Err(Refusal::FilterUnknown { name: filter.to_string() }),
        record => Ok(record.and_then(|record| record.line.closed.as_ref())),
    }
}

/// Changes a closed filter.
fn change(map: &mut ClusterMap, filter: FilterId, work: impl FnOnce(&mut FilterRecord, &mut Closed)) {
    let Some(record) = map.filters.get_mut(&filter) else { return };
    let Some(mut closed) = record.line.closed.take() else { return };
    work(record, &mut closed);
    record.line.closed = Some(closed);
}

#[cfg(test)]
mod tests;
