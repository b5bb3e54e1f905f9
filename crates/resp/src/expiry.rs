//! For how long a key is to be there, as commands say it.
//!
//! This module must not depend on any command.

use crate::number::integer;
use crate::refusal::{NOT_AN_INTEGER, Refusal};

/// For how long a key is to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// For so many milliseconds, one at least (`EX`, `PX`).
    For {
        /// Milliseconds.
        ms: u64,
    },
    /// Until that time (`EXAT`, `PXAT`), which may be over.
    Until {
        /// Milliseconds since 1970, one at least.
        unix_ms: u64,
    },
}

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    /// Milliseconds of one.
    pub(crate) ms: i64,
    /// It says until when, and not for how long.
    pub(crate) is_until: bool,
}

impl TimeUnit {
    /// Reads a time; `command` is what it is an argument of.
    pub(crate) fn read(self, text: &[u8], command: &'static str) -> Result<Expiry, Refusal<'static>> {
        let units = integer(text).ok_or(NOT_AN_INTEGER)?;
        let ms = units.checked_mul(self.ms).and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
        let ms = ms.ok_or(Refusal::InvalidExpireTime { command })?;
        Ok(if self.is_until { Expiry::Until { unix_ms: ms } } else { Expiry::For { ms } })
    }
}
