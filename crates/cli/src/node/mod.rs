//! Implements `firstseen node`, which runs one node of a cluster, checks its configuration, or repairs its data. A
//! mistake in the configuration is reported with its file, line and key before the node opens any file or port. The
//! node creates its data folder only if a flag asks for that, because a missing folder may mean that a disk is not
//! mounted.

pub mod config_file;
mod dates;
mod freed_memory;
pub mod health;
mod log;
mod machine;
mod open_files;
mod repair;
mod run;
pub mod set;
mod traces;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::set::Set;
use crate::exit::UsageError;
pub(crate) use run::check_config;

/// Flags of `firstseen node`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NodeArgs {
    /// Command to run instead of running the node.
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// Configuration of the node (TOML, docs/reference/configuration.md)
    #[arg(long, value_name = "FILE", required = true)]
    pub config: Option<PathBuf>,
    /// Override a setting of the file: `name=a`, `tls.cert=a.pem`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Set>,
    /// Check the configuration, its certificates and its folder, then exit
    #[arg(long)]
    pub check_config: bool,
    /// Start as a new node if the data folder is missing or empty. An empty file `new-node` in the folder has the same
    /// effect
    #[arg(long)]
    pub create: bool,
    /// End when the process with this number ends, which started this one
    #[arg(long, value_name = "PROCESS", hide = true)]
    pub end_with: Option<u32>,
}

/// Commands other than running a node.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Ask a running node whether it is ready; the exit code is 0 if it is, 1 if not
    Health(HealthArgs),
    /// Discard the unreadable parts of a damaged journal, so that the node can start; its slices are then incomplete
    Repair(RepairArgs),
}

/// Flags of `firstseen node repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Configuration of the node, which must not be running
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}

/// Flags of `firstseen node health`.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// Address of the node's health endpoint: its `http_listen`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7401", conflicts_with = "config")]
    pub addr: String,
    /// Take the address from the node's configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Runs `firstseen node`, until a signal ends it or until the node is checked.
///
/// # Errors
/// Returns the error that ended the command.
pub fn run(args: &NodeArgs) -> anyhow::Result<ExitCode> {
    match (&args.command, &args.config) {
        (Some(NodeCommand::Health(args)), _) => health::run(args),
        (Some(NodeCommand::Repair(args)), _) => repair::run(args),
        (None, Some(config)) => run::run(args, config),
        (None, None) => Err(UsageError("give the node's configuration: --config FILE".to_owned()).into()),
    }
}
