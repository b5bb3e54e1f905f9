//! Commands of sets, which are filters. Must not know: which filters there are.

use super::words;
use crate::{Arguments, Refusal};

/// A command of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRequest<'a> {
    /// `SADD`: records the items; the reply is how many were new.
    Add {
        /// The filter.
        filter: &'a [u8],
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
    /// `SISMEMBER`: the reply is 1, or 0.
    Contains {
        /// The filter.
        filter: &'a [u8],
        /// The event.
        item: &'a [u8],
    },
    /// `SMISMEMBER`: the reply is an array of 1 and 0.
    ContainsEach {
        /// The filter.
        filter: &'a [u8],
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
    /// `SREM`: lets items go; the reply is how many.
    Remove {
        /// The filter.
        filter: &'a [u8],
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
}

pub(super) fn add(arguments: Arguments<'_>) -> Result<SetRequest<'_>, Refusal<'_>> {
    Ok(SetRequest::Add { filter: arguments.at(0), items: words::items(arguments.from(1))? })
}

pub(super) fn contains(arguments: Arguments<'_>) -> SetRequest<'_> {
    SetRequest::Contains { filter: arguments.at(0), item: arguments.at(1) }
}

pub(super) fn contains_each(arguments: Arguments<'_>) -> Result<SetRequest<'_>, Refusal<'_>> {
    Ok(SetRequest::ContainsEach { filter: arguments.at(0), items: words::items(arguments.from(1))? })
}

pub(super) fn remove(arguments: Arguments<'_>) -> Result<SetRequest<'_>, Refusal<'_>> {
    Ok(SetRequest::Remove { filter: arguments.at(0), items: words::items(arguments.from(1))? })
}
