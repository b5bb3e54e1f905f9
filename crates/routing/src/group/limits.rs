//! Upper bounds of the memory and work that the owner of a slice group accepts. Everything in a group that producers
//! can cause to grow has a bound in this module. The bounds of queues, streams and links belong to the node and are
//! defined in its crate.

use firstseen_filter::{FilterDefinition, Unit};

use super::rules::{Rule, Rules};
use crate::map::ClockSource;

/// The limits of the owner of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerLimits {
    /// Maximum number of events in one submission.
    pub batch_events_max: usize,
    /// Maximum number of events that are in flight at once. Further events are rejected. If the slices of a group share
    /// events, every event that is not decided yet is in flight. If a group consists of one slice, an event is decided
    /// immediately. It is then in flight only while its reply waits for the copies of the slice.
    pub inflight_events_max: usize,
    /// Maximum number of submissions of an event that may wait while an earlier submission of the same event is being
    /// decided. Further submissions are rejected. Lookups may use at most half of these places, so that many lookups
    /// cannot prevent events from being recorded.
    ///
    /// The limit matters only for groups whose slices share events. In the other groups, an event is decided
    /// immediately, so no submission waits.
    pub joiners_max: usize,
    /// The rules that the owner follows. These are all rules, unless a test breaks one.
    pub rules: Rules,
    /// Number of bytes by which the journal grows before a group takes a checkpoint. `None` derives the number from the
    /// size of the node's cells, and is the value in production. Tests set a small number to cause many checkpoints.
    pub checkpoint_after_bytes: Option<u64>,
    /// Maximum memory of the replay guard in bytes. If the guard needs more, it forgets idempotency keys before their
    /// time.
    pub guard_bytes_max: u64,
    /// Maximum memory of claims in bytes. If this limit is reached, no more events are granted.
    pub claims_bytes_max: u64,
    /// Maximum number of events that a group keeps for a node that is down. If more events are missed, that node has to
    /// wait until they expire.
    pub missed_events_max: usize,
    /// Number of bytes of cells that are sent at once to a copy that lacks them.
    pub copied_at_once_bytes: usize,
    /// Maximum rate at which a group fetches cells from complete copies, in bytes per second.
    pub copied_bytes_per_s_max: u64,
    /// Maximum rate at which a complete group reads cells from other copies for comparison, in bytes per second.
    pub compared_bytes_per_s_max: u64,
    /// Interval between two comparisons of complete copies, in milliseconds. `None` derives the interval from the
    /// length of the window, and is the value in production. Tests set a short interval to cause frequent comparisons.
    pub rescan_every_ms: Option<u64>,
    /// Maximum difference between the clocks of two nodes, in milliseconds.
    pub clock_skew_max_ms: u64,
    /// Lease of the node, in milliseconds. The lease is the time for which a node may record events without contact to
    /// a majority of the nodes. `None` if nodes need no lease. The leases of claims are configured separately
    /// (`FilterPolicies::claim_lease_max_ms`).
    pub node_lease_ms: Option<u64>,
    /// Maximum number of events that a level of a filter tree keeps for its parent level. These are the events that the
    /// level has decided alone, for example because the parent was unreachable, and must still report. When this number
    /// is reached, further events that need the parent level are undecided.
    pub owed_events_max: usize,
}

/// Maximum time in milliseconds for which a node that receives a moving slice waits for the idempotency keys of the
/// slice's events. During that time, the old node sends the keys together with its replies.
///
/// A retry may have a key that the node has not received. If its event is found, the retry's own first attempt may have
/// recorded the event. The reply to such a retry is therefore undecided and not duplicate.
pub(crate) const NAMES_AWAITED_MS_MAX: u64 = 60_000;

/// One group's shares of the limits that apply to all groups of a node together.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Maximum number of events in flight at once, if slices share events.
    pub inflight_events_max: usize,
    /// Maximum memory of the replay guard, in bytes.
    pub guard_bytes_max: u64,
    /// Maximum memory of claims, in bytes.
    pub claims_bytes_max: u64,
    /// Maximum number of events that are kept for each node that is down.
    pub missed_events_max: usize,
    /// Maximum rate at which cells are fetched from complete copies, in bytes per second.
    pub copied_bytes_per_s_max: u64,
    /// Maximum rate at which cells are read for comparison, in bytes per second.
    pub compared_bytes_per_s_max: u64,
}

impl Default for OwnerLimits {
    fn default() -> Self {
        Self {
            batch_events_max: 1 << 14,
            inflight_events_max: 1 << 17,
            joiners_max: 1 << 10,
            rules: Rules::default(),
            checkpoint_after_bytes: None,
            guard_bytes_max: 64 << 20,
            claims_bytes_max: 16 << 20,
            missed_events_max: 1 << 16,
            copied_at_once_bytes: 256 << 10,
            copied_bytes_per_s_max: 64 << 20,
            compared_bytes_per_s_max: 16 << 20,
            rescan_every_ms: None,
            clock_skew_max_ms: 1_000,
            node_lease_ms: None,
            owed_events_max: 1 << 16,
        }
    }
}

impl OwnerLimits {
    /// Applies the group's shares. The share of events in flight is left out, because all copies of a slice rely on
    /// having the same limit.
    pub(crate) fn share(&mut self, shares: &Shares) {
        // The limit is also needed when the guard is created again.
        self.guard_bytes_max = shares.guard_bytes_max;
        self.missed_events_max = shares.missed_events_max;
        self.copied_bytes_per_s_max = shares.copied_bytes_per_s_max;
        self.compared_bytes_per_s_max = shares.compared_bytes_per_s_max;
    }

    /// Returns the definition with the window that the owner uses. If a test has broken a rule about expiry, the window
    /// ends too early.
    pub(crate) fn with_window(&self, mut definition: FilterDefinition, clock: ClockSource) -> FilterDefinition {
        let span_units = &mut definition.rule.span_units;
        if !self.rules.keep(Rule::ExpiresOnTime) {
            *span_units = span_units.saturating_sub(1).max(1);
        }
        if !self.rules.keep(Rule::ToleratesClockSkew)
            && let (ClockSource::Wall, Unit::Milliseconds(unit_ms)) = (clock, &definition.unit)
        {
            *span_units = span_units.saturating_sub(self.clock_skew_max_ms / (*unit_ms).max(1)).max(1);
        }
        definition
    }
}
