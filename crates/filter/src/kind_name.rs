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
    /// Counters; jumping windows, or sliding by count.
    Counting,
    /// Cells that fade at random; no window.
    Stable,
    /// Counters that decay; frequencies instead of verdicts.
    Decaying,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bloom => "bloom",
            Self::Timing => "timing",
            Self::Generations => "generations",
            Self::Counting => "counting",
            Self::Stable => "stable",
            Self::Decaying => "decaying",
        })
    }
}
