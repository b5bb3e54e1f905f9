//! The commands of `firstseen`.
//!
//! # How `firstseen dedup` processes a record
//!
//! - [`input`] reads the files, cuts them into records and parses them. This work runs on a separate thread, which
//!   passes records on in batches.
//! - `driver` takes each batch and obtains a decision about each of its events.
//! - [`dedup`] counts the decisions and writes each record to the [`output`] that belongs to its decision.
//! - [`unjudged`] determines what happens to records about which no decision is possible.
//! - [`state`] saves the filter, and [`report`] prints the counts.
//!
//! [`estimate`] sends records along the same path, but to a filter that counts occurrences. The commands share the
//! modules [`flags`], [`text`], [`terminal`] and [`exit`]. The module `kind` chooses the kind of a filter if no flag
//! names a kind.
//!
//! # Commands for clusters
//!
//! The module `node` runs one node of a cluster, and `up` starts several nodes on one machine. The modules `cluster`
//! and `filter` administer a cluster, to which they connect through `cluster/connect`. The module `top` displays the
//! state of a cluster, and `certs` creates certificates for all of these commands. A build without the feature `full`
//! omits all of these modules and therefore compiles much faster.
//!
//! # Logs
//!
//! The module `pipe` copies a topic of Kafka to another topic without its duplicates. Only a build with the feature
//! `pipe` has it.
//!
//! [`manual`] writes the man pages and shell completions that packages ship with the binary. The crate `firstseen-lab`
//! reuses the flags, messages and tables of this crate, and the nodes that `up` starts.
//!
//! # Guarantees
//!
//! Standard output carries only the records and documents that a user asked for, so it can be piped to another program.
//! Messages, progress and reports go to stderr, or to the file that a flag names.

#![deny(clippy::print_stderr)]

// This module comes first because the other modules use its macro.
#[macro_use]
pub mod terminal;

#[cfg(feature = "full")]
pub mod access;
pub mod args;
#[cfg(feature = "full")]
pub mod certs;
#[cfg(feature = "full")]
pub mod cluster;
pub mod dedup;
mod driver;
pub mod estimate;
pub mod exit;
#[cfg(feature = "full")]
pub mod filter;
pub mod flags;
pub(crate) mod form;
#[cfg(feature = "full")]
pub mod full;
pub mod input;
mod left_out;
pub mod manual;
#[cfg(feature = "full")]
pub mod node;
pub mod output;
#[cfg(feature = "pipe")]
pub mod pipe;
pub mod plan;
pub mod report;
pub mod state;
pub mod text;
#[cfg(feature = "full")]
pub mod top;
pub mod unjudged;
#[cfg(feature = "full")]
pub mod up;

use std::process::ExitCode;

use args::{Cli, Command};

/// Runs the command that the command line names.
///
/// # Errors
/// Returns the error that ended the command. [`exit::failure`] prints it.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Dedup(args) => dedup::run(&args),
        Command::Estimate(args) => estimate::run(&args),
        Command::Plan(args) => {
            plan::run(&args, &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(feature = "pipe")]
        Command::Pipe(args) => pipe::run(&args),
        #[cfg(feature = "full")]
        Command::Full(command) => full::run(command),
        Command::Completions(args) => {
            manual::completions(&args, args::described(true), &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(args) => {
            manual::man(&args, args::described(true))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
