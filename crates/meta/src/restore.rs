//! Restores filters from a backup. A restored filter has the definition, the secret and the policies that the backup
//! contains. Its slices are assigned to the current nodes of the cluster. Until the cells of the backup have been
//! written into the slices, the filter has a temporary name that clients cannot use.
//!
//! The slices of a restored filter count as incomplete, because they lack the events that were recorded after the
//! backup.
//!
//! The guarantees of [`crate::apply`] hold.

use std::sync::Arc;

use firstseen_filter::GenerationNumber;
use firstseen_routing::{
    Branch, Epoch, FilterHistory, FilterId, FilterRecord, Incarnation, RESTORING, TREE_LEVELS_MAX, TREE_PLACES_MAX,
};

use crate::catalog::{self, check_filter, check_format, check_new, insert_new};
use crate::change::{NewRestore, RestoredPlace};
use crate::command::Outcome;
use crate::names::{check_text, is_reserved, is_restoring, restoring_name};
use crate::placement::{generation_max, owners};
use crate::refusal::Refusal;
use crate::state::State;

/// Checks the name of a filter that is being restored. The name of a level of a filter tree must begin with the name of
/// the tree, because the rights on all levels are found by the name of the tree. Names that are reserved for filters
/// that are being restored or altered are rejected.
fn check_name(root: &str, name: &str, index: usize) -> Result<(), Refusal> {
    let is_level = index == 0 || name.strip_prefix(root).is_some_and(|rest| rest.starts_with('@'));
    if is_level && !is_reserved(name) {
        return Ok(());
    }
    let reason = format!("no filter of a backup of `{root}` has this name");
    Err(Refusal::Definition { name: name.to_owned(), reason })
}

/// Creates all levels of a tree, or none.
pub(crate) fn begin(state: &mut State, asked: NewRestore) -> Result<Outcome, Refusal> {
    let NewRestore { places, secret } = asked;
    let Some(first) = places.first() else {
        return Err(Refusal::Definition { name: String::new(), reason: "no filter is given".to_owned() });
    };
    let root = state.map.next_filter;
    let mut map = (*state.map).clone();
    let mut secrets = (*state.secrets).clone();
    for (index, RestoredPlace { record, sites }) in places.iter().enumerate() {
        let asked = &record.name;
        check_name(&first.record.name, asked, index)?;
        check_place(&places, index).map_err(|reason| Refusal::Tree { name: asked.clone(), reason })?;
        check_record(record)
            .and_then(|()| check_format(&map, &record.policies, record.branch.is_some()))
            .map_err(|reason| Refusal::Definition { name: asked.clone(), reason })?;
        let name = restoring_name(asked);
        check_new(&map, asked).and_then(|()| check_new(&map, &name))?;
        let (owners, copies) = owners(&map, asked, &record.definition, sites, record.policies.copies)?;
        let branch = record.branch.clone().map(|branch| moved(branch, root));
        // A filter from a backup never has a predecessor.
        let line = FilterHistory::default();
        let mut record = FilterRecord { name, epoch: Epoch::FIRST, owners, copies, branch, line, ..record.clone() };
        for (_, copy) in record.all_copies_mut() {
            // No start of the node has had all events.
            copy.complete_since = Incarnation::default();
            copy.has_gap = true;
        }
        secrets.insert(insert_new(&mut map, record)?, secret);
    }
    state.map = Arc::new(map);
    state.secrets = Arc::new(secrets);
    Ok(Outcome::FilterCreated { filter: root, existed: false })
}

/// Returns the same place in a tree whose root has another number. The levels of a tree are numbered consecutively from
/// the root on.
fn moved(branch: Branch, root: FilterId) -> Branch {
    let parent = branch.parent.map(|parent| FilterId(root.0 + (parent.0 - branch.root.0)));
    Branch { parent, root, ..branch }
}

/// Checks that place `index` is either a single filter, or belongs to a tree level that comes before it.
fn check_place(places: &[RestoredPlace], index: usize) -> Result<(), String> {
    let Some(own) = places.get(index).and_then(|place| place.record.branch.as_ref()) else {
        return match places.len() {
            1 => Ok(()),
            _ => Err("a filter that is not part of a tree must be restored alone".to_owned()),
        };
    };
    let hangs = match own.parent {
        None => index == 0 && own.level == 0,
        Some(_) => parent_of(&places[..index], own)
            .is_some_and(|above| above.root == own.root && above.level.checked_add(1) == Some(own.level)),
    };
    check_text("a place", &own.place).map_err(|refusal| refusal.to_string())?;
    if hangs && places.len() <= TREE_PLACES_MAX && usize::from(own.level) < TREE_LEVELS_MAX {
        Ok(())
    } else {
        Err("its levels must form one tree, with the root first".to_owned())
    }
}

/// Returns the branch above `own`, if it is among the places `before`. The levels of a tree are numbered consecutively
/// from the root on.
fn parent_of<'a>(before: &'a [RestoredPlace], own: &Branch) -> Option<&'a Branch> {
    let distance = own.parent?.0.checked_sub(own.root.0)?;
    before.get(usize::try_from(distance).ok()?)?.record.branch.as_ref()
}

fn check_record(record: &FilterRecord) -> Result<(), String> {
    let FilterRecord { definition, policies, generations, .. } = record;
    check_filter(definition, policies)?;
    if !generations.is_empty() && generations.len() != definition.slicing.groups() as usize {
        return Err("its number of generations differs from its number of groups".to_owned());
    }
    match generations.iter().max() {
        Some(newest) if *newest > GenerationNumber::FIRST && *newest > generation_max(definition)? => {
            Err(format!("it cannot have a generation {newest}"))
        }
        _ => Ok(()),
    }
}

/// Gives the filter and all levels below it their names.
pub(crate) fn finish(state: &mut State, filter: FilterId) -> Result<Outcome, Refusal> {
    let record = state.map.filters.get(&filter).filter(|record| record.branch.as_ref().is_none_or(Branch::is_root));
    if !record.is_some_and(|record| is_restoring(&record.name)) {
        return Err(Refusal::NotRestoring { filter });
    }
    let tree = state.map.filters.iter().filter(|(id, record)| catalog::is_in_tree(filter, **id, record));
    let mut names = tree.filter_map(|(_, record)| record.name.strip_prefix(RESTORING));
    if let Some(name) = names.find(|name| state.map.filter_named(name).is_some()) {
        return Err(Refusal::FilterExists { name: name.to_owned() });
    }
    for (id, record) in &mut Arc::make_mut(&mut state.map).filters {
        if catalog::is_in_tree(filter, *id, record)
            && let Some(name) = record.name.strip_prefix(RESTORING)
        {
            record.name = name.to_owned();
        }
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests;
