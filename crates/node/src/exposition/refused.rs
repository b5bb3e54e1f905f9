//! Metrics of rejected calls and batches for each caller. The number of callers with their own series is limited by
//! [`crate::refusals`]. Two more series count the rejections of all other callers and of callers without an identity.

use super::gathering::Gathering;
use crate::refusals::Refusals;

/// Adds the rejections of each caller.
pub(super) fn show(now: &mut Gathering, refusals: &Refusals) {
    for (principal, refused) in refusals.all() {
        let mut of = now.of("principal", principal.as_str());
        of.count("principal_calls_refused", "Calls that a caller had no right to make").inc_by(refused.calls);
        let help = "Batches that were rejected because the quota of their principal was used up";
        of.count("principal_batches_refused", help).inc_by(refused.batches);
    }
}
