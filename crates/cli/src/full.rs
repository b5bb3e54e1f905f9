//! Commands that a lean build leaves out, with everything that clusters and pictures need: the feature `full`.
//!
//! Promises: each command is found here under its name. Must not know: how a filter is made.

use std::io::stdout;
use std::process::ExitCode;

use clap::Subcommand;

use crate::access::{self, AccessArgs};
use crate::certs::{self, CertsArgs};
use crate::cluster::{self, ClusterArgs};
use crate::filter::{self, FilterCommandArgs};
use crate::node::{self, NodeArgs};
use crate::top::{self, TopArgs};
use crate::up::{self, UpArgs};

/// Commands for clusters.
#[derive(Debug, Subcommand)]
pub enum FullCommand {
    /// Start a cluster of nodes on this machine, to try things on
    Up(UpArgs),
    /// Watch how a cluster fares, and what to look after
    Top(TopArgs),
    /// Run a node of a cluster
    Node(NodeArgs),
    /// Make a cluster of nodes; show it, add to it, take from it
    Cluster(ClusterArgs),
    /// Make, list, describe and drop the filters of a cluster
    Filter(FilterCommandArgs),
    /// Say who may do what in a cluster
    Access(AccessArgs),
    /// Make certificates of a test authority
    Certs(CertsArgs),
}

/// Runs the command that was asked for.
///
/// # Errors
/// Those that end the command.
pub fn run(command: FullCommand) -> anyhow::Result<ExitCode> {
    let done = match command {
        FullCommand::Up(args) => return up::run(&args),
        FullCommand::Node(args) => return node::run(&args),
        FullCommand::Cluster(args) => return cluster::run(&args, &mut stdout().lock()),
        FullCommand::Access(args) => return access::run(&args, &mut stdout().lock()),
        FullCommand::Top(args) => top::run(&args, &mut stdout().lock()),
        FullCommand::Filter(args) => filter::run(&args, &mut stdout().lock()),
        FullCommand::Certs(args) => certs::run(&args, &mut stdout().lock()),
    };
    done.map(|()| ExitCode::SUCCESS)
}
