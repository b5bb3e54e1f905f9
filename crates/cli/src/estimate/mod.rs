//! `firstseen estimate`: how often does each key occur lately, where an occurrence of d epochs ago counts `lambda^d`?
//!
//! Promises: no estimate is below the truth by more than the epsilon that the report names, unless the report says that
//! counters were full; memory follows the capacity, not the number of keys. Must not know: how a counter decays.
//!
//! `run` puts a run together, and the [driver](crate::driver) gives its batches to `frequencies`, which estimates, and
//! the estimates to `handler`, which counts and writes.

mod args;
mod definition;
mod exact;
mod frequencies;
mod handler;
mod leaders;
mod report;
mod run;
mod setup;

pub use args::{DecayArgs, DecayRuleArg, EstimateArgs, EstimateFormat, EstimateOutputArgs, StorageArg, TOP_MAX};
pub use exact::EstimateErrors;
pub use report::{EstimateCounts, EstimateReport, Estimated};
pub use run::run;
