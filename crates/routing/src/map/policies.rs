//! Policies of a filter that its operator chooses, such as durability and the number of copies. The types are plain
//! data.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::tree::CutOff;

/// Source of the times of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// Events contain their times.
    #[default]
    Event,
    /// The node that receives an event stamps it with the node's clock.
    Wall,
}

/// Order in which slices that share events are tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lookup {
    /// One after the other, until a cell is empty. The event is then known to be new.
    #[default]
    Pipelined,
    /// All at the same time. The latency is lower, but the nodes exchange more messages.
    Parallel,
}

/// Moment at which the reply first-seen may be sent, in filters whose slices share events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerWhen {
    /// The reply first-seen is sent as soon as the test finds an empty cell, which proves that the event is new. The
    /// event's cells are set after the reply. The node resends the messages that set these cells until they are
    /// acknowledged.
    ///
    /// A filter can use this option only if it has no additional copies and does not sync its journal before each
    /// reply. All other filters treat this option as `Safe`.
    #[default]
    Early,
    /// The reply is sent after every slice has acknowledged the event.
    Safe,
}

/// State of a filter that survives the end of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing survives. A process that ends loses its slices.
    #[default]
    Memory,
    /// Everything survives except the events of the last milliseconds before a crash.
    Interval {
        /// Maximum time for which the records of a reply may not be on disk yet, in milliseconds.
        interval_ms: u32,
    },
    /// Everything survives. The records of a reply are on disk before the reply is sent.
    Durable,
}

impl Durability {
    /// Returns whether the filter has a journal.
    pub fn keeps_journal(self) -> bool {
        self != Self::Memory
    }
}

/// Thresholds for deciding events while some slices are down. An event has k positions. If some of them are on slices
/// that are down, the filter can still decide the event by its other positions (Koloniari et al. 2011, section 3.2).
/// The thresholds state how many of the k positions this requires. The value 0 selects the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Thresholds {
    /// Number of positions on available, complete slices that any verdict requires.
    pub min_live: u32,
    /// Number of positions (x of k) that must be set for the verdict duplicate.
    pub set_min: u32,
}

/// Reply for an event that cannot be decided because slices are down. If positions are spread over several slices, this
/// is the case when fewer than `min_live` of the event's positions are on available, complete slices. If one slice
/// holds all positions of an event, it is the case when that slice is down or incomplete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenLost {
    /// The reply is undecided, with the reason that slices are down. No cell is set.
    #[default]
    Undecided,
    /// The reply is duplicate, no matter whether the event is known, and no cell is set. The filter thereby treats
    /// every position on a failed slice as set (Koloniari et al. 2011, section 3.2).
    Duplicate,
    /// The remaining slices decide the event alone, and reply first-seen if they find an empty cell. A known event can
    /// therefore be reported as first-seen a second time. This happens if all slices that contain its cells have
    /// failed.
    FirstSeen,
}

/// Policies of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilterPolicies {
    /// Source of the times of events.
    pub clock: ClockSource,
    /// Order in which slices that share events are tested.
    pub lookup: Lookup,
    /// Moment at which the reply first-seen may be sent.
    pub answer: AnswerWhen,
    /// Retry horizon: the time during which a client may retry a request, in milliseconds.
    pub retry_horizon_ms: u32,
    /// Number of positions that a verdict requires while slices are down.
    pub thresholds: Thresholds,
    /// Reply if too few slices are left.
    pub when_lost: WhenLost,
    /// State that survives the end of a process.
    pub durability: Durability,
    /// Number of copies of each slice on other nodes, in addition to the first.
    pub copies: u32,
    /// Maximum duration of a claim on an event, in milliseconds. `None` means that clients cannot claim events of this
    /// filter. A claim should not be confused with the node's own lease (`OwnerLimits::node_lease_ms`), which allows
    /// the node to record events.
    pub claim_lease_max_ms: Option<NonZeroU32>,
}

impl FilterPolicies {
    /// Returns the policies of a level below the root of a tree whose root has these policies.
    ///
    /// A level below the root is a cache: it asks its parent about every event that it does not know. It therefore
    /// needs neither a journal nor copies: losing its cells costs queries, but changes no verdict. A level that may
    /// decide events alone is the only one that knows these events until it has reported them, so it has the same
    /// durability as the root.
    #[must_use]
    pub fn below_root(self, cut_off: CutOff) -> Self {
        let durability = match cut_off {
            CutOff::Undecided => Durability::Memory,
            CutOff::Local => self.durability,
        };
        Self { durability, copies: 0, ..self }
    }

    /// Returns these policies with replies that are sent when all nodes have acknowledged the event, if the filter has
    /// copies or is synced to disk before each reply. Such a reply depends on all copies and on the disk of every
    /// slice.
    #[must_use]
    pub fn with_safe_replies(self) -> Self {
        let answer = if self.replies_when_all_acknowledged() { AnswerWhen::Safe } else { self.answer };
        Self { answer, ..self }
    }

    /// Returns whether a node sends the reply first-seen only after all nodes have acknowledged that the event's cells
    /// are set. Otherwise the reply is sent before these acknowledgements. This requires that the filter was created
    /// with `--answer early`, has no additional copies, and is not synced to disk before each reply.
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
