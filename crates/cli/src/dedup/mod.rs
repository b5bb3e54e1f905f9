//! Implements `firstseen dedup`, which passes on each record once.
//!
//! # Guarantees
//!
//! - Every record of the input goes to exactly one output, in the order of the input. The exceptions are records that
//!   cannot be judged if `--unjudged drop` is given.
//! - A record that was judged first-seen was recorded in the filter, and also in the saved state.
//!
//! With claims (`--claims`), the filter records an event only after the run has written its record to the output. While
//! another run holds the claim of an event, the record of the event waits, so it may be written after later records. If
//! the other run still holds the claim when this run ends, this run does not write the record.
//!
//! The submodule `run` assembles all parts of a run. The driver takes batches of records from the
//! input and passes them to one of two deciders: `local` is a filter in this process, and `remote` is a filter of a
//! cluster. The submodule `handler` then counts the verdicts and writes the records.

mod auto_lateness;
#[cfg(feature = "full")]
mod claims;
mod confirm;
mod handler;
mod lateness;
mod local;
mod order;
mod outages;
#[cfg(feature = "full")]
mod remote;
mod run;
mod setup;
mod tally;
mod undecided;
mod verdicts;
#[cfg(feature = "full")]
mod waits;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub use run::run;

use crate::dedup::confirm::ConfirmArg;
use crate::exit::UsageError;
use crate::flags::filter::{FilterArgs, parse_duration_ms};
use crate::flags::input::InputArgs;
use crate::flags::run::RunArgs;
use crate::flags::tls::TlsArgs;

/// What to do with a record that is older than the window plus the lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LateArg {
    /// Pass the record on
    #[value(name = "first-seen", alias = "first_seen")]
    FirstSeen,
    /// Treat the record as a duplicate
    Duplicate,
    /// Pass the record on, and count it as undecided
    Undecided,
}

/// Flags of `firstseen dedup`.
#[derive(Debug, Args)]
pub struct DedupArgs {
    /// Flags that describe the input.
    #[command(flatten)]
    pub input: InputArgs,
    /// Flags that define a filter in this process.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Flags that say where records go.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags that say how to run and what to report.
    #[command(flatten)]
    pub run: RunArgs,
    /// Flags that select a filter of a cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags that select a filter of a cluster instead of a filter in this process.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Use a filter of the cluster with nodes at these addresses; one reachable node is enough. The filter has its own
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
    /// Site of this run. If the filter is a tree, events go to the leaf of this name (`firstseen filter describe`),
    /// otherwise to the root
    #[arg(long, value_name = "PLACE", requires = "cluster")]
    pub site: Option<String>,
    /// Claim each record for at most this time, write it, and record it only then. If a run dies, no record is lost,
    /// and several runs can share an input
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, requires = "cluster", conflicts_with = "lookup")]
    pub claims: Option<u64>,
    /// Flags for certificates and tokens.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ClusterArgs {
    /// Checks that no flag selects a part of a cluster although `--cluster` is missing. The parser of the flags makes
    /// the same check, but skips it if the command line has a flag that excludes `--cluster`, such as `--window`.
    ///
    /// # Errors
    /// Returns a [`UsageError`] that names the first such flag.
    fn check_unused(&self) -> anyhow::Result<()> {
        let given =
            [("--filter", self.filter.is_some()), ("--site", self.site.is_some()), ("--claims", self.claims.is_some())];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => {
                let text = format!(
                    "{flag} is for a filter of a cluster, and no --cluster is given: add --cluster HOST:PORT (and leave out the \
                     flags that define a filter, such as --window), or leave {flag} out"
                );
                Err(UsageError(text).into())
            }
        }
    }
}

/// Flags that say where records go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Write first-seen records to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write duplicates to FILE, for audit; by default nowhere
    #[arg(long, value_name = "FILE")]
    pub duplicates: Option<PathBuf>,
    /// What to do with a record older than the window plus the lateness: pass it on, drop it as a duplicate, or pass it
    /// on and count it as undecided. By default it is passed on and counts as a record that cannot be judged
    /// (--unjudged, --strict)
    #[arg(long, value_enum)]
    pub late: Option<LateArg>,
    /// Check reported duplicates in an exact cache of this size (`exact:64MiB`)
    #[arg(long, value_name = "exact:SIZE")]
    pub confirm: Option<ConfirmArg>,
    /// Write duplicates that `--confirm` cannot confirm to FILE instead of the file of `--duplicates`
    #[arg(long, value_name = "FILE", requires = "confirm")]
    pub uncertain: Option<PathBuf>,
}
