//! Commands of `firstseen-lab`, which measure and test what `firstseen` does in production.
//!
//! - [`mod@bench`] measures speed and memory.
//! - [`eval`] compares error rates with formulas.
//! - [`generate`] writes streams of events.
//! - [`chaos`] injects failures into real nodes.
//! - [`simulate`] runs nodes in a simulated network.
//! - [`figures`] updates the measured tables of pages.
//!
//! The commands of `firstseen-lab` are not part of the production binary `firstseen`, which links no code of this
//! crate. Both binaries use the crate [`firstseen_cli`] for the flags, tables and messages that they have in common.
//!
//! The nodes that `bench` and `chaos` start run the production binary. The exception is `bench tree`, whose nodes run
//! inside the process of the benchmark.

#![deny(clippy::print_stderr)]

pub mod args;
pub mod bench;
pub mod chaos;
mod draws;
pub mod eval;
pub mod figures;
pub mod generate;
mod program;
pub mod simulate;

use std::io::stdout;
use std::process::ExitCode;

use args::{Lab, LabCommand};
use clap::CommandFactory;
use firstseen_cli::manual;

/// Runs the requested command.
///
/// # Errors
/// Returns the errors that end the command.
pub fn run(lab: Lab) -> anyhow::Result<ExitCode> {
    match lab.command {
        LabCommand::Eval(args) => return eval::run(&args, &mut stdout().lock()),
        LabCommand::Chaos(args) => return chaos::run(&args),
        LabCommand::Simulate(args) => return simulate::run(&args),
        LabCommand::Bench(args) => bench::run(&args)?,
        LabCommand::Figures(args) => figures::run(&args)?,
        LabCommand::Generate(args) => generate::run(&args, &mut stdout().lock())?,
        LabCommand::Completions(args) => manual::completions(&args, Lab::command(), &mut stdout().lock())?,
        LabCommand::Man(args) => manual::man(&args, Lab::command())?,
    }
    Ok(ExitCode::SUCCESS)
}
