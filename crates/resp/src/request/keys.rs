//! Commands of keys, which are events: `SET NX` and what goes with it. This module must not depend on which filter a key belongs to.

use super::words::{is, ttl_ms};
use crate::Arguments;
use crate::number::integer;
use crate::refusal::{NOT_AN_INTEGER, Refusal, SYNTAX};

/// The expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After a time to live (`EX`, `PX`).
    In {
        /// Milliseconds; 0 comes with `EXPIRE` alone, and means that the key has expired.
        ttl_ms: u64,
    },
    /// At a point in time (`EXAT`, `PXAT`), which may be past.
    At {
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
    pub(crate) is_point: bool,
}

impl TimeUnit {
    /// Reads the expiry in an argument of `command`.
    pub(crate) fn read(self, text: &[u8], command: &'static str) -> Result<Expiry, Refusal<'static>> {
        Ok(self.expiry(ttl_ms(text, self.ms, command)?))
    }

    /// Reads the expiry in an argument of `EXPIRE` and the like, which may be over: 0, or below.
    pub(crate) fn read_past(self, text: &[u8], command: &'static str) -> Result<Expiry, Refusal<'static>> {
        let units = integer(text).ok_or(NOT_AN_INTEGER)?;
        let ms = units.max(0).checked_mul(self.ms).ok_or(Refusal::InvalidExpireTime { command })?;
        Ok(self.expiry(ms.unsigned_abs()))
    }

    fn expiry(self, ms: u64) -> Expiry {
        if self.is_point { Expiry::At { unix_ms: ms } } else { Expiry::In { ttl_ms: ms } }
    }
}

/// A command of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRequest<'a> {
    /// `SET key value NX`: records the key if it is new. The reply is `OK`, or null.
    SetIfNew {
        /// The event.
        key: &'a [u8],
        /// For how long.
        expiry: Option<Expiry>,
    },
    /// `SET key value` without `NX`, which would overwrite.
    Overwrite,
    /// `SETNX`: records the key if it is new. The reply is 1, or 0.
    SetNx {
        /// The event.
        key: &'a [u8],
    },
    /// `EXPIRE` and the like: for how long a key is to be there from now on. The reply is 1, or 0 where there is no such key.
    Expire {
        /// The event.
        key: &'a [u8],
        /// For how long.
        expiry: Expiry,
    },
    /// `GET`.
    Get {
        /// The event.
        key: &'a [u8],
    },
    /// `EXISTS`: how many of the keys are there, where one counts as often as it is named.
    Exists {
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        keys: Arguments<'a>,
    },
    /// `DEL` or `UNLINK`.
    Delete {
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        keys: Arguments<'a>,
    },
    /// `TYPE`.
    Type {
        /// The event, or a filter.
        key: &'a [u8],
    },
    /// `DBSIZE`.
    Count,
    /// `FLUSHDB` or `FLUSHALL`.
    Flush,
}

/// Options of `SET` that store or read values, and are not served.
const UNSERVED: [&str; 3] = ["XX", "GET", "KEEPTTL"];

pub(super) const SECONDS: TimeUnit = TimeUnit { ms: 1_000, is_point: false };
pub(super) const MILLISECONDS: TimeUnit = TimeUnit { ms: 1, is_point: false };
pub(super) const AT_SECONDS: TimeUnit = TimeUnit { ms: 1_000, is_point: true };
pub(super) const AT_MILLISECONDS: TimeUnit = TimeUnit { ms: 1, is_point: true };

/// Options come in any order, `NX` more than once, and of `EX` the last counts, as in Redis.
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
    // Only now, as Redis tells a wrong option first.
    let expiry = expiry.map(|(time, unit)| unit.read(time, "set")).transpose()?;
    let set = KeyRequest::SetIfNew { key: arguments.at(0), expiry };
    Ok(if is_if_new { set } else { KeyRequest::Overwrite })
}

/// The unit of the time behind this option, if it is one of a time.
fn unit(option: &[u8]) -> Option<TimeUnit> {
    const UNITS: [(&str, TimeUnit); 4] =
        [("EX", SECONDS), ("PX", MILLISECONDS), ("EXAT", AT_SECONDS), ("PXAT", AT_MILLISECONDS)];
    UNITS.into_iter().find(|(name, _)| is(option, name)).map(|(_, unit)| unit)
}

/// `EXPIRE key time [NX]`: keys are recorded without a time that `EXPIRE` could find. Options that compare times are not served.
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

/// `SYNC` and `ASYNC` are one, as nobody waits for memory to be given back.
pub(super) fn flush(arguments: Arguments<'_>) -> Result<KeyRequest<'_>, Refusal<'_>> {
    match (arguments.len(), arguments.at(0)) {
        (0, _) => Ok(KeyRequest::Flush),
        (1, option) if is(option, "SYNC") || is(option, "ASYNC") => Ok(KeyRequest::Flush),
        _ => Err(SYNTAX),
    }
}
