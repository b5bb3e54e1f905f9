//! The commands of `firstseen`.
//!
//! The path of a record through `firstseen dedup`: [`input`] reads, cuts and parses on a thread of its own, and hands
//! on a batch at a time; [`dedup`] asks the filter and writes each record to the [`output`] where its answer sends it;
//! [`state`] saves the filter; [`report`] counts. [`estimate`] takes the same path to a filter that counts. Beside the
//! commands stand what they share: [`flags`], [`text`], [`terminal`], [`exit`].
//!
//! Clusters: `node` runs a node, `up` several of them on one machine; `cluster` and `filter` administer through
//! `cluster/connect`; `certs` makes certificates for all of them. These and what measures (`full`) are left out of a build without the
//! feature `full`, which is quick to make.
//!
//! Promises: stdout carries records and nothing else; messages, progress and reports go to stderr or where a flag says.
//! Must not know: how a filter works, how a format is cut.

#![deny(clippy::print_stderr)]

// First, as the others use its macro.
#[macro_use]
pub mod terminal;

pub mod args;
#[cfg(feature = "full")]
pub mod bench;
#[cfg(feature = "full")]
pub mod certs;
#[cfg(feature = "full")]
pub mod chaos;
#[cfg(feature = "full")]
pub mod cluster;
pub mod dedup;
#[cfg(feature = "full")]
mod draws;
pub mod estimate;
#[cfg(feature = "full")]
pub mod eval;
pub mod exit;
#[cfg(feature = "full")]
pub mod filter;
pub mod flags;
#[cfg(feature = "full")]
pub mod full;
#[cfg(feature = "full")]
pub mod generate;
pub mod input;
mod left_out;
#[cfg(feature = "full")]
pub mod node;
pub mod output;
pub mod plan;
pub mod report;
pub mod state;
pub mod text;
#[cfg(feature = "full")]
pub mod up;

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
