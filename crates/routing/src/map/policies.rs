//! What a filter does beside filtering, as its operator has chosen.
//!
//! Promises: plain data. Must not know: how a policy is carried out.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Who stamps events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// Events bring their times.
    #[default]
    Event,
    /// The node where an event enters stamps it.
    Wall,
}

/// How slices that share events are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lookup {
    /// One after the other, until the first zero.
    #[default]
    Pipelined,
    /// All at once: lower latency, more messages.
    Parallel,
}

/// When the reply first-seen may leave where slices share events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerWhen {
    /// At the first zero; sets are resent until they are acknowledged. Only filters in memory or with an interval, and
    /// without copies, reply so early: all others are safe, whatever is chosen here.
    #[default]
    Early,
    /// When every slice has acknowledged the event.
    Safe,
}

/// What of a filter survives its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing: a process that ends loses its slices.
    #[default]
    Memory,
    /// Everything but the events of the last so many milliseconds before a crash.
    Interval {
        /// For how long the records of a reply may be on no disk.
        interval_ms: u32,
    },
    /// Everything: the records of a reply are on disk before it leaves.
    Durable,
}

impl Durability {
    /// Whether the filter has a journal.
    pub fn keeps_journal(self) -> bool {
        self != Self::Memory
    }
}

/// How many of an event's k positions a verdict needs where slices are down (Koloniari 2011, section 3.2); 0 stands for
/// the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Thresholds {
    /// Positions on live, complete slices, for any verdict at all.
    pub min_live: u32,
    /// Positions that must be set for a duplicate: x of k.
    pub set_min: u32,
}

/// The reply for an event of which fewer than `min_live` positions lie on live, complete slices; where one slice has
/// all positions of an event, the reply while that slice is down or incomplete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenLost {
    /// Undecided, as slices are down; nothing is set.
    #[default]
    Undecided,
    /// Duplicate, known or not; nothing is set (Koloniari 2011, section 3.2: what failed counts as a hit).
    Duplicate,
    /// The slices that are left are asked, and a zero there counts: events that were lost are first-seen again.
    FirstSeen,
}

/// What a filter does beside filtering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilterPolicies {
    /// Who stamps events.
    pub clock: ClockSource,
    /// How slices that share events are asked.
    pub lookup: Lookup,
    /// When the reply first-seen may leave.
    pub answer: AnswerWhen,
    /// How long a submission may be tried again, in milliseconds.
    pub retry_horizon_ms: u32,
    /// How many positions a verdict needs when slices are down.
    pub thresholds: Thresholds,
    /// The reply when too few slices are left.
    pub when_lost: WhenLost,
    /// What survives a process.
    pub durability: Durability,
    /// Copies of each slice beside the first, on other nodes.
    pub copies: u32,
    /// The greatest lease of a claim: for how long an event may be held at most, in milliseconds; none where events
    /// cannot be claimed. A node's lease to record is another (`OwnerLimits::node_lease_ms`).
    pub claim_lease_max_ms: Option<NonZeroU32>,
}

impl FilterPolicies {
    /// Whether no reply first-seen leaves before all nodes have acknowledged the event's sets. Filters in memory or
    /// with an interval, and without copies, reply at once with `--answer early`; all others are safe.
    pub(crate) fn replies_when_all_acknowledged(&self) -> bool {
        self.answer == AnswerWhen::Safe || self.durability == Durability::Durable || self.copies > 0
    }
}

impl Default for FilterPolicies {
    fn default() -> Self {
        Self {
            clock: ClockSource::default(),
            lookup: Lookup::default(),
            answer: AnswerWhen::default(),
            retry_horizon_ms: 60_000,
            thresholds: Thresholds::default(),
            when_lost: WhenLost::default(),
            durability: Durability::default(),
            copies: 0,
            claim_lease_max_ms: None,
        }
    }
}
