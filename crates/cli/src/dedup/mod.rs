//! `firstseen dedup`: each record once.
//!
//! Promises: every record of the input goes to exactly one output, in order, but for those that cannot be judged where
//! `--unjudged drop` is given; a record that was judged first-seen was recorded in the filter, also in the state that is saved. With claims a record is recorded after it was passed on, one that another run
//! held comes behind later ones, and one that is not decided when the run is ended goes nowhere. Must not know: how a filter
//! works, or where it is.
//!
//! `run` puts a run together, and the [driver](crate::driver) gives its batches to one of two deciders: `here`, a filter in
//! this process, or `remote`, one of a cluster. `handler` counts verdicts and writes records.

mod auto_lateness;
mod beyond;
#[cfg(feature = "full")]
mod claims;
mod confirm;
mod handler;
mod here;
mod lateness;
mod order;
#[cfg(feature = "full")]
mod remote;
mod run;
mod setup;
mod tally;
mod troubles;
mod undecided;
mod verdicts;
#[cfg(feature = "full")]
mod waits;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub use run::run;

use crate::dedup::confirm::ConfirmArg;
use crate::flags::filter::{FilterArgs, parse_duration_ms};
use crate::flags::input::InputArgs;
use crate::flags::run::RunArgs;
use crate::flags::tls::TlsArgs;

/// What to do with a record that is older than the window and the lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LateArg {
    /// Pass it on
    #[value(name = "first-seen", alias = "first_seen")]
    FirstSeen,
    /// Treat it as a duplicate
    Duplicate,
    /// Pass it on, and count it as undecided
    Undecided,
}

/// Flags of `firstseen dedup`.
#[derive(Debug, Args)]
pub struct DedupArgs {
    /// The input.
    #[command(flatten)]
    pub input: InputArgs,
    /// The filter.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Where records go.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// A filter of a cluster instead.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// A filter of a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Ask a filter of the cluster with nodes at these addresses; one that answers is enough. The filter has its own
    /// window and size
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "filter", conflicts_with_all = [
        "window", "rule", "kind", "capacity", "fpr", "memory", "slicing", "lateness", "future_max", "seed", "cells",
        "hashes", "layout", "cell_bits", "sub_windows", "equal_timers", "growth", "grow_by", "stable_max",
        "stable_decrements", "ticks", "state", "state_every", "verify", "confirm",
    ])]
    pub cluster: Vec<String>,
    /// Name of the filter (`firstseen filter create`)
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub filter: Option<String>,
    /// Where this is: of a filter in a tree, ask the leaf of this name (`firstseen filter describe`). Without it
    /// events go to the root
    #[arg(long, value_name = "PLACE", requires = "cluster")]
    pub site: Option<String>,
    /// Claim records, for so long at most, write them, and record them then: runs that die have lost nothing, and several
    /// share an input
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, requires = "cluster", conflicts_with = "lookup")]
    pub claims: Option<u64>,
    /// Certificates.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Where records go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// First-seen records go to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Duplicates go to FILE, for audit; by default nowhere
    #[arg(long, value_name = "FILE")]
    pub duplicates: Option<PathBuf>,
    /// What to do with a record older than the window and the lateness: pass it on, drop it as a duplicate, or pass it on and
    /// count it as undecided. Without it such a record is passed on, and counts as one that cannot be judged (--unjudged,
    /// --strict)
    #[arg(long, value_enum)]
    pub late: Option<LateArg>,
    /// Check called duplicates in an exact cache of this size (`exact:64MiB`)
    #[arg(long, value_name = "exact:SIZE")]
    pub confirm: Option<ConfirmArg>,
    /// Duplicates that `--confirm` is not certain of go to FILE instead of `--duplicates`
    #[arg(long, value_name = "FILE", requires = "confirm")]
    pub uncertain: Option<PathBuf>,
}
