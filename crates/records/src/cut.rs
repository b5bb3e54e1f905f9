//! Finds where the last whole record of a growing buffer ends. Must not know: fields, readers.

use crate::marks::Marks;
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
/// a field; inside, two quotes are one; after the closing quote anything up to the separator still belongs to the
/// field.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    quotes: bool,
    may_have_mark: bool,
    state: QuoteState,
    /// Behind the quote that put us in [`QuoteState::AfterQuote`].
    closed_at: usize,
    scanned: usize,
    newlines: u64,
    /// Bytes up to and including the end of the last whole record.
    pub(crate) end: usize,
    /// Whole records.
    pub(crate) records: u64,
    /// Lines that they take up.
    pub(crate) lines: u64,
}

impl Cut {
    /// `may_have_mark`: whether the buffer begins the file, where a byte order mark may stand.
    pub(crate) fn new(quotes: bool, may_have_mark: bool) -> Self {
        Self { quotes, may_have_mark, ..Self::default() }
    }

    /// Whether the record under way is inside quotes.
    pub(crate) fn is_inside_quotes(&self) -> bool {
        self.state == QuoteState::Inside
    }

    /// Takes note of what `bytes` (the same as before, and more) has beyond what it had.
    pub(crate) fn advance(&mut self, bytes: &[u8]) {
        let fresh = &bytes[self.scanned..];
        if fresh.is_empty() {
            return;
        }
        let is_plain = !self.quotes || (self.state != QuoteState::Inside && memchr(b'"', fresh).is_none());
        if is_plain {
            self.state = QuoteState::Outside;
            if let Some(newline) = memrchr(b'\n', fresh) {
                let newlines = count_newlines(&fresh[..=newline]);
                self.newlines += newlines;
                self.end_records(self.scanned + newline, newlines);
            }
        } else {
            for place in Marks::new(bytes, self.scanned, *b"\"\n") {
                self.take(bytes, place);
            }
        }
        self.scanned = bytes.len();
    }

    fn end_records(&mut self, newline: usize, records: u64) {
        self.end = newline + 1;
        self.records += records;
        self.lines = self.newlines;
    }

    /// A quote or a newline.
    fn take(&mut self, bytes: &[u8], place: usize) {
        let is_quote = bytes[place] == b'"';
        self.newlines += u64::from(!is_quote);
        if self.state == QuoteState::AfterQuote {
            let is_doubled = is_quote && place == self.closed_at;
            self.state = if is_doubled { QuoteState::Inside } else { QuoteState::Outside };
            if is_doubled {
                return;
            }
        }
        match self.state {
            QuoteState::Inside if is_quote => {
                self.state = QuoteState::AfterQuote;
                self.closed_at = place + 1;
            }
            QuoteState::Outside if !is_quote => self.end_records(place, 1),
            QuoteState::Outside if self.opens_field(&bytes[..place]) => self.state = QuoteState::Inside,
            _ => {}
        }
    }

    /// Whether a quote behind `before` begins a field.
    fn opens_field(&self, before: &[u8]) -> bool {
        match before.last() {
            None | Some(b',' | b'\n') => true,
            Some(_) => self.may_have_mark && before == BYTE_ORDER_MARK,
        }
    }
}

pub(crate) fn count_newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, step: usize) -> (usize, u64, bool) {
        let mut cut = Cut::new(true, true);
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
