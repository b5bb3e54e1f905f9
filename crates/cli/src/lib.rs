//! The commands of `firstseen`.
//!
//! The path of a record through `firstseen dedup`: [`input`] reads, cuts and parses on a thread of its own; [`walk`]
//! hands on a batch at a time; [`dedup`] asks the filter and writes each record where its answer sends it; [`report`]
//! counts. [`estimate`] takes the same path to a filter that counts.
//!
//! Clusters: [`node`] runs a node, [`up`] several of them on one machine; [`cluster`] and [`filter`] administer through
//! [`connect`]; [`certs`] makes certificates for all of them.
//!
//! Promises: stdout carries records and nothing else; messages, progress and reports go to stderr or where a flag says.
//! Must not know: how a filter works, how a format is cut.

#![deny(clippy::print_stderr)]

#[macro_use]
mod tell;

pub mod args;
pub mod bench;
pub mod certs;
pub mod chaos;
pub mod cluster;
pub mod confirm;
pub mod connect;
mod consent;
pub mod dedup;
pub mod describe;
pub mod distinct;
mod draws;
pub mod estimate;
pub mod eval;
pub mod exit;
pub mod filter;
pub mod filter_args;
pub mod filter_report;
pub mod generate;
pub mod heavy;
pub mod input;
pub mod input_args;
pub mod node;
pub mod output;
mod places;
pub mod plan;
pub mod progress;
mod redis;
pub mod rejects;
pub mod report;
pub mod run_args;
mod signals;
pub mod size;
pub mod state;
pub mod stop;
mod table;
pub mod up;
pub mod walk;

use std::process::ExitCode;

use args::{Cli, Command};

/// Runs the command that was asked for.
///
/// # Errors
/// What a person must be told; [`exit::failure`] prints it.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Dedup(args) => dedup::run(&args),
        Command::Estimate(args) => estimate::run(&args),
        Command::Plan(args) => {
            plan::run(&args, &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Up(args) => up::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Cluster(args) => cluster::run(&args, &mut std::io::stdout().lock()),
        Command::Filter(args) => {
            filter::run(&args, &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Bench(args) => {
            bench::run(&args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Chaos(args) => chaos::run(&args),
        Command::Generate(args) => {
            generate::run(&args, &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Eval(args) => eval::run(&args, &mut std::io::stdout().lock()),
        Command::Certs(args) => {
            certs::run(&args, &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
