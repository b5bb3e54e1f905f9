//! `firstseen-lab figures` measures the tables of the README and of docs/reference/performance.md again.
//!
//! The file docs/figures.json contains all tables of measurements that are shown on pages. For each table, the file
//! also contains the command that measures it, the date of the measurement and the machine. A page contains a copy of
//! the table, between the comments `<!-- figures: NAME -->` and `<!-- end of figures -->`.
//!
//! A run may measure only some of the tables. All other tables keep their values and their dates.

mod kept;
mod pages;

use std::path::PathBuf;

use clap::{Args, Parser};
use firstseen_cli::notice;

use self::kept::{Figures, Kept, Machine};
use crate::bench::{self, BenchArgs};

/// Benchmarks whose tables are shown on pages.
const BENCHMARKS: [&str; 8] = ["rivals", "cluster", "durability", "copies", "claims", "rights", "moves", "tree"];

/// Benchmark with its default flags, as `firstseen-lab bench` parses them.
#[derive(Debug, Parser)]
struct Benchmark {
    #[command(flatten)]
    args: BenchArgs,
}

/// Flags of `firstseen-lab figures`.
#[derive(Debug, Args)]
pub struct FiguresArgs {
    /// Benchmarks to run; by default all of them, which takes an hour
    #[arg(value_name = "BENCHMARK", value_parser = BENCHMARKS)]
    benchmarks: Vec<String>,
    /// Measure nothing, and copy docs/figures.json to the pages
    #[arg(long, conflicts_with = "benchmarks")]
    pages_only: bool,
    /// Top folder of the repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
}

/// Runs `firstseen-lab figures`.
///
/// # Errors
/// Returns an error if a benchmark fails, or if a file cannot be read or written. The tables of the benchmarks before a
/// failed one are written nevertheless.
pub fn run(args: &FiguresArgs) -> anyhow::Result<()> {
    let mut figures = Figures::read(&args.root)?;
    let all: Vec<&str> = args.benchmarks.iter().map(String::as_str).collect();
    let benchmarks = if all.is_empty() { &BENCHMARKS[..] } else { &all[..] };
    for benchmark in benchmarks.iter().filter(|_| !args.pages_only) {
        notice!("firstseen-lab bench {benchmark}");
        let asked = Benchmark::try_parse_from(["firstseen-lab bench", benchmark])?.args;
        let made = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let machine = Machine::this();
        for table in bench::tables(&asked.command)? {
            let command = format!("firstseen-lab bench {benchmark}");
            let kept = Kept { command, made: made.clone(), machine: Some(machine.clone()), table: table.content };
            figures.tables.insert(table.name.to_owned(), kept);
        }
        figures.write(&args.root)?;
    }
    pages::rewrite(&args.root, &figures)
}
