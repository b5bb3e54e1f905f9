//! The engine that runs all slices of a filter in one place.

mod failing;
mod horizontal;
mod itinerary;
mod ledger;
mod placed_batch;
mod replay;
mod sliced;
mod vertical;

pub use failing::Belief;
pub use replay::{Visits, replay};
pub use sliced::{BATCH_EVENTS, SlicedFilter};
