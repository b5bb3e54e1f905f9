//! Why a sliced filter, or a part of it, cannot be built.

use firstseen_filter::BuildError;
use thiserror::Error;

use super::definition::DefinitionError;
use super::slice_plan::PlanError;
use crate::ids::{FilterId, NodeId};

/// Why a sliced filter cannot be built.
#[derive(Debug, Error)]
pub enum SlicedBuildError {
    /// The definition is impossible.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The slices cannot be cut like this.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A slice cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The map does not have the filter.
    #[error("filter {0} is not on the map: it was dropped, or the map is old")]
    Filter(FilterId),
    /// The map gives the group to other nodes.
    #[error("node {node} has no slice of group {group} of filter {filter} on the map: ask one of their owners")]
    Group {
        /// The filter.
        filter: FilterId,
        /// The group asked for.
        group: u32,
        /// The node asked.
        node: NodeId,
    },
}
