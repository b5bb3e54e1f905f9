//! Runs scenarios: `cargo run -p firstseen-sim -- --seeds 0..100`, `--trees 0..100` for filters in
//! trees, `--durable 0..100` for filters that must survive power cuts, `--copies 0..100` for filters with copies, whose
//! nodes are away for long, or `--moves 0..100` for filters whose slices move from node to node.
//!
//! Prints a hash of everything that happened, which is the same whenever a seed is run. With `--trace`, everything that
//! was delivered comes before it, for comparing two runs line by line.

use std::process::ExitCode;

use firstseen_checker::laws::check;
use firstseen_sim::producers::undecided;
use firstseen_sim::run::{Run, run};
use firstseen_sim::scenario::Scenario;

struct Asked {
    seeds: std::ops::Range<u64>,
    /// `--seeds`, `--trees`, `--durable`, `--copies`, or `--moves`.
    what: &'static str,
    scenario: fn(u64) -> Scenario,
    shows_trace: bool,
}

fn main() -> ExitCode {
    let Some(asked) = asked(std::env::args().skip(1)) else {
        eprintln!("usage: firstseen-sim --seeds|--trees|--durable|--copies|--moves FIRST..END [--trace]");
        return ExitCode::from(2);
    };
    for seed in asked.seeds {
        let scenario = (asked.scenario)(seed);
        let is_good = match run(&scenario) {
            Ok(run) => report(&scenario, &run, asked.shows_trace),
            Err(error) => {
                println!("{scenario}: the run did not end: {error}");
                false
            }
        };
        if !is_good {
            println!("again: cargo run -p firstseen-sim -- {} {seed}..{}", asked.what, seed + 1);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints what came of a run; whether every law was kept.
fn report(scenario: &Scenario, run: &Run, shows_trace: bool) -> bool {
    if shows_trace {
        run.trace.deliveries.iter().for_each(|delivery| println!("{delivery}"));
        print!("{}", run.history);
    }
    let violations = check(&run.history);
    let (calls, undecided, faults) = (run.history.calls.len(), undecided(&run.history), violations.len());
    println!("{scenario}: {calls} calls, undecided {undecided:?}, {faults} faults, trace {:016x}", run.hash());
    violations.iter().for_each(|violation| println!("{violation}"));
    violations.is_empty()
}

fn asked(args: impl Iterator<Item = String>) -> Option<Asked> {
    let args: Vec<String> = args.collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (what, value, shows_trace) = match args[..] {
        [what, value] => (what, value, false),
        [what, value, "--trace"] => (what, value, true),
        _ => return None,
    };
    let (what, scenario): (_, fn(u64) -> Scenario) = match what {
        "--seeds" => ("--seeds", Scenario::new),
        "--trees" => ("--trees", Scenario::of_tree),
        "--durable" => ("--durable", Scenario::durable),
        "--copies" => ("--copies", Scenario::copied),
        "--moves" => ("--moves", Scenario::moving),
        _ => return None,
    };
    let (first, end) = value.split_once("..")?;
    Some(Asked { seeds: first.parse().ok()?..end.parse().ok()?, what, scenario, shows_trace })
}
