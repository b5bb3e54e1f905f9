//! `firstseen node`: runs one node of a cluster, checks it, repairs it.
//!
//! Promises: a mistake in a configuration is an error with file, line and key, before anything is opened; no folder is
//! created unless a flag asks for it. Must not know: what a node does.

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

/// Flags of `firstseen node`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NodeArgs {
    /// The command to carry out instead of running the node.
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// Configuration of the node (TOML, docs/reference/configuration.md)
    #[arg(long, value_name = "FILE", required = true)]
    pub config: Option<PathBuf>,
    /// Say a setting here instead of in the file: `name=a`, `tls.cert=a.pem`; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Set>,
    /// Check the configuration, its certificates and its folder, then end
    #[arg(long)]
    pub check_config: bool,
    /// Begin as a new node where the data folder is missing or empty; an empty file `new-node` in it says so too
    #[arg(long)]
    pub create: bool,
    /// End with the process of this number, which started this one
    #[arg(long, value_name = "PROCESS", hide = true)]
    pub end_with: Option<u32>,
}

/// The commands besides running a node.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Ask a running node whether it is ready; the exit code is 0 if it is, 1 if not
    Health(HealthArgs),
    /// Give up what cannot be read of a damaged journal, so that the node can start; its slices count as incomplete then
    Repair(RepairArgs),
}

/// Flags of `firstseen node repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Configuration of the node, which must not be running
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Do it without asking
    #[arg(long)]
    pub yes: bool,
}

/// Flags of `firstseen node health`.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// Where the node serves health: its `http_listen`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7401", conflicts_with = "config")]
    pub addr: String,
    /// Take the address from the node's configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Runs `firstseen node`: until a signal ends it, or until it is checked.
///
/// # Errors
/// Those that end the command.
pub fn run(args: &NodeArgs) -> anyhow::Result<ExitCode> {
    match (&args.command, &args.config) {
        (Some(NodeCommand::Health(args)), _) => health::run(args),
        (Some(NodeCommand::Repair(args)), _) => repair::run(args),
        (None, Some(config)) => run::run(args, config),
        (None, None) => Err(UsageError("give the node's configuration: --config FILE".to_owned()).into()),
    }
}
