//! Which fields are wanted and where the format keeps them; walks over the records of a block. Must not know: digests,
//! how records are used.

use crate::clf::{ClfFields, IndexFields};
use crate::cut::BYTE_ORDER_MARK;
use crate::field::FieldSpan;
use crate::json::JsonFields;
use crate::separated::Separated;
use crate::{ConfigError, RecordFormat, RecordSpan, RejectReason};
use std::sync::Arc;

/// A field that the user wants, or the whole record without its line end.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Whole,
    Named(Arc<str>),
}

/// The wanted fields, one slot each: first the key fields, then the time, then the source.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) key_count: usize,
    pub(crate) time: Option<usize>,
    pub(crate) source: Option<usize>,
}

impl Slots {
    pub(crate) fn new(key: &[String], time: Option<&str>, source: Option<&str>) -> Self {
        let named = |name: &str| Wanted::Named(name.into());
        let mut wanted: Vec<Wanted> = key.iter().map(|name| named(name)).collect();
        if wanted.is_empty() {
            wanted.push(Wanted::Whole);
        }
        let key_count = wanted.len();
        wanted.extend(time.into_iter().chain(source).map(named));
        let time_slot = time.map(|_| key_count);
        let source_slot = source.map(|_| wanted.len() - 1);
        Self { wanted, key_count, time: time_slot, source: source_slot }
    }

    /// The name of a slot for messages.
    pub(crate) fn name(&self, slot: usize) -> Arc<str> {
        match self.wanted.get(slot) {
            Some(Wanted::Named(name)) => Arc::clone(name),
            _ => "record".into(),
        }
    }
}

/// A record as the walk finds it: its place and, within, its content without byte order mark and line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord {
    pub(crate) span: RecordSpan,
    pub(crate) content: FieldSpan,
}

/// Receives the records of a walk, in the order of the input.
pub(crate) trait RecordSink {
    /// A record whose wanted fields are in `slots`; a field that it lacks is absent there.
    fn record(&mut self, layout: &Layout, record: RawRecord, slots: &[FieldSpan]);
    /// A record that cannot be read.
    fn reject(&mut self, record: RawRecord, reason: RejectReason);
}

/// The part of a block that a walk covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where the first record begins.
    pub(crate) start: usize,
    /// Where its content begins: behind the byte order mark.
    pub(crate) content_start: usize,
    /// The line of the first record.
    pub(crate) line: u64,
    pub(crate) quoted_newlines: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(bytes: &'a [u8], start: usize, line: u64, may_have_mark: bool, quoted_newlines: bool) -> Self {
        let has_mark = may_have_mark && bytes[start..].starts_with(BYTE_ORDER_MARK);
        let content_start = if has_mark { start + BYTE_ORDER_MARK.len() } else { start };
        Self { bytes, start, content_start, line, quoted_newlines }
    }
}

/// Memory of a walk, which is kept to be used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) slots: Vec<FieldSpan>,
    pub(crate) fields: Vec<FieldSpan>,
}

#[derive(Debug)]
enum Fields {
    Separated(Separated),
    Json(JsonFields),
    Clf(ClfFields),
    Index(IndexFields),
}

/// The wanted fields, resolved for the format and the header of this run.
#[derive(Debug)]
pub(crate) struct Layout {
    slots: Slots,
    fields: Fields,
}

impl Layout {
    /// `header`: the names of the fields where the input has a header.
    pub(crate) fn new(format: RecordFormat, slots: Slots, header: Option<&[String]>) -> Result<Self, ConfigError> {
        let wanted = &slots.wanted;
        let fields = match format {
            RecordFormat::Lines => Fields::Separated(Separated::lines(wanted)?),
            RecordFormat::Csv => Fields::Separated(Separated::csv(wanted, header)?),
            RecordFormat::Tsv => Fields::Separated(Separated::tsv(wanted, header)?),
            RecordFormat::Jsonl => Fields::Json(JsonFields::new(wanted)?),
            RecordFormat::Clf => Fields::Clf(ClfFields::new(wanted)?),
            RecordFormat::Cdxj => Fields::Index(IndexFields::new(wanted)?),
        };
        Ok(Self { slots, fields })
    }

    pub(crate) fn key_count(&self) -> usize {
        self.slots.key_count
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn walk(&self, walk: &Walk, scratch: &mut Scratch, sink: &mut impl RecordSink) {
        scratch.slots.clear();
        scratch.slots.resize(self.slots.wanted.len(), FieldSpan::default());
        match &self.fields {
            Fields::Separated(separated) => separated.walk(self, walk, scratch, sink),
            Fields::Json(json) => {
                self.walk_lines(walk, scratch, sink, |line, base, slots| json.locate(line, base, slots))
            }
            Fields::Clf(clf) => self.walk_lines(walk, scratch, sink, |line, base, slots| clf.locate(line, base, slots)),
            Fields::Index(index) => {
                self.walk_lines(walk, scratch, sink, |line, base, slots| index.locate(line, base, slots));
            }
        }
    }

    /// Walks over records that are lines: `locate` finds the wanted fields of a line, given its place in the block.
    fn walk_lines(
        &self,
        walk: &Walk,
        scratch: &mut Scratch,
        sink: &mut impl RecordSink,
        locate: impl Fn(&[u8], usize, &mut [FieldSpan]) -> Result<(), RejectReason>,
    ) {
        let bytes = walk.bytes;
        let (mut start, mut content_start, mut line) = (walk.start, walk.content_start, walk.line);
        while start < bytes.len() {
            let newline = memchr::memchr(b'\n', &bytes[start..]).map(|at| start + at);
            let end = newline.map_or(bytes.len(), |newline| newline + 1);
            let content = trim_line_end(&bytes[content_start..end]);
            let record = RawRecord {
                span: RecordSpan { start: start as u32, end: end as u32, line },
                content: FieldSpan::raw(content_start, content_start + content.len()),
            };
            scratch.slots.fill(FieldSpan::default());
            let located = if content.is_empty() {
                Err(RejectReason::Blank)
            } else {
                locate(content, content_start, &mut scratch.slots)
            };
            match located {
                Ok(()) => {
                    if let Some(Wanted::Whole) = self.slots.wanted.first() {
                        scratch.slots[0] = record.content;
                    }
                    sink.record(self, record, &scratch.slots);
                }
                Err(reason) => sink.reject(record, reason),
            }
            (start, content_start, line) = (end, end, line + 1);
        }
    }
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
