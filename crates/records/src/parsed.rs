//! The result of parsing a block. This module does not depend on how the block was parsed.

use crate::field::FieldSpan;
use crate::key::{KeyHasher, KeyRules};
use crate::layout::Layout;
use crate::walk::{RawRecord, RecordSink, RecordSpan, Scratch, Walk};
use crate::wanted::Slots;
use crate::{Block, ConfigError, RejectReason};
use firstseen_filter::{Digest, FilterSecret};
use std::ops::Range;
use std::sync::Arc;

/// A record that is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Position of the record. For [`RejectReason::TooLong`], the bytes are the beginning of the record.
    pub span: RecordSpan,
    /// Why the record is rejected.
    pub reason: RejectReason,
}

/// A header, which is written to the output once and is not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Position of the header.
    pub span: RecordSpan,
    /// Whether an earlier file had the same header, so that it must not be written again.
    pub is_repeated: bool,
}

/// The parsed records of a block, stored column by column. The record with index `i` is described by `digests()[i]`,
/// `times_ms()[i]`, `spans()[i]` and `source(i)`.
///
/// A `ParsedBlock` can be filled again for the next block. This saves allocations, because it reuses its memory.
///
/// [`RecordParser`](crate::RecordParser) fills the block from text. Inputs whose records are not text fill it with
/// [`clear`](Self::clear), [`push`](Self::push) and [`reject`](Self::reject), and implement
/// [`Records`](crate::Records).
#[derive(Clone, Debug, Default)]
pub struct ParsedBlock {
    pub(crate) spans: Vec<RecordSpan>,
    pub(crate) digests: Vec<Digest>,
    pub(crate) times_ms: Vec<i64>,
    pub(crate) sources: Vec<Option<Range<u32>>>,
    pub(crate) source_bytes: Vec<u8>,
    pub(crate) rejections: Vec<Rejection>,
    pub(crate) header: Option<Header>,
    pub(crate) is_rest: bool,
    pub(crate) first_line: u64,
    pub(crate) repeated_headers: Vec<RecordSpan>,
    /// The first record that has the names of the header in another order.
    pub(crate) reordered_header: Option<RecordSpan>,
    pub(crate) hole_bytes: u64,
    /// Layouts of the records, in the order of the input.
    pub(crate) layouts: Vec<LayoutFrom>,
    pub(crate) key_rules: KeyRules,
    pub(crate) refusal: Option<ConfigError>,
}

/// Layout that applies to the records from a position in the block on.
#[derive(Clone, Debug)]
pub(crate) struct LayoutFrom {
    pub(crate) start: u32,
    pub(crate) layout: Arc<Layout>,
}

impl ParsedBlock {
    /// Returns the number of events in the block. Rejected records and headers do not count.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether the block has no event.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the position of each event, in the order of the input.
    pub fn spans(&self) -> &[RecordSpan] {
        &self.spans
    }

    /// Returns the digest of each event's key.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// Returns the time of each event in milliseconds since 1970. The result is empty if no time field was asked for.
    pub fn times_ms(&self) -> &[i64] {
        &self.times_ms
    }

    /// Returns the value of the source field of event `index`. The source field is the field by which reports count
    /// duplicates. `None` means that the event has no value in this field, or that the configuration names no source
    /// field.
    pub fn source(&self, index: usize) -> Option<&[u8]> {
        let range = self.sources.get(index)?.as_ref()?;
        self.source_bytes.get(range.start as usize..range.end as usize)
    }

    /// Returns the records that are not events, in the order of the input.
    pub fn rejections(&self) -> &[Rejection] {
        &self.rejections
    }

    /// Returns whether this block contains only a further piece of a rejected record, whose first piece was in an
    /// earlier block. This happens if a line is longer than the limit. The reader delivers such a line in pieces, so
    /// that an output can write the whole line without having it in memory at once.
    pub fn is_rest(&self) -> bool {
        self.is_rest
    }

    /// Returns the error that ended parsing within this block, if any. Parsing ends early if a record has no key and
    /// the configuration asks to stop in that case ([`EmptyKey::Fail`](crate::EmptyKey::Fail)). This `ParsedBlock` then
    /// contains the records before that record, but neither that record nor the records after it.
    pub fn refusal(&self) -> Option<&ConfigError> {
        self.refusal.as_ref()
    }

    /// Returns the header, if the block has one.
    pub fn header(&self) -> Option<Header> {
        self.header
    }

    /// Returns the positions of records that repeat the header. Such records occur if several files with the same
    /// header were concatenated. They are not events, and an output must not write them again. A record repeats the
    /// header if its bytes are the same as those of the header, apart from a byte order mark and the line end.
    pub fn repeated_headers(&self) -> &[RecordSpan] {
        &self.repeated_headers
    }

    /// Returns the line of the file on which the block begins, starting at 1.
    pub fn first_line(&self) -> u64 {
        self.first_line
    }

    /// Returns the number of NUL bytes that belong to no record and precede a record of this block. The count includes
    /// those directly before the block. Such bytes appear in a log after a power failure. They also appear if
    /// `copytruncate` of logrotate has truncated a log while a program continued to write at its old position.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// Returns the values of the key fields of event `index`, as text for users. The values are those that were hashed,
    /// with bytes that are not UTF-8 replaced. The function parses the record again, which is slow but saves memory,
    /// because most keys are never shown.
    ///
    /// ```
    /// # use firstseen_filter::FilterSecret;
    /// # use firstseen_records::*;
    /// let config = ParserConfig { key: vec!["1".into(), "3".into()], no_header: true, ..ParserConfig::new(RecordFormat::Csv) };
    /// let mut parser = RecordParser::new(config, FilterSecret::from_seed(1))?;
    /// let mut reader = BlockReader::new(&b"a,b,\"c \"\"d\"\"\"\n"[..], BlockOptions::for_format(RecordFormat::Csv));
    /// let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    /// assert!(reader.read_block(&mut block)?);
    /// parser.parse(&block, &mut parsed)?;
    /// assert_eq!(parsed.key_parts(0, &block), ["a", "c \"d\""]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key_parts(&self, index: usize, block: &Block) -> Vec<String> {
        let Some(span) = self.spans.get(index) else { return Vec::new() };
        let mut parts = Vec::new();
        self.read_again(*span, block, &mut Scratch::default(), |record, key| {
            let values = key.iter().map(|field| self.key_rules.value(*field, record));
            parts = values.map(|value| String::from_utf8_lossy(&value).into_owned()).collect();
        });
        parts
    }

    /// Returns the digest of each event's key with a different secret, in the order of [`Self::digests`]. The function
    /// parses the records again.
    ///
    /// ```
    /// # use firstseen_filter::FilterSecret;
    /// # use firstseen_records::*;
    /// let secret = FilterSecret::from_seed(2);
    /// let mut parser = RecordParser::new(ParserConfig::new(RecordFormat::Lines), FilterSecret::from_seed(1))?;
    /// let mut reader = BlockReader::new(&b"a\nb\n"[..], BlockOptions::for_format(RecordFormat::Lines));
    /// let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    /// assert!(reader.read_block(&mut block)?);
    /// parser.parse(&block, &mut parsed)?;
    /// assert_eq!(parsed.digests_under(&secret, &block), [secret.digest(b"a"), secret.digest(b"b")]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn digests_under(&self, secret: &FilterSecret, block: &Block) -> Vec<Digest> {
        let mut hasher = KeyHasher::new(secret.clone(), self.key_rules.clone());
        let mut digests = Vec::with_capacity(self.len());
        let mut scratch = Scratch::default();
        for span in &self.spans {
            self.read_again(*span, block, &mut scratch, |record, key| digests.push(hasher.digest(record, key)));
        }
        digests
    }

    /// Parses the record of an event again. Returns its bytes, and the key fields in them.
    fn read_again(
        &self,
        span: RecordSpan,
        block: &Block,
        scratch: &mut Scratch,
        mut take: impl FnMut(&[u8], &[FieldSpan]),
    ) {
        let read_with = self.layouts.iter().rfind(|from| from.start <= span.start);
        let (Some(from), Some(record)) = (read_with, block.bytes().get(span.range())) else { return };
        let walk = Walk {
            bytes: record,
            start: 0,
            line: 1,
            quoted_newlines: block.quoted_newlines(),
            record_end: block.record_end(),
            may_have_marks: true,
        };
        from.layout.walk(&walk, scratch, &mut KeyFields(|key: &[FieldSpan]| take(record, key)));
    }

    /// Removes everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.digests.clear();
        self.times_ms.clear();
        self.sources.clear();
        self.source_bytes.clear();
        self.rejections.clear();
        self.header = None;
        self.is_rest = false;
        self.first_line = 0;
        self.repeated_headers.clear();
        self.reordered_header = None;
        self.hole_bytes = 0;
        self.layouts.clear();
        self.refusal = None;
    }

    /// Appends an event. `time_ms` must be set either for all events of a block or for none.
    #[inline(always)]
    pub fn push(&mut self, span: RecordSpan, digest: Digest, time_ms: Option<i64>) {
        if let Some(time_ms) = time_ms {
            self.times_ms.push(time_ms);
        }
        self.digests.push(digest);
        self.spans.push(span);
    }

    /// Sets the value of the source field of the event that was appended last. If the configuration names a source
    /// field, the function must be called for each event.
    pub fn push_source(&mut self, value: Option<&[u8]>) {
        let start = self.source_bytes.len();
        self.source_bytes.extend_from_slice(value.unwrap_or_default());
        // A value beyond 4 GiB of values in one block counts as missing.
        let range = u32::try_from(start).ok().zip(u32::try_from(self.source_bytes.len()).ok());
        self.sources.push(value.and(range).map(|(start, end)| start..end));
    }

    /// Appends a record that is not an event.
    pub fn reject(&mut self, span: RecordSpan, reason: RejectReason) {
        self.rejections.push(Rejection { span, reason });
    }

    /// Removes the records from position `start` on.
    pub(crate) fn end_before(&mut self, start: u32) {
        let events = self.spans.partition_point(|span| span.start < start);
        self.spans.truncate(events);
        self.digests.truncate(events);
        self.times_ms.truncate(events);
        self.sources.truncate(events);
        self.rejections.retain(|rejection| rejection.span.start < start);
        self.repeated_headers.retain(|span| span.start < start);
    }
}

struct KeyFields<F>(F);

impl<F: FnMut(&[FieldSpan])> RecordSink for KeyFields<F> {
    fn record(&mut self, wanted: &Slots, _: RawRecord, slots: &[FieldSpan]) {
        (self.0)(&slots[..wanted.key_count]);
    }

    fn reject(&mut self, _: RawRecord, _: RejectReason) {}

    fn hole(&mut self, _: usize) {}
}
