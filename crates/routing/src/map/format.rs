//! The format in which a cluster writes what it agrees on: nodes of two versions of the program read each other while it is
//! one that both know.
//!
//! Promises: an ordered number, which only rises in the life of a cluster. Must not know: what changed from one format to the
//! next, who raises it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The format of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Format(pub u8);

impl Format {
    /// That of release 0.1: maps of it do not say so.
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
