//! Metrics of what callers were refused, by who they are.
//!
//! Promises: as many series as [`crate::refusals`] counts names, and two beside. Must not know: why they were refused.

use super::gathering::Gathering;
use crate::refusals::Refusals;

/// Shows who was refused what.
pub(super) fn show(now: &mut Gathering, refusals: &Refusals) {
    for (principal, refused) in refusals.all() {
        let mut of = now.of("principal", principal.as_str());
        of.count("principal_calls_refused", "Calls that a caller had no right to make").inc_by(refused.calls);
        let help = "Batches that were refused as the quota of their principal was spent";
        of.count("principal_batches_refused", help).inc_by(refused.batches);
    }
}
