//! Helpers that the tests of scenarios share.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use firstseen_checker::laws::check;
use firstseen_routing::rules::Rule;
use firstseen_sim::family::Family;
use firstseen_sim::run::{Run, run};
use firstseen_sim::scenario::Scenario;

/// Seed of the scenarios that several tests use.
const SHARED_SEED: u64 = 0;

/// A run, and the first law that it breaks.
type Outcome = (Run, Option<String>);
/// Shared outcome. The second test that asks for an outcome waits for the first.
type Once = Arc<OnceLock<Outcome>>;

/// Returns a run and the first law that it breaks. A scenario with the shared seed is run only once in this process.
pub(crate) fn carried_out(scenario: &Scenario) -> Outcome {
    if scenario.seed == SHARED_SEED {
        once(scenario).get_or_init(|| outcome(scenario)).clone()
    } else {
        outcome(scenario)
    }
}

fn outcome(scenario: &Scenario) -> Outcome {
    let run = run(scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"));
    let fault = check(&run.history).first().map(ToString::to_string);
    (run, fault)
}

fn once(scenario: &Scenario) -> Once {
    static SHARED: Mutex<Vec<(Scenario, Once)>> = Mutex::new(Vec::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, once)) = shared.iter().find(|(other, _)| other == scenario) {
        return once.clone();
    }
    let once = Once::default();
    shared.push((scenario.clone(), once.clone()));
    once
}

/// Whether a test may find something at a seed other than the known one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherSeeds {
    /// Other seeds are allowed, for tests that take minutes anyway.
    Allowed,
    /// Other seeds fail the test, which names the new seed to write down. Otherwise a quick test could search for
    /// minutes in every run.
    Refused,
}

/// Returns the first seed for which `find` finds something, together with what it found. The search starts with
/// `known`, which is the seed that succeeded last time, and continues with `seeds`. Returns `None` if no seed succeeds.
///
/// # Panics
/// Panics if a seed other than `known` shows it and `others` refuses that.
pub(crate) fn first_found<T>(
    known: u64,
    seeds: Range<u64>,
    others: OtherSeeds,
    find: impl Fn(u64) -> Option<T>,
) -> Option<(u64, T)> {
    if let Some(found) = find(known) {
        return Some((known, found));
    }
    let (seed, found) = seeds.into_iter().find_map(|seed| Some((seed, find(seed)?)))?;
    assert!(others == OtherSeeds::Allowed, "seed {known} no longer shows it, seed {seed} does: write that in the test");
    Some((seed, found))
}

/// Checks that a law is broken without `rule` at seed `known` of a family, and that none is broken with the rule.
/// Returns the violation.
///
/// # Panics
/// Panics if another of `seeds` shows the violation first, or if none does.
pub(crate) fn is_found(flag: &str, rule: Rule, known: u64, seeds: Range<u64>) -> String {
    let family = Family::named(flag).expect("a family");
    let found = first_found(known, seeds, OtherSeeds::Refused, |seed| carried_out(&family.without(Some(rule), seed)).1);
    let (seed, fault) = found.unwrap_or_else(|| panic!("no law misses {rule:?}"));
    let fault = fault.lines().next().unwrap_or_default().to_owned();
    println!("{rule:?}: {flag} {seed}: {fault}");
    assert_eq!(carried_out(&family.without(None, seed)).1, None, "with the rule, no law is broken");
    fault
}
