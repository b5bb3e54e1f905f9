//! `firstseen-lab bench`: how fast `firstseen` is on this machine, beside the tools that users have today.
//!
//! Promises: systems that are compared are measured in the same run, in turns; only measured figures are printed. Must
//! not know: how a filter works.

mod calls;
mod claims;
mod cluster;
mod doors;
mod figures;
mod flow;
mod keys;
mod local;
mod modes;
mod moves;
mod open_loop;
pub(crate) mod redis;
mod redis_pool;
mod rights;
mod rivals;
mod slicings;
mod spent;
mod tree;

use clap::{Args, Subcommand, value_parser};

use firstseen_cli::flags::filter::KindArg;

/// Flags of `firstseen-lab bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// A client against one node and three on this machine, beside Redis `SET key 1 NX EX 600` where it is installed
    Cluster(ClusterBenchArgs),
    /// A client against one node whose filter keeps nothing, a journal synced once a second, or one that is synced before
    /// each reply
    Durability(ModesBenchArgs),
    /// A client against three nodes whose slices have one copy each, or two
    Copies(ModesBenchArgs),
    /// Events that are claimed and confirmed against three nodes, beside events that are observed
    Claims(ClaimsBenchArgs),
    /// Events over HTTP against one node, beside events by the client and by Redis' commands
    Doors(DoorsBenchArgs),
    /// Events a second where nodes ask for rights and where they do not, and what a producer takes from another by sending ten
    /// times its quota
    Rights(RightsBenchArgs),
    /// Single calls while slices move from node to node, and before
    Moves(MovesBenchArgs),
    /// A client against one filter, by how it is sliced: events a second, and what nodes send each other
    Slicings(SlicingsBenchArgs),
    /// One filter over three sites that are far from each other: flat, and as sparse and dense trees
    Tree(TreeBenchArgs),
    /// Memory and time of a window of keys: filters of this project beside a map, Redis and the crate cuckoo-clock
    Rivals(RivalsBenchArgs),
}

/// Flags of `firstseen-lab bench cluster`.
#[derive(Debug, Args)]
pub struct ClusterBenchArgs {
    /// Events of one measurement; the filter is sized for as many
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each figure; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
    /// Single calls a second of which the latency is measured, whether or not those before have returned
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [20_000, 40_000, 60_000, 80_000],
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub calls_per_s: Vec<u32>,
    /// Leave Redis out
    #[arg(long)]
    pub no_redis: bool,
    /// Leave TLS out
    #[arg(long)]
    pub no_tls: bool,
    /// A kind of filter to measure; may be given several times. Rates are compared with the first's
    #[arg(long, value_name = "KIND", value_enum, default_value = "generations")]
    pub kind: Vec<KindArg>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench durability` and `firstseen-lab bench copies`.
#[derive(Debug, Args)]
pub struct ModesBenchArgs {
    /// Events of one measurement; the filter is sized for as many
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each figure; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
    /// A kind of filter to measure; may be given several times. Rates are compared with the first's
    #[arg(long, value_name = "KIND", value_enum, default_value = "generations")]
    pub kind: Vec<KindArg>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench claims`.
#[derive(Debug, Args)]
pub struct ClaimsBenchArgs {
    /// Events of one measurement; the filter is sized for as many
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each figure; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench doors`.
#[derive(Debug, Args)]
pub struct DoorsBenchArgs {
    /// Events of one measurement in batches; there are a twentieth as many single calls
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each rate; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
    /// Connections that send batches
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u64).range(1..=256))]
    pub batch_connections: u64,
    /// Connections that send single events
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u64).range(1..=256))]
    pub single_connections: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench rights`.
#[derive(Debug, Args)]
pub struct RightsBenchArgs {
    /// Events of one measurement; the filter is sized for as many
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each rate; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench moves`.
#[derive(Debug, Args)]
pub struct MovesBenchArgs {
    /// Events in the filter when its slices move; it is sized for twice as many
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Calls a second
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = value_parser!(u32).range(1..=100_000))]
    pub calls_per_s: u32,
    /// Seconds that are measured before slices move
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = value_parser!(u64).range(1..=600))]
    pub quiet_s: u64,
    /// A kind of filter to measure; may be given several times. One after the other
    #[arg(long, value_name = "KIND", value_enum, default_value = "generations")]
    pub kind: Vec<KindArg>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench slicings`.
#[derive(Debug, Args)]
pub struct SlicingsBenchArgs {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=100))]
    pub nodes: u32,
    /// A slicing to measure; may be given several times. Rates are compared with the first
    #[arg(long, value_name = "SLICING",
        default_values = ["horizontal:10", "horizontal:3", "vertical:3", "horizontal-vertical:5x2", "vertical:10"])]
    pub slicing: Vec<String>,
    /// Further copies of each slice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub copies: u32,
    /// What the filters survive, as `firstseen filter create` takes it
    #[arg(long, value_name = "MODE")]
    pub durability: Option<String>,
    /// Events of one measurement; the filter is sized for as many
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each figure; the median is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench tree`.
#[derive(Debug, Args)]
pub struct TreeBenchArgs {
    /// Events of one measurement, over all sites; the filter is sized for as many
    #[arg(long, value_name = "N", default_value_t = 600_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// How the flat filter and the roots of the trees are cut
    #[arg(long, value_name = "SLICING", default_value = "horizontal:3")]
    pub slicing: String,
    /// Time from one site to another, one way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 25, value_parser = value_parser!(u64).range(0..=1000))]
    pub delay_ms: u64,
    /// Measurements of each figure; the median is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen-lab bench rivals`.
#[derive(Debug, Args)]
pub struct RivalsBenchArgs {
    /// Keys that the window brings, all different; each comes again within it
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1_000..))]
    pub keys: u64,
    /// Measurements of each system, in turns; the median is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Measure this system only; may be given several times
    #[arg(long, value_name = "SYSTEM")]
    pub system: Vec<rivals::System>,
    /// Measure the one system in this process, once, with a hash of this seed
    #[arg(long, value_name = "SEED", hide = true)]
    pub alone: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs `firstseen-lab bench`.
///
/// # Errors
/// Those that end the command.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.command {
        BenchCommand::Cluster(args) => cluster::run(args),
        BenchCommand::Durability(args) => modes::run(args, &modes::DURABILITY),
        BenchCommand::Copies(args) => modes::run(args, &modes::COPIES),
        BenchCommand::Claims(args) => claims::run(args),
        BenchCommand::Doors(args) => doors::run(args),
        BenchCommand::Rights(args) => rights::run(args),
        BenchCommand::Moves(args) => moves::run(args),
        BenchCommand::Slicings(args) => slicings::run(args),
        BenchCommand::Tree(args) => tree::run(args),
        BenchCommand::Rivals(args) => rivals::run(args),
    }
}
