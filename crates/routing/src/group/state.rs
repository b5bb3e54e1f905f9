//! Statistics that the owner of a group reports about its work. Counters only increase while the owner exists.

use firstseen_filter::{Unit, UnitNumber};

use super::clock::HeadClock;
use super::guard::ReplayGuard;
use crate::plan::Load;
use crate::protocol::MonotonicMs;
use crate::verdict::{Decision, Reason};

/// Minimum number of bytes of cells that are sampled from each slice to estimate its fill, which is the share of cells
/// that are set. A sample of this size gives an estimate with an error of at most 3 %.
const SLICE_SAMPLE_MIN_BYTES: usize = 4 << 10;

/// Returns when a unit begins, in milliseconds since 1970. Returns `None` if the number of the unit does not determine
/// a time.
pub(crate) fn begin_ms(unit: &Unit, number: UnitNumber) -> Option<u64> {
    match unit {
        Unit::Milliseconds(unit_ms) => number.0.checked_mul(*unit_ms),
        Unit::Endless | Unit::Events(_) | Unit::Calendar(_) => None,
    }
}

/// Returns the number of bytes that may be read from each of `slices` slices, if all of them together may read
/// `sample_bytes` bytes.
pub(crate) fn share_of_sample(sample_bytes: usize, slices: usize) -> usize {
    (sample_bytes / slices.max(1)).max(SLICE_SAMPLE_MIN_BYTES)
}

/// Snapshot of the state of a group's owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupState {
    /// The slices of the group that this node has, sorted by number.
    pub slices: Vec<SliceState>,
    /// Number of runs of cells in which a complete copy on this node lacked cells that another copy had.
    pub mended_runs: u64,
    /// Number of submissions that the group accepted.
    pub batches: u64,
    /// Number of events in these submissions.
    pub events: u64,
    /// Counts of the replies to these events.
    pub decisions: DecisionCounts,
    /// Bytes that the replay guard uses.
    pub guard_bytes: u64,
    /// Bytes that the replay guard uses for each second of the retry horizon.
    pub guard_bytes_per_horizon_second: f64,
    /// Number of events that have no reply yet, or whose cells are not all set.
    pub inflight_events: u64,
    /// How often an event was expected to be in flight and was not. Any value other than 0 indicates a bug.
    pub missing_in_flight: u64,
    /// Counts of the slices and nodes that events passed through.
    pub hops: HopCounts,
    /// Counts of events that the group decided without the parent level of its filter tree.
    pub owed: OwedCounts,
    /// Counts of claims. `None` if the filter does not support claims.
    pub claims: Option<ClaimCounts>,
    /// The greatest event time accepted so far, in milliseconds since 1970, if there is one.
    pub clock_ms: Option<u64>,
}

/// Snapshot of the state of one slice of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SliceState {
    /// Number of the slice within the filter.
    pub slice: u32,
    /// The work that the slice has done.
    pub load: Load,
    /// Bytes that the cells take.
    pub bytes: u64,
    /// Number of generations of cells.
    pub generations: u32,
    /// Number of recorded events that have not expired, if the slice counts them.
    pub live_events: Option<u64>,
    /// Share of cells that are set, estimated from a sample of the cells. `None` if this share does not show how full
    /// the slice is.
    pub fill: Option<f64>,
    /// Probability that an event which was never seen is called a duplicate, given the cells as they are now.
    pub expected_rate: f64,
    /// Whether the slice replies to requests.
    pub ready: bool,
    /// Whether the slice contains everything that was ever recorded in it.
    pub complete: bool,
    /// Time at which an incomplete slice becomes complete again because its missing events have expired, in
    /// milliseconds since 1970. `None` if that time is unknown, or if the window is not measured in time.
    pub complete_from_ms: Option<u64>,
}

/// Counts of the decisions that were sent as replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// Number of [`Decision::FirstSeen`] replies.
    pub first_seen: u64,
    /// Number of [`Decision::Duplicate`] replies.
    pub duplicate: u64,
    /// Numbers of [`Decision::Undecided`] replies, in the order of [`Reason::ALL`].
    pub undecided: [u64; Reason::ALL.len()],
}

impl DecisionCounts {
    /// Adds the decisions of a reply to the counts.
    pub fn count(&mut self, decisions: &[Decision]) {
        // The sums are computed without branches, because the processor cannot predict the next decision.
        let first_seen = decisions.iter().map(|decision| u64::from(*decision == Decision::FirstSeen)).sum::<u64>();
        let duplicate = decisions.iter().map(|decision| u64::from(*decision == Decision::Duplicate)).sum::<u64>();
        self.first_seen += first_seen;
        self.duplicate += duplicate;
        if first_seen + duplicate < decisions.len() as u64 {
            for decision in decisions {
                if let Decision::Undecided(reason) = decision {
                    self.undecided[*reason as usize] += 1;
                }
            }
        }
    }

    /// Returns the number of events that were undecided for this reason.
    pub fn undecided_for(&self, reason: Reason) -> u64 {
        self.undecided[reason as usize]
    }
}

/// Counts of claims. Each node counts the claims of the events that it heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    /// Number of events that clients hold now.
    pub open: u64,
    /// Bytes that the claims of these events take.
    pub bytes: u64,
    /// Remaining time in milliseconds during which a former head may still hold events, or 0 if no former head may.
    pub unsure_ms: u64,
    /// Number of claims that were granted.
    pub granted: u64,
    /// Number of confirmations that recorded their events.
    pub confirmed: u64,
    /// Number of releases of events that were held.
    pub released: u64,
    /// Number of events that were granted again after a lease had ended.
    pub expired: u64,
    /// Number of confirmations and releases that failed because another client held the event, or no client did.
    pub lost_held: u64,
    /// Number of confirmations that failed because the event was already recorded.
    pub lost_recorded: u64,
}

/// Number of slices and nodes that took part in testing and recording events.
///
/// These counts can be compared only after they have been added up over all nodes of the group. The counts of a single
/// node refer to different sets of events. A node counts an event only if it is the head node of the event, but it
/// counts the visits of its slices for the events of all heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopCounts {
    /// Number of events tested.
    pub tests: u64,
    /// Number of slices that tested these events, summed over the events.
    pub test_slices: u64,
    /// Number of nodes that tested these events, summed over the events.
    pub test_nodes: u64,
    /// Number of events recorded.
    pub sets: u64,
    /// Number of slices that recorded these events, summed over the events.
    pub set_slices: u64,
    /// Number of nodes that recorded these events, summed over the events.
    pub set_nodes: u64,
}

/// Counts of events that a level of a filter tree decided without its parent level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwedCounts {
    /// Number of events that have still to be reported to the parent level.
    pub waiting_events: u64,
    /// Time since which the oldest of these events has waited, on the clock of the process. An event that an earlier
    /// process has decided counts from the start of this process. `None` if no event waits.
    pub oldest_since_ms: Option<MonotonicMs>,
    /// Number of first-seen events that were decided without the parent level.
    pub local_events: u64,
    /// Number of these events that turned out to be first-seen at another leaf too, so consumers received them twice.
    pub double_deliveries: u64,
    /// Number of these events that could no longer be recorded at the parent level, because they were too late or the
    /// filter there was full.
    pub lost_events: u64,
}

/// Counts of the work of a group. If slices share events, each node counts only the events that it heads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) batches: u64,
    pub(crate) events: u64,
    pub(crate) tests: u64,
    pub(crate) sets: u64,
    pub(crate) decisions: DecisionCounts,
}

impl Counts {
    /// Returns the statistics of a group. `test_nodes` and `set_nodes` are the numbers of events that this node tested
    /// and set.
    pub(crate) fn state(
        &self,
        slices: Vec<SliceState>,
        test_nodes: u64,
        set_nodes: u64,
        guard: &ReplayGuard,
        clock: &HeadClock,
    ) -> GroupState {
        let Self { batches, events, tests, sets, decisions } = *self;
        GroupState {
            batches,
            events,
            decisions,
            guard_bytes: guard.bytes(),
            guard_bytes_per_horizon_second: guard.bytes_per_horizon_second(),
            hops: HopCounts {
                tests,
                test_slices: slices.iter().map(|slice| slice.load.test_visits).sum(),
                test_nodes,
                sets,
                set_slices: slices.iter().map(|slice| slice.load.record_visits).sum(),
                set_nodes,
            },
            clock_ms: clock.clock_ms(),
            slices,
            ..GroupState::default()
        }
    }
}
