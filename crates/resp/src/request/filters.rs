//! Commands of firstseen's own, which say of filters what Redis has no words for. Must not know: which filters there are.

use super::words::{count, is, items, ttl_ms};
use crate::Arguments;
use crate::refusal::{Refusal, SYNTAX};

/// A command of firstseen's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRequest<'a> {
    /// `FS.OBSERVE filter [ID source first-number] [TTL ms | AT ms] ITEMS item...`: records items; the reply is an array
    /// of integers.
    Observe {
        /// The filter.
        filter: &'a [u8],
        /// The name of the submission, which is the same when it is sent again.
        submission: Option<Submission<'a>>,
        /// When the events happened, or for how long they are remembered.
        time: EventTime,
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
    /// `FS.TEST filter ITEMS item...`: asks without recording; the reply is an array of integers.
    Test {
        /// The filter.
        filter: &'a [u8],
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
    /// `FS.INFO filter`.
    Info {
        /// The filter.
        filter: &'a [u8],
    },
    /// `FS.LIST`: the filters that the client may know.
    List,
}

/// What makes a retry the same submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission<'a> {
    /// Who numbers its events.
    pub source: &'a [u8],
    /// The number of the first item; those behind it have the next ones. Below 2^63.
    pub first_number: u64,
}

/// When events happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventTime {
    /// Now.
    #[default]
    Now,
    /// Now, and they have a time to live of their own.
    NowWithTtl {
        /// Milliseconds, above 0.
        ttl_ms: u64,
    },
    /// At this moment.
    At {
        /// Milliseconds since the first of January 1970. Below 2^63.
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

/// These items, of which there must be one.
pub(super) fn some_items<'a>(command: &'static str, all: Arguments<'a>) -> Result<Arguments<'a>, Refusal<'static>> {
    if all.is_empty() { Err(Refusal::WrongArity { command, subcommand: None }) } else { items(all) }
}
