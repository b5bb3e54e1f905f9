//! `firstseen-lab chaos`: real nodes, real producers, and failures; then every reply is checked.
//!
//! Promises: the laws are those that the simulation checks; the exit code says whether they hold. Must not know: how
//! nodes keep them.

mod containers;
mod judgement;
mod local;
mod producer;
mod run;
mod scenario;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::scenario::ClockOffset;
use firstseen_cli::filter::ClusterAddresses;
use firstseen_cli::text::size::ByteSize;

/// Flags of `firstseen-lab chaos`.
#[derive(Debug, Args)]
pub struct ChaosArgs {
    /// The command that was asked for.
    #[command(subcommand)]
    pub command: ChaosCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ChaosCommand {
    /// Run a scenario: a cluster of its own, producers, what goes wrong, and what must hold nevertheless
    Run(RunArgs),
    /// Say which scenarios there are
    List(ListArgs),
    /// Ask a cluster about events, and print every call as a line of JSON; `run` does this
    #[command(hide = true)]
    Produce(ProduceArgs),
    /// Fill a disk with a file of zeros, or take it away; `run` does this in a container
    #[command(hide = true)]
    Ballast(BallastArgs),
}

/// Flags of `firstseen-lab chaos run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A scenario, by the name of its file
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Folder of scenarios, instead of those that firstseen brings along
    #[arg(long, value_name = "DIR")]
    pub scenarios: Option<PathBuf>,
    /// Nodes in the containers of docker-compose.yml, instead of processes of this machine
    #[arg(long)]
    pub containers: bool,
    /// A binary of an earlier version, which the nodes of some scenarios begin with
    #[arg(long, value_name = "FILE", conflicts_with = "containers")]
    pub older: Option<PathBuf>,
    /// Print one JSON document instead of a line a second
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab chaos list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Folder of scenarios, instead of those that firstseen brings along
    #[arg(long, value_name = "DIR")]
    pub scenarios: Option<PathBuf>,
}

/// Flags of `firstseen-lab chaos produce`.
#[derive(Debug, Args)]
pub struct ProduceArgs {
    /// The filter that is asked.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterAddresses,
    /// For so long
    #[arg(long, value_name = "S")]
    pub seconds: u64,
    /// Callers whose clocks are so much off (`+1h`, `-3d`), beside the others; events are stamped by callers then
    #[arg(long, value_name = "OFFSETS", value_delimiter = ',', allow_hyphen_values = true)]
    broken_clocks: Vec<ClockOffset>,
    /// What is asked is drawn from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Flags of `firstseen-lab chaos ballast`.
#[derive(Debug, Args)]
pub struct BallastArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// Its bytes, or as many as there is room for; without, it is taken away
    #[arg(value_name = "BYTES")]
    pub bytes: Option<ByteSize>,
}

/// Runs `firstseen-lab chaos`.
///
/// # Errors
/// Those that end the command; a broken promise is no error but an exit code.
pub fn run(args: &ChaosArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        ChaosCommand::Run(args) => run::run(args),
        ChaosCommand::List(args) => scenario::list(args.scenarios.as_deref(), &mut std::io::stdout().lock()),
        ChaosCommand::Produce(args) => producer::run(args),
        ChaosCommand::Ballast(args) => containers::ballast(&args.path, args.bytes),
    }
}
