//! Parsers for words, numbers and items, which the grammars of all commands share.
//!
//! This module does not depend on any command.

use crate::Arguments;
use crate::number::integer;
use crate::refusal::{NOT_AN_INTEGER, Refusal};
use std::ops::RangeInclusive;

/// Maximum number of items in one command. The limit bounds the work of executing a command.
pub const ITEMS_MAX: usize = 8_192;

/// Checks that there are not too many items.
pub(super) fn items(items: Arguments<'_>) -> Result<Arguments<'_>, Refusal<'static>> {
    if items.len() > ITEMS_MAX { Err(Refusal::TooManyItems { items_max: ITEMS_MAX }) } else { Ok(items) }
}

/// Returns whether a word equals `this`, ignoring case.
pub(super) fn is(word: &[u8], this: &str) -> bool {
    word.eq_ignore_ascii_case(this.as_bytes())
}

/// Parses an integer that is not negative.
pub(super) fn count(text: &[u8]) -> Result<u64, Refusal<'static>> {
    integer(text).and_then(|value| u64::try_from(value).ok()).ok_or(NOT_AN_INTEGER)
}

/// Parses a time to live in units of `unit_ms` milliseconds, from an argument of `command`.
pub(super) fn ttl_ms(text: &[u8], unit_ms: i64, command: &'static str) -> Result<u64, Refusal<'static>> {
    let units = integer(text).ok_or(NOT_AN_INTEGER)?;
    let ttl_ms = units.checked_mul(unit_ms).and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
    ttl_ms.ok_or(Refusal::InvalidExpireTime { command })
}

/// Checks the number of arguments of a command with a subcommand. Both words count as arguments.
pub(super) fn check_arity(
    command: &'static str,
    subcommand: &'static str,
    arguments: Arguments<'_>,
    expected: RangeInclusive<usize>,
) -> Result<(), Refusal<'static>> {
    let is_expected = expected.contains(&(arguments.len() + 1));
    if is_expected { Ok(()) } else { Err(Refusal::WrongArity { command, subcommand: Some(subcommand) }) }
}
