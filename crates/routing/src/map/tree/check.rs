//! Checks the places of a requested tree, and derives the levels of the tree from them.
//!
//! If the places do not form a single tree that serves all sites, the error names the fault. This module does not
//! depend on nodes or cells.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::fold::{check_root, folded, place_slicing};
use super::refusal::{PLACE_NAME_BYTES_MAX, TreeRefusal};
use super::{CutOff, TREE_LEVELS_MAX, TREE_PLACES_MAX, TreeMode};
use crate::plan::{SlicedDefinition, Slicing};

/// Requested place of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSpec {
    /// Name of the place, by which producers refer to it.
    pub name: String,
    /// Name of the parent place. `None` for the root.
    pub parent: Option<String>,
    /// Fold of the place: `2^fold` cells of the root share one cell here.
    pub fold: u8,
    /// Slicing of the place, which must have the same number of groups as the root. `None` means one slice for each
    /// group.
    pub slicing: Option<Slicing>,
    /// Sites whose nodes own the slices of the place.
    pub sites: Vec<String>,
}

/// Requested tree of filters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSpec {
    /// Events that the levels below the root remember.
    pub mode: TreeMode,
    /// Reply of a level while its parent is unreachable.
    pub cut_off: CutOff,
    /// Lowest level that takes part in the verification of duplicates, or 0 if duplicates are not verified. When a
    /// level finds an event, it asks the levels below it whether they know the event too. The question passes down to
    /// the level with this number. If a level below does not know the event, the find was a false positive.
    pub top_down: u8,
    /// All places, in any order.
    pub places: Vec<PlaceSpec>,
}

/// Place of a tree that has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct TreePlace {
    /// Name of the place, by which producers refer to it.
    pub name: String,
    /// Index of the parent place in the list of places. `None` for the root.
    pub parent: Option<usize>,
    /// Number of steps from the root.
    pub level: u8,
    /// Fold of the place: `2^fold` cells of the root share one cell here.
    pub fold: u8,
    /// Definition of the filter at this place.
    pub definition: SlicedDefinition,
    /// Sites whose nodes own the slices of the place.
    pub sites: Vec<String>,
}

impl TreeSpec {
    /// Checks the requested tree, and returns its places in an order in which each parent precedes its children. The
    /// root comes first, and its filter has the given `definition`. `sites` are the sites of the cluster, to which
    /// places can be assigned.
    ///
    /// # Errors
    /// Returns [`TreeRefusal`], which names the fault.
    pub fn plan(&self, definition: &SlicedDefinition, sites: &BTreeSet<&str>) -> Result<Vec<TreePlace>, TreeRefusal> {
        let with_levels = self.with_levels(definition)?;
        self.check_sites(sites)?;
        derive(with_levels, definition)
    }

    /// Checks the tree like [`TreeSpec::plan`] and returns its places in the same order, but does not check their
    /// sites.
    ///
    /// # Errors
    /// Returns [`TreeRefusal`], which names the fault.
    pub fn plan_without_sites(&self, definition: &SlicedDefinition) -> Result<Vec<TreePlace>, TreeRefusal> {
        derive(self.with_levels(definition)?, definition)
    }

    /// Returns each place with its number of steps from the root.
    fn with_levels(&self, definition: &SlicedDefinition) -> Result<Vec<(&PlaceSpec, usize)>, TreeRefusal> {
        check_root(definition)?;
        let names = self.check_names()?;
        let mut with_levels: Vec<(&PlaceSpec, usize)> = Vec::with_capacity(self.places.len());
        for place in &self.places {
            with_levels.push((place, self.level_of(place, &names)?));
        }
        let deepest = with_levels.iter().map(|(_, level)| *level).max().unwrap_or(0);
        if usize::from(self.top_down) > deepest {
            return Err(TreeRefusal::TopDown { top_down: self.top_down, deepest });
        }
        Ok(with_levels)
    }

    fn check_names(&self) -> Result<BTreeMap<&str, &PlaceSpec>, TreeRefusal> {
        if self.places.len() > TREE_PLACES_MAX {
            return Err(TreeRefusal::Places { places: self.places.len() });
        }
        let mut names = BTreeMap::new();
        for place in &self.places {
            if !is_name(&place.name) {
                return Err(TreeRefusal::Name { place: place.name.clone() });
            }
            if names.insert(place.name.as_str(), place).is_some() {
                return Err(TreeRefusal::Twice { place: place.name.clone() });
            }
        }
        for place in &self.places {
            if let Some(parent) = place.parent.as_ref().filter(|parent| !names.contains_key(parent.as_str())) {
                return Err(TreeRefusal::Orphan { place: place.name.clone(), parent: parent.clone() });
            }
        }
        let mut roots = self.places.iter().filter(|place| place.parent.is_none());
        let Some(root) = roots.next() else {
            // Every place has a parent, so the ancestors of any place form a cycle.
            let in_cycle = self.places.first().and_then(|place| self.level_of(place, &names).err());
            return Err(in_cycle.unwrap_or(TreeRefusal::Empty));
        };
        if let Some(other) = roots.next() {
            return Err(TreeRefusal::TwoRoots { one: root.name.clone(), other: other.name.clone() });
        }
        if root.fold == 0 && root.slicing.is_none() {
            Ok(names)
        } else {
            Err(TreeRefusal::Root { place: root.name.clone() })
        }
    }

    fn check_sites(&self, sites: &BTreeSet<&str>) -> Result<(), TreeRefusal> {
        for place in &self.places {
            if place.sites.is_empty() {
                return Err(TreeRefusal::Nowhere { place: place.name.clone() });
            }
            if let Some(site) = place.sites.iter().find(|site| !sites.contains(site.as_str())) {
                return Err(TreeRefusal::NoNodes { place: place.name.clone(), site: site.clone() });
            }
        }
        let parents: BTreeSet<&str> = self.places.iter().filter_map(|place| place.parent.as_deref()).collect();
        let leaves = self.places.iter().filter(|place| !parents.contains(place.name.as_str()));
        let served: BTreeSet<&str> = leaves.flat_map(|leaf| &leaf.sites).map(String::as_str).collect();
        match sites.difference(&served).next() {
            Some(site) => Err(TreeRefusal::NoLeaf { site: (*site).to_owned() }),
            None => Ok(()),
        }
    }

    /// Returns the number of steps from the root.
    fn level_of(&self, place: &PlaceSpec, names: &BTreeMap<&str, &PlaceSpec>) -> Result<usize, TreeRefusal> {
        let mut level = 0;
        let mut at = place;
        while let Some(above) = at.parent.as_deref().and_then(|parent| names.get(parent)) {
            level += 1;
            at = above;
            if level > self.places.len() {
                // There were more steps than places, so the ancestors form a cycle.
                return Err(TreeRefusal::Cycle { place: at.name.clone() });
            }
        }
        if level < TREE_LEVELS_MAX {
            Ok(level)
        } else {
            Err(TreeRefusal::Depth { place: place.name.clone(), levels: level + 1 })
        }
    }
}

/// Derives the places of a tree from their specifications and levels. Each parent precedes its children.
fn derive(
    mut with_levels: Vec<(&PlaceSpec, usize)>,
    definition: &SlicedDefinition,
) -> Result<Vec<TreePlace>, TreeRefusal> {
    with_levels.sort_by_key(|(_, level)| *level);
    let mut places: Vec<TreePlace> = Vec::with_capacity(with_levels.len());
    for (spec, level) in with_levels {
        let parent = spec.parent.as_ref().and_then(|parent| places.iter().position(|place| place.name == *parent));
        if let Some(above) = parent.map(|parent| &places[parent])
            && above.fold > spec.fold
        {
            return Err(TreeRefusal::Larger {
                place: spec.name.clone(),
                fold: spec.fold,
                parent: above.name.clone(),
                parent_fold: above.fold,
            });
        }
        let slicing = spec.slicing.unwrap_or_else(|| place_slicing(definition.slicing));
        places.push(TreePlace {
            name: spec.name.clone(),
            definition: match parent {
                None => definition.clone(),
                Some(_) => folded(definition, spec.fold, slicing)?,
            },
            parent,
            level: level as u8,
            fold: spec.fold,
            sites: spec.sites.clone(),
        });
    }
    Ok(places)
}

/// Returns whether `name` is a valid name of a place in a tree. The filter at that place is named after the root,
/// followed by `@` and the name of the place, so the name must not contain an `@`.
fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    let has_odd = letters.any(|letter| letter == '@' || letter == ',' || letter.is_whitespace() || letter.is_control());
    !name.is_empty() && name.len() <= PLACE_NAME_BYTES_MAX && !has_odd
}
