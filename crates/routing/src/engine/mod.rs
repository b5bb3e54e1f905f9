//! Engine that runs all slices of a filter in one process.

mod horizontal;
mod itinerary;
mod ledger;
mod placed_batch;
mod sliced;
mod vertical;

pub use sliced::{BATCH_EVENTS, SlicedFilter};
