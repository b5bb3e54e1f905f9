//! The number of a generation of cells.
//!
//! [`GenerationNumber`] is plain data: it has the size of a 64-bit number and is stored as a number.
//!
//! This module does not depend on cells or on the reasons for opening a generation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a generation of cells. A slice numbers its generations in the order in which it opens them, beginning with
/// [`Self::FIRST`] for the generation that the slice is created with. If the cells of events lie in several slices,
/// these slices use the same numbers for their generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GenerationNumber(pub u64);

impl GenerationNumber {
    /// Number of the generation that a slice begins with.
    pub const FIRST: Self = Self(0);

    /// Returns the number of the generation that is opened `generations` generations later.
    #[inline]
    pub const fn after(self, generations: u64) -> Self {
        Self(self.0.saturating_add(generations))
    }

    /// Returns the number of the generation that was opened `generations` generations earlier, or of the first one.
    #[inline]
    pub const fn before(self, generations: u64) -> Self {
        Self(self.0.saturating_sub(generations))
    }

    /// Returns how many generations this one was opened after `former`, or `None` if it was opened earlier.
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
