//! Tests scenarios in which producers need access rights, and an operator revokes and restores these rights. When a
//! principal loses a right, the nodes must reject its calls as soon as they have the new cluster map. A rejected call
//! gets no verdict and sets no cell. No other principal may be denied.
//!
//! The tests also switch off the rule that the nodes reject such calls. The checker must then detect that the rule is
//! missing.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::common::{OtherSeeds, carried_out, first_found};
use firstseen_checker::history::{Call, History};
use firstseen_checker::laws::{check, lacked_right};
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{Decision, Reason};
use firstseen_sim::family::{Family, Variation};
use firstseen_sim::scenario::Scenario;

/// The families that are run with access rights.
const FAMILIES: [&str; 8] =
    ["--seeds", "--moves", "--copies", "--durable", "--hung-disks", "--cut-offs", "--trees", "--storms"];
/// The families of which every quick run uses one seed.
const SAMPLE_FAMILIES: [&str; 2] = ["--moves", "--trees"];
const SAMPLE: Range<u64> = 0..1;
const SEEDS: Range<u64> = 0..3;
/// Additional seeds, each of which has broken a law once.
const FOUND: [(&str, u64); 7] = [
    ("--trees", 276),
    ("--wrong-clocks", 6),
    ("--cut-offs", 6),
    ("--storms", 14),
    ("--storms", 15),
    ("--storms", 58),
    ("--storms", 65),
];
/// Seeds of a family within which a broken rule must be detected if the known seed no longer shows it because scenarios
/// have changed.
const BROKEN_SEEDS: Range<u64> = 0..20;
const FORBIDDEN: Option<Decision> = Some(Decision::Undecided(Reason::Forbidden));

/// Number of calls, by their sort.
type Made = BTreeMap<&'static str, u64>;

/// Returns the scenario that `firstseen-lab simulate FAMILY SEED..SEED+1 --rights` runs, and the command to repeat it.
fn scenario(family: &str, seed: u64) -> (Scenario, String) {
    let family = Family::named(family).expect("a family");
    let variation = Variation { rights: true, ..Variation::none(family) };
    (variation.scenario(seed), variation.again(seed))
}

fn is_definite(call: &Call) -> bool {
    matches!(call.verdict, Some(Decision::FirstSeen | Decision::Duplicate))
}

fn note(history: &History, made: &mut Made) {
    let refused = |call: &&Call| call.verdict == FORBIDDEN;
    for call in &history.calls {
        let before = || history.calls[..call.id].iter().filter(refused);
        let kinds = [
            ("refused", call.verdict == FORBIDDEN),
            ("without the right", lacked_right(history, call).is_some()),
            ("by who always has it", is_definite(call) && !history.rights.revoked.contains(&call.producer)),
            ("granted again", is_definite(call) && before().any(|other| other.producer == call.producer)),
            (
                "refused to others",
                call.is_lookup && is_definite(call) && before().any(|other| other.event == call.event),
            ),
        ];
        kinds.into_iter().for_each(|(kind, is_so)| *made.entry(kind).or_default() += u64::from(is_so));
    }
}

fn keeps_the_laws(family: &str, seed: u64, made: &mut Made) {
    let (scenario, again) = scenario(family, seed);
    let (run, fault) = carried_out(&scenario);
    assert_eq!(fault, None, "{scenario}\n{again}");
    note(&run.history, made);
}

fn keep_the_laws(families: &[&str], seeds: &Range<u64>) -> Made {
    let mut made = Made::new();
    families.iter().for_each(|family| seeds.clone().for_each(|seed| keeps_the_laws(family, seed, &mut made)));
    made
}

/// Checks that every sort of call that the laws judge occurred often enough for each seed.
fn is_worth_it(made: &Made, seeds: u64) {
    println!("{made:?}");
    assert!(made.values().all(|times| *times >= 5 * seeds), "{made:?}");
}

#[test]
fn some_principals_keep_the_laws() {
    is_worth_it(&keep_the_laws(&SAMPLE_FAMILIES, &SAMPLE), SAMPLE_FAMILIES.len() as u64);
}

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let mut made = keep_the_laws(&FAMILIES, &SEEDS);
    FOUND.into_iter().for_each(|(family, seed)| keeps_the_laws(family, seed, &mut made));
    is_worth_it(&made, FAMILIES.len() as u64 * SEEDS.count() as u64);
}

/// Breaks the rule. A law must detect the break in a family, and must find nothing while the rule is kept.
fn is_found(family: &str, known: u64, law: &str, others: OtherSeeds) {
    let found = first_found(known, BROKEN_SEEDS, others, |seed| {
        let (mut scenario, _) = scenario(family, seed);
        scenario.owner_limits.rules = Rules::without(Rule::RightsFollowTheMap);
        let violations = check(&carried_out(&scenario).0.history);
        let times = violations.iter().filter(|violation| violation.name() == law).count();
        Some(times).filter(|times| *times > 0)
    });
    let (seed, times) = found.unwrap_or_else(|| panic!("`{law}` misses nothing in {family}"));
    println!("RightsFollowTheMap: {family} {seed} --rights: {law}, {times} times");
    let kept = carried_out(&scenario(family, seed).0).1;
    assert_eq!(kept, None, "the rule is not what {family} {seed} misses");
}

#[test]
fn a_stream_that_keeps_its_rights_is_told_verdicts_and_sets_cells() {
    is_found("--moves", 0, "rights follow the map", OtherSeeds::Refused);
    is_found("--moves", 0, "no duplicate of itself", OtherSeeds::Refused);
}

/// Detects the same break by reading the cells of all copies at the end.
#[test]
#[ignore = "minutes"]
fn a_stream_that_keeps_its_rights_sets_cells_of_no_event() {
    is_found("--storms", 2, "cells exact", OtherSeeds::Allowed);
}
