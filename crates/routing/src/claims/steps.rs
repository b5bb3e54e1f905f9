//! Decides how a node continues a call about an event that consumers may have claimed. The function [`before_test`]
//! returns exactly one next step for each combination of a call and a claim state of the event. For example, a request
//! for an event that another consumer has claimed is answered without a test.
//!
//! The function is pure: it only returns the next step, and its caller executes that step. The decision tables in the
//! tests have a row for each combination.

use super::table::Holding;
use crate::protocol::Fence;

/// Calls that concern a single event and that a claim on the event can affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimCall {
    /// Claims the event, so that no other consumer delivers it. A retry of the claim carries the same tag.
    Claim {
        /// Identifies the claim, so that a retry is recognized.
        tag: u64,
    },
    /// Tests and records the event, without a claim.
    Observe,
    /// Tests whether the event is recorded.
    Test,
    /// Records the event on behalf of its holder.
    Confirm(Fence),
    /// Releases the event on behalf of its holder, without recording it.
    Release(Fence),
}

/// Reasons why a consumer no longer holds an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The caller does not hold the event. Either another consumer holds it, or no consumer does.
    NotHeld,
    /// The consumer holds no claim on the event, because the event is already recorded, possibly by an earlier attempt
    /// of the same confirmation. A consumer that has delivered the event can treat this result as success.
    Recorded,
}

/// Next step of a call, as far as the claims alone determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeTest {
    /// The event's cells must be tested before the call can be decided. The test of a claim also asks every node that
    /// would record the event, because a former head node may still hold a claim on the event. The test of any other
    /// call is the same as in a filter without claims.
    Ask,
    /// The caller confirms a claim that it holds, so the event is recorded without a test of its cells. A test could do
    /// harm here. If it returned a false positive, the event would count as already recorded, and its own cells would
    /// not be set. The event would then be forgotten as soon as the cells that caused the false positive expire.
    ///
    /// If the head nodes have changed since the claim was granted, `GroupClaims::before_test` requests a test
    /// nevertheless.
    Record,
    /// The same claim was granted before, under this fence.
    Claimed(Fence),
    /// Another consumer holds the event.
    InProgress {
        /// Remaining duration of the other consumer's lease, in milliseconds.
        left_ms: u64,
    },
    /// The event is undecided, because another consumer holds a claim and is about to deliver it.
    UndecidedClaimed,
    /// The grant is removed, and the event becomes free.
    Release,
    /// The caller has lost the event.
    LeaseLost(Lost),
}

/// Returns the next step of a call about an event, before any cell is read. The decision is only valid if no other call
/// about the same event is executed at the same time, and the caller must ensure that.
pub fn before_test(call: ClaimCall, holding: Holding) -> BeforeTest {
    match (call, holding) {
        (ClaimCall::Claim { tag }, Holding::Held { by, .. }) if by.tag == tag => BeforeTest::Claimed(by.fence),
        (ClaimCall::Claim { .. }, Holding::Held { left_ms, .. }) => BeforeTest::InProgress { left_ms },
        (ClaimCall::Claim { .. }, Holding::Free | Holding::Expired { .. }) => BeforeTest::Ask,

        (ClaimCall::Observe | ClaimCall::Test, Holding::Held { .. }) => BeforeTest::UndecidedClaimed,
        (ClaimCall::Observe | ClaimCall::Test, Holding::Free | Holding::Expired { .. }) => BeforeTest::Ask,

        (ClaimCall::Confirm(fence), Holding::Held { by, .. } | Holding::Expired { by }) if fence == by.fence => {
            BeforeTest::Record
        }
        (ClaimCall::Confirm(fence), Holding::Held { by, .. }) if fence < by.fence => {
            BeforeTest::LeaseLost(Lost::NotHeld)
        }
        // Either a later head node granted the claim, or no consumer holds the event.
        (ClaimCall::Confirm(_), _) => BeforeTest::Ask,

        (ClaimCall::Release(fence), Holding::Held { by, .. }) if fence == by.fence => BeforeTest::Release,
        (ClaimCall::Release(_), _) => BeforeTest::LeaseLost(Lost::NotHeld),
    }
}
