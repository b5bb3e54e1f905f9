//! `firstseen-lab simulate --scale` measures how the cost of an event depends on the size of the cluster. It simulates
//! clusters of different sizes, and counts the messages, bytes and visits of nodes for each event. While the
//! simulations run, the progress is printed to standard error. The results are printed at the end.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, value_parser};
use firstseen_cli::notice;
use firstseen_sim::scale::figures::Figures;
use firstseen_sim::scale::{EVENTS_PER_NODE_MIN, picture, run as execute, slicings, table};

use super::family::GROUP;

/// Flags of `firstseen-lab simulate --scale`.
#[derive(Debug, Args)]
pub(super) struct ScaleArgs {
    /// Print the messages, bytes and visits per event for clusters of different sizes
    #[arg(long, group = GROUP)]
    scale: bool,
    /// Sizes of clusters, in nodes
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "scale", default_values_t = [3, 10, 30, 100],
        value_parser = value_parser!(u32).range(1..))]
    nodes: Vec<u32>,
    /// Events for each node
    #[arg(long, value_name = "N", requires = "scale", default_value_t = 5_000,
        value_parser = value_parser!(u64).range(EVENTS_PER_NODE_MIN..))]
    events_per_node: u64,
    /// Print one JSON document
    #[arg(long, requires = "scale")]
    json: bool,
    /// Draw the numbers into this file (SVG)
    #[arg(long, value_name = "FILE", requires = "scale")]
    picture: Option<PathBuf>,
}

/// Runs a cluster of each size with each slicing, and prints the numbers.
///
/// # Errors
/// Returns an error if a run does not end, or if a file cannot be written.
pub(super) fn run(args: &ScaleArgs) -> anyhow::Result<()> {
    let mut all: Vec<Figures> = Vec::new();
    for nodes in args.nodes.iter().map(|nodes| *nodes as usize) {
        for slicing in slicings(nodes) {
            notice!("{nodes} nodes, {slicing}");
            let figures = execute(nodes, &slicing, args.events_per_node);
            all.push(figures.map_err(|error| anyhow!("{nodes} nodes, {slicing}: the run did not end: {error}"))?);
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print!("{}", table::markdown(&all));
    }
    let Some(file) = &args.picture else { return Ok(()) };
    let svg = picture::svg(&all).map_err(|error| anyhow!("the picture: {error}"))?;
    fs::write(file, svg).with_context(|| file.display().to_string())
}
