//! Commands that work on keys, such as `SET NX`, `EXISTS` and `EXPIRE`. Each key stands for an event of the filter that
//! the key's prefix is mapped to.

use super::words::{is, ttl_ms};
use crate::Arguments;
use crate::number::integer;
use crate::refusal::{NOT_AN_INTEGER, Refusal, SYNTAX};

/// Expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key expires after a time to live (`EX`, `PX`).
    In {
        /// Time to live in milliseconds. The value 0 occurs only with `EXPIRE`, and means that the key has expired.
        ttl_ms: u64,
    },
    /// The key expires at a point in time (`EXAT`, `PXAT`), which may be in the past.
    At {
        /// Time in milliseconds since 1970.
        unix_ms: u64,
    },
}

/// Unit in which a command gives an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    /// Milliseconds in one unit.
    pub(crate) ms: i64,
    /// Whether the number is a point in time rather than a duration.
    pub(crate) is_point: bool,
}

impl TimeUnit {
    /// Parses the expiry in an argument of `command`.
    pub(crate) fn read(self, text: &[u8], command: &'static str) -> Result<Expiry, Refusal<'static>> {
        Ok(self.expiry(ttl_ms(text, self.ms, command)?))
    }

    /// Parses the expiry in an argument of `EXPIRE` and similar commands, which may be 0 or negative for a time that
    /// has passed.
    pub(crate) fn read_past(self, text: &[u8], command: &'static str) -> Result<Expiry, Refusal<'static>> {
        let units = integer(text).ok_or(NOT_AN_INTEGER)?;
        let ms = units.max(0).checked_mul(self.ms).ok_or(Refusal::InvalidExpireTime { command })?;
        Ok(self.expiry(ms.unsigned_abs()))
    }

    fn expiry(self, ms: u64) -> Expiry {
        if self.is_point { Expiry::At { unix_ms: ms } } else { Expiry::In { ttl_ms: ms } }
    }
}

/// Command about keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRequest<'a> {
    /// `SET key value NX`, which records the key if it is new. The reply is `OK` or null.
    SetIfNew {
        /// Key, which stands for an event.
        key: &'a [u8],
        /// Expiry of the key.
        expiry: Option<Expiry>,
    },
    /// `SET key value` without `NX`, which would overwrite a value.
    Overwrite,
    /// `SETNX`, which records the key if it is new. The reply is 1 or 0.
    SetNx {
        /// Key, which stands for an event.
        key: &'a [u8],
    },
    /// `EXPIRE` and similar commands, which set the expiry of a key. The reply is 1, or 0 if the key does not exist.
    Expire {
        /// Key, which stands for an event.
        key: &'a [u8],
        /// New expiry of the key.
        expiry: Expiry,
    },
    /// `GET`, which asks for the value of a key.
    Get {
        /// Key, which stands for an event.
        key: &'a [u8],
    },
    /// `EXISTS`, which replies with the number of keys that exist. A key that is named several times is counted several
    /// times.
    Exists {
        /// Keys, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        keys: Arguments<'a>,
    },
    /// `DEL` or `UNLINK`, which deletes keys.
    Delete {
        /// Keys, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        keys: Arguments<'a>,
    },
    /// `TYPE`, which asks for the type of a key.
    Type {
        /// Key, or name of a filter.
        key: &'a [u8],
    },
    /// `DBSIZE`, which asks for the number of keys.
    Count,
    /// `FLUSHDB` or `FLUSHALL`, which deletes everything.
    Flush,
}

/// Options of `SET` that store or read values and are therefore not supported.
const UNSERVED: [&str; 3] = ["XX", "GET", "KEEPTTL"];

pub(super) const SECONDS: TimeUnit = TimeUnit { ms: 1_000, is_point: false };
pub(super) const MILLISECONDS: TimeUnit = TimeUnit { ms: 1, is_point: false };
pub(super) const AT_SECONDS: TimeUnit = TimeUnit { ms: 1_000, is_point: true };
pub(super) const AT_MILLISECONDS: TimeUnit = TimeUnit { ms: 1, is_point: true };

/// Parses `SET`. As in Redis, options come in any order, `NX` may be repeated, and the last `EX` counts.
pub(super) fn set(arguments: Arguments<'_>) -> Result<KeyRequest<'_>, Refusal<'_>> {
    let mut is_if_new = false;
    let mut expiry = None;
    let mut options = arguments.from(2).iter();
    while let Some(option) = options.next() {
        if is(option, "NX") {
            is_if_new = true;
        } else if let Some(unit) = unit(option) {
            let time = options.next().ok_or(SYNTAX)?;
            if expiry.is_some_and(|(_, earlier)| earlier != unit) {
                return Err(SYNTAX);
            }
            expiry = Some((time, unit));
        } else {
            let unserved = UNSERVED.into_iter().find(|known| is(option, known));
            return Err(unserved.map_or(SYNTAX, |option| Refusal::SetOption { option }));
        }
    }
    // The expiry is checked last, because Redis reports a wrong option first.
    let expiry = expiry.map(|(time, unit)| unit.read(time, "set")).transpose()?;
    let set = KeyRequest::SetIfNew { key: arguments.at(0), expiry };
    Ok(if is_if_new { set } else { KeyRequest::Overwrite })
}

/// Returns the time unit that this option introduces, if it is an option with a time.
fn unit(option: &[u8]) -> Option<TimeUnit> {
    const UNITS: [(&str, TimeUnit); 4] =
        [("EX", SECONDS), ("PX", MILLISECONDS), ("EXAT", AT_SECONDS), ("PXAT", AT_MILLISECONDS)];
    UNITS.into_iter().find(|(name, _)| is(option, name)).map(|(_, unit)| unit)
}

/// Parses `EXPIRE key time [NX]`. In Redis, the option `NX` sets an expiry only if the key has none. This server does
/// not store the expiry of a recorded key, so it cannot check this condition. The parser accepts `NX` and ignores it.
/// It rejects the options `XX`, `GT` and `LT`, because they would require a comparison with the existing expiry.
pub(super) fn expire<'a>(
    unit: TimeUnit,
    command: &'static str,
    arguments: Arguments<'a>,
) -> Result<KeyRequest<'a>, Refusal<'a>> {
    if let Some(option) = arguments.get(2) {
        if ["XX", "GT", "LT"].iter().any(|known| is(option, known)) {
            return Err(Refusal::BadArgument(
                "ERR firstseen keeps no key's time to compare: EXPIRE takes no XX, GT or LT",
            ));
        }
        if !is(option, "NX") {
            return Err(Refusal::BadArgument("ERR Unsupported option"));
        }
    }
    Ok(KeyRequest::Expire { key: arguments.at(0), expiry: unit.read_past(arguments.at(1), command)? })
}

/// Parses `FLUSHDB` or `FLUSHALL`. `SYNC` and `ASYNC` have the same effect, because no client waits until memory is
/// freed.
pub(super) fn flush(arguments: Arguments<'_>) -> Result<KeyRequest<'_>, Refusal<'_>> {
    match (arguments.len(), arguments.at(0)) {
        (0, _) => Ok(KeyRequest::Flush),
        (1, option) if is(option, "SYNC") || is(option, "ASYNC") => Ok(KeyRequest::Flush),
        _ => Err(SYNTAX),
    }
}
