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
    /// Another one holds the event, or nobody does any more.
    Held,
    /// The event is recorded. It may have been by an earlier try of the same confirm: after a delivery this means "done".
    Recorded,
}

/// What follows from the claims alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeTest {
    /// The slices are asked as if there were no claims.
    Ask,
    /// All nodes that would record the event are asked, also where one of them does not know it: each must answer, and one
    /// that headed the event before may hold a claim of it.
    AskAll,
    /// The event is recorded without a test: a false positive since the claim must not leave cells that expire early.
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

/// What follows once the slices have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterTest {
    /// The reply is that of a filter without claims: first-seen (recorded where it was an observation), or duplicate.
    AsWithoutClaims,
    /// The event is granted.
    Grant,
    /// The event is recorded, and the confirm holds.
    Record,
    /// A head that this node does not know of may have granted the event; its lease is over after so long.
    InProgress {
        /// Milliseconds.
        left_ms: u64,
    },
    /// The event is undecided, as somebody may be about to deliver it.
    UndecidedClaimed,
    /// The holder has lost the event.
    LeaseLost(Lost),
}

/// What a call becomes before any cell is read. No other call about the event is being carried out.
pub fn before_test(call: ClaimCall, holding: Holding) -> BeforeTest {
    match (call, holding) {
        (ClaimCall::Claim { tag }, Holding::Held { by, .. }) if by.tag == tag => BeforeTest::Claimed(by.fence),
        (ClaimCall::Claim { .. }, Holding::Held { left_ms, .. }) => BeforeTest::InProgress { left_ms },
        (ClaimCall::Claim { .. }, Holding::Free | Holding::Expired { .. }) => BeforeTest::AskAll,

        (ClaimCall::Observe | ClaimCall::Test, Holding::Held { .. }) => BeforeTest::UndecidedClaimed,
        (ClaimCall::Observe | ClaimCall::Test, Holding::Free | Holding::Expired { .. }) => BeforeTest::Ask,

        (ClaimCall::Confirm(fence), Holding::Held { by, .. } | Holding::Expired { by }) if fence == by.fence => {
            BeforeTest::Record
        }
        (ClaimCall::Confirm(fence), Holding::Held { by, .. }) if fence < by.fence => BeforeTest::LeaseLost(Lost::Held),
        // A later head has granted it, or nobody holds it.
        (ClaimCall::Confirm(_), _) => BeforeTest::Ask,

        (ClaimCall::Release(fence), Holding::Held { by, .. }) if fence == by.fence => BeforeTest::Release,
        (ClaimCall::Release(_), _) => BeforeTest::LeaseLost(Lost::Held),
    }
}

/// What a call becomes that asked the slices, in a group that is one slice: `is_found` says whether they know the
/// event, `unsure_ms` for how long a claim's lease may still run that this head does not know of.
pub fn after_test(call: ClaimCall, is_found: bool, unsure_ms: Option<u64>) -> AfterTest {
    match (call, is_found, unsure_ms) {
        (ClaimCall::Claim { .. } | ClaimCall::Observe | ClaimCall::Test, true, _) => AfterTest::AsWithoutClaims,
        (ClaimCall::Claim { .. }, false, None) => AfterTest::Grant,
        (ClaimCall::Claim { .. }, false, Some(left_ms)) => AfterTest::InProgress { left_ms },
        (ClaimCall::Observe | ClaimCall::Test, false, None) => AfterTest::AsWithoutClaims,
        (ClaimCall::Observe | ClaimCall::Test, false, Some(_)) => AfterTest::UndecidedClaimed,

        (ClaimCall::Confirm(_) | ClaimCall::Release(_), true, _) => AfterTest::LeaseLost(Lost::Recorded),
        // Whoever confirms has delivered: nobody else is to deliver after it.
        (ClaimCall::Confirm(_), false, _) => AfterTest::Record,
        // A release asks no slice.
        (ClaimCall::Release(_), false, _) => AfterTest::LeaseLost(Lost::Held),
    }
}
