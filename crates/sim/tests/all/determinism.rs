//! Whether a seed decides everything, within a process and beyond: a failure can be reproduced for sure only where that
//! holds.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;

use firstseen_sim::run::{Run, run};
use firstseen_sim::scenario::Scenario;

/// Delays, resets and held links, with all slicings and kinds.
const SEEDS: Range<u64> = 20..40;
/// Every nemesis of trees, so that climbs are tried again.
const TREES: Range<u64> = 20..32;
/// Every nemesis of disks.
const DURABLE: Range<u64> = 0..10;
/// Nodes that are away for long, and slices that move.
const COPIES: Range<u64> = 0..4;
const MOVES: Range<u64> = 0..4;
/// Everything there is.
const STORMS: Range<u64> = 0..4;

fn carried_out(scenario: &Scenario) -> Run {
    run(scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"))
}

fn scenarios() -> impl Iterator<Item = Scenario> {
    let plain = SEEDS.map(Scenario::new).chain(TREES.map(Scenario::of_tree)).chain(DURABLE.map(Scenario::durable));
    let plain = plain.chain(COPIES.map(Scenario::copied)).chain(MOVES.map(Scenario::moving));
    plain.chain(STORMS.map(Scenario::storm))
}

#[test]
fn same_seed_same_trace() {
    let mut hashes = BTreeSet::new();
    for scenario in scenarios() {
        let [first, second] = [(); 2].map(|()| carried_out(&scenario));
        let deliveries = first.trace.deliveries.len();
        assert!(deliveries > 100, "{scenario}: only {deliveries} deliveries were traced");
        if let Some(difference) = first.trace.first_difference(&second.trace) {
            panic!("{scenario}, of {deliveries} deliveries: {difference}");
        }
        assert_eq!(first.history, second.history, "{scenario}");
        assert_eq!(first.hash(), second.hash(), "{scenario}");
        hashes.insert(first.hash());
    }
    assert_eq!(hashes.len(), scenarios().count(), "seeds that differ have traces that differ");
}

#[test]
fn same_seed_same_trace_in_another_process() {
    let here: Vec<String> =
        scenarios().map(|scenario| format!("trace {:016x}", carried_out(&scenario).hash())).collect();
    for process in ["the first process", "the second process"] {
        let families = [
            ("--seeds", SEEDS),
            ("--trees", TREES),
            ("--durable", DURABLE),
            ("--copies", COPIES),
            ("--moves", MOVES),
            ("--storms", STORMS),
        ];
        let there: Vec<String> = families.into_iter().flat_map(traces).collect();
        assert_eq!(there, here, "{process}");
    }
}

/// The hashes of runs, as another process prints them.
fn traces((what, seeds): (&str, Range<u64>)) -> Vec<String> {
    let (program, seeds) = (env!("CARGO_BIN_EXE_firstseen-sim"), format!("{}..{}", seeds.start, seeds.end));
    let output = Command::new(program).args([what, &seeds]).output().expect(program);
    let printed = String::from_utf8_lossy(&output.stdout);
    let of_seeds = printed.lines().filter(|line| line.starts_with("seed "));
    of_seeds.filter_map(|line| line.split(", ").last()).map(str::to_owned).collect()
}
