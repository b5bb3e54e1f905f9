//! Verdicts of a filter about an event, and the partial results of its slices.

use serde::{Deserialize, Serialize};

use crate::unit_number::UnitNumber;

/// Verdict of a filter about one event. If the filter cannot decide, the verdict is [`Verdict::Undecided`]. A filter
/// never guesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The event was not delivered within the window. The filter has recorded it now.
    FirstSeen,
    /// The event was delivered within the window, or it is a false positive. False positives occur at the rate of the
    /// filter.
    Duplicate,
    /// The filter knows nothing about the event and has recorded nothing.
    #[default]
    Undecided,
}

/// Result of testing an event in one slice: the generations that may hold the event, and the time at which its cells
/// expire.
///
/// In a vertical filter, the positions of an event lie in several slices. The results of these slices are combined with
/// [`TestResult::and`]. The event is a duplicate iff the combined result of all k positions still contains a generation
/// ([`TestResult::is_hit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// Set of generations as a bit mask. Bit `g` is set if all positions tested so far are alive in generation `g` of
    /// the filter.
    pub generations: u16,
    /// Earliest expiry among the tested cells of these generations.
    pub expiry: UnitNumber,
}

impl TestResult {
    /// Result before any cell is tested: every generation is possible.
    pub const ALL: Self = Self { generations: u16::MAX, expiry: UnitNumber::NEVER };

    /// Returns the combination of two results: the generations that are possible in both, and the earlier expiry.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { generations: self.generations & other.generations, expiry: self.expiry.min(other.expiry) }
    }

    /// Returns whether at least one generation holds all tested positions.
    pub fn is_hit(self) -> bool {
        self.generations != 0
    }
}
