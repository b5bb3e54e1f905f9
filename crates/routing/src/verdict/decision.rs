//! The reply to a producer for one event, with the reason where the event is undecided.
//!
//! Promises: three verdicts, never two. Must not know: how replies travel.

use firstseen_filter::UnitNumber;
use serde::{Deserialize, Serialize};

use super::answer::Answer;

/// The answer of a cluster to one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Not delivered within the window; it is recorded now (unless it was only looked up).
    FirstSeen,
    /// Delivered within the window, or a false positive at the filter's rate.
    Duplicate,
    /// Nothing is known.
    Undecided(Reason),
}

/// Verdicts that may not hold become unknown; undecided events stay as they are.
pub(crate) fn make_unknown(decisions: &mut [Decision]) {
    let decided = decisions.iter_mut().filter(|decision| !matches!(decision, Decision::Undecided(_)));
    decided.for_each(|decision| *decision = Decision::Undecided(Reason::Unknown));
}

/// Why an event is undecided. Only a submission with a reason of [`Reason::may_have_recorded`] may have set cells.
///
/// A new reason comes last, here and in [`Reason::ALL`]. Beside the matches that the compiler finds, these list reasons: the
/// protocol's `Reason`, the console's alarms (`node/console/alarms`), what clients send again (`client/courier`, `client/retry`,
/// `cli/dedup/claims/calls`), what a level decides alone and what it owes (`group/divided/climb`, `group/divided/tree/owed`), the
/// laws of the checker (`checker/laws/liveness`), the door (`door/form`, `door/confirming`), and the tables in `docs/how-to/client.md` and
/// `docs/reference/redis.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The filter is full.
    Full,
    /// The event is so old that its own window, and the lateness, are over.
    Late,
    /// The event is further ahead of the clock than allowed, or lacks the time that the window needs.
    Future,
    /// Refused before anything was set.
    Overloaded,
    /// The producer's map is old.
    StaleMap,
    /// The submission is older than what is remembered of its producer.
    TooOld,
    /// The answer was lost on the way, or had not come by the deadline when cells may have been set.
    Unknown,
    /// Nothing was set: a node that is needed does not hold the slice yet, has started anew, is about to stop, or has not answered
    /// the test by the deadline; or the former head of the event has not ended.
    NotReady,
    /// The batch breaks the protocol.
    Invalid,
    /// No such filter.
    UnknownFilter,
    /// Too few of the event's slices are live and complete.
    SlicesDown,
    /// The filter was altered, and the one before does not have the event: the one that has followed is to be asked.
    /// Callers get this reason only where they have hashed events themselves, and the secret is another now: hash them
    /// anew.
    Altered,
    /// The name of the submission stands for another event, which has a verdict: that is not this event's.
    NameReused,
    /// The node has not heard from a majority of the cluster for so long that others may answer in its place; it does not
    /// know the event, and has not recorded it.
    CutOff,
    /// The clock of the node differs from those of most others by more than clocks may, or was set by more than that: it stamps
    /// nothing, and has not recorded the event.
    ClockSkew,
    /// Somebody holds the event and is about to deliver it: it is not recorded yet, and may never be.
    Claimed,
    /// The principal of the stream has no right to do this with the filter.
    Forbidden,
    /// The event is not recorded, and its head has changed: the former head may have granted a claim of it that still runs. Nobody
    /// knows whether somebody holds the event.
    ClaimsUnknown,
}

/// Where an event was found, or is recorded now, by the levels of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The unit of the window that counts as its occurrence: when it was recorded, or the earliest that its cells show.
    /// None where that is not remembered.
    pub unit: Option<UnitNumber>,
    /// Of a duplicate, the level at which it was found, counted from the root.
    pub level: u8,
}

impl Seen {
    /// The level of an event whose verdict is repeated: where it was found is not remembered.
    pub const LEVEL_FORGOTTEN: u8 = 0x7F;
}

impl Reason {
    /// All, in the order in which they are counted.
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

    /// Whether the event may have been recorded all the same.
    pub fn may_have_recorded(self) -> bool {
        self == Self::Unknown
    }

    /// Whether events get a verdict when what is out of reach, or wrong, is back: nodes or clocks.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::SlicesDown | Self::CutOff | Self::ClockSkew)
    }

    /// Whether the same submission may get a definite answer if it is sent again.
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
