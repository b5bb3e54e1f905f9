//! Upper bounds of what an owner takes on.
//!
//! Promises: everything that producers can make grow has a bound here. Must not know: what is bounded elsewhere (queues,
//! streams, links).

use firstseen_filter::{FilterDefinition, Unit};

use super::rules::{Rule, Rules};
use crate::map::ClockSource;

/// The limits of one group's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerLimits {
    /// Events of one submission.
    pub batch_events_max: usize,
    /// Events in flight at once where slices share events, and events whose replies wait for copies where one slice has all
    /// positions; more are refused.
    pub inflight_events_max: usize,
    /// Submissions of one event that wait for the first at once, where slices share events; more are refused. Lookups wait
    /// only while less than half of these places are taken.
    pub joiners_max: usize,
    /// The rules that are kept: all, but where a test breaks one.
    pub rules: Rules,
    /// Bytes by which the journal grows before a group takes a checkpoint; the usual rule where there is none. Only
    /// tests set this, to see many checkpoints.
    pub checkpoint_after_bytes: Option<u64>,
    /// Bytes of the guard; beyond these, names are forgotten before their time.
    pub guard_bytes_max: u64,
    /// Bytes of the claims; beyond these, no more events are granted.
    pub claims_bytes_max: u64,
    /// Events of a group that are kept for a node that is down; where there are more, that node has to wait until they
    /// expire.
    pub missed_events_max: usize,
    /// Bytes of cells that are sent at once to a copy that lacks them.
    pub copied_at_once_bytes: usize,
    /// Bytes of cells that a group fetches from complete copies in a second.
    pub copied_bytes_per_s_max: u64,
    /// Bytes of cells that a complete group reads from other copies in a second, to compare them.
    pub compared_bytes_per_s_max: u64,
    /// How often complete copies are compared, in milliseconds; the usual rule where there is none. Only tests set
    /// this, to see it often.
    pub rescan_every_ms: Option<u64>,
    /// How far the clocks of two nodes may differ, in milliseconds.
    pub clock_skew_max_ms: u64,
    /// The node's lease: for how long a node of the cluster may record without word from a majority, in milliseconds.
    /// None where nodes need no lease. The leases of claims are others (`FilterPolicies::claim_lease_max_ms`).
    pub node_lease_ms: Option<u64>,
    /// Events that a level of a tree has decided by itself and that have not climbed yet; more are undecided.
    pub owed_events_max: usize,
}

/// A slice that moves does not wait for longer than this until the names of its events are known at its new node; a
/// retry that comes still later is undecided there, if it is found.
pub(crate) const NAMES_AWAITED_MS_MAX: u64 = 60_000;

/// A group's shares of what all groups of a node have together.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Events in flight at once, where slices share events.
    pub inflight_events_max: usize,
    /// Bytes of the guard.
    pub guard_bytes_max: u64,
    /// Bytes of the claims.
    pub claims_bytes_max: u64,
    /// Events that are kept for each node that is down.
    pub missed_events_max: usize,
    /// Bytes of cells that are fetched from complete copies in a second.
    pub copied_bytes_per_s_max: u64,
    /// Bytes of cells that are read in a second to be compared.
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
    /// Takes the group's shares, but for that of events in flight: copies of one slice rely on having the same limit.
    pub(crate) fn share(&mut self, shares: &Shares) {
        // For a guard that is begun anew.
        self.guard_bytes_max = shares.guard_bytes_max;
        self.missed_events_max = shares.missed_events_max;
        self.copied_bytes_per_s_max = shares.copied_bytes_per_s_max;
        self.compared_bytes_per_s_max = shares.compared_bytes_per_s_max;
    }

    /// The definition, whose window ends too early where a rule about that is broken.
    pub(crate) fn with_window(&self, mut definition: FilterDefinition, clock: ClockSource) -> FilterDefinition {
        let span_units = &mut definition.rule.span_units;
        if !self.rules.keep(Rule::ExpiresOnTime) {
            *span_units = span_units.saturating_sub(1).max(1);
        }
        if !self.rules.keep(Rule::MindsOtherClocks)
            && let (ClockSource::Wall, Unit::Milliseconds(unit_ms)) = (clock, &definition.unit)
        {
            *span_units = span_units.saturating_sub(self.clock_skew_max_ms / (*unit_ms).max(1)).max(1);
        }
        definition
    }
}
