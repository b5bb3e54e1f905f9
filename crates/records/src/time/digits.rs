//! Reads digits from the beginning of a text. This module does not depend on the meaning of the digits.

use super::local::SECOND_MS;
use crate::TimeError;

/// A text that is read from its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips `byte` if it comes next. Returns whether it was skipped.
    pub(super) fn skip(&mut self, byte: u8) -> bool {
        let Some(rest) = self.rest.strip_prefix(&[byte]) else { return false };
        self.rest = rest;
        true
    }

    /// Returns the number of digits that come next.
    pub(super) fn digits_ahead(&self) -> usize {
        self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// Reads a number of exactly `count` digits. More digits may follow.
    ///
    /// # Errors
    /// Returns [`TimeError::Unrecognised`] if fewer digits come next.
    pub(super) fn number(&mut self, count: usize) -> Result<i32, TimeError> {
        let (digits, rest) = self.rest.split_at_checked(count).ok_or(TimeError::Unrecognised)?;
        self.rest = rest;
        field(digits)
    }

    /// Reads a number of one or two digits.
    ///
    /// # Errors
    /// Returns [`TimeError::Unrecognised`] if no digit or more than two digits come next.
    pub(super) fn short_number(&mut self) -> Result<i32, TimeError> {
        match self.digits_ahead() {
            count @ (1 | 2) => self.number(count),
            _ => Err(TimeError::Unrecognised),
        }
    }

    /// Reads a fraction of a second and returns its milliseconds, if a dot or a comma comes next. Otherwise returns 0.
    ///
    /// # Errors
    /// Returns [`TimeError::Unrecognised`] if no digit follows the dot or comma.
    pub(super) fn fraction_ms(&mut self) -> Result<i64, TimeError> {
        if !self.skip(b'.') && !self.skip(b',') {
            return Ok(0);
        }
        let (digits, rest) = self.rest.split_at(self.digits_ahead());
        self.rest = rest;
        if digits.is_empty() { Err(TimeError::Unrecognised) } else { Ok(fraction_ms(digits)) }
    }
}

/// Returns the first three decimals as milliseconds. Further decimals are ignored.
pub(super) fn fraction_ms(digits: &[u8]) -> i64 {
    let mut weight = SECOND_MS;
    digits.iter().take(3).fold(0, |sum, digit| {
        weight /= 10;
        sum + i64::from(digit - b'0') * weight
    })
}

/// Returns the value of a few digits.
///
/// # Errors
/// Returns [`TimeError::Unrecognised`] if a byte is not a digit.
pub(super) fn field(digits: &[u8]) -> Result<i32, TimeError> {
    number(digits).and_then(|value| i32::try_from(value).ok()).ok_or(TimeError::Unrecognised)
}

/// Returns the value of a text that consists only of digits. Returns `None` for any other text, or if the value is too
/// large.
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut value = 0i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(value)
}
