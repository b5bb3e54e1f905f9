//! Version of the format in which a cluster encodes its committed data. The format is a number that never decreases
//! during the life of a cluster. During an upgrade, nodes with two versions of the program can work together, because
//! the cluster uses a format that both versions can read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Format of a cluster's committed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Format(pub u8);

impl Format {
    /// Format of release 0.1. A cluster map with this format does not contain the field.
    pub const FIRST: Self = Self(10);

    pub(crate) fn is_first(&self) -> bool {
        *self == Self::FIRST
    }
}

impl Default for Format {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
