//! Commands of keys, which are events: `SET NX` and what goes with it. Must not know: which filter a key belongs to.

use super::words::{is, lifetime_ms};
use crate::Arguments;
use crate::refusal::{Refusal, SYNTAX};

/// A command of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRequest<'a> {
    /// `SET key value NX`: records the key if it is new. The reply is `OK`, or null.
    SetIfNew {
        /// The event.
        key: &'a [u8],
        /// For how long, of `EX` or `PX`: over zero.
        lifetime_ms: Option<u64>,
    },
    /// `SET key value` without `NX`, which would overwrite.
    Overwrite,
    /// `SETNX`: records the key if it is new. The reply is 1, or 0.
    SetNx {
        /// The event.
        key: &'a [u8],
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

/// Options of `SET` that store or read values, or give a moment, and are not served.
const UNSERVED: [&str; 5] = ["XX", "GET", "KEEPTTL", "EXAT", "PXAT"];

/// Options come in any order, `NX` more than once, and of `EX` the last counts, as in Redis.
pub(super) fn set(arguments: Arguments<'_>) -> Result<KeyRequest<'_>, Refusal<'_>> {
    let (mut is_if_new, mut lifetime) = (false, None);
    let mut options = arguments.from(2).iter();
    while let Some(option) = options.next() {
        if is(option, "NX") {
            is_if_new = true;
        } else if let Some(unit_ms) = unit_ms(option) {
            let time = options.next().ok_or(SYNTAX)?;
            if lifetime.is_some_and(|(_, earlier_ms)| earlier_ms != unit_ms) {
                return Err(SYNTAX);
            }
            lifetime = Some((time, unit_ms));
        } else {
            let unserved = UNSERVED.into_iter().find(|known| is(option, known));
            return Err(unserved.map_or(SYNTAX, |option| Refusal::SetOption { option }));
        }
    }
    // Only now, as Redis tells a wrong option first.
    let lifetime_ms = lifetime.map(|(time, unit_ms)| lifetime_ms(time, unit_ms, "set")).transpose()?;
    let set = KeyRequest::SetIfNew { key: arguments.at(0), lifetime_ms };
    Ok(if is_if_new { set } else { KeyRequest::Overwrite })
}

/// The unit of the time behind this option, if it is one of a time.
fn unit_ms(option: &[u8]) -> Option<i64> {
    if is(option, "EX") {
        Some(1000)
    } else if is(option, "PX") {
        Some(1)
    } else {
        None
    }
}

pub(super) fn set_nx(arguments: Arguments<'_>) -> KeyRequest<'_> {
    KeyRequest::SetNx { key: arguments.at(0) }
}

/// `SYNC` and `ASYNC` are one, as nobody waits for memory to be given back.
pub(super) fn flush(arguments: Arguments<'_>) -> Result<KeyRequest<'_>, Refusal<'_>> {
    match (arguments.len(), arguments.at(0)) {
        (0, _) => Ok(KeyRequest::Flush),
        (1, option) if is(option, "SYNC") || is(option, "ASYNC") => Ok(KeyRequest::Flush),
        _ => Err(SYNTAX),
    }
}
