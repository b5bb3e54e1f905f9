//! What consumers know of the events that they claimed, in simulated time. Beside this, a claim stands among the calls of its
//! history as a lookup, whose verdict is first-seen where it was granted, and a confirm as a submission.
//!
//! Promises: plain data. Must not know: how claims are granted.

use firstseen_routing::Fence;

/// A claim in a history, from its first try on.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRecord {
    /// The event.
    pub event: u64,
    /// When it was sent first, in simulated microseconds.
    pub asked_us: u64,
    /// When its answer came; none if it never did.
    pub told_us: Option<u64>,
    /// The lease that was asked for, in microseconds.
    pub lease_us: u64,
    /// Whether the answer was that another one holds the event.
    pub is_in_progress: bool,
    /// The grant, where it was granted.
    pub grant: Option<Grant>,
}

/// A claim that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its number.
    pub fence: Fence,
    /// Until when the consumer counts on it, in simulated microseconds: until the lease is over by its clock, or it confirms,
    /// or lets it go.
    pub until_us: u64,
    /// When the lease is over by the consumer's clock.
    pub over_us: u64,
    /// When a confirm was told that another one holds the event.
    pub lost_us: Option<u64>,
}

impl ClaimRecord {
    /// Whether its consumer counted on the event all the while.
    pub fn holds(&self, from_us: u64, until_us: u64) -> bool {
        let is_told = self.told_us.is_some_and(|told_us| told_us <= from_us);
        is_told && self.grant.is_some_and(|grant| until_us < grant.until_us)
    }
}
