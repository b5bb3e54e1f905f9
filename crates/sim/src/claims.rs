//! Scenarios in which events are claimed: each other family, with consumers in place of most producers.
//!
//! Promises: all but the claims is as the seed draws it. Must not know: what consumers do.

use crate::dice::Dice;
use crate::scenario::Scenario;

/// The dice of claims fall independently of the other dice of a seed.
const OF_CLAIMS: u64 = 0xC1_A135 << 32;
/// The greatest lease of a filter, and its least.
const LEASE_MS_MAX: u64 = 3_000;
const LEASE_MS_MIN: u64 = 1_000;

/// The same with a filter whose events can be claimed. In trees with top-down checks, and where times are broken, none can.
pub(crate) fn with_claims(scenario: Scenario) -> Scenario {
    let mut dice = Dice::new(scenario.seed ^ OF_CLAIMS);
    let lease_ms = LEASE_MS_MIN + dice.below(LEASE_MS_MAX - LEASE_MS_MIN);
    let lease_ms = lease_ms.min(u64::from(scenario.retry_horizon_ms)) as u32;
    let lease_max_ms = Some(lease_ms).filter(|_| !scenario.has_top_down_checks() && !scenario.has_broken_times);
    Scenario { lease_max_ms: scenario.lease_max_ms.or(lease_max_ms), ..scenario }
}
