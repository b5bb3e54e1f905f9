//! What an owner takes on at most.
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
    /// Events in flight at once, where slices share events; more are refused.
    pub inflight_events_max: usize,
    /// Submissions of one event that wait for the first at once, where slices share events; more are refused.
    pub joiners_max: usize,
    /// The rules that are kept: all, but where a test breaks one.
    pub rules: Rules,
    /// Bytes by which the journal grows before a group takes a checkpoint; the usual rule where it says nothing. Only
    /// tests set it, to see many of them.
    pub checkpoint_after_bytes: Option<u64>,
    /// Bytes of what is remembered of submissions; more is forgotten before its time.
    pub guard_bytes_max: u64,
    /// Events of a group that are kept for a node that is down; where there are more, it has to wait until they expire.
    pub missed_events_max: usize,
    /// Bytes of cells that are told at once to a copy that lacks them.
    pub copied_at_once_bytes: usize,
    /// Bytes of cells that a group takes a second from copies that have everything.
    pub copied_bytes_per_s_max: u64,
    /// Bytes of cells that a group that has everything reads a second of other copies, to compare them.
    pub compared_bytes_per_s_max: u64,
    /// How often copies that have everything are compared, in milliseconds; the usual rule where it says nothing. Only tests
    /// set it, to see it often.
    pub rescan_every_ms: Option<u64>,
    /// How far the clocks of two nodes may differ, in milliseconds.
    pub clock_skew_max_ms: u64,
    /// For how long a node of the cluster may record without word from a majority, in milliseconds.
    pub lease_ms: u64,
    /// Events that a level of a tree has told by itself and not brought up yet; more are undecided.
    pub journal_events_max: usize,
}

/// A slice does not wait for longer than this until the names of its events are known where it goes; what may come again for
/// longer is undecided there, if it is found.
pub(crate) const NAMES_AWAITED_MS_MAX: u64 = 60_000;

/// What a group may take of what all groups of a node share.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Events in flight at once, where slices share events.
    pub inflight_events_max: usize,
    /// Bytes of what is remembered of submissions.
    pub guard_bytes_max: u64,
    /// Events that are kept for each node that is down.
    pub missed_events_max: usize,
    /// Bytes of cells that are taken a second from copies that have everything.
    pub copied_bytes_per_s_max: u64,
    /// Bytes of cells that are read a second to be compared.
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
            missed_events_max: 1 << 16,
            copied_at_once_bytes: 256 << 10,
            copied_bytes_per_s_max: 64 << 20,
            compared_bytes_per_s_max: 16 << 20,
            rescan_every_ms: None,
            clock_skew_max_ms: 1_000,
            lease_ms: 0,
            journal_events_max: 1 << 16,
        }
    }
}

impl OwnerLimits {
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
