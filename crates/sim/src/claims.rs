//! Scenarios in which consumers claim events. Each scenario is derived from a scenario of another family by replacing
//! most producers with consumers. Everything else stays as the seed determines it for the other family.

use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;

/// Seed of the random numbers for claims, which are independent of the other random numbers of a run.
const OF_CLAIMS: u64 = 0xC1_A135 << 32;
/// Range of the maximum lease of a filter, in milliseconds.
const LEASE_MS_MAX: u64 = 3_000;
const LEASE_MS_MIN: u64 = 1_000;

/// Returns the scenario with a filter that supports claims. Scenarios that have a filter tree with top-down checks, or
/// producers with wrong times, are returned without claims, because these features cannot be combined with claims.
pub(crate) fn with_claims(scenario: Scenario) -> Scenario {
    let mut rng = SeededRng::new(scenario.seed ^ OF_CLAIMS);
    let lease_ms = LEASE_MS_MIN + rng.below(LEASE_MS_MAX - LEASE_MS_MIN);
    let lease_ms = lease_ms.min(u64::from(scenario.retry_horizon_ms)) as u32;
    let lease_max_ms = Some(lease_ms).filter(|_| !scenario.has_top_down_checks() && !scenario.has_broken_times);
    Scenario { lease_max_ms: scenario.lease_max_ms.or(lease_max_ms), ..scenario }
}
