//! For how long a node may record without word from the cluster: a leader lease, as databases call it. Claims of events
//! have leases of their own (`claims.rs` of the crate).
//!
//! A node that is cut off does not hear that the others go on without it. Epochs (fencing tokens) stop it only where a
//! node that knows of the newer epoch must acknowledge what it records; where no node has to, or only nodes that are
//! cut off with it, both sides would reply first-seen for the same event. So a node records only under a lease.
//!
//! Why that is enough:
//!
//! 1. At `t0` by its own clock, the node asks whoever leads whether it counts as up. The leader has a majority confirm
//!    after `t0` that it leads, and answers by all that is agreed on then. The answer counts once the node acts on that
//!    map, or on a newer one, and it is a lease until `t0 + lease`.
//! 2. So if a node has a lease and does not act on a map by which others answer for its slices, that map was agreed on after
//!    the `t0` of that lease.
//! 3. A node that is to answer by that map gets it after it was agreed on. It takes what its slice lacks to have been
//!    recorded until `lease`, a 64th of that (as clocks do not go at one rate) and the skew of clocks (see 4) after it
//!    got that map, and calls the slice complete only when all of that has expired. By then the lease is over, and what
//!    was recorded under it has expired. (A copy that was complete all along must acknowledge, and knows the map;
//!    `filter forgive` waits for as long as said here.)
//! 4. Time that passes while a machine sleeps is shown by its time of day at least, which may differ by the skew: a lease is
//!    over by whichever clock says so first.
//!
//! Promises: pure. Must not know: who leads, how the leader is asked.

use super::limits::OwnerLimits;
use super::rules::Rule;
use crate::protocol::{Moment, MonotonicMs};

/// Clocks that measure the same time differ by at most one part in so many.
pub const CLOCK_RATE_PARTS: u64 = 64;

/// Until when a node may record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// None where it never ends.
    until: Option<Moment>,
}

impl Lease {
    /// A lease that never ends: for a node in whose place no other answers.
    pub const ENDLESS: Self = Self { until: None };

    /// No lease at all.
    pub const NONE: Self = Self { until: Some(Moment { monotonic_ms: MonotonicMs::START, wall_ms: 0 }) };

    /// The lease of a node that asked for it at `asked`. The time of day may be set by `clock_skew_max_ms` meanwhile.
    ///
    /// ```
    /// use firstseen_routing::{Lease, Moment, MonotonicMs};
    /// let at = |monotonic_ms, wall_ms| Moment { monotonic_ms: MonotonicMs(monotonic_ms), wall_ms };
    /// let lease = Lease::granted(at(500, 1_000_000), 10_000, 1_000);
    /// assert!(lease.holds(at(10_499, 1_009_999)));
    /// assert!(!lease.holds(at(10_500, 1_010_000)));
    /// assert!(!lease.holds(at(600, 1_011_000)), "the machine has slept");
    /// ```
    pub fn granted(asked: Moment, lease_ms: u64, clock_skew_max_ms: u64) -> Self {
        let monotonic_ms = asked.monotonic_ms.after(lease_ms);
        let wall_ms = asked.wall_ms.saturating_add(lease_ms).saturating_add(clock_skew_max_ms);
        Self { until: Some(Moment { monotonic_ms, wall_ms }) }
    }

    /// Whether the node may record.
    pub fn holds(&self, now: Moment) -> bool {
        self.until.is_none_or(|until| now.monotonic_ms < until.monotonic_ms && now.wall_ms < until.wall_ms)
    }
}

/// Milliseconds after which a lease of another node is over that was granted before now.
///
/// ```
/// use firstseen_routing::leases_over_after_ms;
/// assert_eq!(leases_over_after_ms(6_400, 1_000), 7_500);
/// ```
pub fn leases_over_after_ms(lease_ms: u64, clock_skew_max_ms: u64) -> u64 {
    lease_ms.saturating_add(lease_ms.div_ceil(CLOCK_RATE_PARTS)).saturating_add(clock_skew_max_ms)
}

/// For how long other nodes, whose leases are not known here, may record from now on.
pub(crate) fn others_may_record_ms(limits: &OwnerLimits) -> u64 {
    let lease_ms = limits.node_lease_ms.filter(|_| limits.rules.keep(Rule::AwaitsLeases));
    lease_ms.map_or(0, |lease_ms| leases_over_after_ms(lease_ms, limits.clock_skew_max_ms))
}
