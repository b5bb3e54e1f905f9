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

use std::io::{self, Write};

use clap::{Arg, Args, Subcommand, value_parser};
use serde::{Deserialize, Serialize};

/// Flags of `firstseen-lab bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub command: BenchCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to measure, and the size of each measurement where it differs from [`Size`].
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// A client against one node and three on this machine, beside Redis `SET key 1 NX EX 600` where it is installed
    Cluster(cluster::ClusterArgs),
    /// A client against one node whose filter keeps nothing, a journal synced once a second, or one that is synced before
    /// each reply
    Durability(modes::ModesArgs),
    /// A client against three nodes whose slices have one copy each, or two
    Copies(modes::ModesArgs),
    /// Events that are claimed and confirmed against three nodes, beside events that are observed
    #[command(mut_arg("events", by_default("500000")))]
    Claims(Size),
    /// Events over HTTP against one node, beside events by the client and by Redis' commands
    #[command(mut_arg("events", by_default("5000000")), mut_arg("batch", by_default("1000")))]
    Doors(doors::DoorsArgs),
    /// Events a second where nodes ask for rights and where they do not, and what a producer takes from another by sending ten
    /// times its quota
    #[command(mut_arg("events", by_default("2000000")))]
    Rights(Size),
    /// Single calls while slices move from node to node, and before
    Moves(moves::MovesArgs),
    /// A client against one filter, by how it is sliced: events a second, and what nodes send each other
    #[command(
        mut_arg("events", by_default("500000")),
        mut_arg("runs", by_default("3")),
        mut_arg("batch", by_default("8192"))
    )]
    Slicings(slicings::SlicingsArgs),
    /// One filter over three sites that are far from each other: flat, and as sparse and dense trees
    Tree(tree::TreeArgs),
    /// Memory and time of a window of keys: filters of this project beside a map, Redis and the crate cuckoo-clock
    Rivals(rivals::RivalsArgs),
}

/// How much is measured.
#[derive(Clone, Copy, Debug, Args)]
pub struct Size {
    /// Events of one measurement; the filter is sized for as many
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(10_000..))]
    pub events: u64,
    /// Measurements of each figure; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Events of a batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=8192))]
    pub batch: u32,
}

/// Gives a flag another default.
fn by_default(value: &'static str) -> impl FnOnce(Arg) -> Arg {
    move |arg| arg.default_value(value)
}

/// The result of a benchmark.
trait Figures: Serialize {
    /// Prints the figures for people.
    fn print(&self, out: &mut dyn Write) -> io::Result<()>;

    /// The tables that pages have of it.
    fn tables(&self) -> Vec<PageTable> {
        Vec::new()
    }
}

/// A table of a page.
pub(crate) struct PageTable {
    pub(crate) name: &'static str,
    pub(crate) content: Content,
}

/// The cells of a table.
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
/// Those that end the command.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if let BenchCommand::Rivals(rivals) = &args.command
        && let Some(seed) = rivals.alone
    {
        return rivals::print_alone(rivals, seed);
    }
    let how = if args.json { Output::Json } else { Output::Text };
    measure(&args.command, how).map(drop)
}

/// Measures, and returns the tables that pages have of it.
///
/// # Errors
/// Those of the benchmark.
pub(crate) fn tables(command: &BenchCommand) -> anyhow::Result<Vec<PageTable>> {
    measure(command, Output::Nothing)
}

/// What is printed of a benchmark.
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
        BenchCommand::Doors(args) => show(&doors::measure(args)?, output),
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
