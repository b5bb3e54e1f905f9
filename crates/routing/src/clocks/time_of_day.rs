//! The time of day that a node uses to stamp events.
//!
//! Somebody may set the time of day of a machine forward or back. If the change is larger than the tolerated difference
//! between nodes, the node ignores the new time. It instead continues from the last time of day that it trusted, and
//! adds the time that has passed on its monotonic clock. As long as the machine's time differs from this computed time,
//! the node assigns no times to events.
//!
//! This module does not decide which time a node trusts. The [`ClockWatch`](super::ClockWatch) makes that decision by
//! comparing the clock with the clocks of other nodes.

use super::ClockStanding;
use crate::protocol::Moment;
use crate::verdict::Reason;

/// Returns how far the time of day is ahead of the monotonic clock, in milliseconds.
pub(super) fn ahead_of_monotonic(moment: Moment) -> i64 {
    let wall_ms = i64::try_from(moment.wall_ms).unwrap_or(i64::MAX);
    wall_ms.saturating_sub(i64::try_from(moment.monotonic_ms.0).unwrap_or(i64::MAX))
}

/// Rule by which a node reads its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay {
    believed_ms: Option<i64>,
    slack_ms: u64,
    doubt: Option<Reason>,
}

/// Reading of the node's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Both times of the reading.
    pub moment: Moment,
    /// Reason why no event may be stamped with this time of day, or `None` if events may.
    pub doubt: Option<Reason>,
}

impl TimeOfDay {
    /// Rule for a node that does not compare its clocks with other nodes. The node trusts its clocks.
    pub const UNCHECKED: Self = Self { believed_ms: None, slack_ms: 0, doubt: None };

    /// Rule for a node that has no information about its clocks yet. No event may be stamped.
    pub const UNKNOWN: Self = Self { believed_ms: None, slack_ms: 0, doubt: Some(Reason::NotReady) };

    pub(super) fn new(standing: ClockStanding, believed_ms: Option<i64>, slack_ms: u64) -> Self {
        let doubt = match standing {
            ClockStanding::Within | ClockStanding::Apart => None,
            ClockStanding::Unknown => Some(Reason::NotReady),
            ClockStanding::Beyond | ClockStanding::Stepped | ClockStanding::Stood => Some(Reason::ClockSkew),
        };
        Self { believed_ms, slack_ms, doubt }
    }

    /// Returns the reading for the times `shown` that the machine's clocks show.
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
