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
    /// There was a quote inside quotes: it closes, or begins a doubled quote.
    AfterQuote,
}

/// Scans the bytes of a buffer once, in as many steps as they arrive.
///
/// With quotes, the rule is that of RFC 4180 as readers in the field apply it: a quote opens only at the beginning of
/// a field, or behind blanks there; inside, two quotes are one; after the closing quote anything up to the separator still belongs to the
/// field.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// The byte between two fields where quotes count.
    quotes: Option<u8>,
    may_have_mark: bool,
    state: QuoteState,
    /// The place behind the quote that led to [`QuoteState::AfterQuote`].
    closed_at: usize,
    scanned: usize,
    newlines: u64,
    /// The end of the first whole record, and of the last one, in bytes; 0 where there is none.
    pub(crate) first_end: usize,
    pub(crate) end: usize,
    /// Whole records.
    pub(crate) records: u64,
    /// The lines of these records.
    pub(crate) lines: u64,
}

impl Cut {
    /// `quotes`: the byte between two fields where quotes count; `may_have_mark`: whether the buffer begins the file,
    /// where a byte order mark may stand.
    pub(crate) fn new(quotes: Option<u8>, may_have_mark: bool) -> Self {
        Self { quotes, may_have_mark, ..Self::default() }
    }

    /// Whether the record under way is inside quotes.
    pub(crate) fn is_inside_quotes(&self) -> bool {
        self.state == QuoteState::Inside
    }

    /// Scans the part of `bytes` that is new since the last call.
    pub(crate) fn advance(&mut self, bytes: &[u8]) {
        let fresh = &bytes[self.scanned..];
        if fresh.is_empty() {
            return;
        }
        let is_plain = self.quotes.is_none() || (self.state != QuoteState::Inside && memchr(b'"', fresh).is_none());
        if is_plain {
            self.state = QuoteState::Outside;
            if let Some(newline) = memrchr(b'\n', fresh) {
                if self.end == 0 {
                    self.first_end = self.scanned + memchr(b'\n', fresh).unwrap_or(newline) + 1;
                }
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
        if self.first_end == 0 {
            self.first_end = newline + 1;
        }
        self.end = newline + 1;
        self.records += records;
        self.lines = self.newlines;
    }

    /// Handles a quote or a newline.
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
        let separator = self.quotes.unwrap_or(b',');
        let before = without_blanks(before, separator);
        match before.last() {
            None | Some(b'\n') => true,
            Some(byte) => *byte == separator || (self.may_have_mark && before == BYTE_ORDER_MARK),
        }
    }
}

/// `before` without the blanks at its end, which may stand between the beginning of a field and its quote.
pub(crate) fn without_blanks(before: &[u8], separator: u8) -> &[u8] {
    if separator == b' ' {
        return before;
    }
    let blanks = before.iter().rev().take_while(|&&byte| byte == b' ').count();
    &before[..before.len() - blanks]
}

pub(crate) fn count_newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Whether every quote that closes in `record` is followed by the end of its field. Readers accept other text there;
/// but where a quote that opened by mistake meets the next one that opens, there is such text.
pub(crate) fn has_sound_quotes(record: &[u8], separator: u8) -> bool {
    let mut rest = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
    loop {
        rest = behind_blanks(rest, separator);
        if let Some(mut inside) = rest.strip_prefix(b"\"") {
            loop {
                let Some(quote) = memchr(b'"', inside) else { return false };
                inside = &inside[quote + 1..];
                match inside.strip_prefix(b"\"") {
                    Some(after) => inside = after,
                    None => break,
                }
            }
            inside = behind_blanks(inside, separator);
            if !matches!(inside.first(), None | Some(b'\r' | b'\n')) && inside.first() != Some(&separator) {
                return false;
            }
            rest = inside;
        }
        match memchr(separator, rest) {
            Some(comma) => rest = &rest[comma + 1..],
            None => return true,
        }
    }
}

fn behind_blanks(text: &[u8], separator: u8) -> &[u8] {
    if separator == b' ' {
        return text;
    }
    let blanks = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[blanks..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_all(text: &str, step: usize) -> Cut {
        let mut cut = Cut::new(Some(b','), true);
        for end in (0..text.len()).step_by(step).chain([text.len()]) {
            cut.advance(&text.as_bytes()[..end]);
        }
        cut
    }

    fn cut(text: &str, step: usize) -> (usize, u64, bool) {
        let cut = cut_all(text, step);
        (cut.end, cut.records, cut.is_inside_quotes())
    }

    #[test]
    fn newlines_inside_quotes_end_nothing() {
        for step in 1..8 {
            assert_eq!(cut("a,b\nc,\"d\ne\"\nf", step), (12, 2, false));
            assert_eq!(cut("a,\"b\"\"\nc\"\n\"", step), (10, 1, true));
            assert_eq!(cut("a\"\nb\"c\n\"\"\n", step), (10, 3, false), "quotes within a field are plain bytes");
            assert_eq!(cut("\"a\"b\"\nc\n", step), (8, 2, false), "after the closing quote too");
            assert_eq!(cut("a,  \"b\nc\"\nd", step), (10, 1, false), "blanks before a quote");
            assert_eq!(cut("  \"b\nc\"\n \"d", step), (8, 1, true), "at the beginning of a record too");
            assert_eq!(cut("\"a\" \"b\nc\"\n", step), (10, 2, false), "but not behind a quoted text");
            assert_eq!(cut("\u{feff}\"a\nb\"\nc", step), (9, 1, false), "a byte order mark is no part of the field");
        }
    }

    #[test]
    fn the_first_end_is_known_in_every_step() {
        for text in ["a,b\nc,d\ne\n", "\"a\nb\",c\nd\ne\n", "a\n\"b\nc\"\n"] {
            let whole = cut_all(text, text.len()).first_end;
            assert!(whole > 0 && whole < text.len());
            for step in 1..8 {
                assert_eq!(cut_all(text, step).first_end, whole, "{text:?} in steps of {step}");
            }
        }
    }

    #[test]
    fn quotes_that_close_before_the_end_of_a_field_are_not_sound() {
        for record in ["a,b\n", "\"a\nb\",c\n", "a,\"b\"\"c\"\r\n", "\u{feff}\"a\",\"\"\n", "a\"b,c\n", "\"a\""] {
            assert!(has_sound_quotes(record.as_bytes(), b','), "{record:?}");
        }
        for record in ["1,\"x\n2,y\n3,\"a\n", "\"a\"b,c\n", "a,\"b\n"] {
            assert!(!has_sound_quotes(record.as_bytes(), b','), "{record:?}");
        }
    }
}
