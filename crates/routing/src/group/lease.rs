//! The lease of a node, which limits how long the node may record events without contact to the rest of the cluster.
//! Databases call this a leader lease. Claims of events have leases of their own (`claims.rs` in this crate), which are
//! independent of the node's lease.
//!
//! A node that is cut off from the cluster does not notice when the other nodes continue without it. Both sides could
//! then reply first-seen to the same event. Epochs (fencing tokens) alone do not prevent this. They stop the isolated
//! node only if its records need an acknowledgement from a node that knows the newer epoch. Such a node may not exist,
//! or may be cut off too.
//!
//! A node therefore records events only while it has a lease. The other nodes wait until the lease has ended before
//! they continue without the node.
//!
//! The lease is sufficient for the following reasons:
//!
//! 1. At time `t0` of its own clock, the node asks the leader of the consensus group whether the node counts as up. The
//!    leader lets a majority confirm, after `t0`, that it still leads, and replies with the latest agreed state. The
//!    reply is a lease until `t0 + lease`, and it counts once the node acts on that cluster map or a newer one.
//! 2. Assume that a node holds a lease and does not yet act on a map by which other nodes answer for its slices. Then
//!    that map was agreed on after the `t0` of the lease.
//! 3. The node that takes over by that map receives it after the agreement. It assumes that the events which its slice
//!    lacks were recorded until `lease`, plus 1/64 of it (because clock rates differ), plus the clock skew (see 4),
//!    after it received the map. It calls the slice complete only when all of these events have expired. By then the
//!    lease has ended too. A copy that was complete all along must acknowledge records, so it knows the map. `filter
//!    forgive` waits for the same time.
//! 4. While a machine sleeps, its monotonic clock may stop, but its time of day shows the passed time, with an error of
//!    up to the skew. The lease ends as soon as either clock says so.
//!
//! The functions in this module are pure.

use super::limits::OwnerLimits;
use super::rules::Rule;
use crate::protocol::{Moment, MonotonicMs};

/// Maximum drift of clocks: two clocks that measure the same time differ by at most one part in this number.
pub const CLOCK_RATE_PARTS: u64 = 64;

/// Permission of a node to record events until a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The moment at which the lease ends. `None` if it never ends.
    until: Option<Moment>,
}

impl Lease {
    /// A lease that never ends, for a node that no other node ever replaces.
    pub const ENDLESS: Self = Self { until: None };

    /// A lease that has already ended.
    pub const NONE: Self = Self { until: Some(Moment { monotonic_ms: MonotonicMs::START, wall_ms: 0 }) };

    /// Returns the lease of a node that requested it at time `asked`. The lease ends as soon as one of two clocks
    /// reaches its limit. The limit of the monotonic clock is `lease_ms` after the request. The limit of the time of
    /// day is later by `clock_skew_max_ms`, so the lease does not end early if somebody sets the time of day forward by
    /// up to this amount.
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

    /// Returns whether the node may record at `now`.
    pub fn holds(&self, now: Moment) -> bool {
        self.until.is_none_or(|until| now.monotonic_ms < until.monotonic_ms && now.wall_ms < until.wall_ms)
    }
}

/// Returns the number of milliseconds after which any lease has ended that another node was granted before now.
///
/// ```
/// use firstseen_routing::leases_over_after_ms;
/// assert_eq!(leases_over_after_ms(6_400, 1_000), 7_500);
/// ```
pub fn leases_over_after_ms(lease_ms: u64, clock_skew_max_ms: u64) -> u64 {
    lease_ms.saturating_add(lease_ms.div_ceil(CLOCK_RATE_PARTS)).saturating_add(clock_skew_max_ms)
}

/// Returns for how many milliseconds from now other nodes may record, if their leases are not known on this node.
pub(crate) fn others_may_record_ms(limits: &OwnerLimits) -> u64 {
    let lease_ms = limits.node_lease_ms.filter(|_| limits.rules.keep(Rule::AwaitsLeases));
    lease_ms.map_or(0, |lease_ms| leases_over_after_ms(lease_ms, limits.clock_skew_max_ms))
}
