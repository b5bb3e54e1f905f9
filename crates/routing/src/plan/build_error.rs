//! Errors returned when a sliced filter, or a group of its slices, cannot be built.

use firstseen_filter::BuildError;
use thiserror::Error;

use super::definition::DefinitionError;
use super::slice_plan::PlanError;
use crate::ids::{FilterId, NodeId};

/// Error returned when a sliced filter cannot be built.
#[derive(Debug, Error)]
pub enum SlicedBuildError {
    /// The definition is impossible.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The filter cannot be divided into these slices.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A slice cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The cluster map does not contain the filter.
    #[error("filter {0} is not in the cluster map: it was dropped, or the map is outdated")]
    Filter(FilterId),
    /// The cluster map assigns all slices of the group to other nodes.
    #[error("node {node} owns no slice of group {group} of filter {filter}: ask an owner of these slices")]
    Group {
        /// Filter that the group belongs to.
        filter: FilterId,
        /// Requested group.
        group: u32,
        /// Node that received the request.
        node: NodeId,
    },
}
