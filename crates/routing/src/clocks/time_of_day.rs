//! The time of day that a node believes.
//!
//! Promises: where the machine's time of day is set by more than clocks may differ, it is not believed: the node's goes
//! on from what it believed before, by the monotonic clock, and no event is to be stamped by it. Must not know: why a
//! time is believed.

use super::ClockStanding;
use crate::protocol::Moment;
use crate::verdict::Reason;

/// How far the time of day is ahead of the monotonic clock, in milliseconds.
pub(super) fn ahead_of_monotonic(moment: Moment) -> i64 {
    let wall_ms = i64::try_from(moment.wall_ms).unwrap_or(i64::MAX);
    wall_ms.saturating_sub(i64::try_from(moment.monotonic_ms.0).unwrap_or(i64::MAX))
}

/// The rule by which the clocks of a node are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay {
    believed_ms: Option<i64>,
    slack_ms: u64,
    doubt: Option<Reason>,
}

/// A reading of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time.
    pub moment: Moment,
    /// Why no event is to be stamped by this time of day, where that is so.
    pub doubt: Option<Reason>,
}

impl TimeOfDay {
    /// For a node whose clocks are not compared with others: they are believed.
    pub const UNCHECKED: Self = Self { believed_ms: None, slack_ms: 0, doubt: None };

    /// For a node that knows nothing of its clocks yet.
    pub const UNKNOWN: Self = Self { believed_ms: None, slack_ms: 0, doubt: Some(Reason::NotReady) };

    pub(super) fn new(standing: ClockStanding, believed_ms: Option<i64>, slack_ms: u64) -> Self {
        let doubt = match standing {
            ClockStanding::Within | ClockStanding::Apart => None,
            ClockStanding::Unknown => Some(Reason::NotReady),
            ClockStanding::Beyond | ClockStanding::Stepped | ClockStanding::Stood => Some(Reason::ClockSkew),
        };
        Self { believed_ms, slack_ms, doubt }
    }

    /// The reading where the clocks show `shown`.
    ///
    /// ```
    /// use firstseen_routing::{ClockWatch, Moment, MonotonicMs, Reading, Reason};
    /// let at = |monotonic_ms, wall_ms| Moment { monotonic_ms: MonotonicMs(monotonic_ms), wall_ms };
    /// let mut alone = ClockWatch::new(1_000);
    /// alone.look(at(0, 5_000_000), &[]);
    /// let time = alone.time_of_day();
    /// assert_eq!(time.read(at(50, 5_000_900)), Reading { moment: at(50, 5_000_900), doubt: None });
    /// let set = Reading { moment: at(60, 5_000_060), doubt: Some(Reason::ClockSkew) };
    /// assert_eq!(time.read(at(60, 8_600_060)), set, "an hour ahead");
    /// ```
    pub fn read(&self, shown: Moment) -> Reading {
        match self.believed_ms {
            Some(believed_ms) if believed_ms.abs_diff(ahead_of_monotonic(shown)) > self.slack_ms => {
                let wall_ms = shown.monotonic_ms.0.saturating_add_signed(believed_ms);
                Reading { moment: Moment { wall_ms, ..shown }, doubt: Some(Reason::ClockSkew) }
            }
            _ => Reading { moment: shown, doubt: self.doubt },
        }
    }
}
