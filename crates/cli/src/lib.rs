//! The commands of `firstseen`.
//!
//! The path of a record through `firstseen dedup`: [`input`] reads, cuts and parses on a thread of its own; [`walk`]
//! hands on a batch at a time; [`dedup`] asks the filter and writes each record where its answer sends it; [`report`]
//! counts. [`estimate`] takes the same path to a filter that counts.
//!
//! Clusters: `node` runs a node, `up` several of them on one machine; `cluster` and `filter` administer through
//! `connect`; `certs` makes certificates for all of them. These and what measures (`full`) are left out of a build without the
//! feature `full`, which is quick to make.
//!
//! Promises: stdout carries records and nothing else; messages, progress and reports go to stderr or where a flag says.
//! Must not know: how a filter works, how a format is cut.

#![deny(clippy::print_stderr)]

#[macro_use]
mod tell;

pub mod args;
mod arrivals;
#[cfg(feature = "full")]
pub mod bench;
mod border;
#[cfg(feature = "full")]
pub mod certs;
#[cfg(feature = "full")]
pub mod chaos;
mod checkpoint;
#[cfg(feature = "full")]
pub mod cluster;
pub mod confirm;
#[cfg(feature = "full")]
pub mod connect;
#[cfg(feature = "full")]
mod consent;
pub mod dedup;
pub mod describe;
pub mod distinct;
#[cfg(feature = "full")]
mod draws;
pub mod estimate;
#[cfg(feature = "full")]
pub mod eval;
pub mod exit;
#[cfg(feature = "full")]
pub mod filter;
pub mod filter_args;
pub mod filter_report;
#[cfg(feature = "full")]
pub mod full;
#[cfg(feature = "full")]
pub mod generate;
pub mod heavy;
pub mod input;
pub mod input_args;
mod kept;
mod left_out;
mod lock;
#[cfg(feature = "full")]
pub mod node;
pub mod output;
#[cfg(feature = "full")]
mod places;
pub mod plan;
pub mod progress;
#[cfg(feature = "full")]
mod redis;
pub mod rejects;
pub mod report;
pub mod run_args;
mod saving;
#[cfg(feature = "full")]
mod signals;
mod sink;
pub mod size;
pub mod state;
#[cfg(feature = "full")]
mod steps;
pub mod stop;
#[cfg(feature = "full")]
mod table;
pub mod tls_args;
#[cfg(feature = "full")]
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
        #[cfg(feature = "full")]
        Command::Full(command) => full::run(command),
    }
}
