//! A walk over the records of a block: where it begins, the places that it finds, and who receives them. Must not know:
//! formats, digests, how records are used.

use crate::RejectReason;
use crate::field::FieldSpan;
use crate::wanted::Slots;
use std::ops::Range;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSpan {
    /// Its first byte, in the block.
    pub start: u32,
    /// The byte behind its line end, in the block; the last record of a file may have no line end.
    pub end: u32,
    /// The 1-based line of the file on which it begins.
    pub line: u64,
}

impl RecordSpan {
    /// Its range in the block, line end included.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A record as the walk finds it: its place and, within, its content without byte order mark and line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord {
    pub(crate) span: RecordSpan,
    pub(crate) content: FieldSpan,
}

impl RawRecord {
    /// A record whose content is between these places in the block.
    pub(crate) fn new(span: RecordSpan, content_start: usize, content_end: usize) -> Self {
        Self { span, content: FieldSpan::raw(content_start, content_end) }
    }
}

/// Receives the records of a walk, in the order of the input.
pub(crate) trait RecordSink {
    /// A record whose wanted fields are in `slots`; a field that it lacks is absent there.
    fn record(&mut self, wanted: &Slots, record: RawRecord, slots: &[FieldSpan]);
    /// A record that cannot be read.
    fn reject(&mut self, record: RawRecord, reason: RejectReason);
    /// NUL bytes in front of the next record, which belong to none.
    fn hole(&mut self, bytes: usize);
}

/// The part of a block that a walk covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where the first record begins, or the hole in front of it.
    pub(crate) start: usize,
    /// The line of the first record.
    pub(crate) line: u64,
    pub(crate) quoted_newlines: bool,
    /// The byte that ends a record.
    pub(crate) record_end: u8,
    /// Whether a hole or a byte order mark may stand in front of a record; false where the bytes have none.
    pub(crate) may_have_marks: bool,
}

/// Memory of a walk, which is kept to be used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) slots: Vec<FieldSpan>,
    pub(crate) fields: Vec<FieldSpan>,
}
