//! The command line of `firstseen-lab`.

use clap::{Parser, Subcommand};
use firstseen_cli::manual::{CompletionsArgs, ManArgs};

use crate::bench::BenchArgs;
use crate::chaos::ChaosArgs;
use crate::eval::EvalArgs;
use crate::figures::FiguresArgs;
use crate::generate::GenerateArgs;
use crate::simulate::SimulateArgs;

/// The text below the help.
const NODES: &str = "`bench` and `chaos` run the binary `firstseen`: the one next to this binary, otherwise the one on \
                     PATH. The variable FIRSTSEEN_BINARY names another one.";

/// Measures firstseen, injects failures into it, and reproduces the papers' figures.
#[derive(Debug, Parser)]
#[command(name = "firstseen-lab", version, max_term_width = 100, after_help = NODES)]
pub struct Lab {
    /// The command that was asked for.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Measure what this machine does
    Bench(BenchArgs),
    /// Reproduce the figures of the papers, with their formulas beside
    Eval(EvalArgs),
    /// Make a synthetic stream of events, to try filters with
    Generate(GenerateArgs),
    /// Watch nodes fail, and check every reply that producers got
    Chaos(ChaosArgs),
    /// Run nodes and producers in a simulated network, where a seed decides everything
    Simulate(Box<SimulateArgs>),
    /// Measure the tables of the README and of docs/reference/performance.md again
    Figures(FiguresArgs),
    /// Print what completes commands and flags in a shell
    Completions(CompletionsArgs),
    /// Write the man pages
    Man(ManArgs),
}
