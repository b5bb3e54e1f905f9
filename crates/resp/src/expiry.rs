//! The expiry that a command sets on a key.
//!
//! This module must not depend on any command.

use crate::number::integer;
use crate::refusal::{NOT_AN_INTEGER, Refusal};

/// The expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After a time (`EX`, `PX`).
    For {
        /// Milliseconds; 0 comes with `EXPIRE` alone, and means that the key is over.
        ms: u64,
    },
    /// At a point in time (`EXAT`, `PXAT`), which may be past.
    Until {
        /// Milliseconds since 1970.
        unix_ms: u64,
    },
}

/// How a command writes an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    /// Milliseconds in one unit.
    pub(crate) ms: i64,
    /// Whether the number is a point in time, and not a duration.
    pub(crate) is_until: bool,
}

impl TimeUnit {
    /// Reads the expiry in an argument of `command`.
    pub(crate) fn read(self, text: &[u8], command: &'static str) -> Result<Expiry, Refusal<'static>> {
        let units = integer(text).ok_or(NOT_AN_INTEGER)?;
        let ms = units.checked_mul(self.ms).and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
        let ms = ms.ok_or(Refusal::InvalidExpireTime { command })?;
        Ok(self.expiry(ms))
    }

    /// Reads the expiry in an argument of `EXPIRE` and the like, which may be over: 0, or below.
    pub(crate) fn read_past(self, text: &[u8], command: &'static str) -> Result<Expiry, Refusal<'static>> {
        let units = integer(text).ok_or(NOT_AN_INTEGER)?;
        let ms = units.max(0).checked_mul(self.ms).ok_or(Refusal::InvalidExpireTime { command })?;
        Ok(self.expiry(ms.unsigned_abs()))
    }

    fn expiry(self, ms: u64) -> Expiry {
        if self.is_until { Expiry::Until { unix_ms: ms } } else { Expiry::For { ms } }
    }
}
