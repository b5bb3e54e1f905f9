//! Finds the end of the last complete record in a growing buffer. This module does not depend on fields or readers.

use crate::marks::Marks;
use memchr::{memchr, memchr_iter, memchr2, memrchr};

/// The UTF-8 byte order mark, which is not part of the first field.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QuoteState {
    #[default]
    Outside,
    Inside,
    /// The previous byte was a quote inside quotes. This quote either closes the field or begins a doubled quote.
    AfterQuote,
}

/// Scans the bytes of a buffer once, in as many steps as they arrive.
///
/// Quotes are interpreted by the rules of RFC 4180, in the way in which most CSV readers apply these rules:
///
/// - A quote opens a quoted field only at the beginning of a field, or after blanks at the beginning.
/// - Inside a quoted field, two quotes in a row stand for one quote.
/// - Text that follows the closing quote still belongs to the field.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// Byte between two fields. `None` means that quotes have no meaning.
    quotes: Option<u8>,
    record_end: u8,
    state: QuoteState,
    /// Position after the quote that led to [`QuoteState::AfterQuote`].
    closed_at: usize,
    scanned: usize,
    newlines: u64,
    /// End of the first complete record and end of the last complete record, in bytes. They are 0 if there is no
    /// complete record.
    pub(crate) first_end: usize,
    pub(crate) end: usize,
    /// Number of complete records.
    pub(crate) records: u64,
    /// Number of lines of these records.
    pub(crate) lines: u64,
}

impl Cut {
    /// Creates a scanner for a buffer whose first byte is the first byte of a record. `record_end` is the byte that
    /// ends a record. `quotes` is the byte between two fields if the format has quoted fields, and `None` otherwise. A
    /// format with quoted fields must use a newline as `record_end`.
    pub(crate) fn new(quotes: Option<u8>, record_end: u8) -> Self {
        Self { quotes, record_end, ..Self::default() }
    }

    /// Returns whether no byte was scanned yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.scanned == 0
    }

    /// Returns whether the incomplete record at the end is inside quotes.
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
            if let Some(newline) = memrchr(self.record_end, fresh) {
                if self.end == 0 {
                    self.first_end = self.scanned + memchr(self.record_end, fresh).unwrap_or(newline) + 1;
                }
                let newlines = count_ends(&fresh[..=newline], self.record_end);
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

    /// Returns whether a quote after `before` opens a quoted field. `before` begins with a record.
    fn opens_field(&self, before: &[u8]) -> bool {
        let separator = self.quotes.unwrap_or(b',');
        let before = without_blanks(before, separator);
        match before.last() {
            None | Some(b'\n') => true,
            Some(0xBF | 0) => begins_record(before),
            Some(byte) => *byte == separator,
        }
    }
}

/// Returns whether `before` ends with bytes that may precede a record, such as a byte order mark or a hole of NUL
/// bytes.
#[cold]
fn begins_record(mut before: &[u8]) -> bool {
    loop {
        before = match before {
            [] | [.., b'\n'] => return true,
            [rest @ .., 0] => rest,
            _ => match before.strip_suffix(BYTE_ORDER_MARK) {
                Some(rest) => rest,
                None => return false,
            },
        }
    }
}

/// Returns `before` without the blanks at its end. Such blanks are allowed between the beginning of a field and its
/// quote.
pub(crate) fn without_blanks(before: &[u8], separator: u8) -> &[u8] {
    if separator == b' ' {
        return before;
    }
    let blanks = before.iter().rev().take_while(|&&byte| byte == b' ').count();
    &before[..before.len() - blanks]
}

/// Returns whether a hole or a byte order mark can begin with this byte.
#[inline(always)]
pub(crate) fn begins_mark(byte: u8) -> bool {
    matches!(byte, 0 | 0xEF)
}

/// Returns whether [`begins_mark`] is true for any of the bytes.
pub(crate) fn may_have_marks(bytes: &[u8]) -> bool {
    memchr2(0, 0xEF, bytes).is_some()
}

/// Returns where the record at position `start` and its content begin. Two kinds of bytes can precede the content
/// without belonging to it:
///
/// - NUL bytes, which appear in a log that `copytruncate` of logrotate has truncated while a program continued to
///   write.
/// - A byte order mark, which can appear in the middle of an input if files were concatenated.
#[inline(always)]
pub(crate) fn record_start(bytes: &[u8], start: usize, record_end: u8) -> RecordStart {
    match bytes.get(start) {
        Some(&first) if begins_mark(first) => marked_start(bytes, start, record_end),
        _ => RecordStart { record: start, content: start },
    }
}

/// Positions at the beginning of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordStart {
    /// Position after the hole of NUL bytes.
    pub(crate) record: usize,
    /// Position after the byte order mark.
    pub(crate) content: usize,
}

#[cold]
fn marked_start(bytes: &[u8], start: usize, record_end: u8) -> RecordStart {
    let has_holes = record_end != 0;
    let record = start + if has_holes { count_leading_nul(&bytes[start..]) } else { 0 };
    let mut content = record;
    while bytes[content..].starts_with(BYTE_ORDER_MARK) {
        content += BYTE_ORDER_MARK.len();
        content += if has_holes { count_leading_nul(&bytes[content..]) } else { 0 };
    }
    RecordStart { record, content }
}

/// Returns the number of NUL bytes at the beginning of `bytes`.
pub(crate) fn count_leading_nul(bytes: &[u8]) -> usize {
    const CHUNK_BYTES: usize = 64;
    let chunks = bytes.as_chunks::<CHUNK_BYTES>().0.iter();
    let passed = CHUNK_BYTES * chunks.take_while(|chunk| **chunk == [0; CHUNK_BYTES]).count();
    passed + bytes[passed..].iter().take_while(|byte| **byte == 0).count()
}

pub(crate) fn count_newlines(bytes: &[u8]) -> u64 {
    count_ends(bytes, b'\n')
}

pub(crate) fn count_ends(bytes: &[u8], record_end: u8) -> u64 {
    memchr_iter(record_end, bytes).count() as u64
}

/// Returns whether each quoted field of `record` ends directly after its closing quote, as it must in a correct record.
///
/// CSV readers accept further text between the closing quote and the end of the field. However, such text usually shows
/// that an earlier quote was opened by mistake. In that case, the quote that seems to close a field is really the
/// opening quote of another field.
pub(crate) fn has_sound_quotes(record: &[u8], separator: u8) -> bool {
    let mut rest = &record[record_start(record, 0, b'\n').content..];
    loop {
        rest = after_blanks(rest, separator);
        if let Some(mut inside) = rest.strip_prefix(b"\"") {
            loop {
                let Some(quote) = memchr(b'"', inside) else { return false };
                inside = &inside[quote + 1..];
                match inside.strip_prefix(b"\"") {
                    Some(after) => inside = after,
                    None => break,
                }
            }
            inside = after_blanks(inside, separator);
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

fn after_blanks(text: &[u8], separator: u8) -> &[u8] {
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
        let mut cut = Cut::new(Some(b','), b'\n');
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
            assert_eq!(cut("a\"\nb\"c\n\"\"\n", step), (10, 3, false), "a quote within a field is an ordinary byte");
            assert_eq!(
                cut("\"a\"b\"\nc\n", step),
                (8, 2, false),
                "a quote after the closing quote is an ordinary byte"
            );
            assert_eq!(cut("a,  \"b\nc\"\nd", step), (10, 1, false), "blanks may precede an opening quote");
            assert_eq!(
                cut("  \"b\nc\"\n \"d", step),
                (8, 1, true),
                "blanks may precede a quote at the beginning of a record"
            );
            assert_eq!(cut("\"a\" \"b\nc\"\n", step), (10, 2, false), "a quote after a quoted text opens no field");
            assert_eq!(
                cut("\u{feff}\"a\nb\"\nc", step),
                (9, 1, false),
                "a byte order mark does not belong to the field"
            );
            assert_eq!(
                cut("a\n\u{feff}\"a\nb\"\nc", step),
                (11, 2, false),
                "a byte order mark in the middle of the input does not belong to the field"
            );
            assert_eq!(
                cut("a\n\0\0\"a\nb\"\nc", step),
                (10, 2, false),
                "NUL bytes before a record do not belong to the field"
            );
            assert_eq!(cut("a\n\u{feff} \"a\nb\"\nc", step), (12, 2, false), "blanks may follow a byte order mark");
            assert_eq!(cut("a\0\"a\nb\n", step), (7, 2, false), "a NUL byte within a record belongs to the record");
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
