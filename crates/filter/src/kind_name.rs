//! The kinds of filter by name. Must not know: what they do.

use serde::{Deserialize, Serialize};

/// The kinds of filter (the table of what each may do is `docs/kinds.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bits; unbounded or landmark windows.
    Bloom,
    /// Timers; sliding windows.
    Timing,
    /// Words of generation bits; jumping windows.
    Generations,
    /// Fingerprints in order of expiry; sliding windows, nearly exact where asked for.
    Cuckoo,
    /// Counters; jumping windows, or sliding by count.
    Counting,
    /// Cells that fade at random; no window.
    Stable,
    /// Counters that decay; frequencies instead of verdicts.
    Decaying,
}

impl Kind {
    /// Whether a filter of this kind can open more cells than it began with.
    pub(crate) fn takes_growth(self) -> bool {
        match self {
            Self::Bloom | Self::Timing | Self::Cuckoo => true,
            Self::Generations | Self::Counting | Self::Stable | Self::Decaying => false,
        }
    }

    /// Whether a number of sub-windows can be asked for.
    pub(crate) fn takes_jumps(self) -> bool {
        match self {
            Self::Timing | Self::Generations | Self::Counting => true,
            Self::Bloom | Self::Cuckoo | Self::Stable | Self::Decaying => false,
        }
    }

    /// Whether slices of this kind can be taken apart and put together again: copied, kept in a journal, moved.
    pub fn has_parts(self) -> bool {
        match self {
            Self::Bloom | Self::Timing | Self::Generations | Self::Cuckoo => true,
            Self::Counting | Self::Stable | Self::Decaying => false,
        }
    }

    /// Whether one event can be remembered for less than the window ([`crate::FilterDefinition::stamp_for`]).
    pub fn takes_ttl(self) -> bool {
        match self {
            Self::Timing | Self::Cuckoo => true,
            Self::Bloom | Self::Generations | Self::Counting | Self::Stable | Self::Decaying => false,
        }
    }

    /// Whether every event is kept for its window: events of such a kind can be claimed.
    pub fn keeps_for_window(self) -> bool {
        match self {
            Self::Bloom | Self::Timing | Self::Generations | Self::Cuckoo => true,
            Self::Counting | Self::Stable | Self::Decaying => false,
        }
    }

    /// Whether the positions of one event can lie in several slices.
    pub fn divides(self) -> bool {
        match self {
            Self::Bloom | Self::Timing | Self::Generations => true,
            Self::Cuckoo | Self::Counting | Self::Stable | Self::Decaying => false,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bloom => "bloom",
            Self::Timing => "timing",
            Self::Generations => "generations",
            Self::Cuckoo => "cuckoo",
            Self::Counting => "counting",
            Self::Stable => "stable",
            Self::Decaying => "decaying",
        })
    }
}
