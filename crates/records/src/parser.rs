//! The parser of a run: from blocks to events with digests. Must not know: filters, windows, files.

use crate::cut::count_newlines;
use crate::field::FieldSpan;
use crate::key::KeyHasher;
use crate::lacking::Lacking;
use crate::layout::Layout;
use crate::names::listed;
use crate::printable::printable_value;
use crate::separated::read_header;
use crate::walk::{RawRecord, RecordSink, Scratch, Walk};
use crate::wanted::Slots;
use crate::{
    Block, BlockDefect, ConfigError, Header, KeyNormalization, ParsedBlock, RecordFormat, RecordSpan, RejectReason,
    Rejection, TimeError, TimeFormat, TimeParser,
};
use firstseen_filter::FilterSecret;
use std::iter;
use std::sync::Arc;

/// What to read from the records of a run.
#[derive(Clone, Debug)]
pub struct ParserConfig {
    /// How records are written.
    pub format: RecordFormat,
    /// The fields of the key, by name or 1-based index (in JSON: name or dotted path); empty: the format's
    /// [`default_key`](RecordFormat::default_key). A key of one field is hashed as its value, a key of several by
    /// [`FilterSecret::digest_parts`]. A value has lost its quotes and escapes by then; `true`, an array or an object
    /// of JSON is its text, and a number of JSON its [canonical form](crate::canonical_number).
    pub key: Vec<String>,
    /// The field of the time, or of its date; without one, [`ParsedBlock::times_ms`] is empty.
    pub time: Option<String>,
    /// The fields that the time goes on in, such as that of the time of day: the time is read from the values of all,
    /// joined by blanks.
    pub time_rest: Vec<String>,
    /// The only form in which times are written; `None` for all forms that [`TimeParser`] knows.
    pub time_format: Option<TimeFormat>,
    /// The field whose values the report counts; a record may lack it.
    pub source: Option<String>,
    /// Whether comma-separated and tab-separated files begin with a record, not with a header.
    pub no_header: bool,
    /// The IANA zone of times that do not name their own. Those of [`RecordFormat::Cdxj`] are always in UTC.
    pub zone: String,
    /// The normal form in which the values of the key are hashed.
    pub normalization: KeyNormalization,
}

impl ParserConfig {
    /// The defaults of a format: its default key, no time, no source, UTC, a header where the format has one.
    pub fn new(format: RecordFormat) -> Self {
        Self {
            format,
            key: Vec::new(),
            time: None,
            time_rest: Vec::new(),
            time_format: None,
            source: None,
            no_header: false,
            zone: "UTC".into(),
            normalization: KeyNormalization::None,
        }
    }
}

/// Turns the blocks of one file after another into events. `Clone` it for another thread after the first block of
/// the first file, or the clone has to see a header of its own.
#[derive(Clone, Debug)]
pub struct RecordParser {
    format: RecordFormat,
    has_header: bool,
    slots: Slots,
    normalization: KeyNormalization,
    times: TimeParser,
    hasher: KeyHasher,
    /// Known from the start, or from the first header on.
    layout: Option<Arc<Layout>>,
    header: Vec<String>,
    lacking: Lacking,
    scratch: Scratch,
    /// The text of a time that stands in several fields; kept for its memory.
    time_text: Vec<u8>,
}

impl RecordParser {
    /// A parser whose digests are under `secret`.
    ///
    /// # Errors
    /// [`ConfigError`] if a field or the time zone does not exist, as far as that is known without a header.
    pub fn new(config: ParserConfig, secret: FilterSecret) -> Result<Self, ConfigError> {
        let ParserConfig { format, mut key, time, time_rest, time_format, source, no_header, zone, normalization } =
            config;
        if key.is_empty() {
            key = format.default_key().iter().map(|&name| name.to_owned()).collect();
        }
        let times = time_parser(format, &zone, time_format)?;
        let time: Vec<String> = time.map_or_else(Vec::new, |first| iter::once(first).chain(time_rest).collect());
        let slots = Slots::new(&key, &time, source.as_deref());
        let has_header = format.has_header() && !no_header;
        let layout = if has_header { None } else { Some(Arc::new(Layout::new(format, slots.clone(), None)?)) };
        Ok(Self {
            format,
            has_header,
            slots,
            normalization,
            times,
            hasher: KeyHasher::new(secret, normalization),
            layout,
            header: Vec::new(),
            lacking: Lacking::default(),
            scratch: Scratch::default(),
            time_text: Vec::new(),
        })
    }

    /// Replaces the content of `parsed` by the records of `block`. Blocks come in the order of the input, a file's
    /// [first block](Block::is_first) first.
    ///
    /// # Errors
    /// [`ConfigError`] if a header lacks a wanted field, differs from the first file's, or is no record. Records that
    /// cannot be read are no error: they are among [`ParsedBlock::rejections`].
    pub fn parse(&mut self, block: &Block, parsed: &mut ParsedBlock) -> Result<(), ConfigError> {
        parsed.clear();
        let bytes = block.bytes();
        let mut walk = Walk::new(bytes, 0, block.first_line(), block.is_first(), block.quoted_newlines());
        let expects_header = self.has_header && (block.is_first() || self.layout.is_none());
        if let Some(reason) = block.defect().map(|defect| reason_of(defect, bytes.len())) {
            if expects_header {
                return Err(ConfigError::BadHeader { reason });
            }
            let span = RecordSpan { start: 0, end: bytes.len() as u32, line: block.first_line() };
            parsed.rejections.push(Rejection { span, reason });
            return Ok(());
        }
        if expects_header {
            let span = self.take_header(&walk, parsed)?;
            let lines = count_newlines(&bytes[span.range()]);
            walk = Walk::new(bytes, span.end as usize, span.line + lines, false, walk.quoted_newlines);
        }
        let Some(layout) = &self.layout else { return Ok(()) };
        parsed.layout = Some(Arc::clone(layout));
        parsed.normalization = self.normalization;
        let mut sink =
            Events { bytes, hasher: &mut self.hasher, times: &mut self.times, time_text: &mut self.time_text, parsed };
        layout.walk(&walk, &mut self.scratch, &mut sink);
        self.lacking.note(self.format, bytes, parsed);
        Ok(())
    }

    /// Checks, at the end of the input, that its records have the fields that were asked for.
    ///
    /// # Errors
    /// [`ConfigError::NoRecordHas`] where all records that could be read lack one field of the key, or the time.
    pub fn finish(&self) -> Result<(), ConfigError> {
        self.lacking.error().map_or(Ok(()), Err)
    }

    fn take_header(&mut self, walk: &Walk, parsed: &mut ParsedBlock) -> Result<RecordSpan, ConfigError> {
        let separator = if self.format == RecordFormat::Csv { b',' } else { b'\t' };
        let (names, span) = read_header(walk, separator).map_err(|reason| ConfigError::BadHeader { reason })?;
        let is_repeated = self.layout.is_some();
        if is_repeated && names != self.header {
            return Err(ConfigError::HeaderDiffers { first: listed(&self.header), other: listed(&names) });
        }
        if !is_repeated {
            self.layout = Some(Arc::new(Layout::new(self.format, self.slots.clone(), Some(&names))?));
            self.header = names;
        }
        parsed.header = Some(Header { span, is_repeated });
        Ok(span)
    }
}

/// The parser of the times of this format. Index lines have theirs in UTC, whatever the zone of the run is.
fn time_parser(format: RecordFormat, zone: &str, time_format: Option<TimeFormat>) -> Result<TimeParser, ConfigError> {
    let own = TimeParser::new(zone)?;
    let parser = if format == RecordFormat::Cdxj { TimeParser::new("UTC")? } else { own };
    Ok(match time_format {
        Some(time_format) => parser.with_format(time_format),
        None => parser,
    })
}

fn reason_of(defect: BlockDefect, kept_bytes: usize) -> RejectReason {
    match defect {
        BlockDefect::TooLong { record_bytes, record_bytes_max, lines } => {
            RejectReason::TooLong { record_bytes, record_bytes_max, lines, kept_bytes }
        }
        BlockDefect::UnclosedQuote => RejectReason::UnclosedQuote,
        BlockDefect::InputFailed => RejectReason::CutOff,
    }
}

struct Events<'a> {
    bytes: &'a [u8],
    hasher: &'a mut KeyHasher,
    times: &'a mut TimeParser,
    time_text: &'a mut Vec<u8>,
    parsed: &'a mut ParsedBlock,
}

impl RecordSink for Events<'_> {
    #[inline(always)]
    fn record(&mut self, slots: &Slots, record: RawRecord, fields: &[FieldSpan]) {
        let key = &fields[..slots.key_count];
        if let Some(slot) = key.iter().position(|field| !field.is_present()) {
            return self.reject(record, RejectReason::MissingField { field: slots.name(slot) });
        }
        if !slots.time.is_empty() {
            match self.time_ms(slots, fields) {
                Ok(time_ms) => self.parsed.times_ms.push(time_ms),
                Err(reason) => return self.reject(record, reason),
            }
        }
        if let Some(slot) = slots.source {
            self.take_source(fields[slot]);
        }
        self.parsed.digests.push(self.hasher.digest(self.bytes, key));
        self.parsed.spans.push(record.span);
    }

    #[cold]
    fn reject(&mut self, record: RawRecord, reason: RejectReason) {
        self.parsed.rejections.push(Rejection { span: record.span, reason });
    }
}

impl Events<'_> {
    fn time_ms(&mut self, slots: &Slots, fields: &[FieldSpan]) -> Result<i64, RejectReason> {
        match &fields[slots.time.clone()] {
            [field] if field.is_present() => {
                let text = field.decode_as_written(self.bytes);
                self.times.parse_next(&text).map_err(|error| bad_time(slots, &text, error))
            }
            several => {
                self.time_text.clear();
                for (slot, field) in slots.time.clone().zip(several) {
                    let text = field.decode_as_written(self.bytes);
                    // A date without its time of day would be read as midnight. An absent field has no text.
                    if text.trim_ascii().is_empty() {
                        return Err(RejectReason::MissingField { field: slots.name(slot) });
                    }
                    self.time_text.extend_from_slice(&text);
                    self.time_text.push(b' ');
                }
                self.times.parse_next(self.time_text).map_err(|error| bad_time(slots, self.time_text, error))
            }
        }
    }

    fn take_source(&mut self, field: FieldSpan) {
        let start = self.parsed.source_bytes.len() as u32;
        field.decode_into(self.bytes, &mut self.parsed.source_bytes);
        let end = self.parsed.source_bytes.len() as u32;
        self.parsed.sources.push(field.is_present().then_some(start..end));
    }
}

#[cold]
fn bad_time(slots: &Slots, text: &[u8], error: TimeError) -> RejectReason {
    let names: Vec<_> = slots.time.clone().map(|slot| slots.name(slot)).collect();
    RejectReason::BadTime { field: names.join(",").into(), text: printable_value(text).into(), error }
}
