//! Runs scenarios: `cargo run -p firstseen-sim -- --seeds 0..100`, `--trees 0..100` for filters in trees, `--durable 0..100`
//! for filters that must survive power cuts, `--copies 0..100` for filters with copies, whose nodes are away for long,
//! `--moves 0..100` for filters whose slices move from node to node, `--cut-offs 0..100` for nodes that are cut off with producers
//! beside them, or `--storms 0..100` for everything at once. `--scale` shows what clusters cost as they grow.
//!
//! Prints a hash of everything that happened, which is the same whenever a seed is run. With `--trace`, every delivery
//! is printed before it, to compare two runs line by line; with `--results FILE`, a run that was broken off continues;
//! with `--without RULE`, nodes break a rule, and a law should be broken.

use std::process::ExitCode;
use std::time::Instant;

use firstseen_checker::laws::check;
use firstseen_sim::asked::{Asked, USAGE};
use firstseen_sim::faults::counts;
use firstseen_sim::producers::undecided;
use firstseen_sim::results::Results;
use firstseen_sim::run::{Run, run};
use firstseen_sim::scale::command;
use firstseen_sim::scenario::Scenario;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if_eq("--scale").is_some() {
        return command::run_all(args);
    }
    let Some(asked) = Asked::parse(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match carry_out(&asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error}", asked.results.unwrap_or_default().display());
            ExitCode::from(2)
        }
    }
}

/// Runs seeds until a law is broken; returns whether none was.
fn carry_out(asked: &Asked) -> std::io::Result<bool> {
    let mut results = Results::open(asked.results.as_deref(), asked.name())?;
    for seed in asked.seeds.clone() {
        if results.has(seed) {
            continue;
        }
        let scenario = asked.scenario(seed);
        let begun = Instant::now();
        let is_good = match run(&scenario) {
            Ok(run) => {
                let faults = report(&scenario, &run, asked.shows_trace);
                results.add(seed, &run, (faults, begun.elapsed()))?;
                faults == 0
            }
            Err(error) => {
                println!("{scenario}: the run did not end: {error}");
                false
            }
        };
        if !is_good {
            println!("again: cargo run -p firstseen-sim -- {}", asked.again(seed));
            return Ok(false);
        }
    }
    println!("{}", results.total());
    Ok(true)
}

/// Prints the result of a run, and returns how often laws were broken.
fn report(scenario: &Scenario, run: &Run, shows_trace: bool) -> usize {
    if shows_trace {
        run.trace.deliveries.iter().for_each(|delivery| println!("{delivery}"));
        print!("{}", run.history);
        run.happened.iter().for_each(|happened| println!("{happened}"));
    }
    let violations = check(&run.history);
    let (calls, undecided, faults) = (run.history.calls.len(), undecided(&run.history), violations.len());
    if !run.happened.is_empty() {
        println!("{:?}, {} ms", counts(&run.happened), run.simulated.as_millis());
    }
    println!("{scenario}: {calls} calls, undecided {undecided:?}, {faults} faults, trace {:016x}", run.hash());
    violations.iter().for_each(|violation| println!("{violation}"));
    faults
}
