//! `firstseen-lab bench` measures the speed of `firstseen` on this machine, and compares it with other tools that are
//! in use today. All systems of a comparison are measured alternately in the same run, so that changes in the load of
//! the machine affect all of them. The output contains only results of that run.

mod calls;
mod claims;
mod cluster;
mod endpoints;
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

use std::io::{self, Write};

use clap::{Arg, Args, Subcommand, value_parser};
use serde::{Deserialize, Serialize};

/// Flags of `firstseen-lab bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The benchmark.
    #[command(subcommand)]
    pub command: BenchCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

/// Benchmarks, with the size of each measurement if it differs from the default of [`Size`].
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure a client with clusters of one and of three nodes on this machine, next to Redis `SET key 1 NX EX 600` if
    /// Redis is installed
    Cluster(cluster::ClusterArgs),
    /// Measure a client with one node, whose filter is stored in memory only, in a journal synced once a second, or in
    /// a journal synced before each reply
    Durability(modes::ModesArgs),
    /// Measure a client with three nodes whose slices have one copy each, or two
    Copies(modes::ModesArgs),
    /// Measure events that are claimed and confirmed with three nodes, next to events that are observed
    #[command(mut_arg("events", by_default("500000")))]
    Claims(Size),
    /// Measure events over HTTP with one node, next to events sent by the client and by Redis commands
    #[command(mut_arg("events", by_default("5000000")), mut_arg("batch", by_default("1000")))]
    Endpoints(endpoints::EndpointsArgs),
    /// Measure events per second with and without access control, and the effect on other producers of a producer that
    /// sends ten times its quota
    #[command(mut_arg("events", by_default("2000000")))]
    Rights(Size),
    /// Measure single calls before and while slices move between nodes
    Moves(moves::MovesArgs),
    /// Measure a client with one filter for several slicings: events per second, and the messages between nodes
    #[command(
        mut_arg("events", by_default("500000")),
        mut_arg("runs", by_default("3")),
        mut_arg("batch", by_default("8192"))
    )]
    Slicings(slicings::SlicingsArgs),
    /// Measure one filter over three sites that are far from each other: flat, and as sparse and dense trees
    Tree(tree::TreeArgs),
    /// Measure the memory and time of a window of keys: filters of this project next to a map, Redis and the crate
    /// cuckoo-clock
    Rivals(rivals::RivalsArgs),
}

/// Size of the measurements.
#[derive(Clone, Copy, Debug, Args)]
pub struct Size {
    /// Events of one measurement; the filter has capacity for as many
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each result; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
}

/// Gives a flag another default value.
fn by_default(value: &'static str) -> impl FnOnce(Arg) -> Arg {
    move |arg| arg.default_value(value)
}

/// Result of a benchmark.
trait Figures: Serialize {
    /// Prints the results as text.
    fn print(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Returns the tables of the results that are shown on pages.
    fn tables(&self) -> Vec<PageTable> {
        Vec::new()
    }
}

/// Table that is shown on a page.
pub(crate) struct PageTable {
    pub(crate) name: &'static str,
    pub(crate) content: Content,
}

/// Cells of a table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) heading: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl PageTable {
    fn new(name: &'static str, heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let heading = heading.iter().map(|cell| (*cell).to_owned()).collect();
        Self { name, content: Content { heading, rows: rows.into_iter().collect() } }
    }
}

/// Runs `firstseen-lab bench`.
///
/// # Errors
/// Returns the errors that end the command.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if let BenchCommand::Rivals(rivals) = &args.command
        && let Some(seed) = rivals.alone
    {
        return rivals::print_alone(rivals, seed);
    }
    let how = if args.json { Output::Json } else { Output::Text };
    measure(&args.command, how).map(drop)
}

/// Runs a benchmark, and returns the tables that are shown on pages.
///
/// # Errors
/// Returns the errors of the benchmark.
pub(crate) fn tables(command: &BenchCommand) -> anyhow::Result<Vec<PageTable>> {
    measure(command, Output::Nothing)
}

/// Output format of a benchmark.
#[derive(Clone, Copy)]
enum Output {
    Json,
    Text,
    Nothing,
}

fn measure(command: &BenchCommand, output: Output) -> anyhow::Result<Vec<PageTable>> {
    match command {
        BenchCommand::Cluster(args) => show(&cluster::measure(args)?, output),
        BenchCommand::Durability(args) => show(&modes::measure(args, &modes::DURABILITY)?, output),
        BenchCommand::Copies(args) => show(&modes::measure(args, &modes::COPIES)?, output),
        BenchCommand::Claims(size) => show(&claims::measure(*size)?, output),
        BenchCommand::Endpoints(args) => show(&endpoints::measure(args)?, output),
        BenchCommand::Rights(size) => show(&rights::measure(*size)?, output),
        BenchCommand::Moves(args) => show(&moves::measure(args)?, output),
        BenchCommand::Slicings(args) => show(&slicings::measure(args)?, output),
        BenchCommand::Tree(args) => show(&tree::measure(args)?, output),
        BenchCommand::Rivals(args) => show(&rivals::measure(args)?, output),
    }
}

fn show(figures: &impl Figures, output: Output) -> anyhow::Result<Vec<PageTable>> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, figures)?;
            writeln!(out)?;
        }
        Output::Text => figures.print(&mut out)?,
        Output::Nothing => {}
    }
    Ok(figures.tables())
}
