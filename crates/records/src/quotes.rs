//! Determines whether a CSV text ends between quotes. This module does not depend on records or limits.

use memchr::memrchr;
use std::io::{ErrorKind, Read, Result};

use crate::cut::{BYTE_ORDER_MARK, without_blanks};
use crate::marks::Marks;

const READ_BYTES: usize = 256 << 10;

/// Returns whether a CSV text ends within a quoted field, for example because its writer was killed. A record that is
/// appended to such a text would be read as part of the open field.
///
/// The function reads all of `input`, and its memory does not depend on the length of the text. `separator` is the byte
/// between two fields. Quotes are interpreted as in [`BlockReader`](crate::BlockReader), except that the function does
/// not detect quotes that were opened by mistake.
///
/// # Errors
/// Returns the errors of `input`.
///
/// ```
/// use firstseen_records::ends_inside_quotes;
/// assert!(ends_inside_quotes(&b"1,\"a\nb\"\n2,\"c\n"[..], b',')?);
/// assert!(!ends_inside_quotes(&b"1,\"a\nb\"\n2,c"[..], b',')?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn ends_inside_quotes(mut input: impl Read, separator: u8) -> Result<bool> {
    let mut buffer = vec![0; READ_BYTES];
    let mut quotes = Quotes { separator, is_inside: false, opens_next: true, reopens_next: false, lead: Some(0) };
    loop {
        let bytes = match input.read(&mut buffer) {
            Ok(0) => return Ok(quotes.is_inside),
            Ok(bytes) => bytes.min(READ_BYTES),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        quotes.advance(&buffer[..bytes]);
    }
}

/// State of the scanner at a position in the text.
struct Quotes {
    separator: u8,
    is_inside: bool,
    /// Whether a quote as the next byte would begin a quoted field, or would double the previous quote.
    opens_next: bool,
    reopens_next: bool,
    /// State of the scanner before the content of a record begins. At that point, NUL bytes and byte order marks may
    /// occur. The number says how many bytes of an incomplete byte order mark were read so far. `None` means that the
    /// content of the record has already begun.
    lead: Option<usize>,
}

/// Returns the value of [`Quotes::lead`] after `bytes`.
fn lead_after(mut lead: Option<usize>, bytes: &[u8]) -> Option<usize> {
    let line = match memrchr(b'\n', bytes) {
        Some(newline) => {
            lead = Some(0);
            &bytes[newline + 1..]
        }
        None => bytes,
    };
    for byte in line {
        lead = match lead {
            Some(0) if *byte == 0 => Some(0),
            Some(mark_bytes) if *byte == BYTE_ORDER_MARK[mark_bytes] => Some((mark_bytes + 1) % BYTE_ORDER_MARK.len()),
            _ => return None,
        };
    }
    lead
}

impl Quotes {
    fn advance(&mut self, bytes: &[u8]) {
        let mut start = 0;
        for quote in Marks::new(bytes, 0, *b"\"") {
            if self.is_inside {
                (self.is_inside, self.reopens_next) = (false, true);
            } else {
                self.is_inside = self.opens_at(bytes, quote, start);
                self.reopens_next = false;
            }
            (self.opens_next, self.lead) = (false, None);
            start = quote + 1;
        }
        let rest = &bytes[start..];
        if rest.is_empty() {
            return;
        }
        self.reopens_next = false;
        let before = without_blanks(rest, self.separator);
        if let Some(last) = before.last() {
            self.opens_next = *last == self.separator || lead_after(self.lead, before) == Some(0);
        }
        self.lead = lead_after(self.lead, rest);
    }

    /// Returns whether the quote at `quote` opens a quoted field. The state before `start` is only known from the
    /// flags.
    fn opens_at(&self, bytes: &[u8], quote: usize, start: usize) -> bool {
        let before = without_blanks(&bytes[start..quote], self.separator);
        match before.last() {
            Some(0 | 0xBF) => lead_after(self.lead, before) == Some(0),
            Some(last) => *last == self.separator || *last == b'\n',
            None => self.opens_next || (self.reopens_next && start == quote),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Cut;

    /// Reader that returns a few bytes at a time.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let bytes = self.0.len().min(self.1).min(buffer.len());
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    #[test]
    fn the_rule_of_quotes_is_the_one_by_which_records_are_cut() {
        const ALPHABET: [&[u8]; 7] = [b"\"", b",", b"\n", b"a", b" ", BYTE_ORDER_MARK, b"\0"];
        let mut found = [0, 0];
        for case in 0..7_usize.pow(6) {
            let mut rest = case;
            let text: Vec<u8> = (0..6)
                .flat_map(|_| {
                    let letter = ALPHABET[rest % 7];
                    rest /= 7;
                    letter
                })
                .copied()
                .collect();
            let mut cut = Cut::new(Some(b','), b'\n');
            cut.advance(&text);
            found[usize::from(cut.is_inside_quotes())] += 1;
            for piece_bytes in [1, 3, 100] {
                let is_inside = ends_inside_quotes(Pieces(&text, piece_bytes), b',').expect("memory");
                assert_eq!(is_inside, cut.is_inside_quotes(), "{:?} by {piece_bytes}", String::from_utf8_lossy(&text));
            }
        }
        assert!(found.iter().all(|count| *count > 1000), "{found:?}");
    }
}
