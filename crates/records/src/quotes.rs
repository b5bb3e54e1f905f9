//! Whether CSV ends between quotes. Must not know: records, limits.

use std::io::{ErrorKind, Read, Result};

use crate::cut::{BYTE_ORDER_MARK, without_blanks};
use crate::marks::Marks;

const READ_BYTES: usize = 256 << 10;

/// Whether CSV ends between quotes, as it may where its writer was killed: a record that is appended there would be
/// read as the rest of its last field. The rule is that of [`BlockReader`](crate::BlockReader), but a mistaken quote
/// counts like any other. `separator` is the byte between two fields. Reads all of `input`, in constant memory.
///
/// # Errors
/// Those of `input`.
///
/// ```
/// use firstseen_records::ends_inside_quotes;
/// assert!(ends_inside_quotes(&b"1,\"a\nb\"\n2,\"c\n"[..], b',')?);
/// assert!(!ends_inside_quotes(&b"1,\"a\nb\"\n2,c"[..], b',')?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn ends_inside_quotes(mut input: impl Read, separator: u8) -> Result<bool> {
    let mut buffer = vec![0; READ_BYTES];
    let (mut quotes, mut is_first) =
        (Quotes { separator, is_inside: false, opens_next: true, reopens_next: false }, true);
    loop {
        let bytes = match input.read(&mut buffer) {
            Ok(0) => return Ok(quotes.is_inside),
            Ok(bytes) => bytes.min(READ_BYTES),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let fresh = &buffer[..bytes];
        // The first read gives more bytes than a mark has.
        let marked = fresh.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first);
        quotes.advance(marked.unwrap_or(fresh));
        is_first = false;
    }
}

/// The state at a place of the CSV.
struct Quotes {
    separator: u8,
    is_inside: bool,
    /// Whether a quote as the next byte begins a field, or doubles the one before it.
    opens_next: bool,
    reopens_next: bool,
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
            self.opens_next = false;
            start = quote + 1;
        }
        if start == bytes.len() {
            return;
        }
        self.reopens_next = false;
        if let Some(last) = without_blanks(&bytes[start..], self.separator).last() {
            self.opens_next = self.begins_field(*last);
        }
    }

    /// Whether the quote at `quote` opens, where the state before `start` is known only by the flags.
    fn opens_at(&self, bytes: &[u8], quote: usize, start: usize) -> bool {
        match without_blanks(&bytes[start..quote], self.separator).last() {
            Some(before) => self.begins_field(*before),
            None => self.opens_next || (self.reopens_next && start == quote),
        }
    }

    fn begins_field(&self, before: u8) -> bool {
        before == self.separator || before == b'\n'
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Cut;

    /// Gives a few bytes at a time, but more at the first read.
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
        const ALPHABET: [&[u8]; 6] = [b"\"", b",", b"\n", b"a", b" ", BYTE_ORDER_MARK];
        let mut found = [0, 0];
        for case in 0..6_usize.pow(6) {
            let mut rest = case;
            let text: Vec<u8> = (0..6)
                .flat_map(|_| {
                    let letter = ALPHABET[rest % 6];
                    rest /= 6;
                    letter
                })
                .copied()
                .collect();
            let mut cut = Cut::new(Some(b','), true);
            cut.advance(&text);
            found[usize::from(cut.is_inside_quotes())] += 1;
            for piece_bytes in [3, 4, 100] {
                let is_inside = ends_inside_quotes(Pieces(&text, piece_bytes), b',').expect("memory");
                assert_eq!(is_inside, cut.is_inside_quotes(), "{:?} by {piece_bytes}", String::from_utf8_lossy(&text));
            }
        }
        assert!(found.iter().all(|count| *count > 1000), "{found:?}");
    }
}
