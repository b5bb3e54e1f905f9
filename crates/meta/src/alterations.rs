//! Alters filters. An altered filter is replaced by a new filter with the same name, and the previous filter is closed,
//! so that no more events are recorded in it. The closed predecessor still knows its events, so it is kept until all of
//! these events have expired.
//!
//! Each node that has slices of the predecessor sends two reports about it, one after the other. The first report says
//! that no event that was sent to the predecessor is in flight on the node any more. The second report says that all
//! events of the predecessor have expired by the clock of the node.
//!
//! The predecessor is removed when all nodes that have its slices have sent both reports, or earlier if an operator
//! requests it. A filter has at most one predecessor at a time.
//!
//! The guarantees of [`crate::apply`] hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{Ability, Kind, Refresh, Unit, UnitNumber};
use firstseen_routing::{
    Closed, ClusterMap, Epoch, FilterHistory, FilterId, FilterPolicies, FilterRecord, NodeId, SlicedDefinition,
};

use crate::catalog::{self, check_filter, check_new, check_size, insert_new};
use crate::change::AlteredFilter;
use crate::command::Outcome;
use crate::names::{FORMER_SUFFIX, is_restoring};
use crate::node_start::NodeStart;
use crate::placement::owners;
use crate::refusal::Refusal;
use crate::state::State;

/// Advice for the case that a filter cannot become a predecessor.
const INSTEAD: &str = "create another filter beside it, and let producers go over to that";

/// Replaces a filter by a new filter with the same name and another definition or secret.
pub(crate) fn alter(state: &mut State, asked: AlteredFilter) -> Result<Outcome, Refusal> {
    let map = plan_alteration(&state.map, &asked)?;
    let former = asked.filter;
    let successor = state.map.next_filter;
    let Some(secret) = asked.secret.or_else(|| state.secrets.get(&former).copied()) else {
        return Err(refused(asked.name, "this node does not know its secret"));
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

/// Returns the cluster map as it would be after the alteration of a filter.
///
/// # Errors
/// [`Refusal`] says why the filter cannot be altered, and what to do instead.
pub fn plan_alteration(map: &ClusterMap, asked: &AlteredFilter) -> Result<ClusterMap, Refusal> {
    let AlteredFilter { name, filter, definition, secret, forgets } = asked;
    let (meant, record) = catalog::named(map, name)?;
    if meant != *filter {
        let reason = "it has been altered or recreated in the meantime: check its definition and try again";
        return Err(refused(name.clone(), reason));
    }
    let checked = if *forgets { check_forgotten(map, *filter, record) } else { check_former(map, *filter, record) };
    checked.map_err(|reason| refused(name.clone(), reason))?;
    let is_same = record.definition == *definition;
    if secret.is_none() && !forgets && record.definition.answers_like(definition) {
        let stays = "this alteration alone would not change its cells: combine it with a change of the definition";
        return Err(refused(name.clone(), if is_same { "it is so already" } else { stays }));
    }
    if !(*forgets && is_same) {
        check_follower(definition, &record.policies)
            .map_err(|reason| Refusal::Definition { name: name.clone(), reason })?;
    }
    let mut next = map.clone();
    let former = record.clone();
    next.filters.remove(filter);
    // The predecessor needs its memory as long as it exists.
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
        line: FilterHistory { origin: former.line.origin.or(Some(*filter)), former: Some(*filter), closed: None },
    };
    if !forgets {
        close(&mut next, *filter, former)?;
    }
    insert_new(&mut next, follower)?;
    Ok(next)
}

/// Turns the filter into a predecessor.
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

/// Checks whether a filter can be replaced by an empty one. The error says why not, and what to do instead.
fn check_forgotten(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), String> {
    const OTHERWISE: &str = "drop it, and create it again";
    if record.line.closed.is_some() {
        return Err("it is the predecessor of an altered filter: name the altered filter instead".to_owned());
    }
    if map.former_of(filter).is_some() {
        return Err("it is being altered: finish that first with `filter alter --finish`".to_owned());
    }
    if is_restoring(&record.name) {
        return Err("it is being restored: wait until the restore has finished".to_owned());
    }
    if record.branch.is_some() {
        return Err(format!("a level of a tree cannot be reset alone: {OTHERWISE}"));
    }
    if record.moves().next().is_some() {
        return Err("some of its slices are being moved: wait until the moves have finished, or cancel them".to_owned());
    }
    match record.definition.group.unit {
        Unit::Endless => Err("it has no window, so it has no clock".to_owned()),
        Unit::Events(_) => Err(format!("its window counts events, so it has no clock: {OTHERWISE}")),
        Unit::Milliseconds(_) | Unit::Calendar(_) => Ok(()),
    }
}

/// Checks whether a filter can become a predecessor. The error says why not, and what to do instead.
fn check_former(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), String> {
    if record.line.closed.is_some() {
        return Err("it is the predecessor of an altered filter: alter that filter instead".to_owned());
    }
    if map.former_of(filter).is_some() {
        let reason = "it is being altered: wait until its predecessor is gone (see `filter describe`), or finish that \
                      with `filter alter --finish`";
        return Err(reason.to_owned());
    }
    if is_restoring(&record.name) {
        return Err("it is being restored: wait until the restore has finished".to_owned());
    }
    if record.branch.is_some() {
        return Err(format!("levels of trees cannot be altered: {INSTEAD}"));
    }
    if record.moves().next().is_some() {
        return Err("some of its slices are being moved: wait until the moves have finished, or cancel them".to_owned());
    }
    if let Some((_, copy)) = record.all_copies().find(|(_, copy)| map.is_gone(copy)) {
        let node = map.nodes.get(&copy.node).map_or("?", |node| &node.name);
        return Err(format!(
            "node {node} has slices of it, and is down or cannot read them, so new events would wait for that node: \
             start, repair or drain it first"
        ));
    }
    let cells = &record.definition.group.cells;
    if cells.refresh() == Refresh::Refresh {
        return Err(format!(
            "every duplicate restarts its window (--rule refresh), so its events never expire: {INSTEAD}"
        ));
    }
    if !cells.kind().can(Ability::Parts) {
        return Err(format!("kind {} cannot be altered: {INSTEAD}", cells.kind()));
    }
    match record.definition.group.unit {
        Unit::Endless => Err(format!("it has no window, so its events never expire: {INSTEAD}")),
        Unit::Events(_) => {
            Err(format!("its window counts events, and a closed filter receives no more events: {INSTEAD}"))
        }
        Unit::Milliseconds(_) | Unit::Calendar(_) => Ok(()),
    }
}

/// Checks whether a filter can replace another one. The error says why not.
fn check_follower(definition: &SlicedDefinition, policies: &FilterPolicies) -> Result<(), String> {
    let kind = definition.group.cells.kind();
    if !kind.can(Ability::Parts) {
        return Err(format!(
            "kind {kind} cannot be the new kind of an altered filter: use kind {}",
            Kind::names(Ability::Parts)
        ));
    }
    if definition.group.cells.refresh() == Refresh::Refresh {
        return Err(
            "a filter whose duplicates restart its window cannot replace another filter: create it next to this one"
                .to_owned(),
        );
    }
    check_filter(definition, policies)
}

/// Applies a report that a node has no more in-flight events from before the filter was closed.
pub(crate) fn ended(
    state: &mut State,
    filter: FilterId,
    start: NodeStart,
    newest_unit: UnitNumber,
) -> Result<Outcome, Refusal> {
    // An outdated report is ignored instead of rejected, even if the filter does not exist.
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

/// Removes a node from the nodes whose reports are awaited.
fn end(record: &mut FilterRecord, closed: &mut Closed, node: NodeId) {
    // Reports of expiry from before the last node has ended do not count. The nodes send them again.
    if closed.awaited.remove(&node) && closed.has_ended() {
        record.epoch.rise();
    }
}

/// Applies the report of a node that all events of a closed filter have expired by the node's clock. When all nodes
/// that have slices of the filter have sent this report, the filter is removed.
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

/// Removes the predecessor now, even if its events have not expired.
pub(crate) fn finish(state: &mut State, name: &str) -> Result<Outcome, Refusal> {
    let (filter, _) = catalog::named(&state.map, name)?;
    if let Some((former, _)) = state.map.former_of(filter) {
        catalog::forget(state, &BTreeSet::from([former]));
    }
    Ok(Outcome::Done)
}

/// Stops waiting for the reports of nodes that are down and no longer have slices of a closed filter.
pub(crate) fn settle(map: &mut ClusterMap) {
    let mut lost: Vec<(FilterId, NodeId)> = Vec::new();
    for (filter, record) in &map.filters {
        for node in record.line.closed.iter().flat_map(|closed| &closed.awaited) {
            let is_abandoned = map.nodes.get(node).is_none_or(|it| it.is_down);
            if is_abandoned && !record.is_on(*node) {
                lost.push((*filter, *node));
            }
        }
    }
    for (filter, node) in lost {
        change(map, filter, |record, closed| end(record, closed, node));
    }
}

/// Discards the reports of expiry if other nodes have become the heads of events, because other clocks count then.
pub(crate) fn ask_again(before: &ClusterMap, map: &mut ClusterMap) {
    for (filter, record) in &mut map.filters {
        let is_same = before.filters.get(filter).is_some_and(|former| former.epoch == record.epoch);
        if let Some(closed) = record.line.closed.as_mut().filter(|_| !is_same) {
            closed.passed.clear();
        }
    }
}

/// Returns the state of a closed filter, or `None` if the filter is open or no longer exists. A report about a filter
/// that no longer exists is not an error, because the node that sent the report may not have received the newest
/// cluster map yet.
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
