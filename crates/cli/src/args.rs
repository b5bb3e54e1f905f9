//! The command line.

use clap::{Parser, Subcommand};

use crate::dedup::DedupArgs;
use crate::estimate::EstimateArgs;
use crate::plan::PlanArgs;

/// Has this event been seen in the last W? Eliminates duplicates from event streams in bounded memory.
#[derive(Debug, Parser)]
#[command(name = "firstseen", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pass on each record whose key was not seen within the window
    Dedup(Box<DedupArgs>),
    /// Estimate how often each key occurred lately, where old occurrences count less
    Estimate(Box<EstimateArgs>),
    /// Say what a filter for a given load costs, before building it
    Plan(PlanArgs),
}
