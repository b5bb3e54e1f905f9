//! The commands of `firstseen-lab`, which measure and test what `firstseen` does in production.
//!
//! [`bench`] measures speed and memory, [`eval`] compares error rates with formulas, [`generate`] writes streams,
//! [`chaos`] injects failures into real nodes, and [`simulate`] runs nodes in a simulated network. [`figures`] keeps the measured tables of pages. Flags, tables and
//! messages are those of [`firstseen_cli`].
//!
//! Promises: `firstseen` links nothing of this crate. Nodes that `bench` and `chaos` measure run the production binary;
//! only `bench tree` has its nodes in this process. Must not know: how filters, nodes and clients work.

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

/// Runs the command that was asked for.
///
/// # Errors
/// Those that end the command.
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
