//! Slices of a filter: from a digest to the slices that hold its positions, and the engine that runs all of them in
//! one place.
//!
//! Promises: pure; the same events in the same order give the same answers on every machine. Must not know: async,
//! network, files, the clock (times are passed in), a source of randomness.
#![warn(missing_docs)]

mod answer;
mod batch;
mod definition;
mod horizontal;
mod itinerary;
mod ledger;
mod load;
mod plan;
mod sliced;
mod slicing;
mod vertical;

pub use answer::Answer;
pub use definition::{DefinitionError, SlicedDefinition};
pub use load::{Load, fairness, greatest_share};
pub use plan::{PlanError, Route, SlicePlan, Step};
pub use sliced::{BATCH_EVENTS, SlicedBuildError, SlicedFilter};
pub use slicing::{Cut, SLICES_MAX, Slicing, SlicingError};
