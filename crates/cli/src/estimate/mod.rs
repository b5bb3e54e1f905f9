//! `firstseen estimate`: how often does each key occur lately, where an occurrence of d epochs ago counts `lambda^d`?
//!
//! Promises: no estimate is below the truth by more than the epsilon that the report names, unless the report says that
//! counters were full; memory follows the capacity, not the number of keys. Must not know: how a counter decays.

mod args;
mod engine;
mod exact;
mod leaders;
mod outputs;
mod report;
mod run;
mod setup;

pub use args::{DecayArgs, DecayRuleArg, EstimateArgs, EstimateFormat, EstimateOutputArgs, StorageArg, TOP_MAX};
pub use exact::EstimateErrors;
pub use report::{EstimateCounts, EstimateReport, Estimated};
pub use run::run;
