//! Filters whose slices move from node to node while producers continue and nodes come and go.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::common::{OtherSeeds, carried_out, first_found};
use firstseen_routing::OwnerLimits;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_sim::scenario::{Nemesis, Scenario};

const SEEDS: Range<u64> = 0..20;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..500;

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let mut moves: BTreeMap<String, u64> = BTreeMap::new();
    for seed in SEEDS {
        let scenario = Scenario::moving(seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!("{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --moves {seed}..{}", seed + 1);
        }
        *moves.entry(format!("{:?}", scenario.nemesis)).or_default() += run.history.moves_begun;
    }
    println!("{moves:?}");
    let kinds = Nemesis::OF_MOVES.map(|nemesis| format!("{nemesis:?}"));
    assert!(kinds.iter().all(|kind| moves.get(kind).is_some_and(|moves| *moves > 5)), "{moves:?}");
}

#[test]
fn a_slice_that_is_not_all_there_is_found() {
    let found = first_found(72, BROKEN_SEEDS, OtherSeeds::Refused, |seed| {
        let scenario = Scenario::moving(seed);
        let owner_limits = OwnerLimits { rules: Rules::without(Rule::FetchesAll), ..scenario.owner_limits };
        carried_out(&Scenario { owner_limits, ..scenario }).1
    });
    let (seed, fault) = found.expect("nobody misses what was not fetched");
    println!("missed at seed {seed}: {fault}");
}
