//! Reply to a producer for one event. The reply is one of three verdicts: first seen, duplicate or undecided. If the
//! event is undecided, the reply contains a reason that tells the producer what to do.

use firstseen_filter::UnitNumber;
use serde::{Deserialize, Serialize};

use super::answer::Answer;

/// Decision of a cluster on one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The event did not occur within the window before. It is recorded now, unless it was only looked up.
    FirstSeen,
    /// The event occurred within the window before, or it is a false positive, which happens at the filter's rate.
    Duplicate,
    /// The cluster could not decide, for this reason.
    Undecided(Reason),
}

/// Replaces verdicts that may be invalid by [`Reason::Unknown`]. Undecided events keep their reason.
pub(crate) fn make_unknown(decisions: &mut [Decision]) {
    let decided = decisions.iter_mut().filter(|decision| !matches!(decision, Decision::Undecided(_)));
    decided.for_each(|decision| *decision = Decision::Undecided(Reason::Unknown));
}

/// Reason why an event is undecided. For most reasons, the event has certainly not changed any cell.
/// [`Reason::may_have_recorded`] returns `true` for the reasons after which the event may have been recorded.
///
/// A new reason must be added at the end, here and in [`Reason::ALL`]. The compiler finds the matches that must be
/// extended. The following places list reasons without a match:
///
/// - the protocol's `Reason`
/// - the alarms of the console (`node/console/alarms`)
/// - what clients send again (`client/courier`, `client/retry`, `cli/dedup/claims/calls`)
/// - what a level of a tree decides without the others and what it owes to them (`group/multi_slice/parent_queries`,
///   `group/multi_slice/tree/pending_reports`)
/// - the laws of the checker (`checker/laws/liveness`)
/// - the Redis endpoint (`endpoint/form`, `endpoint/confirming`)
/// - the tables in `docs/how-to/client.md` and `docs/reference/redis.md`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The filter is full.
    Full,
    /// The event is too old: the window that belongs to the event, extended by the lateness, has ended.
    Late,
    /// The event is further ahead of the clock than allowed, or it lacks the time that the window needs.
    Future,
    /// The request was rejected before any cell was set, because the node or the producer has too much work in
    /// progress.
    Overloaded,
    /// The producer uses an outdated cluster map.
    StaleMap,
    /// The batch is older than the replies that the cluster still remembers for its producer.
    TooOld,
    /// The outcome is not known. The answer was lost on the way, or the deadline passed after cells may have been set.
    Unknown,
    /// The slice group cannot decide the event at the moment. No cell was set, so the client can safely retry the
    /// request. Usually the decision depends on a node that cannot answer yet, for example because it has restarted, is
    /// about to stop, or does not hold the slice yet. Another possible reason is that the previous head node of the
    /// event has not finished its work.
    NotReady,
    /// The batch violates the protocol.
    Invalid,
    /// The filter does not exist.
    UnknownFilter,
    /// Too few of the event's slices are available and complete.
    SlicesDown,
    /// The filter was altered, which means that a successor has replaced it. This filter does not know the event, so
    /// the client must ask the successor.
    ///
    /// The client library asks the successor automatically, with one exception. If the caller hashes events itself and
    /// the successor has a different hash secret, the library cannot hash the events again. The caller then receives
    /// this reason, and must hash the events with the new secret.
    Altered,
    /// The idempotency key was used before, for another event. The verdict of that event does not apply to this one.
    NameReused,
    /// The node has lost contact with a majority of the cluster for so long that other nodes may have taken over its
    /// events. The node does not know the event, but one of the other nodes may have recorded it. The node therefore
    /// neither decides nor records the event.
    CutOff,
    /// The clock of the node is not reliable, so the node does not stamp events with its time. Either the clock differs
    /// from most other clocks in the cluster by more than the tolerated difference, or somebody has set the clock by
    /// more than that. The event is not recorded.
    ClockSkew,
    /// A consumer holds a claim on the event and is about to deliver it. The event is not recorded yet, and may never
    /// be.
    Claimed,
    /// The principal of the connection has no right to perform this operation on the filter.
    Forbidden,
    /// It is not known whether a consumer holds a claim on the event. The head node of the event has changed, and the
    /// former head node may have granted a claim that is still active. The event is not recorded.
    ClaimsUnknown,
}

/// Where in a tree of filters an event was found, or where it is recorded now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Unit of the window to which the event belongs, or `None` if the unit is not known. Normally this is the unit in
    /// which the event was recorded. If only the cells of the event are known, it is the earliest unit in which the
    /// event can have been recorded according to its cells.
    pub unit: Option<UnitNumber>,
    /// Level of the tree at which a duplicate was found, where the root is level 0.
    pub level: u8,
}

impl Seen {
    /// Level of an event whose verdict is repeated. The level at which the event was found is not remembered.
    pub const LEVEL_FORGOTTEN: u8 = 0x7F;
}

impl Reason {
    /// All reasons, in the order of the counters in metrics.
    pub const ALL: [Self; 18] = [
        Self::Full,
        Self::Late,
        Self::Future,
        Self::Overloaded,
        Self::StaleMap,
        Self::TooOld,
        Self::Unknown,
        Self::NotReady,
        Self::Invalid,
        Self::UnknownFilter,
        Self::SlicesDown,
        Self::Altered,
        Self::NameReused,
        Self::CutOff,
        Self::ClockSkew,
        Self::Claimed,
        Self::Forbidden,
        Self::ClaimsUnknown,
    ];

    /// Returns whether the event may have been recorded although it is undecided.
    pub fn may_have_recorded(self) -> bool {
        self == Self::Unknown
    }

    /// Returns whether events get a verdict as soon as an outage ends, when unreachable nodes return or a wrong clock
    /// is corrected.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::SlicesDown | Self::CutOff | Self::ClockSkew)
    }

    /// Returns whether the same batch may get a definite answer if the client sends it again.
    pub fn is_worth_retrying(self) -> bool {
        matches!(self, Self::Overloaded | Self::StaleMap | Self::Unknown | Self::NotReady)
    }
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::FirstSeen => Self::FirstSeen,
            Answer::Duplicate => Self::Duplicate,
            Answer::Undecided => Self::Undecided(Reason::Full),
            Answer::Late => Self::Undecided(Reason::Late),
            Answer::Refused => Self::Undecided(Reason::Future),
        }
    }
}
