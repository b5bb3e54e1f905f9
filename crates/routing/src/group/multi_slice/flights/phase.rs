//! The phases of an event in flight and the allowed transitions between them.

/// Phase of an event in flight.
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
    /// The event has ended, or was never started.
    Over,
    /// Nodes are asked about the event.
    Testing,
    /// The parent level is queried about the event.
    Climbing,
    /// The event was found here, and lower levels are asked whether they know it.
    Checking,
    /// Nodes are setting the event's cells. The verdict is chosen (`InFlightEvent::outcome`) and counts once the event
    /// `is_decided`.
    Setting,
    /// The event waits for another event with the same positions.
    Joined,
    /// The event is a retry of another event in flight and will get the same verdict.
    Echo,
    /// The event waits like `Joined` or `Echo`, but it is already decided and no caller waits for it any more.
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
