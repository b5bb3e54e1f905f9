//! Trees of filters, which work like a cache hierarchy (Koloniari et al. 2011, section 6). Every level of a tree is a
//! separate filter. A level answers requests for events that it knows, and asks its parent level about all other
//! events. This module describes how the levels are connected.
//!
//! The root of a tree is the filter that a user has described. A lower level has the same number of slice groups as the
//! root, but can have fewer cells. The ratio is determined by the *fold* of the level: with a fold of `s`, `2^s` cells
//! of the root share one cell of the level, so that cell `p` of the root corresponds to cell `p >> s` of the level.
//! Messages contain the positions at the root, and every level derives its own positions from them.
//!
//! # Guarantees
//!
//! - All ancestors of a level have recorded the events that the level has recorded. Therefore a level needs to ask its
//!   parent only about events that it does not know.
//! - A set of levels that does not form a tree is rejected with an error that names the fault.
//!
//! This module does not depend on the nodes that own the slices of a level, or on how levels ask each other.

mod check;
mod fold;
mod refusal;

use serde::{Deserialize, Serialize};

use crate::ids::FilterId;
pub use check::{PlaceSpec, TreePlace, TreeSpec};
pub use fold::{folded, place_slicing};
pub use refusal::TreeRefusal;

/// Maximum number of levels from the root to a leaf.
pub const TREE_LEVELS_MAX: usize = 6;
/// Maximum number of places in a tree, including the root.
pub const TREE_PLACES_MAX: usize = 256;

/// Events that the levels below the root remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeMode {
    /// The lower levels remember only new events that passed through them on their way to the root.
    Sparse,
    /// The lower levels remember all events that passed through them. If an event occurs again, a leaf can therefore
    /// answer without asking its parent. An event that was found at a higher level is remembered at the lower level
    /// until it expires at the higher level.
    Dense,
}

/// Reply of a level for events that it does not know while it is cut off from its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOff {
    /// Undecided.
    #[default]
    Undecided,
    /// The level decides on its own, and replies first-seen to an event that it does not know. The reply is marked as
    /// degraded, because another site may also have replied first-seen for the same event. When the parent is reachable
    /// again, the level sends the events that it decided alone to the parent. While the parent is reachable, the level
    /// never decides alone, even if the parent cannot decide.
    Local,
}

/// Place of a filter in its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Root of the tree, which all events eventually reach. The root refers to itself.
    pub root: FilterId,
    /// Filter that is asked about events that are not known here. `None` for the root.
    pub parent: Option<FilterId>,
    /// Number of steps from the root.
    pub level: u8,
    /// Fold of the level: `2^fold` cells of the root share one cell of the level.
    pub fold: u8,
    /// Name of the place at which producers are answered: a site, or a group of producers.
    pub place: String,
    /// Events that the levels below the root remember.
    pub mode: TreeMode,
    /// Reply of a level while its parent is unreachable.
    pub cut_off: CutOff,
    /// Lowest level that takes part in the verification of duplicates, or 0 if duplicates are not verified. When a
    /// level finds an event, it asks the levels below it whether they know the event too. The question passes down to
    /// the level with this number. If a level below does not know the event, the find was a false positive.
    pub top_down: u8,
}

impl Branch {
    /// Returns whether the filter is the root of its tree.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}
