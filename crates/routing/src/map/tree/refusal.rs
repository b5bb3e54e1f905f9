//! Errors returned when a requested tree of filters is impossible. The message of each error names the fault and a
//! remedy.

use firstseen_filter::{Kind, Window};
use thiserror::Error;

use super::{TREE_LEVELS_MAX, TREE_PLACES_MAX};
use crate::plan::{FOLD_MAX, Slicing};

/// Maximum length of the name of a place, in bytes.
pub(super) const PLACE_NAME_BYTES_MAX: usize = 64;

/// Error returned when a requested tree is impossible.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TreeRefusal {
    /// The filter kind has no cells whose positions the levels could share.
    #[error("kind {kind} cannot be in a tree: use kind bloom, timing, generations or cuckoo")]
    Kind {
        /// Requested kind.
        kind: Kind,
    },
    /// A level of a filter of fingerprints must be as large as the root.
    #[error("fingerprints cannot be folded ({fold}): give every place of kind cuckoo fold 0, or use kind timing")]
    FoldOfBuckets {
        /// Requested fold.
        fold: u8,
    },
    /// The filter kind requires that one slice holds all positions of an event.
    #[error("kind {kind} cannot be sliced `{slicing}` at a place: use `horizontal:S` or `none` there")]
    Slicing {
        /// Kind of the root.
        kind: Kind,
        /// Requested slicing.
        slicing: Slicing,
    },
    /// The layout restricts the positions of an event. Positions can be folded only if they may lie anywhere.
    #[error("a tree folds positions, which requires the classic layout: use --layout classic")]
    Layout,
    /// The window counts events. Each level would have to count the events of the whole tree, but sees only its own
    /// events.
    #[error("window `{window}` counts events, and each level would count others: use a window of time")]
    CountWindow {
        /// Requested window.
        window: Window,
    },
    /// The filter extends the time for which an event is remembered whenever a duplicate of the event occurs. A tree
    /// does not support this, because a duplicate that a leaf finds would not extend that time at the levels above.
    #[error(
        "a tree cannot refresh windows, because a duplicate found at a leaf does not reach the root: leave refresh out"
    )]
    Refresh,
    /// The filter compares the timers of an event. The timers of a level differ from those of the root.
    #[error("equal timers cannot be kept over the levels of a tree: leave them out")]
    EqualTimers,
    /// The filter of the kind `generations` would grow. The generations of words and the generations of growth share
    /// one mask.
    #[error("kind generations in a tree cannot grow: say how many events a window brings (--capacity)")]
    Growth,
    /// The number of groups differs from that of the root.
    #[error(
        "slicing `{slicing}` of a place must have as many groups as the root's, {groups}: an event belongs to one group \
         at all levels"
    )]
    Groups {
        /// Requested slicing.
        slicing: Slicing,
        /// Number of groups of the root.
        groups: u32,
    },
    /// The fold is so large that no cells are left.
    #[error("fold {fold} leaves no cells: choose 0 to {FOLD_MAX}, and less than the root's cells have bits")]
    Fold {
        /// Requested fold.
        fold: u8,
    },
    /// The tree has no places.
    #[error("the tree has no places: name one without a parent, its root, and a leaf for every site")]
    Empty,
    /// Several places have no parent.
    #[error("the tree has two roots, `{one}` and `{other}`: give one of them a parent")]
    TwoRoots {
        /// One of these places.
        one: String,
        /// Another of these places.
        other: String,
    },
    /// The root has a fold or a slicing, but it must be the filter that the user described.
    #[error("place `{place}` is the root and must have fold 0 and the filter's own slicing: leave both out")]
    Root {
        /// The root place.
        place: String,
    },
    /// The name of the place cannot be part of a filter name or of a list of names.
    #[error(
        "`{place}` is no name for a place: give up to {PLACE_NAME_BYTES_MAX} bytes without `@`, commas, spaces and control \
         characters"
    )]
    Name {
        /// The name.
        place: String,
    },
    /// Two places have the same name.
    #[error("two places are called `{place}`: choose another name for one of them")]
    Twice {
        /// The name.
        place: String,
    },
    /// The parent of a place does not exist.
    #[error("place `{place}` has the parent `{parent}`, which is no place of the tree")]
    Orphan {
        /// The place.
        place: String,
        /// Parent that the place names.
        parent: String,
    },
    /// A place is its own ancestor.
    #[error("place `{place}` is its own ancestor: the tree has a cycle")]
    Cycle {
        /// A place of the cycle.
        place: String,
    },
    /// The tree has too many levels.
    #[error("place `{place}` is {levels} levels deep: at most {TREE_LEVELS_MAX} are allowed, the root included")]
    Depth {
        /// The place.
        place: String,
        /// Number of levels down to this place, including the root.
        levels: usize,
    },
    /// The tree has too many places.
    #[error("{places} places: at most {TREE_PLACES_MAX} are allowed")]
    Places {
        /// Requested number of places.
        places: usize,
    },
    /// The tree has no level with this number.
    #[error("top-down testing down to level {top_down}, but the deepest level is {deepest}: choose 0 to {deepest}")]
    TopDown {
        /// Requested level.
        top_down: u8,
        /// Number of the deepest level.
        deepest: usize,
    },
    /// The place has more cells than its parent, so it would need positions that the parent does not have.
    #[error(
        "place `{place}` with fold {fold} would be larger than its parent `{parent}` with fold {parent_fold}: fold it \
         at least as much"
    )]
    Larger {
        /// The place.
        place: String,
        /// Fold of the place.
        fold: u8,
        /// The parent place.
        parent: String,
        /// Fold of the parent.
        parent_fold: u8,
    },
    /// The site of a place has no node that could own its slices.
    #[error("place `{place}` is at site `{site}`, which has no nodes that have started")]
    NoNodes {
        /// The place.
        place: String,
        /// The site.
        site: String,
    },
    /// The place has no sites.
    #[error("place `{place}` is at no site: name the sites whose nodes own its slices")]
    Nowhere {
        /// The place.
        place: String,
    },
    /// Producers at a site have no leaf to ask.
    #[error("site `{site}` has no leaf: give it a place without places below")]
    NoLeaf {
        /// The site.
        site: String,
    },
}
