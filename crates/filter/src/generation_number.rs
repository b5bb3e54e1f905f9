//! The number of a generation of cells.
//!
//! Promises: plain data, as long as a number, and written as one. Must not know: cells, what opens a generation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a generation of cells among all that a slice has opened since it was made; slices that share events
/// count alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GenerationNumber(pub u64);

impl GenerationNumber {
    /// The generation that a slice begins with.
    pub const FIRST: Self = Self(0);

    /// The number of the generation that is opened so many later.
    #[inline]
    pub const fn after(self, generations: u64) -> Self {
        Self(self.0.saturating_add(generations))
    }

    /// The number of the generation that was opened so many earlier, or of the first.
    #[inline]
    pub const fn before(self, generations: u64) -> Self {
        Self(self.0.saturating_sub(generations))
    }

    /// How many generations this one was opened later than `former`; none where it was opened earlier.
    #[inline]
    pub const fn since(self, former: Self) -> Option<u64> {
        self.0.checked_sub(former.0)
    }
}

impl fmt::Display for GenerationNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
