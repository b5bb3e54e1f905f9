//! Adds places to filter trees, and removes them. The guarantees of [`crate::apply`] hold.
//!
//! A new place is an empty filter below an existing place. Events that were recorded before need not be copied into it,
//! because it asks its parent about every event that it does not know.
//!
//! A place can be removed if no other level depends on its knowledge. This is not the case if it may have decided events
//! alone that its parent does not know yet, or if the levels above verify duplicates with it.
//!
//! The record of the parent does not change when a place is added. A parent whose node does not know the new place yet
//! rejects batches from it (`check_level` in `crates/node/src/streams/admit.rs`), so it never answers them without the
//! new place.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_routing::{
    Branch, ClusterMap, CutOff, Epoch, FilterHistory, FilterId, FilterRecord, PlaceSpec, TreeRefusal, TreeSpec,
};

use crate::catalog::{self, check_new, insert_new};
use crate::change::NewPlace;
use crate::command::Outcome;
use crate::names::{is_reserved, is_restoring};
use crate::placement::{owners, runs};
use crate::refusal::Refusal;
use crate::state::State;
use crate::tree::{self, Level, levels};

/// Adds a place to a tree.
pub(crate) fn add(state: &mut State, asked: NewPlace) -> Result<Outcome, Refusal> {
    let NewPlace { filter: name, place } = asked;
    let (root, record) = catalog::named(&state.map, &name)?;
    let of_root = root_branch(&name, record)?;
    if is_restoring(&record.name) {
        return Err(refused(&name, "it is being restored: wait until the restore has finished"));
    }
    check_sites(&state.map, &place).map_err(|reason| refused(&name, &reason))?;
    let wanted = place.name.clone();
    let mut spec = spec(&state.map, root, of_root);
    spec.places.push(place);
    let places = spec.plan_without_sites(&record.definition).map_err(|refusal| refused(&name, &refusal.to_string()))?;
    let Some(place) = places.iter().find(|place| place.name == wanted) else {
        return Err(refused(&name, "the plan of the tree lacks the new place"));
    };
    // A place without a parent would be a second root.
    let parent = place.parent.map(|parent| places[parent].name.as_str());
    let Some(parent) = levels(&state.map, root).find(|level| parent == Some(level.branch.place.as_str())) else {
        return Err(refused(&name, "the new place has no parent"));
    };
    check_leaf(&state.map, parent).map_err(|reason| refused(&name, &reason))?;
    let sibling = levels(&state.map, root).find(|level| !level.branch.is_root());
    let policies =
        sibling.map_or_else(|| tree::policies(record.policies, Some(&spec), place), |sibling| sibling.record.policies);
    let filter_name = tree::name_of(&name, place);
    if is_reserved(&filter_name) {
        let reason = format!("`{}` is a reserved name: choose another name for the place", place.name);
        return Err(refused(&name, &reason));
    }
    check_new(&state.map, &filter_name)?;
    let (owners, copies) = owners(&state.map, &filter_name, &place.definition, &place.sites, policies.copies)?;
    let added = FilterRecord {
        name: filter_name,
        epoch: Epoch::FIRST,
        definition: place.definition.clone(),
        policies,
        owners,
        copies,
        generations: Vec::new(),
        branch: Some(tree::branch(&spec, root, Some(parent.id), place)),
        line: FilterHistory::default(),
    };
    let Some(secret) = state.secrets.get(&root).copied() else {
        return Err(refused(&name, "the cluster has no secret for it"));
    };
    let mut map = (*state.map).clone();
    let filter = insert_new(&mut map, added)?;
    state.map = Arc::new(map);
    Arc::make_mut(&mut state.secrets).insert(filter, secret);
    Ok(Outcome::FilterCreated { filter, existed: false })
}

/// Removes a place from its tree.
pub(crate) fn remove(state: &mut State, name: &str) -> Result<Outcome, Refusal> {
    let (filter, record) = catalog::named(&state.map, name)?;
    let Some(branch) = record.branch.as_ref().filter(|branch| !branch.is_root()) else {
        let reason = "it is not a place below the root of a tree: drop the filter with `firstseen filter drop`";
        return Err(refused(name, reason));
    };
    if is_restoring(&record.name) {
        return Err(refused(name, "it is being restored: wait until the restore has finished"));
    }
    if let Some(child) = levels(&state.map, branch.root).find(|level| level.branch.parent == Some(filter)) {
        let reason = format!("place `{}` is below it: remove that first", child.branch.place);
        return Err(refused(name, &reason));
    }
    if branch.cut_off == CutOff::Local {
        let reason = "it may have decided events alone that only it knows (`--tree-cut-off local`): keep the place";
        return Err(refused(name, reason));
    }
    if branch.level <= branch.top_down {
        let reason = "levels above verify duplicates with it (`--tree-top-down`), so events that came through it would \
                      be first-seen again: keep the place";
        return Err(refused(name, reason));
    }
    if !is_root_complete(&state.map, branch.root) {
        let reason = "the root of its tree has incomplete slices, so this place may know events that the root has lost: \
                      wait until `firstseen filter describe` shows all slices of the root as complete, or give up the \
                      lost events with `firstseen filter forgive`";
        return Err(refused(name, reason));
    }
    catalog::forget(state, &BTreeSet::from([filter]));
    Ok(Outcome::Done)
}

fn refused(name: &str, reason: &str) -> Refusal {
    Refusal::Tree { name: name.to_owned(), reason: reason.to_owned() }
}

/// Returns the branch of a root. The error says why the filter is not the root of a tree.
fn root_branch<'a>(name: &str, record: &'a FilterRecord) -> Result<&'a Branch, Refusal> {
    match &record.branch {
        Some(branch) if branch.is_root() => Ok(branch),
        Some(_) => Err(refused(name, "it is a place itself: name the filter at the root of the tree")),
        None => Err(refused(name, "it has no places: it was created without `--tree` and `--tree-file`")),
    }
}

/// Checks that a new place has sites, and that each of them has nodes. The sites of the other places are not checked,
/// because nodes may have come and gone since the tree was created.
fn check_sites(map: &ClusterMap, place: &PlaceSpec) -> Result<(), String> {
    if place.sites.is_empty() {
        return Err(TreeRefusal::Nowhere { place: place.name.clone() }.to_string());
    }
    match place.sites.iter().find(|site| !has_nodes(map, site)) {
        Some(site) => Err(format!("site `{site}` has no running nodes: name the sites of place `{}`", place.name)),
        None => Ok(()),
    }
}

fn has_nodes(map: &ClusterMap, site: &str) -> bool {
    map.nodes.values().any(|node| node.site == site && runs(node))
}

/// Checks that no producer loses its place when `parent` gets another place below it. If the tree verifies duplicates,
/// producers must use places without places below them, because events that no such place knows are refuted.
fn check_leaf(map: &ClusterMap, parent: Level<'_>) -> Result<(), String> {
    let Branch { root, top_down, .. } = *parent.branch;
    let is_leaf = !levels(map, root).any(|level| level.branch.parent == Some(parent.id));
    if top_down == 0 || !is_leaf {
        return Ok(());
    }
    Err(format!(
        "place `{}` has no places below it. With `--tree-top-down`, producers cannot use a place that has some, so the \
         producers of this place would have none: choose a parent that has places below it",
        parent.branch.place
    ))
}

/// Returns whether every slice of the root has all events that were recorded in it. Regions between the root and a leaf
/// do not matter, because the root knows every event that they know.
fn is_root_complete(map: &ClusterMap, root: FilterId) -> bool {
    map.filters.get(&root).is_some_and(|record| {
        let slices = 0..record.definition.slicing.slices();
        slices.into_iter().all(|slice| map.is_complete(record, slice))
    })
}

/// Returns the name of the place of a level.
fn place_of(map: &ClusterMap, level: FilterId) -> Option<String> {
    map.filters.get(&level)?.branch.as_ref().map(|branch| branch.place.clone())
}

/// Returns the specification of a tree that exists, without the sites of its places.
fn spec(map: &ClusterMap, root: FilterId, of_root: &Branch) -> TreeSpec {
    let places = levels(map, root).map(|Level { record, branch, .. }| PlaceSpec {
        name: branch.place.clone(),
        parent: branch.parent.and_then(|parent| place_of(map, parent)),
        fold: branch.fold,
        slicing: branch.parent.map(|_| record.definition.slicing),
        sites: Vec::new(),
    });
    TreeSpec { mode: of_root.mode, cut_off: of_root.cut_off, top_down: of_root.top_down, places: places.collect() }
}

#[cfg(test)]
mod tests;
