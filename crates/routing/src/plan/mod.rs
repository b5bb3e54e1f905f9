//! How a filter is cut into slices, and which of them have the positions of an event.
//!
//! Promises: pure; producers and nodes come to the same slices and positions. Must not know: nodes, what cells hold.

mod build_error;
mod definition;
mod fold;
mod load;
mod prober;
mod slice_plan;
mod slicing;

pub use build_error::SlicedBuildError;
pub use definition::{DefinitionError, SlicedDefinition};
pub(crate) use fold::FOLD_MAX;
pub use fold::Fold;
pub use load::{Load, fairness, greatest_share};
pub use prober::{GroupPlan, Prober};
pub use slice_plan::{PlanError, Route, SlicePlan, Step};
pub use slicing::{Cut, SLICES_MAX, Slicing, SlicingError};
