//! Kinds of calls about events.
//!
//! This module does not depend on requests.

use firstseen_routing::FilterVerb;

/// Operation on events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Observe,
    Test,
    Claim,
    Confirm,
    Release,
}

impl CallKind {
    /// Returns the last part of the call's path, which is also its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Test => "test",
            Self::Claim => "claim",
            Self::Confirm => "confirm",
            Self::Release => "release",
        }
    }

    /// Returns the right that the call needs.
    pub(crate) fn verb(self) -> FilterVerb {
        if self == Self::Test { FilterVerb::Lookup } else { FilterVerb::Observe }
    }

    /// Returns whether the call ends claims, so that each event needs the fence of its claim.
    pub(crate) fn needs_fences(self) -> bool {
        matches!(self, Self::Confirm | Self::Release)
    }

    /// Returns the options that the query of the call may have.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Observe => &["ttl_ms", "time_ms", "for"],
            Self::Claim => &["lease_ms", "time_ms", "for"],
            Self::Test | Self::Confirm | Self::Release => &["time_ms", "for"],
        }
    }
}
