//! Reads digits from the front of a text. Must not know: what the digits mean.

use super::local::SECOND_MS;
use crate::TimeError;

/// A text that is read from its front.
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

    /// Skips `byte` if it is the next one.
    pub(super) fn skip(&mut self, byte: u8) -> bool {
        let Some(rest) = self.rest.strip_prefix(&[byte]) else { return false };
        self.rest = rest;
        true
    }

    /// The number of digits that come next.
    pub(super) fn digits_ahead(&self) -> usize {
        self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// A number of exactly `count` digits; more digits may follow.
    ///
    /// # Errors
    /// [`TimeError::Unrecognised`] where fewer digits come.
    pub(super) fn number(&mut self, count: usize) -> Result<i32, TimeError> {
        let (digits, rest) = self.rest.split_at_checked(count).ok_or(TimeError::Unrecognised)?;
        self.rest = rest;
        field(digits)
    }

    /// A number of one digit or two.
    ///
    /// # Errors
    /// [`TimeError::Unrecognised`] where no digit comes, or more than two.
    pub(super) fn short_number(&mut self) -> Result<i32, TimeError> {
        match self.digits_ahead() {
            count @ (1 | 2) => self.number(count),
            _ => Err(TimeError::Unrecognised),
        }
    }

    /// The milliseconds of a fraction of a second, if a dot or a comma comes next; otherwise 0.
    ///
    /// # Errors
    /// [`TimeError::Unrecognised`] where no digit follows the mark.
    pub(super) fn fraction_ms(&mut self) -> Result<i64, TimeError> {
        if !self.skip(b'.') && !self.skip(b',') {
            return Ok(0);
        }
        let (digits, rest) = self.rest.split_at(self.digits_ahead());
        self.rest = rest;
        if digits.is_empty() { Err(TimeError::Unrecognised) } else { Ok(fraction_ms(digits)) }
    }
}

/// The first three decimals as milliseconds; what follows them is cut off.
pub(super) fn fraction_ms(digits: &[u8]) -> i64 {
    let mut weight = SECOND_MS;
    digits.iter().take(3).fold(0, |sum, digit| {
        weight /= 10;
        sum + i64::from(digit - b'0') * weight
    })
}

/// The value of a few digits.
///
/// # Errors
/// [`TimeError::Unrecognised`] where there is another byte than a digit.
pub(super) fn field(digits: &[u8]) -> Result<i32, TimeError> {
    number(digits).and_then(|value| i32::try_from(value).ok()).ok_or(TimeError::Unrecognised)
}

/// The value of a text of digits only; `None` if it is no such text, or the value does not fit.
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
