//! Whether a seed decides everything, within a process and beyond: a failure can be reproduced for sure only where that
//! holds. Of this crate's tests, cargo runs these first.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;

use firstseen_sim::run::{Run, run};
use firstseen_sim::scenario::Scenario;

/// Delays, resets and held links, with all slicings and kinds.
const SEEDS: Range<u64> = 20..40;

fn carried_out(seed: u64) -> Run {
    let scenario = Scenario::new(seed);
    run(&scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"))
}

#[test]
fn same_seed_same_trace() {
    let mut hashes = BTreeSet::new();
    for seed in SEEDS {
        let [first, second] = [(); 2].map(|()| carried_out(seed));
        let deliveries = first.trace.deliveries.len();
        assert!(deliveries > 100, "seed {seed}: only {deliveries} deliveries were traced");
        if let Some(difference) = first.trace.first_difference(&second.trace) {
            panic!("seed {seed}, of {deliveries} deliveries: {difference}");
        }
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first.hash(), second.hash(), "seed {seed}");
        hashes.insert(first.hash());
    }
    assert_eq!(hashes.len(), SEEDS.count(), "seeds that differ have traces that differ");
}

#[test]
fn same_seed_same_trace_in_another_process() {
    let here: Vec<String> = SEEDS.map(|seed| format!("trace {:016x}", carried_out(seed).hash())).collect();
    for process in ["the first process", "the second process"] {
        let (program, seeds) = (env!("CARGO_BIN_EXE_firstseen-sim"), format!("{}..{}", SEEDS.start, SEEDS.end));
        let output = Command::new(program).args(["--seeds", &seeds]).output().expect(program);
        let printed = String::from_utf8_lossy(&output.stdout);
        let there: Vec<&str> = printed.lines().filter_map(|line| line.split(", ").last()).collect();
        assert_eq!(there, here, "{process}: {printed}");
    }
}
