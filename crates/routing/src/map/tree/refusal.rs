//! Why the tree that somebody asks for cannot be.
//!
//! Promises: a sentence that names the fault and what to do. Must not know: how faults are found.

use firstseen_filter::{Kind, Window};
use thiserror::Error;

use super::{TREE_LEVELS_MAX, TREE_PLACES_MAX};
use crate::plan::{FOLD_MAX, Slicing};

/// Upper bound of the name of a place.
pub(super) const PLACE_NAME_BYTES_MAX: usize = 64;

/// Why the tree cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TreeRefusal {
    /// The kind has no cells that levels could share positions of.
    #[error("kind {kind} cannot be in a tree: use kind bloom, timing, generations or cuckoo")]
    Kind {
        /// The kind asked for.
        kind: Kind,
    },
    /// A level of fingerprints is as large as the root.
    #[error("fingerprints cannot be folded ({fold}): give every place of kind cuckoo fold 0, or use kind timing")]
    FoldOfBuckets {
        /// What was asked for.
        fold: u8,
    },
    /// The kind's events lie whole in one slice.
    #[error("kind {kind} cannot be sliced `{slicing}` at a place: use `horizontal:S` or `none` there")]
    Slicing {
        /// The kind of the root.
        kind: Kind,
        /// What was asked for.
        slicing: Slicing,
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
    #[error("equal timers cannot be kept over the levels of a tree: leave them out")]
    EqualTimers,
    /// Generations of words and of growth share one mask.
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
    /// Two places have one name.
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
    /// A place with more cells than its parent would need positions that the parent does not have.
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
    /// No node could own the place's slices.
    #[error("place `{place}` is at site `{site}`, which has no nodes that have started")]
    NoNodes {
        /// The place.
        place: String,
        /// The site.
        site: String,
    },
    /// The place names no sites.
    #[error("place `{place}` is at no site: name the sites whose nodes own its slices")]
    Nowhere {
        /// The place.
        place: String,
    },
    /// Producers of a site have no leaf to ask.
    #[error("site `{site}` has no leaf: give it a place without places below")]
    NoLeaf {
        /// The site.
        site: String,
    },
}
