//! What an event in flight is doing, and what it may do next.
//!
//! Promises: who enters a phase has come from one that leads there. Must not know: when that is due.

/// What an event is doing.
///
/// ```text
/// Over         (the event is over, or was never taken up)
/// Over ------> Testing | Joined | Echo
/// Testing ---> Climbing | Checking | Setting | Joined | Over
/// Checking --> Climbing | Setting | Over
/// Climbing --> Setting | Over
/// Setting ---> Over
/// Joined ----> Testing | Abandoned | Over
/// Echo ------> Abandoned | Over
/// Abandoned -> Over
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing: the event has come to its end, or was never taken up.
    Over,
    /// Nodes are asked.
    Testing,
    /// The level above is asked.
    Climbing,
    /// The event is found here, and levels below are asked whether they know it.
    Checking,
    /// The verdict is chosen (`Flight::outcome`), and counts once the event `is_decided`. Nodes set the cells.
    Setting,
    /// The event waits for another one of the same positions.
    Joined,
    /// The event is a retry of another one in flight, and will get the same verdict.
    Echo,
    /// As joined or echo, but no caller waits for the event any more, and it is decided.
    Abandoned,
}

impl Phase {
    pub(super) fn leads_to(self, next: Self) -> bool {
        match self {
            Self::Over => matches!(next, Self::Testing | Self::Joined | Self::Echo),
            Self::Testing => matches!(next, Self::Climbing | Self::Checking | Self::Setting | Self::Joined),
            Self::Checking => matches!(next, Self::Climbing | Self::Setting),
            Self::Climbing => next == Self::Setting,
            Self::Joined => matches!(next, Self::Testing | Self::Abandoned),
            Self::Echo => next == Self::Abandoned,
            Self::Setting | Self::Abandoned => false,
        }
    }
}
