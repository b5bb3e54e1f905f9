//! Commands that exist only in firstseen. They give Redis clients access to functions of filters for which Redis has no
//! command.

use super::words::{count, is, items, ttl_ms};
use crate::Arguments;
use crate::refusal::{Refusal, SYNTAX};

/// Command that is specific to firstseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRequest<'a> {
    /// `FS.OBSERVE filter [ID source first-number] [TTL ms | AT ms] ITEMS item...`, which records items and replies
    /// with an array of integers.
    Observe {
        /// Name of the filter.
        filter: &'a [u8],
        /// Idempotency key of the submission, which is the same in a retry.
        submission: Option<Submission<'a>>,
        /// Time at which the events occurred, or time for which they are remembered.
        time: EventTime,
        /// Items to record, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
    /// `FS.TEST filter ITEMS item...`, which looks up items without recording them and replies with an array of
    /// integers.
    Test {
        /// Name of the filter.
        filter: &'a [u8],
        /// Items to look up, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
    /// `FS.INFO filter`, which describes a filter.
    Info {
        /// Name of the filter.
        filter: &'a [u8],
    },
    /// `FS.LIST`, which lists the filters that the client may see.
    List,
}

/// Idempotency key, by which a node recognises a retry of the same submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission<'a> {
    /// Source that numbers its events.
    pub source: &'a [u8],
    /// Number of the first item, below 2^63. The items after it have the numbers that follow.
    pub first_number: u64,
}

/// Time at which events occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventTime {
    /// The events occur now.
    #[default]
    Now,
    /// The events occur now, and have a time to live.
    NowWithTtl {
        /// Time to live in milliseconds, above 0.
        ttl_ms: u64,
    },
    /// The events occurred at a given time.
    At {
        /// Time in milliseconds since 1970-01-01, below 2^63.
        unix_ms: u64,
    },
}

pub(super) fn observe(arguments: Arguments<'_>) -> Result<FilterRequest<'_>, Refusal<'_>> {
    let mut submission = None;
    let mut time = None;
    let mut place = 1;
    while let Some(option) = arguments.get(place) {
        let value = arguments.get(place + 1).ok_or(SYNTAX);
        let words = if is(option, "ITEMS") {
            let filter = arguments.at(0);
            let items = some_items("fs.observe", arguments.from(place + 1))?;
            return Ok(FilterRequest::Observe { filter, submission, time: time.unwrap_or_default(), items });
        } else if is(option, "ID") && submission.is_none() {
            let source = value?;
            let number = arguments.get(place + 2).ok_or(SYNTAX)?;
            submission = Some(Submission { source, first_number: count(number)? });
            3
        } else if is(option, "TTL") && time.is_none() {
            time = Some(EventTime::NowWithTtl { ttl_ms: ttl_ms(value?, 1, "fs.observe")? });
            2
        } else if is(option, "AT") && time.is_none() {
            time = Some(EventTime::At { unix_ms: count(value?)? });
            2
        } else {
            return Err(SYNTAX);
        };
        place += words;
    }
    Err(Refusal::WrongArity { command: "fs.observe", subcommand: None })
}

pub(super) fn test(arguments: Arguments<'_>) -> Result<FilterRequest<'_>, Refusal<'_>> {
    if !is(arguments.at(1), "ITEMS") {
        return Err(SYNTAX);
    }
    Ok(FilterRequest::Test { filter: arguments.at(0), items: some_items("fs.test", arguments.from(2))? })
}

/// Checks that there is at least one item, and not too many.
pub(super) fn some_items<'a>(command: &'static str, all: Arguments<'a>) -> Result<Arguments<'a>, Refusal<'static>> {
    if all.is_empty() { Err(Refusal::WrongArity { command, subcommand: None }) } else { items(all) }
}
