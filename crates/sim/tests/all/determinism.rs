//! Checks that a seed determines everything, within a process and across processes. Only then can a failure be
//! reproduced.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;

use firstseen_sim::family::Family;
use firstseen_sim::run::{Run, run};
use firstseen_sim::scenario::Scenario;

use crate::common;

/// Seeds of a family, which is named by its flag.
type Seeds = (&'static str, Range<u64>);

/// Seeds whose runs are repeated to check that the same seed gives the same trace. The selected seeds cover all
/// slicings and kinds of filters, and every sort of fault: faults of links, trees and disks, nodes that are away for a
/// long time, slices that move, and storms with all faults.
const ALL: [Seeds; 9] = [
    ("--seeds", 20..27),
    ("--trees", 20..24),
    ("--durable", 0..4),
    ("--copies", 0..2),
    ("--moves", 0..2),
    ("--storms", 0..2),
    ("--endpoints", 0..4),
    ("--wrong-clocks", 0..3),
    ("--altered-claims", 0..1),
];
/// One seed of each of two families. Each is run twice in this process.
const SAMPLE: [Seeds; 2] = [("--seeds", 0..1), ("--durable", 0..1)];
/// One seed of each family. Other tests run them in this process as well.
const SAMPLE_IN_ANOTHER_PROCESS: [Seeds; 3] = [("--seeds", 0..1), ("--trees", 0..1), ("--moves", 0..1)];

/// Returns a run that another test may already have executed.
fn carried_out(scenario: &Scenario) -> Run {
    common::carried_out(scenario).0
}

fn carried_out_again(scenario: &Scenario) -> Run {
    run(scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"))
}

fn scenarios(seeds: &[Seeds]) -> Vec<Scenario> {
    let of_family = |(flag, seeds): &Seeds| {
        let family = Family::named(flag).expect("a family");
        seeds.clone().map(family.scenario).collect::<Vec<_>>()
    };
    seeds.iter().flat_map(of_family).collect()
}

/// Runs every scenario twice in this process.
fn come_out_the_same(seeds: &[Seeds]) {
    let (mut hashes, scenarios) = (BTreeSet::new(), scenarios(seeds));
    for scenario in &scenarios {
        let (first, second) = (carried_out(scenario), carried_out_again(scenario));
        let deliveries = first.trace.deliveries.len();
        assert!(deliveries > 100, "{scenario}: only {deliveries} deliveries were traced");
        if let Some(difference) = first.trace.first_difference(&second.trace) {
            panic!("{scenario}, of {deliveries} deliveries: {difference}");
        }
        assert_eq!(first.history, second.history, "{scenario}");
        assert_eq!(first.hash(), second.hash(), "{scenario}");
        hashes.insert(first.hash());
    }
    assert_eq!(hashes.len(), scenarios.len(), "seeds that differ have traces that differ");
}

/// Runs every scenario in this process and in another process.
fn come_out_the_same_in_another_process(seeds: &[Seeds]) {
    let hash = |scenario: &Scenario| format!("{TRACE}{:016x}", carried_out(scenario).hash());
    // The other process runs first. Until it is done, another test may have executed the scenarios that are needed in
    // this process.
    let there: Vec<String> = seeds.iter().flat_map(traces).collect();
    let here: Vec<String> = scenarios(seeds).iter().map(hash).collect();
    assert_eq!(there, here);
}

/// Environment variable that tells [`of_another_process`] what to run: a family and its seeds.
const ASKED: &str = "FIRSTSEEN_SIM_FAMILY";
/// Prefix of a hash that [`of_another_process`] prints.
const TRACE: &str = "trace ";

/// Returns the hashes of runs, as another process prints them.
fn traces((family, seeds): &Seeds) -> Vec<String> {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args(["--exact", "determinism::of_another_process", "--nocapture"]);
    command.env(ASKED, format!("{family} {} {}", seeds.start, seeds.end));
    let output = command.output().expect("this program");
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.lines().filter(|line| line.starts_with(TRACE)).map(str::to_owned).collect()
}

/// The test of the other process. It prints the hashes of the runs that [`ASKED`] names. Without that variable it does
/// nothing.
#[test]
fn of_another_process() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    let mut words = asked.split(' ');
    let family = words.next().and_then(Family::named).expect("a family");
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a seed");
    for seed in number()..number() {
        println!("\n{TRACE}{:016x}", carried_out_again(&(family.scenario)(seed)).hash());
    }
}

/// Returns which of two ready branches is taken, repeatedly.
fn branches_taken(seed: u64) -> Vec<bool> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut sim = turmoil::Builder::new().rng_seed(seed).build();
    sim.client("host", async move {
        for _ in 0..64 {
            let is_first = tokio::select! {
                () = std::future::ready(()) => true,
                () = std::future::ready(()) => false,
            };
            sender.send(is_first)?;
        }
        Ok(())
    });
    sim.run().unwrap();
    receiver.iter().collect()
}

#[test]
fn what_tokio_draws_follows_from_the_seed() {
    let flags =
        "RUSTFLAGS of your own take the place of those in .cargo/config.toml: add `--cfg tokio_unstable` to them";
    assert_eq!(branches_taken(1), branches_taken(1), "{flags}");
    assert_ne!(branches_taken(1), branches_taken(2));
}

#[test]
fn same_seed_same_trace() {
    come_out_the_same(&SAMPLE);
}

#[test]
fn same_seed_same_trace_in_another_process() {
    come_out_the_same_in_another_process(&SAMPLE_IN_ANOTHER_PROCESS);
}

#[test]
#[ignore = "minutes"]
fn same_seeds_same_traces() {
    come_out_the_same(&ALL);
}

#[test]
#[ignore = "minutes"]
fn same_seeds_same_traces_in_another_process() {
    come_out_the_same_in_another_process(&ALL);
}
