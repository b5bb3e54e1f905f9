//! The layout of the records in a run. The layout says where the wanted fields are in a record, for example in the
//! third column of a row. This module creates the layout from the format and the header, and uses it to find the values
//! of the wanted fields in all records of a block.

use crate::clf::{ClfFields, IndexFields};
use crate::cut::{RecordStart, record_start};
use crate::field::{Encoding, FieldSpan};
use crate::json::JsonFields;
use crate::separated::{Separated, Table, Width};
use crate::walk::{RawRecord, RecordSink, RecordSpan, Scratch, Walk};
use crate::wanted::{Slots, Wanted};
use crate::{ConfigError, RecordFormat, RejectReason};

#[derive(Debug)]
enum Fields {
    Separated(Separated),
    Json(JsonFields),
    Clf(ClfFields),
    Index(IndexFields),
}

/// What is known about the rows of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    pub(crate) table: Table,
    /// Names of the fields, if the input has a header.
    pub(crate) names: Option<&'a [String]>,
    /// Number of fields of a row, once it is known.
    pub(crate) width: Option<Width>,
}

/// The wanted fields, resolved for the format and the header of this run.
#[derive(Debug)]
pub(crate) struct Layout {
    slots: Slots,
    fields: Fields,
}

impl Layout {
    /// Resolves the wanted fields. `shape` describes the rows, for formats that have rows.
    pub(crate) fn new(format: RecordFormat, slots: Slots, shape: Option<Shape>) -> Result<Self, ConfigError> {
        let wanted = &slots.wanted;
        let fields = match (format, shape) {
            (RecordFormat::Jsonl, _) => Fields::Json(JsonFields::new(wanted)?),
            (RecordFormat::Clf, _) => Fields::Clf(ClfFields::new(wanted)?),
            (RecordFormat::Cdxj, _) => Fields::Index(IndexFields::new(wanted)?),
            (RecordFormat::Csv | RecordFormat::Tsv | RecordFormat::W3c, Some(shape)) => {
                Fields::Separated(Separated::rows(shape.table, shape.width, &slots, shape.names)?)
            }
            (RecordFormat::Lines | RecordFormat::Csv | RecordFormat::Tsv | RecordFormat::W3c, _) => {
                Fields::Separated(Separated::lines(wanted)?)
            }
        };
        Ok(Self { slots, fields })
    }

    /// Returns the layout of the rows after a line in the middle of a file that gives the fields new names.
    pub(crate) fn renamed(table: Table, slots: Slots, names: &[String]) -> Result<Self, ConfigError> {
        let fields = Fields::Separated(Separated::rows_renamed(table, &slots, names)?);
        Ok(Self { slots, fields })
    }

    /// Walks over the records. Stops at the first line that gives the fields new names, and returns its position.
    /// Returns `None` at the end.
    pub(crate) fn walk(&self, walk: &Walk, scratch: &mut Scratch, sink: &mut impl RecordSink) -> Option<RecordSpan> {
        scratch.slots.clear();
        scratch.slots.resize(self.slots.wanted.len(), FieldSpan::default());
        match &self.fields {
            Fields::Separated(separated) => return separated.walk(&self.slots, walk, scratch, sink),
            Fields::Json(json) => {
                self.walk_lines(walk, scratch, sink, |line, base, slots| json.locate(line, base, slots));
            }
            Fields::Clf(clf) => self.walk_lines(walk, scratch, sink, |line, base, slots| clf.locate(line, base, slots)),
            Fields::Index(index) => {
                self.walk_lines(walk, scratch, sink, |line, base, slots| index.locate(line, base, slots));
            }
        }
        None
    }

    /// Walks over records that are lines. `locate` finds the wanted fields of a line, given the line's position in the
    /// block.
    fn walk_lines(
        &self,
        walk: &Walk,
        scratch: &mut Scratch,
        sink: &mut impl RecordSink,
        locate: impl Fn(&[u8], usize, &mut [FieldSpan]) -> Result<(), RejectReason>,
    ) {
        let bytes = walk.bytes;
        let mut start = walk.start;
        let mut line = walk.line;
        let mut hole_bytes = 0;
        while start < bytes.len() {
            let found = memchr::memchr(walk.record_end, &bytes[start..]).map(|at| start + at);
            let end = found.map_or(bytes.len(), |record_end| record_end + 1);
            let mut begins = RecordStart { record: start, content: start };
            if walk.may_have_marks {
                begins = record_start(bytes, start, walk.record_end);
                hole_bytes += begins.record - start;
            }
            let content_start = begins.content;
            let content = trim_record_end(&bytes[content_start..end], walk.record_end);
            let record = RawRecord {
                span: RecordSpan { start: begins.record as u32, end: end as u32, line },
                content: FieldSpan::raw(content_start, content_start + content.len()),
            };
            scratch.slots.fill(FieldSpan::default());
            // A blank line is neither JSON nor a log line, so it is recognised before it is parsed.
            let located = if content.trim_ascii_start().is_empty() {
                Err(RejectReason::Blank)
            } else {
                locate(content, content_start, &mut scratch.slots)
            };
            match located {
                Ok(()) => {
                    if let Some(Wanted::Whole) = self.slots.wanted.first() {
                        let is_json = matches!(self.fields, Fields::Json(_));
                        let encoding = if is_json { Encoding::JsonObject } else { record.content.encoding };
                        scratch.slots[0] = FieldSpan { encoding, ..record.content };
                    }
                    sink.record(&self.slots, record, &scratch.slots);
                }
                Err(reason) => sink.reject(record, reason),
            }
            start = end;
            line += 1;
        }
        if hole_bytes > 0 {
            sink.hole(hole_bytes);
        }
    }
}

fn trim_record_end(record: &[u8], record_end: u8) -> &[u8] {
    match record {
        [content @ .., last] if *last == record_end && record_end != b'\n' => content,
        [content @ .., b'\r', b'\n'] | [content @ .., b'\n' | b'\r'] if record_end == b'\n' => content,
        _ => record,
    }
}
