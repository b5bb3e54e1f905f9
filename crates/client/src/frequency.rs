//! The reply of filters that count.
//!
//! Must not know: how it was asked for.

use firstseen_routing::{Decision, Reason};

use crate::call::Answer;

/// The answer of a filter of frequencies to one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frequency {
    /// How often the event came, older sightings counting less.
    Estimate(f32),
    /// Nothing is known.
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
