//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::dedup::DedupArgs;
use crate::estimate::EstimateArgs;
#[cfg(feature = "full")]
use crate::full::FullCommand;
use crate::left_out;
use crate::plan::PlanArgs;

/// Has this event been seen in the last W? Eliminates duplicates from event streams in bounded memory.
#[derive(Debug, Parser)]
#[command(name = "firstseen", version, max_term_width = 100, after_help = left_out::HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const DEDUP_EXAMPLES: &str = "\
Each line once:             firstseen dedup access.log > once.log
Once a day, as they come:   tail -F app.log | firstseen dedup --window 24h --state seen.fs
By the record's own time:   firstseen dedup --format csv --key user,ad --time time --window 1h clicks.csv.gz
Keep what is dropped, too:  firstseen dedup --duplicates again.log access.log > once.log
`-h` lists the flags in short; more: docs/dedup.md, docs/kinds.md";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pass on each record whose key was not seen within the window
    #[command(before_long_help = DEDUP_EXAMPLES)]
    Dedup(Box<DedupArgs>),
    /// Estimate how often each key occurred lately, where old occurrences count less
    Estimate(Box<EstimateArgs>),
    /// Say what a filter for a given load costs, before building it
    Plan(PlanArgs),
    /// Clusters, and the papers' figures.
    #[cfg(feature = "full")]
    #[command(flatten)]
    Full(FullCommand),
}

impl Cli {
    /// What the process was asked for; ends it where that cannot be understood.
    pub fn of_process() -> Self {
        Self::try_parse().unwrap_or_else(|error| match left_out::remedy(&error) {
            Some(remedy) => Self::command().error(error.kind(), remedy).exit(),
            None => error.exit(),
        })
    }
}
