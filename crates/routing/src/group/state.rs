//! What the owner of a group reports of itself.
//!
//! Promises: counts rise and never fall while the owner lives. Must not know: who asks.

use firstseen_filter::{Unit, UnitNumber};

use super::clock::HeadClock;
use super::guard::ReplayGuard;
use crate::plan::Load;
use crate::verdict::{Decision, Reason};

/// Bytes of cells of each slice that are read at least: as many timers give the fill within 3 %.
const SLICE_SAMPLE_MIN_BYTES: usize = 4 << 10;

/// When a unit begins, in milliseconds since 1970; none where that cannot be computed from its number.
pub(crate) fn begin_ms(unit: &Unit, number: UnitNumber) -> Option<u64> {
    match unit {
        Unit::Milliseconds(unit_ms) => number.0.checked_mul(*unit_ms),
        Unit::Endless | Unit::Events(_) | Unit::Calendar(_) => None,
    }
}

/// Bytes that each of `slices` may read where all together may read `sample_bytes`.
pub(crate) fn share_of_sample(sample_bytes: usize, slices: usize) -> usize {
    (sample_bytes / slices.max(1)).max(SLICE_SAMPLE_MIN_BYTES)
}

/// The owner of a group, as it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupState {
    /// The slices of the group that this node has, by number.
    pub slices: Vec<SliceState>,
    /// Runs of cells in which complete copies here lacked something that another copy had.
    pub mended_runs: u64,
    /// Submissions that were taken up.
    pub batches: u64,
    /// Events of these submissions.
    pub events: u64,
    /// The replies to these events.
    pub decisions: DecisionCounts,
    /// Bytes of the guard.
    pub guard_bytes: u64,
    /// Bytes of the guard for each second of the retry horizon.
    pub guard_bytes_per_horizon_second: f64,
    /// Events that have no reply yet, or whose cells are not all set.
    pub inflight_events: u64,
    /// How often an event had to be in flight and was not: any is a mistake of the program.
    pub astray_events: u64,
    /// The way of events through the slices.
    pub hops: HopCounts,
    /// Events that the group has decided without the level above, in trees.
    pub owed: OwedCounts,
    /// Claims of events, where these can be claimed.
    pub claims: Option<ClaimCounts>,
    /// The greatest time accepted so far, in milliseconds since 1970, if any.
    pub clock_ms: Option<u64>,
}

/// A slice of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SliceState {
    /// Its number in the filter.
    pub slice: u32,
    /// The work that the slice has done.
    pub load: Load,
    /// Bytes of cells.
    pub bytes: u64,
    /// Generations of cells.
    pub generations: u32,
    /// Events recorded that have not expired, where the slice counts them.
    pub live_events: Option<u64>,
    /// The share of cells that are set, where that says how full the slice is; estimated from a sample of the cells.
    pub fill: Option<f64>,
    /// The chance that an event never seen is called a duplicate, from the same cells as they are.
    pub expected_rate: f64,
    /// Whether the slice answers.
    pub ready: bool,
    /// Whether the slice has all that was ever recorded in it.
    pub complete: bool,
    /// An incomplete slice is complete again once the clock shows this, in milliseconds since 1970; none where that is
    /// not known, or does not depend on time.
    pub complete_from_ms: Option<u64>,
}

/// Counts of decisions that were replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// [`Decision::FirstSeen`].
    pub first_seen: u64,
    /// [`Decision::Duplicate`].
    pub duplicate: u64,
    /// [`Decision::Undecided`], in the order of [`Reason::ALL`].
    pub undecided: [u64; Reason::ALL.len()],
}

impl DecisionCounts {
    /// Counts the decisions of a reply.
    pub fn count(&mut self, decisions: &[Decision]) {
        // Sums without branches: which of the two comes next cannot be predicted.
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

    /// Events undecided for this reason.
    pub fn undecided_for(&self, reason: Reason) -> u64 {
        self.undecided[reason as usize]
    }
}

/// Claims of a group's events, at their head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    /// Events that are held now.
    pub open: u64,
    /// Bytes that these take.
    pub bytes: u64,
    /// For how long a former head may still hold events; 0 where none may.
    pub unsure_ms: u64,
    /// Claims that were granted.
    pub granted: u64,
    /// Confirms that recorded their events.
    pub confirmed: u64,
    /// Releases of events that were held.
    pub released: u64,
    /// Events that were granted again after a lease was over.
    pub expired: u64,
    /// Confirms and releases of events that another one held, or nobody.
    pub lost_held: u64,
    /// Confirms of events that were recorded already.
    pub lost_recorded: u64,
}

/// How many slices and nodes events went through. Events are counted at their head; slices and nodes where they are, so
/// the sums over all nodes of a group belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopCounts {
    /// Events tested.
    pub tests: u64,
    /// Slices that tested them.
    pub test_slices: u64,
    /// Nodes that tested them.
    pub test_nodes: u64,
    /// Events recorded.
    pub sets: u64,
    /// Slices that recorded them.
    pub set_slices: u64,
    /// Nodes that recorded them.
    pub set_nodes: u64,
}

/// Counts of events that a level has decided by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwedCounts {
    /// Events that have still to climb.
    pub waiting_events: u64,
    /// First-seen events that were decided without the level above.
    pub local_events: u64,
    /// Of these, events that were first-seen elsewhere too.
    pub double_deliveries: u64,
    /// Of these, events that could not be recorded above any more: too late, or the filter there is full.
    pub lost_events: u64,
}

/// What a group has done, as head where its slices share events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) batches: u64,
    pub(crate) events: u64,
    pub(crate) tests: u64,
    pub(crate) sets: u64,
    pub(crate) decisions: DecisionCounts,
}

impl Counts {
    /// The state of a group whose events came by here to be tested, and to be set, so many times.
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
