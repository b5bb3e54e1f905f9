//! Divides a filter into slices, and determines which slices hold the positions of an event. All functions are pure.
//! Producers and nodes therefore compute the same slices and positions for an event, without having to exchange them.

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
