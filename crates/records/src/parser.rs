//! The parser of a run, which turns blocks into events with digests. This module does not depend on filters, windows or
//! files.

use crate::canonical::IgnoredPath;
use crate::cut::may_have_marks;
use crate::field::{Encoding, FieldSpan};
use crate::heading::walk_after;
use crate::json::path_of;
use crate::key::{KeyHasher, KeyRules};
use crate::lacking::Lacking;
use crate::layout::Layout;
use crate::parsed::LayoutFrom;
use crate::printable::printable_value;
use crate::rows::Rows;
use crate::separated::Table;
use crate::walk::{RawRecord, RecordSink, Scratch, Walk};
use crate::wanted::{Slots, Wanted};
use crate::{
    Block, BlockDefect, ConfigError, EmptyKey, KeyNormalization, ParsedBlock, Ragged, RecordFormat, RecordSpan,
    RejectReason, TimeError, TimeFormat, TimeParser,
};
use firstseen_filter::FilterSecret;
use std::iter;
use std::sync::Arc;

/// Configuration of a parser: what to read from the records of a run.
#[derive(Clone, Debug)]
pub struct ParserConfig {
    /// Format of the records.
    pub format: RecordFormat,
    /// Fields of the key. A field is given by its name or by its position, starting at 1. In JSON, it is given by its
    /// name or dotted path. An empty list means the [`default_key`](RecordFormat::default_key) of the format.
    ///
    /// The value of a field is hashed without quotes and escape sequences. In JSON, a number is hashed in its
    /// [canonical form](crate::canonical_number), and `true`, arrays and objects are hashed as their text. A key of
    /// several fields is hashed with [`FilterSecret::digest_parts`].
    pub key: Vec<String>,
    /// Whether the key is the whole record if no field is named, even if the format has a default key.
    pub is_whole: bool,
    /// Field with the time, or with its date. Without a time field, [`ParsedBlock::times_ms`] is empty.
    pub time: Option<String>,
    /// Further fields of the time, such as a field with the time of day. The time is parsed from the values of all
    /// fields, joined by blanks.
    pub time_rest: Vec<String>,
    /// The only accepted form of times. `None` accepts all forms that [`TimeParser`] knows.
    pub time_format: Option<TimeFormat>,
    /// Field whose values the report counts. A record may lack it.
    pub source: Option<String>,
    /// Whether comma-separated and tab-separated files begin with a record and not with a header.
    pub no_header: bool,
    /// IANA time zone of times that do not contain a zone. Times of [`RecordFormat::Cdxj`] are always in UTC.
    pub zone: String,
    /// Normal form in which the values of the key are hashed.
    pub normalization: KeyNormalization,
    /// Byte between two fields. `None` means the format's [`default_separator`](RecordFormat::default_separator).
    pub separator: Option<u8>,
    /// Fields that are not part of the key if the whole record is the key.
    pub ignore: Vec<String>,
    /// What happens to rows with another number of fields than the header.
    pub ragged: Ragged,
    /// What happens to records whose key has no value.
    pub empty_key: EmptyKey,
}

impl ParserConfig {
    /// Returns the defaults of a format: its default key, no time, no source, UTC, and a header if the format has one.
    pub fn new(format: RecordFormat) -> Self {
        Self {
            format,
            key: Vec::new(),
            is_whole: false,
            time: None,
            time_rest: Vec::new(),
            time_format: None,
            source: None,
            no_header: false,
            zone: "UTC".into(),
            normalization: KeyNormalization::None,
            separator: None,
            ignore: Vec::new(),
            ragged: Ragged::default(),
            empty_key: EmptyKey::default(),
        }
    }

    /// Returns how rows are written, for formats that have rows.
    fn table(&self) -> Result<Option<Table>, ConfigError> {
        let Some(default) = self.format.default_separator() else {
            return self.separator.map_or(Ok(None), |_| Err(ConfigError::NoSeparator { format: self.format.name() }));
        };
        let separator = self.separator.unwrap_or(default);
        if matches!(separator, 0 | b'\n' | b'\r' | b'"' | b'#') || !separator.is_ascii() {
            let shown = format!("`{}`", separator.escape_ascii());
            return Err(ConfigError::BadSeparator { shown });
        }
        let is_extended = self.format == RecordFormat::W3c;
        Ok(Some(Table {
            separator,
            has_quotes: self.format != RecordFormat::Tsv,
            ragged: self.ragged,
            has_comments: is_extended,
            has_dashes: is_extended,
            has_header: !self.no_header,
        }))
    }

    /// Returns the paths of the members to ignore, for JSON.
    fn ignored_paths(&self) -> Result<Vec<IgnoredPath>, ConfigError> {
        if self.ignore.is_empty() {
            return Ok(Vec::new());
        }
        if self.format != RecordFormat::Jsonl && self.format.default_separator().is_none() {
            return Err(ConfigError::CannotIgnore { format: self.format.name() });
        }
        if !self.key.is_empty() {
            return Err(ConfigError::IgnoredWithKey);
        }
        if self.format != RecordFormat::Jsonl {
            return Ok(Vec::new());
        }
        self.ignore.iter().map(|name| path_of(name).map(|path| IgnoredPath::new(&path))).collect()
    }
}

/// Parser that converts the blocks of one or more files into events. A parser can be cloned, so that several threads
/// can parse blocks of the same input.
///
/// The first block of the first file usually contains the header, which names the fields. A parser should be cloned
/// only after it has parsed this block, because the clones then know the names too. A clone that was made earlier must
/// find a header in its own input.
#[derive(Clone, Debug)]
pub struct RecordParser {
    format: RecordFormat,
    rows: Option<Rows>,
    slots: Slots,
    key_rules: KeyRules,
    times: TimeParser,
    hasher: KeyHasher,
    /// Where the wanted fields are. For rows, it is known once the names or the number of their fields are known.
    layout: Option<Arc<Layout>>,
    lacking: Lacking,
    scratch: Scratch,
    /// Text of a time that is split over several fields. It is stored here to reuse its memory.
    time_text: Vec<u8>,
}

impl RecordParser {
    /// Creates a parser whose digests are computed with `secret`.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a field or the time zone does not exist, as far as this is known without a header.
    pub fn new(config: ParserConfig, secret: FilterSecret) -> Result<Self, ConfigError> {
        let table = config.table()?;
        let ignored = config.ignored_paths()?;
        let ParserConfig {
            format,
            mut key,
            is_whole,
            time,
            time_rest,
            time_format,
            source,
            zone,
            normalization,
            ignore,
            empty_key,
            ..
        } = config;
        if key.is_empty() && !is_whole {
            key = format.default_key().iter().map(|&name| name.to_owned()).collect();
        }
        let times = time_parser(format, &zone, time_format)?;
        let time: Vec<String> = time.map_or_else(Vec::new, |first| iter::once(first).chain(time_rest).collect());
        let slots = Slots { empty_key, ..Slots::new(&key, &time, source.as_deref()) };
        let rows = table.map(|table| Rows::new(format, table, ignore));
        let layout = match &rows {
            Some(rows) => rows.layout_without_header(&slots)?,
            None => Some(Layout::new(format, slots.clone(), None)?),
        };
        let key_rules = KeyRules { normalization, ignored: ignored.into() };
        Ok(Self {
            format,
            rows,
            slots,
            times,
            hasher: KeyHasher::new(secret, key_rules.clone()),
            key_rules,
            layout: layout.map(Arc::new),
            lacking: Lacking::default(),
            scratch: Scratch::default(),
            time_text: Vec::new(),
        })
    }

    /// Parses the records of `block` into `parsed`, whose previous content is lost. The blocks must be passed in the
    /// order of the input, and each file must begin with its [first block](Block::is_first).
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a header lacks a wanted field, differs from the header of the first file, or cannot
    /// be parsed. Records that cannot be read are not an error. They are in [`ParsedBlock::rejections`].
    pub fn parse(&mut self, block: &Block, parsed: &mut ParsedBlock) -> Result<(), ConfigError> {
        parsed.clear();
        parsed.first_line = block.first_line();
        parsed.hole_bytes = block.hole_bytes();
        let bytes = block.bytes();
        if block.defect() == Some(BlockDefect::RestOfLong) {
            parsed.is_rest = true;
            return Ok(());
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let mut walk = Walk {
            bytes,
            start: 0,
            line: block.first_line(),
            quoted_newlines: block.quoted_newlines(),
            record_end: block.record_end(),
            may_have_marks: may_have_marks(bytes),
        };
        if let (Some(rows), true) = (&mut self.rows, block.is_first()) {
            rows.begin_file(&walk);
        }
        if let Some(reason) = block.defect().and_then(reason_of) {
            if self.rows.as_ref().is_some_and(Rows::awaits_header) {
                return Err(ConfigError::BadHeader { reason });
            }
            let span = RecordSpan { start: 0, end: bytes.len() as u32, line: block.first_line() };
            parsed.reject(span, reason);
            return Ok(());
        }
        if let Some(rows) = &mut self.rows {
            walk = rows.read_beginning(walk, &self.slots, &mut self.layout, parsed)?;
        }
        parsed.key_rules = self.key_rules.clone();
        while let Some(span) = self.walk(&walk, parsed) {
            walk = walk_after(&walk, span);
            let Some(rows) = &mut self.rows else { break };
            let renamed = rows.rename(&bytes[span.range()], &self.slots)?;
            self.layout = renamed.map(Arc::new).or(self.layout.take());
            parsed.reject(span, RejectReason::Comment { names_fields: true });
        }
        if let (Some(span), Some(rows)) = (parsed.reordered_header, &self.rows) {
            parsed.end_before(span.start);
            let other = String::from_utf8_lossy(bytes[span.range()].trim_ascii_end());
            parsed.refusal = Some(rows.reordered(span.line, &other));
            return Ok(());
        }
        self.lacking.note(self.format, bytes, parsed);
        if self.slots.empty_key == EmptyKey::Fail {
            refuse_empty_key(parsed);
        }
        Ok(())
    }

    /// Walks to the end of the block, or to a line that gives the fields new names, and returns the position of that
    /// line.
    fn walk(&mut self, walk: &Walk, parsed: &mut ParsedBlock) -> Option<RecordSpan> {
        let layout = self.layout.as_ref()?;
        parsed.layouts.push(LayoutFrom { start: walk.start as u32, layout: Arc::clone(layout) });
        let mut sink = Events {
            bytes: walk.bytes,
            hasher: &mut self.hasher,
            times: &mut self.times,
            time_text: &mut self.time_text,
            header_line: self.rows.as_ref().map_or(&[], Rows::header_line),
            separator: self.rows.as_ref().map_or(b'\n', Rows::separator),
            forbids_nul: self.format.forbids_nul() && walk.may_have_marks && memchr::memchr(0, walk.bytes).is_some(),
            parsed,
        };
        layout.walk(walk, &mut self.scratch, &mut sink)
    }

    /// Prepares the parser for the rest of an input whose beginning was parsed by an earlier process. `time_ms` is the
    /// last time that the earlier process read, in milliseconds since 1970.
    ///
    /// The parser needs this time for local times that occur twice because clocks were set back. Such a local time can
    /// mean two different times, and the parser chooses the one that is closer to the times before it.
    pub fn continue_from(&mut self, time_ms: i64) {
        self.times.continue_from(time_ms);
    }

    /// Checks at the end of the input that its records have the required fields.
    ///
    /// # Errors
    /// Returns [`ConfigError::NoRecordHas`] if all readable records lack one field of the key, or the time. Returns
    /// [`ConfigError::NoRecordHasValue`] if such a field is empty in all of them.
    pub fn finish(&self) -> Result<(), ConfigError> {
        self.lacking.error().map_or(Ok(()), Err)
    }
}

/// Returns whether `record` is a second header, with the same names as `header` but in another order. Such a record
/// appears if files of two programs were concatenated. In the records after it, the fields are at other positions, so
/// the parser must no longer read the key from the positions that `header` gives.
///
/// Only a row of words counts as a header, so that a row of values is not mistaken for one.
fn is_reordered(record: &[u8], header: &[u8], separator: u8) -> bool {
    if record.len() != header.len() || sum_of_bytes(record) != sum_of_bytes(header) {
        return false;
    }
    let names = sorted_fields(header, separator);
    let are_words = names.iter().all(|name| name.iter().any(u8::is_ascii_alphabetic));
    let has_long = names.iter().any(|name| name.len() > 1);
    names.len() >= 2 && are_words && has_long && names == sorted_fields(record, separator)
}

fn sum_of_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

fn sorted_fields(row: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut fields: Vec<&[u8]> = row.split(|byte| *byte == separator).collect();
    fields.sort_unstable();
    fields
}

/// Removes all records from the first record without a key on.
#[cold]
fn refuse_empty_key(parsed: &mut ParsedBlock) {
    let without_key = parsed.rejections.iter().find_map(|rejection| match &rejection.reason {
        RejectReason::NoKey { field } => Some((rejection.span, Arc::clone(field))),
        _ => None,
    });
    if let Some((span, field)) = without_key {
        parsed.end_before(span.start);
        parsed.refusal = Some(ConfigError::EmptyKey { line: span.line, field });
    }
}

/// Returns the parser for the times of this format. Times of index lines are in UTC, whatever the zone of the run is.
fn time_parser(format: RecordFormat, zone: &str, time_format: Option<TimeFormat>) -> Result<TimeParser, ConfigError> {
    let own = TimeParser::new(zone)?;
    let parser = if format == RecordFormat::Cdxj { TimeParser::new("UTC")? } else { own };
    Ok(match time_format {
        Some(time_format) => parser.with_format(time_format),
        None => parser,
    })
}

/// Returns why the range of a block is rejected. `None` means that the block is the rest of a range that was already
/// rejected.
fn reason_of(defect: BlockDefect) -> Option<RejectReason> {
    match defect {
        BlockDefect::TooLong { record_bytes, record_bytes_max, lines, is_whole } => {
            Some(RejectReason::TooLong { record_bytes, record_bytes_max, lines, is_whole })
        }
        BlockDefect::RestOfLong => None,
        BlockDefect::UnclosedQuote => Some(RejectReason::UnclosedQuote),
        BlockDefect::InputFailed => Some(RejectReason::CutOff),
    }
}

struct Events<'a> {
    bytes: &'a [u8],
    hasher: &'a mut KeyHasher,
    times: &'a mut TimeParser,
    time_text: &'a mut Vec<u8>,
    /// Text of the header. It is empty if there is no header.
    header_line: &'a [u8],
    separator: u8,
    /// Whether the block contains NUL bytes, and the format does not allow them in a record.
    forbids_nul: bool,
    parsed: &'a mut ParsedBlock,
}

impl RecordSink for Events<'_> {
    #[inline(always)]
    fn record(&mut self, slots: &Slots, record: RawRecord, fields: &[FieldSpan]) {
        let has_length_of_header = record.content.range().len() == self.header_line.len();
        if (has_length_of_header || self.forbids_nul) && self.is_no_event(record) {
            return;
        }
        let key = &fields[..slots.key_count];
        if key.iter().any(|field| field.may_have_no_value(self.bytes))
            && let Some(reason) = no_key(slots, key, self.bytes)
        {
            return self.reject(record, reason);
        }
        let mut time_ms = None;
        if !slots.time.is_empty() {
            match self.time_ms(slots, fields) {
                Ok(found_ms) => time_ms = Some(found_ms),
                Err(reason) => return self.reject(record, reason),
            }
        }
        if let Some(slot) = slots.source {
            self.take_source(fields[slot]);
        }
        let digest = self.hasher.digest(self.bytes, key);
        self.parsed.push(record.span, digest, time_ms);
    }

    #[cold]
    fn reject(&mut self, record: RawRecord, reason: RejectReason) {
        // The check comes first, because a header may also have a different number of fields than the rows, or look
        // like a comment.
        if self.is_header(record) {
            return self.parsed.repeated_headers.push(record.span);
        }
        self.parsed.reject(record.span, reason);
    }

    #[cold]
    fn hole(&mut self, bytes: usize) {
        self.parsed.hole_bytes += bytes as u64;
    }
}

/// Returns why fields with an empty field among them are not a key. Returns `None` if they are a key.
#[cold]
fn no_key(slots: &Slots, key: &[FieldSpan], bytes: &[u8]) -> Option<RejectReason> {
    // If the key is all fields except some, the record has no key only if none of these fields has a value.
    let is_rest = matches!(slots.wanted.first(), Some(Wanted::Column(_)));
    if is_rest && slots.empty_key != EmptyKey::Value && key.iter().all(|field| field.has_no_value(bytes)) {
        return Some(RejectReason::NoKey { field: slots.name(0) });
    }
    for (slot, field) in key.iter().enumerate().filter(|(_, field)| field.has_no_value(bytes)) {
        let is_missing = field.encoding == Encoding::Absent;
        if is_missing && slots.empty_key != EmptyKey::Fail {
            return Some(RejectReason::MissingField { field: slots.name(slot) });
        }
        if is_missing || (slots.empty_key != EmptyKey::Value && !slots.is_whole) {
            return Some(RejectReason::NoKey { field: slots.name(slot) });
        }
    }
    None
}

impl Events<'_> {
    /// Returns whether a record repeats the header, as in a stream of concatenated files.
    fn is_header(&self, record: RawRecord) -> bool {
        !self.header_line.is_empty() && &self.bytes[record.content.range()] == self.header_line
    }

    /// Handles a record that is not an ordinary event: a repetition of the header, a header in another order, or a
    /// record with a NUL byte in a format that does not allow it. Returns whether the record was one of these.
    #[cold]
    #[inline(never)]
    fn is_no_event(&mut self, record: RawRecord) -> bool {
        if self.is_header(record) {
            self.parsed.repeated_headers.push(record.span);
            return true;
        }
        if is_reordered(&self.bytes[record.content.range()], self.header_line, self.separator) {
            self.parsed.reordered_header.get_or_insert(record.span);
            return true;
        }
        if self.forbids_nul
            && let Some(place) = memchr::memchr(0, &self.bytes[record.content.range()])
        {
            self.reject(record, RejectReason::NulByte { column: place + 1 });
            return true;
        }
        false
    }

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
                    // A missing time of day is an error, because the date alone would be parsed as midnight. An absent
                    // field has an empty text.
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
