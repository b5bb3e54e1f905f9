//! The experiments of the papers, run with the production filters, beside their formulas.
//!
//! Promises: the same seed gives the same numbers, but for times by the clock of the run; every point that has a
//! formula is judged. The results are text: JSON, SVG, HTML. Must not know: files, flags, servers.
#![warn(missing_docs)]

pub mod document;
mod drawn;
pub mod experiment;
pub mod experiments;
mod failing;
mod measure;
mod nodes;
mod number;
pub mod page;
pub mod results;
pub mod stats;
pub mod stream;
pub mod theory;

pub use document::Document;
pub use experiment::{EvalError, Experiment, Run, Scale};
pub use experiments::{EXPERIMENTS, named};
