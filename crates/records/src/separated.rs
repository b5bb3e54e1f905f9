//! Lines, comma-separated and tab-separated records: where their fields begin and end. Must not know: what the fields
//! are used for.

use crate::cut::count_newlines;
use crate::field::{Encoding, FieldSpan};
use crate::marks::Marks;
use crate::names::{FIELDS_MAX, place_of, place_of_index};
use crate::walk::{RawRecord, RecordSink, RecordSpan, Scratch, Walk};
use crate::wanted::{Slots, Wanted};
use crate::{ConfigError, RejectReason};
use memchr::memchr;

/// The byte that separates fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    None,
    Comma,
    Tab,
}

/// The columns that are wanted, one a slot; `None` is the whole record.
#[derive(Debug)]
pub(crate) struct Separated {
    separator: Separator,
    columns: Vec<Option<usize>>,
    columns_read: usize,
}

impl Separated {
    pub(crate) fn lines(wanted: &[Wanted]) -> Result<Self, ConfigError> {
        Self::new(Separator::None, wanted, |name| place_of(name, &["line"]))
    }

    pub(crate) fn csv(wanted: &[Wanted], header: Option<&[String]>) -> Result<Self, ConfigError> {
        Self::with_header(Separator::Comma, wanted, header)
    }

    pub(crate) fn tsv(wanted: &[Wanted], header: Option<&[String]>) -> Result<Self, ConfigError> {
        Self::with_header(Separator::Tab, wanted, header)
    }

    fn with_header(separator: Separator, wanted: &[Wanted], header: Option<&[String]>) -> Result<Self, ConfigError> {
        Self::new(separator, wanted, |name| match header {
            Some(names) => place_of(name, names),
            None => place_of_index(name),
        })
    }

    fn new(
        separator: Separator,
        wanted: &[Wanted],
        place: impl Fn(&str) -> Result<usize, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let columns = wanted.iter().map(|wanted| match wanted {
            Wanted::Whole => Ok(None),
            Wanted::Named(name) => place(name).map(Some),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let columns_read = columns.iter().flatten().max().map_or(0, |last| last + 1);
        Ok(Self { separator, columns, columns_read })
    }

    pub(crate) fn walk(&self, wanted: &Slots, walk: &Walk, scratch: &mut Scratch, sink: &mut impl RecordSink) {
        scratch.fields.clear();
        scratch.fields.resize(self.columns_read, FieldSpan::default());
        match self.separator {
            Separator::None => self.walk_marked(wanted, Records::new(walk, *b"\n"), scratch, sink),
            Separator::Tab => self.walk_marked(wanted, Records::new(walk, *b"\n\t"), scratch, sink),
            Separator::Comma if memchr(b'"', &walk.bytes[walk.start..]).is_none() => {
                self.walk_marked(wanted, Records::new(walk, *b"\n,"), scratch, sink);
            }
            Separator::Comma => self.walk_marked(wanted, Records::new(walk, *b"\n,\""), scratch, sink),
        }
    }

    fn walk_marked<const N: usize>(
        &self,
        wanted: &Slots,
        mut records: Records<N>,
        scratch: &mut Scratch,
        sink: &mut impl RecordSink,
    ) {
        while let Some(found) = records.next_record(&mut scratch.fields) {
            self.hand_over(wanted, found, scratch, sink);
        }
    }

    #[inline(always)]
    fn hand_over(&self, wanted: &Slots, found: Found, scratch: &mut Scratch, sink: &mut impl RecordSink) {
        let record = found.record;
        if found.is_unclosed {
            return sink.reject(record, RejectReason::UnclosedQuote);
        }
        if record.content.range().is_empty() && self.separator != Separator::None {
            return sink.reject(record, RejectReason::Blank);
        }
        for (slot, column) in scratch.slots.iter_mut().zip(&self.columns) {
            *slot = match *column {
                None => record.content,
                Some(column) if column < found.fields => scratch.fields[column],
                Some(_) => FieldSpan::default(),
            };
        }
        sink.record(wanted, record, &scratch.slots);
    }
}

/// The names in a header, and its place. `separator` is a comma (then there are quotes) or a tab.
pub(crate) fn read_header(walk: &Walk, separator: u8) -> Result<(Vec<String>, RecordSpan), RejectReason> {
    let read = |fields: &mut [FieldSpan]| match separator {
        b',' => Records::new(walk, *b"\n,\"").next_record(fields),
        _ => Records::new(walk, [b'\n', separator]).next_record(fields),
    };
    let found = read(&mut []).ok_or(RejectReason::Blank)?;
    if found.is_unclosed {
        return Err(RejectReason::UnclosedQuote);
    }
    if found.record.content.range().is_empty() {
        return Err(RejectReason::Blank);
    }
    let mut fields = vec![FieldSpan::default(); found.fields.min(FIELDS_MAX)];
    read(&mut fields);
    let names = fields.iter().map(|field| String::from_utf8_lossy(&field.decode(walk.bytes)).into_owned());
    Ok((names.collect(), found.record.span))
}

/// A record with its number of fields and whether it ends inside quotes.
struct Found {
    record: RawRecord,
    fields: usize,
    is_unclosed: bool,
}

/// Reads record after record. The first needle is the newline, the second the separator and the third the quote, where
/// there are so many.
struct Records<'a, const N: usize> {
    marks: Marks<'a, N>,
    bytes: &'a [u8],
    start: usize,
    content_start: usize,
    line: u64,
    quoted_newlines: bool,
}

impl<'a, const N: usize> Records<'a, N> {
    fn new(walk: &Walk<'a>, needles: [u8; N]) -> Self {
        Self {
            marks: Marks::new(walk.bytes, walk.content_start, needles),
            bytes: walk.bytes,
            start: walk.start,
            content_start: walk.content_start,
            line: walk.line,
            quoted_newlines: walk.quoted_newlines,
        }
    }

    /// Writes the places of the first fields into `fields`, as many as it holds.
    #[inline(always)]
    fn next_record(&mut self, fields: &mut [FieldSpan]) -> Option<Found> {
        if self.start >= self.bytes.len() {
            return None;
        }
        let mut field = FieldSpan::raw(self.content_start, self.content_start);
        let (mut count, mut newlines, mut is_unclosed) = (0, 0, false);
        let (content_end, end) = loop {
            let place = self.marks.next().unwrap_or(self.bytes.len());
            match self.bytes.get(place) {
                None => break (place, place),
                Some(b'\n') => break (place, place + 1),
                Some(b'"') if N == 3 => {
                    if place == field.start as usize {
                        field.encoding = Encoding::CsvQuoted;
                        let (after, is_closed) = self.pass_quoted(place + 1);
                        newlines += count_newlines(&self.bytes[place..after]);
                        is_unclosed |= !is_closed;
                        self.marks.seek(after);
                    }
                }
                Some(_) => {
                    field.end = place as u32;
                    if let Some(slot) = fields.get_mut(count) {
                        *slot = field;
                    }
                    count += 1;
                    field = FieldSpan::raw(place + 1, place + 1);
                }
            }
        };
        let has_return = content_end > field.start as usize && self.bytes[content_end - 1] == b'\r';
        let content_end = content_end - usize::from(has_return);
        field.end = content_end as u32;
        if let Some(slot) = fields.get_mut(count) {
            *slot = field;
        }
        let span = RecordSpan { start: self.start as u32, end: end as u32, line: self.line };
        let record = RawRecord { span, content: FieldSpan::raw(self.content_start, content_end) };
        self.line += 1 + newlines;
        (self.start, self.content_start) = (end, end);
        Some(Found { record, fields: count + 1, is_unclosed })
    }

    /// The place behind the closing quote of the field whose inside begins at `start`, or the place where the record
    /// must end without one.
    fn pass_quoted(&self, start: usize) -> (usize, bool) {
        let rest = &self.bytes[start..];
        let limit = if self.quoted_newlines { None } else { memchr(b'\n', rest) };
        let rest = &rest[..limit.unwrap_or(rest.len())];
        let mut passed = 0;
        while let Some(quote) = memchr(b'"', &rest[passed..]) {
            passed += quote + 1;
            if rest.get(passed) != Some(&b'"') {
                return (start + passed, true);
            }
            passed += 1;
        }
        (start + rest.len(), false)
    }
}
