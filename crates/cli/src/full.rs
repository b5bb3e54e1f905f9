//! Commands that exist only in builds with the feature `full`: the commands for clusters, and everything that draws
//! pictures. Builds without the feature compile faster, because they leave out the network and drawing code. The
//! command line refers to all of these commands through this module.

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
    /// Start a cluster of nodes on this machine, to try things out
    Up(UpArgs),
    /// Watch the condition of a cluster, and what needs attention
    Top(TopArgs),
    /// Run a node of a cluster
    Node(NodeArgs),
    /// Create a cluster of nodes, show it, and add or remove nodes
    Cluster(ClusterArgs),
    /// Create, list, describe and drop the filters of a cluster
    Filter(FilterCommandArgs),
    /// Define which users may do what in a cluster
    Access(AccessArgs),
    /// Create certificates of a test authority
    Certs(CertsArgs),
}

/// Runs the command that the command line names.
///
/// # Errors
/// Returns the error that ended the command.
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
