//! Metrics of what callers were refused, by who they are.
//!
//! Promises: as many series as [`crate::refusals`] counts names, and two beside. Must not know: why they were refused.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use super::Count;
use crate::shared::Shared;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct PrincipalLabel {
    principal: String,
}

/// Shows who was refused what.
pub(super) fn show(registry: &mut Registry, shared: &Shared) {
    let (calls, batches): (Count<PrincipalLabel>, Count<PrincipalLabel>) = Default::default();
    for (principal, refused) in shared.audit.refusals().all() {
        let label = PrincipalLabel { principal };
        calls.of(&label).inc_by(refused.calls);
        batches.of(&label).inc_by(refused.batches);
    }
    registry.register("principal_calls_refused", "Calls that a caller had no right to make", calls);
    let help = "Batches that were refused as the quota of their principal was spent";
    registry.register("principal_batches_refused", help, batches);
}
