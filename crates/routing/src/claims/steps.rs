//! What a call about an event becomes, by the claims that its head knows of.
//!
//! Promises: pure; each combination of facts has one step, and the tables of the tests have a row for it. Must not know:
//! how a step is carried out.

use super::table::Holding;
use crate::protocol::Fence;

/// What is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimCall {
    /// To hold the event, under a tag that a retry has too.
    Claim {
        /// Names the claim.
        tag: u64,
    },
    /// To test and record the event, without a claim.
    Observe,
    /// To test the event.
    Test,
    /// To record the event as its holder.
    Confirm(Fence),
    /// To let the event go as its holder.
    Release(Fence),
}

/// Why a holder holds no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The caller does not hold the event: another one does, or nobody.
    NotHeld,
    /// The event is recorded. It may have been by an earlier try of the same confirm: after a delivery this means "done".
    Recorded,
}

/// What follows from the claims alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeTest {
    /// The slices are asked: of a claim all nodes that would record the event, as one that headed it before may hold a claim of
    /// it; of other calls as if there were no claims.
    Ask,
    /// The event is recorded without a test: a false positive since the claim must not leave cells that expire early.
    /// (`GroupClaims::before_test` has it tested where heads have changed since the grant.)
    Record,
    /// The claim is granted already, under this fence.
    Claimed(Fence),
    /// Another one holds the event for so long.
    InProgress {
        /// Milliseconds.
        left_ms: u64,
    },
    /// The event is undecided, as somebody is about to deliver it.
    UndecidedClaimed,
    /// The grant is forgotten: the event is free.
    Release,
    /// The holder has lost the event.
    LeaseLost(Lost),
}

/// What a call becomes before any cell is read. No other call about the event is being carried out.
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
        // A later head has granted it, or nobody holds it.
        (ClaimCall::Confirm(_), _) => BeforeTest::Ask,

        (ClaimCall::Release(fence), Holding::Held { by, .. }) if fence == by.fence => BeforeTest::Release,
        (ClaimCall::Release(_), _) => BeforeTest::LeaseLost(Lost::NotHeld),
    }
}
