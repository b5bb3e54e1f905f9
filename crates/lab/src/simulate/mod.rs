//! `firstseen-lab simulate` runs scenarios in a simulated network. Each scenario is drawn from a seed.
//!
//! For each seed, the command prints a hash of everything that happened in the simulation. Every run of the same seed
//! prints the same hash. The following flags change what a run does:
//!
//! - With `--trace`, every delivery of a message is printed before the hash, so that two runs can be compared line by
//!   line.
//! - With `--results FILE`, the results are stored in a file, and an interrupted run continues where it ended.
//! - With `--without RULE`, nodes break a rule of the protocol on purpose. The checker should then find a violation,
//!   which shows that it detects such errors.
//!
//! The exit code is 1 if a run violates one of the invariants that the checker verifies.

mod family;
mod results;
mod scale;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{ArgGroup, Args};
use firstseen_checker::laws::check;
use firstseen_cli::exit::{FAILED, UsageError};
use firstseen_routing::rules::Rule;
use firstseen_sim::family::Variation;
use firstseen_sim::faults::counts;
use firstseen_sim::producers::undecided;
use firstseen_sim::run::{Run, run as execute};
use firstseen_sim::scenario::Scenario;

use self::family::{FamilyArgs, GROUP};
use self::results::Results;
use self::scale::ScaleArgs;

/// Flags of `firstseen-lab simulate`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new(GROUP).required(true))]
#[command(
    override_usage = "firstseen-lab simulate [OPTIONS] --<FAMILY> <FIRST..END>\n       firstseen-lab simulate --scale [OPTIONS]"
)]
pub struct SimulateArgs {
    /// The family and its seeds.
    #[command(flatten)]
    family: FamilyArgs,
    /// Give the filter this kind instead of the one that the seed draws
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    kind: Option<&'static str>,
    /// Let consumers claim events
    #[arg(long)]
    claims: bool,
    /// Require rights of producers
    #[arg(long)]
    rights: bool,
    /// Print every delivery and every call
    #[arg(long)]
    trace: bool,
    /// Let nodes break a rule, such as SingleFlight
    #[arg(long, value_name = "RULE", value_parser = parse_rule)]
    without: Option<Rule>,
    /// File that gets a line for each seed; seeds that have a line are not run again
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// The measurement of clusters of several sizes.
    #[command(flatten)]
    scale: ScaleArgs,
}

fn parse_kind(name: &str) -> Result<&'static str, String> {
    let kind = Variation::KINDS.into_iter().find(|kind| *kind == name);
    kind.ok_or_else(|| format!("choose {}", Variation::KINDS.join(", ")))
}

fn parse_rule(name: &str) -> Result<Rule, String> {
    let rule = Variation::rules().find(|rule| format!("{rule:?}") == name);
    rule.ok_or_else(|| {
        let names: Vec<String> = Variation::rules().map(|rule| format!("{rule:?}")).collect();
        format!("choose {}", names.join(", "))
    })
}

/// Runs `firstseen-lab simulate`.
///
/// # Errors
/// Returns the errors that end the command. A violated law is not an error; it is reported by the exit code.
pub fn run(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let Some(seeds) = &args.family.asked else {
        scale::run(&args.scale)?;
        return Ok(ExitCode::SUCCESS);
    };
    let SimulateArgs { kind, claims, rights, without, .. } = *args;
    let variation = Variation { family: seeds.family, kind, claims, rights, without };
    let mut results = Results::open(args.results.as_deref(), variation.name())
        .map_err(|error| unusable(args.results.as_deref(), &error))?;
    for seed in seeds.range.clone() {
        if results.has(seed) {
            continue;
        }
        let scenario = variation.scenario(seed);
        let begun = Instant::now();
        let keeps_laws = match execute(&scenario) {
            Ok(run) => {
                let broken = report(&scenario, &run, args.trace);
                results
                    .add(seed, &run, broken, begun.elapsed())
                    .map_err(|error| unusable(args.results.as_deref(), &error))?;
                broken == 0
            }
            Err(error) => {
                println!("{scenario}: the run did not end: {error}");
                false
            }
        };
        if !keeps_laws {
            println!("{}", variation.again(seed));
            return Ok(ExitCode::from(FAILED));
        }
    }
    println!("{}", results.total());
    Ok(ExitCode::SUCCESS)
}

fn unusable(results: Option<&Path>, error: &std::io::Error) -> UsageError {
    UsageError(format!("{}: {error}", results.unwrap_or(Path::new("")).display()))
}

/// Prints the result of a run, and returns the number of violations.
fn report(scenario: &Scenario, run: &Run, shows_trace: bool) -> usize {
    if shows_trace {
        run.trace.deliveries.iter().for_each(|delivery| println!("{delivery}"));
        print!("{}", run.history);
        run.happened.iter().for_each(|happened| println!("{happened}"));
    }
    let violations = check(&run.history);
    let calls = run.history.calls.len();
    let undecided = undecided(&run.history);
    let broken = violations.len();
    if !run.happened.is_empty() {
        println!("{:?}, {} ms", counts(&run.happened), run.simulated.as_millis());
    }
    println!("{scenario}: {calls} calls, undecided {undecided:?}, {broken} faults, trace {:016x}", run.hash());
    violations.iter().for_each(|violation| println!("{violation}"));
    broken
}
