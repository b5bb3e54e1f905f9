//! A filter as `firstseen filter describe` shows it.
//!
//! Promises: the JSON names below. Must not know: where the figures come from, how they are printed.

use firstseen_routing::{FilterId, FilterPolicies, SlicedDefinition, TreeMode};
use serde::Serialize;

use crate::cluster::claims::Claims;

use crate::cluster::places::Place;

/// A filter, and how it fares.
#[derive(Debug, Serialize)]
pub(super) struct Description<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    pub(super) epoch: u64,
    pub(super) definition: &'a SlicedDefinition,
    pub(super) policies: FilterPolicies,
    /// None where the filter is in no tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tree: Option<Tree<'a>>,
    /// The filter that it follows, while that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<Former<'a>>,
    /// The filter that follows it.
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
    /// All places of the tree, each below its parent.
    pub(super) places: Vec<Place<'a>>,
}

/// A former filter, which an alteration has closed, and which is asked first.
#[derive(Debug, Serialize)]
pub(super) struct Former<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    /// Nodes that may still have events in flight from before the alteration; new events wait for them.
    pub(super) awaited: Vec<&'a str>,
    /// When all its events have expired, in milliseconds since 1970 by its clock; none where that is not known yet, or
    /// where its window is not measured in time.
    pub(super) expires_ms: Option<u64>,
    /// Nodes that have not yet confirmed that all have expired.
    pub(super) not_passed: Vec<&'a str>,
    /// What its nodes hold still, of those that answer; none where events cannot be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Claims>,
}

/// A slice, and how it fares.
#[derive(Debug, Serialize)]
pub(super) struct Slice<'a> {
    pub(super) slice: u32,
    /// 0 for the first copy.
    pub(super) copy: usize,
    /// Whether this copy is asked; the other copies are set as well.
    pub(super) asked: bool,
    pub(super) node: &'a str,
    /// The start of its node from which on it has had every event; an earlier start lost its events.
    pub(super) complete_since: u64,
    /// The newest start of its node.
    pub(super) node_start: u64,
    /// Whether the map counts it as complete.
    pub(super) complete: bool,
    /// Its node is down: it is neither asked nor set.
    pub(super) down: bool,
    /// Its node cannot hold it, and has to be started again; meanwhile it is neither asked nor set.
    pub(super) missing: bool,
    /// The node from which its cells are on their way here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moves_from: Option<&'a str>,
    /// None where its node does not answer, or does not have the slice.
    pub(super) state: Option<Fares>,
}

/// How a slice fares, by its owner.
#[derive(Debug, Serialize)]
pub(super) struct Fares {
    pub(super) ready: bool,
    pub(super) bytes: u64,
    pub(super) generations: u32,
    /// None where the slice does not count its events.
    pub(super) live_events: Option<u64>,
    /// The share of cells that are set, where that says how full the slice is.
    pub(super) fill: Option<f64>,
    pub(super) expected_rate: f64,
    /// When the slice is complete again, in milliseconds since 1970 by the filter's clock; none where it is complete,
    /// or where that is not known.
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
    /// Why the node did not answer.
    pub(super) error: Option<String>,
    pub(super) guard_bytes: u64,
    /// The memory that one second of the retry horizon takes.
    pub(super) guard_bytes_per_horizon_second: f64,
    /// None where events cannot be claimed, or the node does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Claims>,
}
