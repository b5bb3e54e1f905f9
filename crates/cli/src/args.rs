//! The command line.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::certs::CertsArgs;
use crate::chaos::ChaosArgs;
use crate::cluster::ClusterArgs;
use crate::dedup::DedupArgs;
use crate::estimate::EstimateArgs;
use crate::eval::EvalArgs;
use crate::filter::FilterCommandArgs;
use crate::generate::GenerateArgs;
use crate::node::NodeArgs;
use crate::plan::PlanArgs;
use crate::up::UpArgs;

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
    /// Start a cluster of nodes on this machine, to try things on
    Up(UpArgs),
    /// Run a node of a cluster
    Node(NodeArgs),
    /// Make a cluster of nodes; show it, add to it, take from it
    Cluster(ClusterArgs),
    /// Make, list, describe and drop the filters of a cluster
    Filter(FilterCommandArgs),
    /// Make certificates of a test authority
    Certs(CertsArgs),
    /// Measure what this machine does
    Bench(BenchArgs),
    /// Reproduce the figures of the papers, with their formulas beside
    Eval(EvalArgs),
    /// Make a synthetic stream of events, to try filters with
    Generate(GenerateArgs),
    /// Watch nodes fail, and check everything that producers were told
    Chaos(ChaosArgs),
}
