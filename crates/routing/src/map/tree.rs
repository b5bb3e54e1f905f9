//! Filters above filters (K11 6): every level of a tree is a filter of its own, and this says how they hang together.
//!
//! The root has the filter that a user has described. A level below has as many groups, and a *fold* of each: with a
//! fold of `s`, cell `p` of the root is cell `p >> s` of the level, which has `2^s` times fewer. So the positions that
//! travel are the root's, and every level knows its own from them.
//!
//! Promises: what a level has recorded, every level above it has recorded too, so only what a level does not know
//! climbs; what cannot be a tree is refused by name. Must not know: who owns a level's slices, how events climb.

mod check;
mod fold;
mod refusal;

use serde::{Deserialize, Serialize};

use crate::ids::FilterId;
pub use check::{Place, PlaceSpec, TreeSpec};
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
    /// What climbed through them and was new.
    Sparse,
    /// Whatever climbed through them, so that a leaf answers the next time; of what was known above, for as long as it
    /// is known there.
    Dense,
}

/// What a level tells of events that it does not know while the level above is out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOff {
    /// That nothing is known.
    #[default]
    Undecided,
    /// That they are first-seen, marked degraded: other sites may be told the same. They are brought up afterwards.
    Local,
}

/// The place of a filter in its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The filter that all events climb to; itself for the root.
    pub root: FilterId,
    /// The filter that is asked for what is not known here; none above the root.
    pub parent: Option<FilterId>,
    /// Steps from the root.
    pub level: u8,
    /// Cells of the root that share one here, as a power of two.
    pub fold: u8,
    /// What producers name, to be answered here: a site, or a group of producers.
    pub place: String,
    /// What the levels below the root remember.
    pub mode: TreeMode,
    /// What a level tells while the level above is out of reach.
    pub cut_off: CutOff,
    /// What is found at a level above this one is checked in the levels below it, down to this one; 0 checks nothing.
    pub top_down: u8,
}

impl Branch {
    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}
