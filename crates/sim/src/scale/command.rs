//! The command that shows what clusters cost as they grow.
//!
//! Promises: arguments that are not understood are refused; figures are printed when all runs have ended, and progress
//! goes to standard error. Must not know: how figures are counted.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use super::figures::Figures;
use super::{EVENTS_PER_NODE_MIN, picture, run, slicings, table};
use crate::asked::USAGE;

/// Sizes of clusters, and events for each node, where no others are asked for.
const NODES: [usize; 4] = [3, 10, 30, 100];
const EVENTS_PER_NODE: u64 = 5_000;

struct Asked {
    nodes: Vec<usize>,
    events_per_node: u64,
    shows_json: bool,
    /// The file that gets the picture.
    picture: Option<PathBuf>,
}

impl Asked {
    fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut asked =
            Self { nodes: NODES.to_vec(), events_per_node: EVENTS_PER_NODE, shows_json: false, picture: None };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--nodes" => {
                    let nodes: Result<Vec<usize>, _> = args.next()?.split(',').map(str::parse).collect();
                    asked.nodes = nodes.ok().filter(|nodes| !nodes.contains(&0))?;
                }
                "--events-per-node" => {
                    asked.events_per_node = args.next()?.parse().ok().filter(|events| *events >= EVENTS_PER_NODE_MIN)?
                }
                "--json" => asked.shows_json = true,
                "--picture" => asked.picture = Some(args.next()?.into()),
                _ => return None,
            }
        }
        Some(asked)
    }
}

/// Runs a cluster of each size with each slicing, and prints the figures.
pub fn run_all(args: impl Iterator<Item = String>) -> ExitCode {
    let Some(asked) = Asked::parse(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match carry_out(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(asked: &Asked) -> Result<(), String> {
    let mut all: Vec<Figures> = Vec::new();
    for nodes in &asked.nodes {
        for slicing in slicings(*nodes) {
            eprintln!("{nodes} nodes, {slicing}");
            let figures = run(*nodes, &slicing, asked.events_per_node);
            all.push(figures.map_err(|error| format!("{nodes} nodes, {slicing}: the run did not end: {error}"))?);
        }
    }
    if asked.shows_json {
        println!("{}", serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?);
    } else {
        print!("{}", table::markdown(&all));
    }
    match &asked.picture {
        Some(file) => fs::write(file, picture::svg(&all)?).map_err(|error| format!("{}: {error}", file.display())),
        None => Ok(()),
    }
}
