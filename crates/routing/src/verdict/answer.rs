//! Answer of a sliced filter to one event.

use firstseen_filter::Verdict;
use serde::{Deserialize, Serialize};

/// Answer to one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The event did not occur within the window before. It is recorded now, unless it was only looked up.
    FirstSeen,
    /// The event occurred within the window before, or it is a false positive, which happens at the filter's rate.
    Duplicate,
    /// The filter is full, and the event was not recorded.
    #[default]
    Undecided,
    /// The event is too old: the window that belongs to the event, extended by the lateness, has ended. The event was
    /// neither tested nor recorded.
    Late,
    /// The time of the event was rejected. Either it is further in the future than allowed, or it is missing although
    /// the window needs it. The event was neither tested nor recorded, and the clock of the filter was not advanced. In
    /// a cluster, the reason for such an undecided event is [`Reason::Future`](crate::Reason::Future).
    Refused,
}

impl Answer {
    /// Returns whether the event has a place in the window. Only such an event is tested in a slice.
    pub fn is_placed(self) -> bool {
        !matches!(self, Self::Late | Self::Refused)
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::FirstSeen => Self::FirstSeen,
            Verdict::Duplicate => Self::Duplicate,
            Verdict::Undecided => Self::Undecided,
        }
    }
}
