//! Types for a walk, which reads the records of a block one after the other. They describe where a walk begins, and at
//! which positions it finds the records and their fields. The caller of a walk implements the trait `RecordSink` to
//! receive the records.

use crate::RejectReason;
use crate::field::FieldSpan;
use crate::wanted::Slots;
use std::ops::Range;

/// Position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSpan {
    /// Position of its first byte in the block.
    pub start: u32,
    /// Position in the block after its line end. The last record of a file may have no line end.
    pub end: u32,
    /// Line of the file on which the record begins, starting at 1.
    pub line: u64,
}

impl RecordSpan {
    /// Returns the range of the record in the block, including its line end.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A record as the walk finds it: its position, and its content without byte order mark and line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord {
    pub(crate) span: RecordSpan,
    pub(crate) content: FieldSpan,
}

impl RawRecord {
    /// Creates a record whose content is between these positions in the block.
    pub(crate) fn new(span: RecordSpan, content_start: usize, content_end: usize) -> Self {
        Self { span, content: FieldSpan::raw(content_start, content_end) }
    }
}

/// Receives the records of a walk, in the order of the input.
pub(crate) trait RecordSink {
    /// Takes a record whose wanted fields are in `slots`. A field that the record lacks is absent there.
    fn record(&mut self, wanted: &Slots, record: RawRecord, slots: &[FieldSpan]);
    /// Takes a record that cannot be read.
    fn reject(&mut self, record: RawRecord, reason: RejectReason);
    /// Takes the number of NUL bytes in front of the next record, which belong to no record.
    fn hole(&mut self, bytes: usize);
}

/// The part of a block that a walk covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) bytes: &'a [u8],
    /// Position of the first record, or of the hole of NUL bytes in front of it.
    pub(crate) start: usize,
    /// Line of the first record.
    pub(crate) line: u64,
    pub(crate) quoted_newlines: bool,
    /// Byte that ends a record.
    pub(crate) record_end: u8,
    /// Whether a hole or a byte order mark may precede a record. It is false if the bytes contain neither.
    pub(crate) may_have_marks: bool,
}

/// Memory of a walk, which is kept so that it can be reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) slots: Vec<FieldSpan>,
    pub(crate) fields: Vec<FieldSpan>,
}
