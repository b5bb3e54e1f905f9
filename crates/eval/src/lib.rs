//! The experiments of the papers, run with the production filters and compared with formulas.
//!
//! Experiments with the same seed give the same numbers, except for measured times. Every point for which a formula is
//! known is compared with the value of that formula. The results are returned as text in the formats JSON, SVG, HTML
//! and Markdown.
//!
//! This crate does not depend on files, command-line flags or servers.
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
