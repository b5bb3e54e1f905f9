//! A filter as `firstseen filter describe` shows it.
//!
//! Promises: the JSON names below. Must not know: whence the figures come, how they are printed.

use firstseen_routing::{FilterId, FilterPolicies, SlicedDefinition, TreeMode};
use serde::Serialize;

use crate::cluster::places::Place;

/// A filter, and how it fares.
#[derive(Debug, Serialize)]
pub(super) struct Description<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    pub(super) epoch: u64,
    pub(super) definition: &'a SlicedDefinition,
    pub(super) policies: FilterPolicies,
    /// Nothing where it is in no tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tree: Option<Tree<'a>>,
    /// The one that it has followed, while that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<Former<'a>>,
    /// The one that has followed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) followed_by: Option<FilterId>,
    pub(super) slices: Vec<Slice<'a>>,
    pub(super) nodes: Vec<Owner<'a>>,
}

/// The tree of a filter.
#[derive(Debug, Serialize)]
pub(super) struct Tree<'a> {
    pub(super) mode: TreeMode,
    /// The place of the filter that is described.
    pub(super) place: &'a str,
    /// All of them, each below its parent.
    pub(super) places: Vec<Place<'a>>,
}

/// A filter that was altered, and is asked first.
#[derive(Debug, Serialize)]
pub(super) struct Former<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    /// Nodes that may still have events in flight that began before; new events wait for them.
    pub(super) awaited: Vec<&'a str>,
    /// When all that it has has expired, in milliseconds since 1970 by its clock; nothing where that is not known yet, or no
    /// matter of counting.
    pub(super) expires_ms: Option<u64>,
    /// Nodes that have not said so.
    pub(super) not_passed: Vec<&'a str>,
}

/// A slice, and how it fares.
#[derive(Debug, Serialize)]
pub(super) struct Slice<'a> {
    pub(super) slice: u32,
    /// 0 for the first copy.
    pub(super) copy: usize,
    /// Whether this copy answers; the others are set, too.
    pub(super) asked: bool,
    pub(super) node: &'a str,
    /// The start of its node since which it has had everything; another start lost what came before it.
    pub(super) complete_since: u64,
    /// The newest start of its node.
    pub(super) node_start: u64,
    /// As the map says.
    pub(super) complete: bool,
    /// Its node is down: it is neither asked nor set.
    pub(super) down: bool,
    /// Its node cannot hold it, and is to be started again: the same.
    pub(super) missing: bool,
    /// It is on its way here from this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moves_from: Option<&'a str>,
    /// Nothing where its node does not answer, or does not have it.
    pub(super) state: Option<Fares>,
}

/// How a slice fares, as its owner says.
#[derive(Debug, Serialize)]
pub(super) struct Fares {
    pub(super) ready: bool,
    pub(super) bytes: u64,
    pub(super) generations: u32,
    /// Nothing where the slice does not count them.
    pub(super) live_events: Option<u64>,
    /// The share of cells that are set, where it says how full the slice is.
    pub(super) fill: Option<f64>,
    pub(super) expected_rate: f64,
    /// When the slice is complete again, in milliseconds since 1970 by the filter's clock; nothing where it is, or where that
    /// is not known.
    pub(super) complete_from_ms: Option<u64>,
    pub(super) positions_tested: u64,
    pub(super) test_visits: u64,
    pub(super) record_visits: u64,
}

/// A node that owns slices of the filter.
#[derive(Debug, Serialize)]
pub(super) struct Owner<'a> {
    pub(super) node: &'a str,
    pub(super) address: &'a str,
    /// Why it says nothing.
    pub(super) error: Option<String>,
    pub(super) guard_bytes: u64,
    /// What a second of the retry horizon takes.
    pub(super) guard_bytes_per_horizon_second: f64,
}
