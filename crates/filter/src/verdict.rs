//! What a filter says of one event.

use serde::{Deserialize, Serialize};

use crate::unit_number::UnitNumber;

/// The three verdicts: where the filter cannot know, the verdict is [`Verdict::Undecided`], never a guess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Not delivered within the window; it is recorded now.
    FirstSeen,
    /// Delivered within the window, or a false positive at the filter's rate.
    Duplicate,
    /// Nothing is known, and nothing was recorded.
    #[default]
    Undecided,
}

/// Which of an event's generations are still possible, and when its cells expire, as far as one slice knows.
///
/// Sightings of the slices of a vertical filter are combined with [`Sighting::and`]: the event is a duplicate iff the
/// combination of all k positions still has a generation ([`Sighting::is_hit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Bit `g`: every position looked at so far is alive in generation `g` of the filter.
    pub generations: u16,
    /// The least expiry among the cells looked at, over the generations still possible.
    pub expiry: UnitNumber,
}

impl Sighting {
    /// No cell was looked at: everything is possible.
    pub const ALL: Self = Self { generations: u16::MAX, expiry: UnitNumber::NEVER };

    /// The generations that both sightings leave possible.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { generations: self.generations & other.generations, expiry: self.expiry.min(other.expiry) }
    }

    /// Whether some generation holds every position looked at.
    pub fn is_hit(self) -> bool {
        self.generations != 0
    }
}
