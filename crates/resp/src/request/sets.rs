//! Commands about sets and hashes, which stand for filters.

use crate::Arguments;

/// Command about sets or hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRequest<'a> {
    /// `SADD`, which records items and replies how many were new.
    Add {
        /// Name of the filter.
        filter: &'a [u8],
        /// Items to record, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
    /// `SISMEMBER`, which replies 1 or 0.
    Contains {
        /// Name of the filter.
        filter: &'a [u8],
        /// Item to look up.
        item: &'a [u8],
    },
    /// `SMISMEMBER`, which replies with an array of 1 and 0.
    ContainsEach {
        /// Name of the filter.
        filter: &'a [u8],
        /// Items to look up, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
    /// `HSETNX`, which records the field of a hash. The value is not stored. The reply is 1 if the field was new, and
    /// otherwise 0.
    SetField {
        /// Name of the filter.
        filter: &'a [u8],
        /// Field, which stands for an event.
        field: &'a [u8],
    },
    /// `HGET`, which replies `1` in the place of a value if the field exists.
    GetField {
        /// Name of the filter.
        filter: &'a [u8],
        /// Field, which stands for an event.
        field: &'a [u8],
    },
    /// `SREM`, which releases items and replies how many.
    Remove {
        /// Name of the filter.
        filter: &'a [u8],
        /// Items to release, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
}
