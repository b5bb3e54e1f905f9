//! Tests scenarios whose filter has the kind `cuckoo`. First, every history must satisfy the laws (the invariants that
//! the checker verifies), and copies must contain exactly the expected entries. Then rules are switched off one at a
//! time, and the checker must detect each missing rule.

use std::ops::Range;

use crate::common::{OtherSeeds, carried_out, first_found};
use firstseen_checker::history::CellsRead;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_sim::family::{Family, Variation};
use firstseen_sim::scenario::Scenario;

/// The families that are run with this kind.
const FAMILIES: [&str; 7] = ["--storms", "--copies", "--moves", "--durable", "--hung-disks", "--cut-offs", "--trees"];
/// The families and seeds that every quick run uses.
const SAMPLE_FAMILIES: [&str; 2] = ["--copies", "--moves"];
const SAMPLE: Range<u64> = 0..1;
const SEEDS: Range<u64> = 0..4;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..60;

/// Returns the scenario that `firstseen-lab simulate FAMILY SEED..SEED+1 --kind cuckoo` runs, and the command to repeat
/// it.
fn scenario(family: &str, seed: u64) -> (Scenario, String) {
    let family = Family::named(family).expect("a family");
    let variation = Variation { kind: Some("cuckoo"), ..Variation::none(family) };
    (variation.scenario(seed), variation.again(seed))
}

/// Runs seeds of each of `families`. Returns what was read from copies at the end.
fn keep_the_laws(families: &[&str], seeds: Range<u64>) -> CellsRead {
    let mut cells = CellsRead::default();
    for family in families {
        let mut calls = 0;
        for seed in seeds.clone() {
            let (scenario, again) = scenario(family, seed);
            let (run, fault) = carried_out(&scenario);
            assert_eq!(fault, None, "{scenario}\n{again}");
            calls += run.history.calls.len();
            cells.add(&run.history.cells);
        }
        assert!(calls as u64 > 100 * (seeds.end - seeds.start), "{family}: {calls} calls");
    }
    println!("{cells}");
    cells
}

#[test]
fn some_scenarios_keep_the_laws() {
    keep_the_laws(&SAMPLE_FAMILIES, SAMPLE);
}

#[test]
#[ignore = "minutes"]
fn scenarios_keep_the_laws() {
    let cells = keep_the_laws(&FAMILIES, SEEDS);
    assert!(cells.copies > 20 && cells.cells_set > 100 && cells.events_due > 1, "{cells}");
}

/// Breaks a rule in seeds of a family, `known` first. A law must detect the break, and must find nothing while the rule
/// is kept.
fn is_found(family: &str, rule: Rule, known: u64) {
    let found = first_found(known, BROKEN_SEEDS, OtherSeeds::Refused, |seed| {
        let (mut scenario, _) = scenario(family, seed);
        scenario.owner_limits.rules = Rules::without(rule);
        carried_out(&scenario).1
    });
    let (seed, fault) = found.unwrap_or_else(|| panic!("nobody misses {rule:?}"));
    println!("{rule:?}: {family} {seed} --kind cuckoo: {fault}");
    assert_eq!(carried_out(&scenario(family, seed).0).1, None, "{rule:?} is not what {family} {seed} misses");
}

#[test]
#[ignore = "minutes"]
fn an_entry_that_goes_before_its_time_is_missed() {
    is_found("--storms", Rule::ExpiresOnTime, 1);
}

#[test]
fn an_entry_that_a_merge_lets_expire_early_is_missed() {
    is_found("--copies", Rule::TimestampsCells, 13);
}
