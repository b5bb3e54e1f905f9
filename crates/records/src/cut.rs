//! Finds where the last whole record of a growing buffer ends. Must not know: fields, readers.

use memchr::{memchr, memchr_iter, memrchr};

/// The UTF-8 byte order mark: no part of the first field.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QuoteState {
    #[default]
    Outside,
    Inside,
    /// A quote was seen inside quotes: it closes, or begins a doubled quote.
    AfterQuote,
}

/// Reads the bytes of a buffer once, in as many steps as they come in.
///
/// With quotes, the rule is that of RFC 4180 as readers in the field apply it: a quote opens only at the beginning of
/// a field; inside, two quotes are one; after the closing quote anything up to the separator still belongs to the field.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    quotes: bool,
    state: QuoteState,
    scanned: usize,
    /// Bytes up to and including the end of the last whole record.
    pub(crate) end: usize,
    /// Whole records.
    pub(crate) records: u64,
}

impl Cut {
    pub(crate) fn new(quotes: bool) -> Self {
        Self { quotes, ..Self::default() }
    }

    /// Whether the record under way is inside quotes.
    pub(crate) fn is_inside_quotes(&self) -> bool {
        self.state == QuoteState::Inside
    }

    /// Takes note of what `bytes` (the same as before, and more) has beyond what it had.
    pub(crate) fn advance(&mut self, bytes: &[u8]) {
        if !self.quotes {
            return self.pass_outside(bytes, bytes.len());
        }
        while let Some(&next) = bytes.get(self.scanned) {
            match self.state {
                QuoteState::AfterQuote if next == b'"' => {
                    self.state = QuoteState::Inside;
                    self.scanned += 1;
                }
                QuoteState::AfterQuote => self.state = QuoteState::Outside,
                QuoteState::Inside => self.pass_inside(bytes),
                QuoteState::Outside => {
                    let quote = memchr(b'"', &bytes[self.scanned..]).map(|at| at + self.scanned);
                    self.pass_outside(bytes, quote.unwrap_or(bytes.len()));
                    if let Some(quote) = quote {
                        self.scanned = quote + 1;
                        if opens_field(bytes, quote) {
                            self.state = QuoteState::Inside;
                        }
                    }
                }
            }
        }
    }

    fn pass_outside(&mut self, bytes: &[u8], until: usize) {
        let passed = &bytes[self.scanned..until];
        if let Some(newline) = memrchr(b'\n', passed) {
            self.end = self.scanned + newline + 1;
            self.records += count_newlines(&passed[..=newline]);
        }
        self.scanned = until;
    }

    fn pass_inside(&mut self, bytes: &[u8]) {
        match memchr(b'"', &bytes[self.scanned..]) {
            Some(quote) => {
                self.scanned += quote + 1;
                self.state = QuoteState::AfterQuote;
            }
            None => self.scanned = bytes.len(),
        }
    }
}

fn opens_field(bytes: &[u8], quote: usize) -> bool {
    match bytes[..quote].last() {
        None | Some(b',' | b'\n') => true,
        Some(_) => &bytes[..quote] == BYTE_ORDER_MARK,
    }
}

pub(crate) fn count_newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, step: usize) -> (usize, u64, bool) {
        let mut cut = Cut::new(true);
        for end in (0..text.len()).step_by(step).chain([text.len()]) {
            cut.advance(&text.as_bytes()[..end]);
        }
        (cut.end, cut.records, cut.is_inside_quotes())
    }

    #[test]
    fn newlines_inside_quotes_end_nothing() {
        for step in 1..8 {
            assert_eq!(cut("a,b\nc,\"d\ne\"\nf", step), (12, 2, false));
            assert_eq!(cut("a,\"b\"\"\nc\"\n\"", step), (10, 1, true));
            assert_eq!(cut("a\"\nb\"c\n\"\"\n", step), (10, 3, false), "quotes within a field are plain bytes");
            assert_eq!(cut("\"a\"b\"\nc\n", step), (8, 2, false), "after the closing quote too");
            assert_eq!(cut("\u{feff}\"a\nb\"\nc", step), (9, 1, false), "a byte order mark is no part of the field");
        }
    }
}
