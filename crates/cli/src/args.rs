//! The command line: the list of commands, their help and their examples.

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::dedup::DedupArgs;
use crate::estimate::EstimateArgs;
#[cfg(feature = "full")]
use crate::full::FullCommand;
use crate::left_out;
use crate::manual::{CompletionsArgs, ManArgs};
#[cfg(feature = "pipe")]
use crate::pipe::PipeArgs;
use crate::plan::PlanArgs;

/// Has this event been seen in the last W? Eliminates duplicates from event streams in bounded memory.
#[derive(Debug, Parser)]
#[command(name = "firstseen", version, max_term_width = 100, after_help = left_out::HELP)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Examples in the help of `dedup`. Each command stays on one line, which the help never wraps, so that users can copy
/// and paste it.
const DEDUP_EXAMPLES: &str = "\
firstseen dedup access.log > once.log                                            # each record once
tail -F app.log | firstseen dedup --window 24h                                   # once a day
# over restarts and crashes: the file is read from its beginning, and what was seen is dropped
tail -n +1 -F access.log | firstseen dedup --format clf --window 24h --late duplicate --state s.fs
firstseen dedup --format csv --key user,ad --time time --window 1h clicks.csv.gz # by its own time
firstseen dedup --duplicates again.log access.log > once.log                     # the others, too
`-h` leaves out what is rarely needed; more: docs/how-to/dedup.md, docs/reference/kinds.md";

const PLAN_EXAMPLES: &str = "\
firstseen plan --capacity 100M --fpr 0.001 --window 24h                # what to buy
firstseen plan --capacity 100M --window 24h --kind generations         # more of one kind
firstseen plan --capacity 100M --window 24h --nodes 8 --failures 1     # one node may fail";

#[cfg(feature = "pipe")]
const PIPE_EXAMPLES: &str = "\
# first see what it would do: everything passes, and duplicates get a header
firstseen pipe --from kafka://b1,b2/clicks --to kafka://b1,b2/clicks-once --group once --key json:user,ad \
    --window 24h --capacity 10M --shadow
# then leave duplicates out, and keep them in a topic of their own
firstseen pipe --from kafka://b1,b2/clicks --to kafka://b1,b2/clicks-once --group once --key json:user,ad \
    --window 24h --capacity 10M --duplicates kafka://b1,b2/clicks-again --state /var/lib/firstseen/pipe
more: docs/how-to/pipe.md, docs/explanation/pipe-guarantees.md";

/// The commands of the binary.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pass on each record whose key was not seen within the window
    #[command(before_help = DEDUP_EXAMPLES)]
    Dedup(Box<DedupArgs>),
    /// Estimate how often each key occurred lately, where old occurrences count less
    Estimate(Box<EstimateArgs>),
    /// Say what a filter for a given load costs, before building it
    #[command(before_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Copy a topic of Kafka to another topic without its duplicates
    #[cfg(feature = "pipe")]
    #[command(before_help = PIPE_EXAMPLES)]
    Pipe(Box<PipeArgs>),
    /// The commands for clusters.
    #[cfg(feature = "full")]
    #[command(flatten)]
    Full(FullCommand),
    /// Print a script that completes commands and flags in a shell
    Completions(CompletionsArgs),
    /// Write the man pages
    Man(ManArgs),
}

/// Returns the command line parser together with its help texts. The help of `dedup` has more than fifty flags, so it
/// uses the compact layout, in which each description is on the same line as its flag. `-h` lists only the flags that
/// many users need, and `--help` lists all flags.
pub(crate) fn described(shows_rare: bool) -> clap::Command {
    Cli::command().mut_subcommand("dedup", |dedup| {
        let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
        let dedup = dedup.disable_help_flag(true).arg(help.help("Print help (`-h`: without what is rarely needed)"));
        dedup.mut_args(|arg| if shows_rare { arg.hide_short_help(false) } else { arg })
    })
}

impl Cli {
    /// Parses the command line of this process. If the command line is invalid, the process ends with the parser's
    /// message.
    pub fn of_process() -> Self {
        let shows_rare = std::env::args_os().any(|word| word == "--help");
        let matches = described(shows_rare).try_get_matches();
        matches.and_then(|matches| Self::from_arg_matches(&matches)).unwrap_or_else(|error| {
            match left_out::remedy(&error) {
                Some(remedy) => Self::command().error(error.kind(), remedy).exit(),
                None => error.exit(),
            }
        })
    }
}
