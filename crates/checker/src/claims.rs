//! Records of what consumers know about the events that they claimed, in simulated time. The calls that belong to a
//! claim are also part of the history, where they appear in the same form as other calls:
//!
//! - The request of a claim appears as a lookup. Its verdict is first-seen if the claim was granted.
//! - A confirmation appears as a submission.
//!
//! This module contains plain data.

use firstseen_routing::Fence;

/// A claim in a history, from its first try on.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRecord {
    /// The claimed event.
    pub event: u64,
    /// Time at which the claim was first sent, in simulated microseconds.
    pub asked_us: u64,
    /// Time at which the reply arrived, or `None` if it never arrived.
    pub replied_us: Option<u64>,
    /// The requested lease, in microseconds.
    pub lease_us: u64,
    /// Whether the reply said that another consumer holds the event.
    pub is_in_progress: bool,
    /// The grant, if the claim was granted.
    pub grant: Option<Grant>,
}

/// A granted claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fence of the grant.
    pub fence: Fence,
    /// Time until which the consumer relies on the grant, in simulated microseconds. The consumer stops relying on the
    /// grant when it confirms or releases the event, or when the lease ends by the consumer's clock.
    pub until_us: u64,
    /// Time at which the lease ends by the consumer's clock.
    pub over_us: u64,
    /// Time at which a confirmation was told that another consumer holds the event.
    pub lost_us: Option<u64>,
}

impl ClaimRecord {
    /// Returns whether the consumer relied on the event during the whole time.
    pub fn holds(&self, from_us: u64, until_us: u64) -> bool {
        let is_told = self.replied_us.is_some_and(|replied_us| replied_us <= from_us);
        is_told && self.grant.is_some_and(|grant| until_us < grant.until_us)
    }
}
