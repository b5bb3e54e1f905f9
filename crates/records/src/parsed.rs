//! The result of parsing a block. Must not know: how it was parsed.

use crate::field::FieldSpan;
use crate::key::{KeyHasher, KeyRules};
use crate::layout::Layout;
use crate::walk::{RawRecord, RecordSink, RecordSpan, Scratch, Walk};
use crate::wanted::Slots;
use crate::{Block, ConfigError, RejectReason};
use firstseen_filter::{Digest, FilterSecret};
use std::ops::Range;
use std::sync::Arc;

/// A record that is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its place. For [`RejectReason::TooLong`] the bytes are the record's beginning.
    pub span: RecordSpan,
    /// Why it is rejected.
    pub reason: RejectReason,
}

/// A header: passed to the output once, and no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its place.
    pub span: RecordSpan,
    /// Whether an earlier file had it, so that it must not be written again.
    pub is_repeated: bool,
}

/// The records of a block, column by column: event `i` is `digests()[i]`, `times_ms()[i]`, `spans()[i]`, `source(i)`.
/// Reuse it: its memory is kept.
///
/// [`RecordParser`](crate::RecordParser) fills it from text. Inputs whose records are not text fill it with
/// [`clear`](Self::clear), [`push`](Self::push) and [`reject`](Self::reject), and implement [`Records`](crate::Records).
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
    /// In the order of the input.
    pub(crate) layouts: Vec<LayoutFrom>,
    pub(crate) key_rules: KeyRules,
    pub(crate) refusal: Option<ConfigError>,
}

/// How the records from a place in the block on are read.
#[derive(Clone, Debug)]
pub(crate) struct LayoutFrom {
    pub(crate) start: u32,
    pub(crate) layout: Arc<Layout>,
}

impl ParsedBlock {
    /// Events in the block: rejected records and headers are none.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the block has no event.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The place of each event, in the order of the input.
    pub fn spans(&self) -> &[RecordSpan] {
        &self.spans
    }

    /// The digest of each event's key.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// The time of each event in milliseconds since 1970; empty if no time field was asked for.
    pub fn times_ms(&self) -> &[i64] {
        &self.times_ms
    }

    /// The value of the source field of event `index`; `None` if it has none, or no source field was asked for.
    pub fn source(&self, index: usize) -> Option<&[u8]> {
        let range = self.sources.get(index)?.as_ref()?;
        self.source_bytes.get(range.start as usize..range.end as usize)
    }

    /// The records that are no events, in the order of the input.
    pub fn rejections(&self) -> &[Rejection] {
        &self.rejections
    }

    /// Whether the block has no record of its own, but the next piece of the one that was rejected last: a line that is
    /// too long comes in pieces, so that it costs no memory and no byte of it is lost.
    pub fn is_rest(&self) -> bool {
        self.is_rest
    }

    /// The error with which the input ends behind these records: one without a key, where that is to be refused
    /// ([`EmptyKey::Fail`](crate::EmptyKey::Fail)). The records of the block from there on are not among these.
    pub fn refusal(&self) -> Option<&ConfigError> {
        self.refusal.as_ref()
    }

    /// The header, if the block has one.
    pub fn header(&self) -> Option<Header> {
        self.header
    }

    /// Records behind the header that repeat it, byte for byte without byte order mark and line end: files were joined to
    /// one stream. They are no events, and must not be written again.
    pub fn repeated_headers(&self) -> &[RecordSpan] {
        &self.repeated_headers
    }

    /// The 1-based line of the file on which the block begins.
    pub fn first_line(&self) -> u64 {
        self.first_line
    }

    /// NUL bytes in front of records, in the block and in front of it, which belong to no record: `copytruncate` and power
    /// cuts leave such holes.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// The values of the key fields of event `index`, as they were hashed, for people to read; bytes that are no UTF-8
    /// are replaced. It reads the record again, so that nothing is kept for events whose keys are never shown.
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

    /// The digest of each event's key under another secret, in the order of [`Self::digests`]. It reads the records
    /// again.
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

    /// Reads the record of an event again: its bytes, and the key fields in them.
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

    /// Adds an event behind the others. `time_ms` is set either for all events of a block, or for none.
    #[inline(always)]
    pub fn push(&mut self, span: RecordSpan, digest: Digest, time_ms: Option<i64>) {
        if let Some(time_ms) = time_ms {
            self.times_ms.push(time_ms);
        }
        self.digests.push(digest);
        self.spans.push(span);
    }

    /// Adds a record that is no event behind the others.
    pub fn reject(&mut self, span: RecordSpan, reason: RejectReason) {
        self.rejections.push(Rejection { span, reason });
    }

    /// Removes the records from `start` on.
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
