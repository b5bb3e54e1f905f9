//! Creates the filters of a filter tree, one for each place of the tree. The guarantees of [`crate::apply`] hold.

use std::collections::BTreeSet;

use firstseen_routing::{
    Branch, ClusterMap, FilterId, FilterPolicies, FilterRecord, Incarnation, SlicedDefinition, TreePlace, TreeSpec,
};

use crate::refusal::Refusal;

/// Returns the places of a filter's tree. A filter without a tree has a single place.
pub(crate) fn plan(
    map: &ClusterMap,
    name: &str,
    definition: &SlicedDefinition,
    tree: Option<&TreeSpec>,
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
    tree.plan(definition, &sites)
        .map_err(|refusal| Refusal::Tree { name: name.to_owned(), reason: refusal.to_string() })
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

/// Returns the branch of the filter at a place. The filters of the tree are numbered consecutively from `root` on.
pub(crate) fn branch(tree: &TreeSpec, root: FilterId, place: &TreePlace) -> Branch {
    Branch {
        root,
        parent: place.parent.map(|parent| FilterId(root.0 + parent as u64)),
        level: place.level,
        fold: place.fold,
        place: place.name.clone(),
        mode: tree.mode,
        cut_off: tree.cut_off,
        top_down: tree.top_down,
    }
}

/// Returns whether filter `root` has exactly this tree.
pub(crate) fn is_built_so(map: &ClusterMap, root: FilterId, tree: Option<&TreeSpec>, places: &[TreePlace]) -> bool {
    let mut built = map.filters.values().filter(|filter| filter.branch.as_ref().is_some_and(|it| it.root == root));
    let Some(tree) = tree else { return built.next().is_none() };
    let built: Vec<&FilterRecord> = built.collect();
    built.len() == places.len()
        && built.iter().zip(places).all(|(record, place)| {
            let is_same_branch = record.branch.as_ref() == Some(&branch(tree, root, place));
            is_same_branch && record.definition.answers_like(&place.definition)
        })
}
