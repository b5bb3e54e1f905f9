//! Answer of filters that count frequencies.
//!
//! This module does not depend on how the answer was requested.

use firstseen_routing::{Decision, Reason};

use crate::call::Answer;

/// Answer of a frequency filter to one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frequency {
    /// Estimated number of occurrences of the event. Older occurrences count less.
    Estimate(f32),
    /// The cluster could not determine the frequency. The reason says why.
    Undecided(Reason),
}

impl From<Answer> for Frequency {
    fn from(answer: Answer) -> Self {
        match answer.decision {
            Decision::Undecided(reason) => Self::Undecided(reason),
            Decision::FirstSeen | Decision::Duplicate => Self::Estimate(answer.estimate),
        }
    }
}
