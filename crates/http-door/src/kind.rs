//! The kinds of calls about events.
//!
//! This module must not depend on requests.

use firstseen_routing::FilterVerb;

/// What is done with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Observe,
    Test,
    Claim,
    Confirm,
    Release,
}

impl CallKind {
    /// The last part of its path, and its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Test => "test",
            Self::Claim => "claim",
            Self::Confirm => "confirm",
            Self::Release => "release",
        }
    }

    /// The right that it takes.
    pub(crate) fn verb(self) -> FilterVerb {
        if self == Self::Test { FilterVerb::Lookup } else { FilterVerb::Observe }
    }

    /// Whether it ends claims, so that each event comes with the fence of its claim.
    pub(crate) fn needs_fences(self) -> bool {
        matches!(self, Self::Confirm | Self::Release)
    }

    /// The options that its query may have.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Observe => &["ttl_ms", "time_ms", "for"],
            Self::Claim => &["lease_ms", "time_ms", "for"],
            Self::Test | Self::Confirm | Self::Release => &["time_ms", "for"],
        }
    }
}
