//! Implements `firstseen estimate`, which estimates how often each key occurred recently. An occurrence d epochs ago
//! counts `lambda^d`.
//!
//! An estimate may be below the true value, by at most the bound epsilon that the report prints. This bound is valid as
//! long as no counter of the filter is full, so the report also says how often counters were full.
//!
//! The memory of the filter depends only on the capacity that the user requests. It does not grow with the number of
//! keys.
//!
//! The submodule `run` assembles all parts of a run. The driver takes batches of records from the
//! input. The submodule `frequencies` computes an estimate for each record, and `handler` counts the estimates and
//! writes the records.

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
