//! `firstseen-lab chaos` tests a real cluster. It starts nodes and producers, injects failures such as killed
//! processes, and checks every reply that a producer receives. The replies must satisfy the same invariants as in the
//! simulation. The exit code tells whether they do.

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
    /// The subcommand.
    #[command(subcommand)]
    pub command: ChaosCommand,
}

/// Subcommands of `firstseen-lab chaos`.
#[derive(Debug, Subcommand)]
pub enum ChaosCommand {
    /// Run a scenario: start a cluster and producers, inject failures, and check what must hold nevertheless
    Run(RunArgs),
    /// List the scenarios
    List(ListArgs),
    /// Send events to a cluster, and print every call as a line of JSON; `run` uses this command
    #[command(hide = true)]
    Produce(ProduceArgs),
    /// Fill a disk with a file of zeros, or remove the file; `run` uses this command in a container
    #[command(hide = true)]
    Ballast(BallastArgs),
}

/// Flags of `firstseen-lab chaos run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scenario, by the name of its file
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Folder of scenarios, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub scenarios: Option<PathBuf>,
    /// Run the nodes in the containers of docker-compose.yml, instead of processes of this machine
    #[arg(long)]
    pub containers: bool,
    /// Binary of an earlier version, which some scenarios run on their nodes at first
    #[arg(long, value_name = "FILE", conflicts_with = "containers")]
    pub older: Option<PathBuf>,
    /// Print one JSON document instead of a line for each second
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab chaos list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Folder of scenarios, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub scenarios: Option<PathBuf>,
}

/// Flags of `firstseen-lab chaos produce`.
#[derive(Debug, Args)]
pub struct ProduceArgs {
    /// Filter that receives the events.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Cluster that receives the events.
    #[command(flatten)]
    pub cluster: ClusterAddresses,
    /// Duration in seconds
    #[arg(long, value_name = "S")]
    pub seconds: u64,
    /// Offsets of wrong clocks (`+1h`, `-3d`), with an additional caller for each; all events are then stamped by their
    /// callers
    #[arg(long, value_name = "OFFSETS", value_delimiter = ',', allow_hyphen_values = true)]
    broken_clocks: Vec<ClockOffset>,
    /// Seed that determines the events
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Flags of `firstseen-lab chaos ballast`.
#[derive(Debug, Args)]
pub struct BallastArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// Size of the file, limited by the space on the disk; without a size, the file is removed
    #[arg(value_name = "BYTES")]
    pub bytes: Option<ByteSize>,
}

/// Runs `firstseen-lab chaos`.
///
/// # Errors
/// Returns the errors that end the command. A broken promise is not an error; it is reported by the exit code.
pub fn run(args: &ChaosArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        ChaosCommand::Run(args) => run::run(args),
        ChaosCommand::List(args) => scenario::list(args.scenarios.as_deref(), &mut std::io::stdout().lock()),
        ChaosCommand::Produce(args) => producer::run(args),
        ChaosCommand::Ballast(args) => containers::ballast(&args.path, args.bytes),
    }
}
