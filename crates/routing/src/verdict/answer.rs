//! What a sliced filter says of one event.

use firstseen_filter::Verdict;
use serde::{Deserialize, Serialize};

/// The answer to one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Not delivered within the window; it is recorded now (unless it was only looked up).
    FirstSeen,
    /// Delivered within the window, or a false positive at the filter's rate.
    Duplicate,
    /// The filter is full: nothing was recorded.
    #[default]
    Undecided,
    /// The event is so old that its own window, and the lateness, are over: nothing was tested or recorded.
    Late,
    /// The event's time is refused: it is in the future, further ahead of the clock than allowed, or the event lacks
    /// the time that the window needs. Nothing was tested or recorded, and the clock stands. A cluster says
    /// [`Reason::Future`](crate::Reason::Future).
    Refused,
}

impl Answer {
    /// Whether the event was placed in the window, and so asked of a slice.
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
