//! Tests scenarios with consumers that claim events. First, every history must satisfy the laws, which are the
//! invariants that the checker verifies. Then the rules about claims are switched off one at a time, and the checker
//! must detect each missing rule.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::common::{OtherSeeds, carried_out, first_found};
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{Decision, Reason};
use firstseen_sim::family::{Family, Variation};
use firstseen_sim::scenario::Scenario;

/// The families that are run with consumers.
const FAMILIES: [&str; 8] =
    ["--seeds", "--moves", "--copies", "--durable", "--hung-disks", "--altered-claims", "--storms", "--trees"];
/// The families and seeds that every quick run uses.
const SAMPLE_FAMILIES: [&str; 3] = ["--moves", "--storms", "--trees"];
const SAMPLE: Range<u64> = 0..1;
const SEEDS: Range<u64> = 0..3;
/// Additional seeds, each of which has broken a law once.
const FOUND: [(&str, u64); 3] = [("--storms", 8), ("--seeds", 1970), ("--durable", 9)];
/// Seeds of a family within which a broken rule must be detected if the known seed no longer shows it because scenarios
/// have changed.
const BROKEN_SEEDS: Range<u64> = 0..60;
/// The rules that every quick run breaks.
const SAMPLE_RULES: [Rule; 3] = [Rule::GrantsRecordNothing, Rule::RespectsClaims, Rule::AwaitsFormerFilters];

/// Number of replies to consumers, by their meaning.
type Told = BTreeMap<&'static str, u64>;

/// Returns the scenario that `firstseen-lab simulate FAMILY SEED..SEED+1 --claims` runs, and the command to repeat it.
fn scenario(family: &str, seed: u64) -> (Scenario, String) {
    let family = Family::named(family).expect("a family");
    let variation = Variation { claims: true, ..Variation::none(family) };
    (variation.scenario(seed), variation.again(seed))
}

fn keeps_the_laws(family: &str, seed: u64, told: &mut Told) {
    let (scenario, again) = scenario(family, seed);
    let (run, fault) = carried_out(&scenario);
    assert_eq!(fault, None, "{scenario}\n{again}");
    let claims = &run.history.claims;
    *told.entry("granted").or_default() += claims.iter().filter(|claim| claim.grant.is_some()).count() as u64;
    *told.entry("in progress").or_default() += claims.iter().filter(|claim| claim.is_in_progress).count() as u64;
    for call in run.history.calls.iter().filter(|call| call.is_confirm) {
        let what = match call.verdict {
            Some(Decision::FirstSeen) => "confirmed",
            Some(Decision::Duplicate) => "recorded before",
            Some(Decision::Undecided(Reason::Claimed)) => "lost",
            _ => "undecided",
        };
        *told.entry(what).or_default() += 1;
    }
}

fn keep_the_laws(families: &[&str], seeds: &Range<u64>) -> Told {
    let mut told = Told::new();
    for family in families {
        seeds.clone().for_each(|seed| keeps_the_laws(family, seed, &mut told));
    }
    println!("{told:?}");
    told
}

#[test]
fn some_consumers_keep_the_laws() {
    let told = keep_the_laws(&SAMPLE_FAMILIES, &SAMPLE);
    assert!(told["granted"] > 100 && told["confirmed"] > 50 && told["in progress"] > 10, "{told:?}");
}

#[test]
#[ignore = "minutes"]
fn every_law_is_kept() {
    let mut told = keep_the_laws(&FAMILIES, &SEEDS);
    FOUND.into_iter().for_each(|(family, seed)| keeps_the_laws(family, seed, &mut told));
    assert!(told["granted"] > 1_000 && told["confirmed"] > 500 && told["lost"] > 0, "{told:?}");
}

/// Breaks one rule after the other. A law must detect each break, and must find nothing while the rule is kept.
fn are_found(rules: impl IntoIterator<Item = Rule>, others: OtherSeeds) {
    for (rule, (family, known)) in rules.into_iter().filter_map(|rule| Some((rule, found_at(rule)?))) {
        let found = first_found(known, BROKEN_SEEDS, others, |seed| {
            let (mut scenario, _) = scenario(family, seed);
            scenario.owner_limits.rules = Rules::without(rule);
            let fault = carried_out(&scenario).1?;
            Some(fault.lines().next().unwrap_or_default().to_owned())
        });
        let (seed, fault) = found.unwrap_or_else(|| panic!("nobody misses {rule:?}"));
        println!("{rule:?}: {family} {seed} --claims: {fault}");
        assert_eq!(carried_out(&scenario(family, seed).0).1, None, "{rule:?} is not what {family} {seed} misses");
    }
}

#[test]
fn some_rules_that_are_broken_are_found() {
    are_found(SAMPLE_RULES, OtherSeeds::Refused);
}

#[test]
#[ignore = "minutes"]
fn every_rule_that_is_broken_is_found() {
    are_found(Rule::OF_CLAIMS, OtherSeeds::Allowed);
}

/// Returns the family of scenarios and the seed that detected the absence of a rule before. The search tries this seed
/// first. Returns `None` for a rule whose absence cannot be detected by these scenarios.
fn found_at(rule: Rule) -> Option<(&'static str, u64)> {
    Some(match rule {
        Rule::GrantsRecordNothing | Rule::RespectsClaims | Rule::ReportsUnknownClaims => ("--moves", 0),
        Rule::AwaitsFormerGrants => ("--moves", 14),
        Rule::CountsLeasesFromRequest => ("--moves", 15),
        Rule::FormerHeadsVeto => ("--moves", 41),
        Rule::RetestsWaiters => ("--moves", 2),
        Rule::AwaitsFormerFilters => ("--altered-claims", 0),
        Rule::InheritsClaims => ("--altered-claims", 1),
        // Only one scenario in hundreds shows it. `crates/routing/tests/all/claim_moves.rs` tests it.
        Rule::AwaitsAllAnswers => return None,
        // `crates/routing/tests/all/claim_moves.rs` tests these rules.
        Rule::ChecksFences | Rule::ConfirmsAwaitAll | Rule::RemembersClaims | Rule::ClaimsExpire => return None,
        rule => panic!("{rule:?} is no rule of claims"),
    })
}
