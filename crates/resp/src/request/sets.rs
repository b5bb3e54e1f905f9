//! Commands of sets and of hashes, which are filters. This module must not depend on which filters there are.

use crate::Arguments;

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
    /// `HSETNX`: records the field of a hash, whose value is not kept; the reply is 1 where it was new, or 0.
    SetField {
        /// The filter.
        filter: &'a [u8],
        /// The event.
        field: &'a [u8],
    },
    /// `HGET`: the reply is `1` where the field is there, in the place of its value.
    GetField {
        /// The filter.
        filter: &'a [u8],
        /// The event.
        field: &'a [u8],
    },
    /// `SREM`: lets items go; the reply is how many.
    Remove {
        /// The filter.
        filter: &'a [u8],
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
}
