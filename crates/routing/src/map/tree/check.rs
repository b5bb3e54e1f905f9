//! From the places that somebody names to the levels of a tree.
//!
//! Promises: what is not one tree over all sites is refused with a sentence that names the fault. Must not know: nodes,
//! cells.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::{Kind, Window};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::fold::{check_root, default_slicing, folded};
use super::{CutOff, TREE_LEVELS_MAX, TREE_PLACES_MAX, TreeMode};
use crate::plan::{FOLD_MAX, SlicedDefinition, Slicing};

/// What the name of a place may take.
const PLACE_NAME_BYTES_MAX: usize = 64;

/// One place of a tree that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSpec {
    /// What producers name.
    pub name: String,
    /// The place above; none for the root.
    pub parent: Option<String>,
    /// Cells of the root that share one here, as a power of two.
    pub fold: u8,
    /// How its cells are divided over nodes; with as many groups as the root. One slice a group where it is left out.
    pub slicing: Option<Slicing>,
    /// The sites whose nodes own its slices.
    pub sites: Vec<String>,
}

/// A tree that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSpec {
    /// What the levels below the root remember.
    pub mode: TreeMode,
    /// What a level tells while the level above is out of reach.
    pub cut_off: CutOff,
    /// What is found at a level above this one is checked in the levels below it, down to this one; 0 checks nothing.
    pub top_down: u8,
    /// All places, in any order.
    pub places: Vec<PlaceSpec>,
}

/// A place of a tree that can be.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// What producers name.
    pub name: String,
    /// Where the place above stands in the list; none for the root.
    pub parent: Option<usize>,
    /// Steps from the root.
    pub level: u8,
    /// Cells of the root that share one here, as a power of two.
    pub fold: u8,
    /// Its filter.
    pub definition: SlicedDefinition,
    /// The sites whose nodes own its slices.
    pub sites: Vec<String>,
}

/// Why there is no such tree.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TreeRefusal {
    /// The kind knows no positions that could be folded.
    #[error("kind {kind} cannot be in a tree: use kind bloom, timing or generations")]
    Kind {
        /// The kind asked for.
        kind: Kind,
    },
    /// Positions must lie anywhere to be folded.
    #[error("a tree folds positions, so its cells lie in the classic layout: say --layout classic")]
    Layout,
    /// Each level would have to count the events of all.
    #[error("window `{window}` counts events, and each level would count others: use a window of time")]
    CountWindow {
        /// The window asked for.
        window: Window,
    },
    /// A hit at a leaf would not start the window again above.
    #[error("a tree cannot refresh windows, as a hit at a leaf does not reach the root: leave refresh out")]
    Refresh,
    /// Levels have other timers than the root.
    #[error("equal timers cannot be told over the levels of a tree: leave them out")]
    EqualTimers,
    /// Generations of words and of growth are told by one mask.
    #[error("kind generations in a tree cannot grow: say how many events a window brings (--capacity)")]
    Growth,
    /// Other groups than the root's.
    #[error(
        "slicing `{slicing}` of a place must have as many groups as the root's, {groups}: an event belongs to one group \
         at all levels"
    )]
    Groups {
        /// What was asked for.
        slicing: Slicing,
        /// Groups of the root.
        groups: u32,
    },
    /// A fold that leaves nothing.
    #[error("fold {fold} leaves no cells: choose 0 to {FOLD_MAX}, and less than the root's cells have bits")]
    Fold {
        /// What was asked for.
        fold: u8,
    },
    /// There is no place.
    #[error("the tree has no places: name one without a parent, its root, and a leaf for every site")]
    Empty,
    /// Several places are above all others.
    #[error("the tree has two roots, `{one}` and `{other}`: give one of them a parent")]
    TwoRoots {
        /// One of them.
        one: String,
        /// Another.
        other: String,
    },
    /// The root is the filter that was described.
    #[error("place `{place}` is the root and must have fold 0 and the filter's own slicing: leave both out")]
    Root {
        /// The place.
        place: String,
    },
    /// A name that cannot be part of a filter's, or of a list.
    #[error(
        "`{place}` is no name for a place: give up to {PLACE_NAME_BYTES_MAX} bytes without `@`, commas, spaces and control \
         characters"
    )]
    Name {
        /// The name.
        place: String,
    },
    /// Nobody would know which is meant.
    #[error("two places are called `{place}`: choose another name for one of them")]
    Twice {
        /// The name.
        place: String,
    },
    /// The place above does not exist.
    #[error("place `{place}` has the parent `{parent}`, which is no place of the tree")]
    Orphan {
        /// The place.
        place: String,
        /// The parent that it names.
        parent: String,
    },
    /// Climbing would never end.
    #[error("place `{place}` is its own ancestor: the tree has a cycle")]
    Cycle {
        /// A place of the cycle.
        place: String,
    },
    /// Too many levels.
    #[error("place `{place}` is {levels} levels deep: at most {TREE_LEVELS_MAX} are allowed, the root included")]
    Depth {
        /// The place.
        place: String,
        /// Its levels, the root included.
        levels: usize,
    },
    /// Too many places.
    #[error("{places} places: at most {TREE_PLACES_MAX} are allowed")]
    Places {
        /// What was asked for.
        places: usize,
    },
    /// There is no such level.
    #[error("top-down testing down to level {top_down}, but the deepest level is {deepest}: choose 0 to {deepest}")]
    TopDown {
        /// What was asked for.
        top_down: u8,
        /// The deepest level there is.
        deepest: usize,
    },
    /// It could not know what its parent knows.
    #[error(
        "place `{place}` with fold {fold} would be larger than its parent `{parent}` with fold {parent_fold}: fold it \
         at least as much"
    )]
    Larger {
        /// The place.
        place: String,
        /// Its fold.
        fold: u8,
        /// The place above.
        parent: String,
        /// The fold there.
        parent_fold: u8,
    },
    /// Nobody could own its slices.
    #[error("place `{place}` is at site `{site}`, which has no nodes that have started")]
    NoNodes {
        /// The place.
        place: String,
        /// The site.
        site: String,
    },
    /// It names no sites.
    #[error("place `{place}` is at no site: name the sites whose nodes own its slices")]
    Nowhere {
        /// The place.
        place: String,
    },
    /// Producers there have nobody to ask.
    #[error("site `{site}` has no leaf: give it a place without places below")]
    NoLeaf {
        /// The site.
        site: String,
    },
}

impl TreeSpec {
    /// The places of the tree over `sites`, whose root is a filter of `definition`; a parent stands before its children,
    /// and the root first.
    ///
    /// # Errors
    /// [`TreeRefusal`] names the fault.
    pub fn plan(&self, definition: &SlicedDefinition, sites: &BTreeSet<&str>) -> Result<Vec<Place>, TreeRefusal> {
        check_root(definition)?;
        let names = self.check_names()?;
        let mut ordered: Vec<(&PlaceSpec, usize)> = Vec::with_capacity(self.places.len());
        for place in &self.places {
            ordered.push((place, self.level_of(place, &names)?));
        }
        let deepest = ordered.iter().map(|(_, level)| *level).max().unwrap_or(0);
        if usize::from(self.top_down) > deepest {
            return Err(TreeRefusal::TopDown { top_down: self.top_down, deepest });
        }
        self.check_sites(sites)?;
        ordered.sort_by_key(|(_, level)| *level);
        let mut places: Vec<Place> = Vec::with_capacity(ordered.len());
        for (spec, level) in ordered {
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
            let slicing = spec.slicing.unwrap_or_else(|| default_slicing(definition.slicing));
            places.push(Place {
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
            // Every place has a parent, so going up from any of them never ends.
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

    /// Steps from the root.
    fn level_of(&self, place: &PlaceSpec, names: &BTreeMap<&str, &PlaceSpec>) -> Result<usize, TreeRefusal> {
        let (mut level, mut at) = (0, place);
        while let Some(above) = at.parent.as_deref().and_then(|parent| names.get(parent)) {
            (level, at) = (level + 1, above);
            if level > self.places.len() {
                // By now it goes round.
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

/// Whether a place may be called so: its level is named after the root, an `@`, and this.
fn is_name(name: &str) -> bool {
    let is_odd = |letter: char| letter == '@' || letter == ',' || letter.is_whitespace() || letter.is_control();
    !name.is_empty() && name.len() <= PLACE_NAME_BYTES_MAX && !name.chars().any(is_odd)
}
