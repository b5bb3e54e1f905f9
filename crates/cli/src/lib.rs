//! The commands of `firstseen`.
//!
//! The path of a record through `firstseen dedup`: [`input`] reads, cuts and parses on a thread of its own, and passes
//! on a batch at a time; `driver` has the events of a batch decided; [`dedup`] counts the verdicts and writes each record
//! to the [`output`] that its verdict names; [`unjudged`] says what becomes of records that have no verdict; [`state`]
//! saves the filter; [`report`] shows the counts. [`estimate`] takes the same path to a filter that counts. The
//! commands share [`flags`], [`text`], [`terminal`] and [`exit`]; `kind` chooses the kind of a filter where no flag
//! names one.
//!
//! Clusters: `node` runs a node, `up` several of them on one machine; `cluster` and `filter` administer through
//! `cluster/connect`; `top` shows how one fares; `certs` makes certificates for all of them. A build without the feature `full`, which is quick to
//! make, leaves these out. [`manual`] writes the files that packages ship with a binary. The crate `firstseen-lab` uses
//! flags, messages, tables and the nodes of `up` from here.
//!
//! Promises: stdout carries records and nothing else; messages, progress and reports go to stderr or to the file of a
//! flag. Must not know: how a filter works, how a format is cut.

#![deny(clippy::print_stderr)]

// The first module, as the others use its macro.
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
#[cfg(feature = "full")]
pub mod full;
pub mod input;
mod kind;
mod left_out;
pub mod manual;
#[cfg(feature = "full")]
pub mod node;
pub mod output;
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

/// Runs the command that was asked for.
///
/// # Errors
/// Those that end the command; [`exit::failure`] prints them.
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
