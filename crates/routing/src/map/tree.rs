//! Filters above filters (Koloniari 2011, section 6; elsewhere: a cache hierarchy): every level of a tree is a filter
//! of its own, and this module says how levels hang together.
//!
//! The root has the filter that a user has described. A level below has as many groups, and a *fold* of each: with a
//! fold of `s`, cell `p` of the root is cell `p >> s` of the level, which has `2^s` times fewer. So the positions that
//! travel are the root's, and every level knows its own from them.
//!
//! Promises: every level above a level has recorded the events that it has recorded, so only an event that a level does
//! not know climbs; levels that make no tree are refused by name. Must not know: who owns a level's slices, how events
//! climb.

mod check;
mod fold;
mod refusal;

use serde::{Deserialize, Serialize};

use crate::ids::FilterId;
pub use check::{PlaceSpec, TreePlace, TreeSpec};
pub use fold::folded;
pub use refusal::TreeRefusal;

/// Levels from root to leaf at most.
pub const TREE_LEVELS_MAX: usize = 6;
/// Places of a tree at most, the root included.
pub const TREE_PLACES_MAX: usize = 256;

/// What the levels below the root remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeMode {
    /// Events that climbed through them and were new.
    Sparse,
    /// All events that climbed through them, so that a leaf answers the next time; an event that was known above, for
    /// as long as it is known there.
    Dense,
}

/// The reply of a level for events that it does not know while the level above is out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOff {
    /// Undecided.
    #[default]
    Undecided,
    /// First-seen, marked degraded: other sites may get the same reply. The events climb afterwards.
    Local,
}

/// The place of a filter in its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The filter that all events climb to; itself for the root.
    pub root: FilterId,
    /// The filter that is asked about events that are not known here; none above the root.
    pub parent: Option<FilterId>,
    /// Steps from the root.
    pub level: u8,
    /// Cells of the root that share one here, as a power of two.
    pub fold: u8,
    /// The name by which producers are answered here: a site, or a group of producers.
    pub place: String,
    /// What the levels below the root remember.
    pub mode: TreeMode,
    /// The reply of a level while the level above is out of reach.
    pub cut_off: CutOff,
    /// A find at a level above this one is checked in the levels below that, down to this one; 0 checks nothing.
    pub top_down: u8,
}

impl Branch {
    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}
