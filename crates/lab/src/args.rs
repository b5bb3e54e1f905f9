//! Command line of `firstseen-lab`.

use clap::{Parser, Subcommand};
use firstseen_cli::manual::{CompletionsArgs, ManArgs};

use crate::bench::BenchArgs;
use crate::chaos::ChaosArgs;
use crate::eval::EvalArgs;
use crate::figures::FiguresArgs;
use crate::generate::GenerateArgs;
use crate::simulate::SimulateArgs;

/// Text below the help.
const NODES: &str = "`bench` and `chaos` run the binary `firstseen`: the one next to this binary, otherwise the one on \
                     PATH. The variable FIRSTSEEN_BINARY names another one.";

/// Measures firstseen, injects failures into it, and reproduces the papers' figures.
#[derive(Debug, Parser)]
#[command(name = "firstseen-lab", version, max_term_width = 100, after_help = NODES)]
pub struct Lab {
    /// The subcommand.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// Subcommands of `firstseen-lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Measure the speed and memory of firstseen on this machine
    Bench(BenchArgs),
    /// Reproduce the figures of the papers, and compare them with their formulas
    Eval(EvalArgs),
    /// Generate a synthetic stream of events for testing filters
    Generate(GenerateArgs),
    /// Inject failures into nodes, and check every reply to producers
    Chaos(ChaosArgs),
    /// Run nodes and producers in a simulated network, where a seed decides everything
    Simulate(Box<SimulateArgs>),
    /// Measure the tables of the README and of docs/reference/performance.md again
    Figures(FiguresArgs),
    /// Print a script that completes commands and flags in a shell
    Completions(CompletionsArgs),
    /// Write the man pages
    Man(ManArgs),
}
