//! Creates the filters of a filter tree, one for each place of the tree. The guarantees of [`crate::apply`] hold.

use std::collections::BTreeSet;

use firstseen_routing::{
    Branch, ClusterMap, FilterId, FilterPolicies, FilterRecord, Incarnation, SlicedDefinition, TreePlace, TreeSpec,
};

use crate::change::PLACES_SINCE;
use crate::refusal::Refusal;

/// Returns the places of a filter's tree. A filter without a tree has a single place. If the filter `exists`, its tree
/// need not serve every site, because nodes and places may have come and gone since it was created.
pub(crate) fn plan(
    map: &ClusterMap,
    name: &str,
    definition: &SlicedDefinition,
    tree: Option<&TreeSpec>,
    exists: bool,
) -> Result<Vec<TreePlace>, Refusal> {
    let Some(tree) = tree else {
        return Ok(vec![TreePlace {
            name: String::new(),
            parent: None,
            level: 0,
            fold: 0,
            definition: definition.clone(),
            sites: Vec::new(),
        }]);
    };
    let started = map.nodes.values().filter(|node| node.incarnation != Incarnation::default());
    let sites: BTreeSet<&str> = started.map(|node| node.site.as_str()).collect();
    // In earlier formats, all nodes must decide as release 0.1 does.
    let planned = if exists && map.format >= PLACES_SINCE {
        tree.plan_without_sites(definition)
    } else {
        tree.plan(definition, &sites)
    };
    planned.map_err(|refusal| Refusal::Tree { name: name.to_owned(), reason: refusal.to_string() })
}

/// Returns the name of the filter at a place.
pub(crate) fn name_of(filter: &str, place: &TreePlace) -> String {
    match place.parent {
        None => filter.to_owned(),
        Some(_) => format!("{filter}@{}", place.name),
    }
}

/// Returns the policies of the filter at a place, if `requested` are those of the whole tree.
pub(crate) fn policies(requested: FilterPolicies, tree: Option<&TreeSpec>, place: &TreePlace) -> FilterPolicies {
    let policies = match tree {
        Some(tree) if place.parent.is_some() => requested.below_root(tree.cut_off),
        _ => requested,
    };
    policies.with_safe_replies()
}

/// Returns the branch of the filter at a place below filter `parent`, which is `None` for the root.
pub(crate) fn branch(tree: &TreeSpec, root: FilterId, parent: Option<FilterId>, place: &TreePlace) -> Branch {
    Branch {
        root,
        parent,
        level: place.level,
        fold: place.fold,
        place: place.name.clone(),
        mode: tree.mode,
        cut_off: tree.cut_off,
        top_down: tree.top_down,
    }
}

/// Returns whether filter `root` has exactly this tree. Levels that were added later can have any numbers. Release 0.1
/// compares the places in the order of their numbers, and in its format all nodes must come to the same result.
pub(crate) fn is_built_so(map: &ClusterMap, root: FilterId, tree: Option<&TreeSpec>, places: &[TreePlace]) -> bool {
    let built: Vec<Level<'_>> = levels(map, root).collect();
    let Some(tree) = tree else { return built.is_empty() };
    let is_in_order = built.iter().zip(places).all(|(level, place)| level.branch.place == place.name);
    if built.len() != places.len() || !(is_in_order || map.format >= PLACES_SINCE) {
        return false;
    }
    places.iter().all(|place| {
        let parent = place.parent.and_then(|parent| level_at(&built, &places[parent])).map(|level| level.id);
        level_at(&built, place).is_some_and(|level| {
            let is_same_branch = *level.branch == branch(tree, root, parent, place);
            is_same_branch && level.record.definition.answers_like(&place.definition)
        })
    })
}

/// Level of an existing tree.
#[derive(Clone, Copy)]
pub(crate) struct Level<'map> {
    pub(crate) id: FilterId,
    pub(crate) record: &'map FilterRecord,
    pub(crate) branch: &'map Branch,
}

fn level_at<'map>(levels: &[Level<'map>], place: &TreePlace) -> Option<Level<'map>> {
    levels.iter().copied().find(|level| level.branch.place == place.name)
}

/// Returns the levels of the tree with this root, sorted by their filter numbers.
pub(crate) fn levels(map: &ClusterMap, root: FilterId) -> impl Iterator<Item = Level<'_>> {
    map.filters.iter().filter_map(move |(id, record)| {
        let branch = record.branch.as_ref().filter(|branch| branch.root == root)?;
        Some(Level { id: *id, record, branch })
    })
}
