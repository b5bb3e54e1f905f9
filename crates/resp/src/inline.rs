//! Inline commands, which people type in a terminal. An inline command is a line of words that are separated by spaces.
//! Words may be quoted.
//!
//! The parser divides the line into words as Redis does, with one exception: a zero byte is an ordinary byte here.
//! Redis does not find the end of a line that contains a zero byte, so it would wait forever for the rest of the line.

use crate::command::Span;
use crate::{Limits, ProtocolError};

/// Words of a line without their quotes, concatenated. The memory is reused for the next line.
#[derive(Debug, Default)]
pub(crate) struct Words {
    bytes: Vec<u8>,
}

impl Words {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Frees the memory.
    pub(crate) fn release_memory(&mut self) {
        self.bytes = Vec::new();
    }

    /// Replaces the words by those of `line`, and `spans` by their positions. The line must not include its line end.
    pub(crate) fn split(&mut self, line: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
        self.bytes.clear();
        spans.clear();
        let mut rest = line;
        loop {
            rest = match rest.iter().position(|&byte| !is_space(byte)) {
                Some(first) => &rest[first..],
                None => return Ok(()),
            };
            let start = self.bytes.len();
            rest = self.word(rest)?;
            if spans.len() == limits.arguments || self.bytes.len() - start > limits.argument_bytes {
                return Err(ProtocolError::TooBigInline);
            }
            spans.push(Span::new(start, self.bytes.len()));
        }
    }

    /// Reads a word, and returns the rest of the line.
    fn word<'l>(&mut self, mut rest: &'l [u8]) -> Result<&'l [u8], ProtocolError> {
        loop {
            rest = match rest {
                [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
                [b'"', inside @ ..] => return self.double_quoted(inside),
                [b'\'', inside @ ..] => return self.single_quoted(inside),
                [byte, after @ ..] => {
                    self.bytes.push(*byte);
                    after
                }
            }
        }
    }

    fn double_quoted<'l>(&mut self, mut rest: &'l [u8]) -> Result<&'l [u8], ProtocolError> {
        loop {
            let (byte, after) = match rest {
                [b'"', after @ ..] => return after_quotes(after),
                [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    (hex(*high) * 16 + hex(*low), after)
                }
                [b'\\', escaped, after @ ..] => (unescaped(*escaped), after),
                [byte, after @ ..] => (*byte, after),
                [] => return Err(ProtocolError::UnbalancedQuotes),
            };
            self.bytes.push(byte);
            rest = after;
        }
    }

    fn single_quoted<'l>(&mut self, mut rest: &'l [u8]) -> Result<&'l [u8], ProtocolError> {
        loop {
            let (byte, after) = match rest {
                [b'\'', after @ ..] => return after_quotes(after),
                [b'\\', b'\'', after @ ..] => (b'\'', after),
                [byte, after @ ..] => (*byte, after),
                [] => return Err(ProtocolError::UnbalancedQuotes),
            };
            self.bytes.push(byte);
            rest = after;
        }
    }
}

/// Returns the rest of the line after a closing quote. Returns an error unless a space or nothing follows.
fn after_quotes(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// Returns whether C's `isspace` accepts the byte.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn unescaped(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// Returns the value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
