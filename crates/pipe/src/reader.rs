//! Finds the key and the time of each message.
//!
//! JSON values are read by the parser of `firstseen dedup`, so that the same fields give the same digests there and
//! here. The values of a batch form one block of lines, and each value is exactly one line of it.
//!
//! This module does not depend on filters, windows or logs. No bytes of a message cause a panic.

use firstseen_filter::{Digest, FilterSecret};
use firstseen_records::{Block, ParsedBlock, ParserConfig, RecordFormat, RecordParser, RejectReason};

use crate::error::PipeError;
use crate::key::{KeySource, KeySources, TimeSource};
use crate::message::Message;
use crate::outcome::Rejection;

/// Events of a batch of messages from one partition, column by column.
#[derive(Debug, Default)]
pub struct Events {
    /// Digests of the keys of the events.
    pub(crate) digests: Vec<Digest>,
    /// Times of the events, in milliseconds since 1970. The list is empty if the filter needs no times.
    pub(crate) times_ms: Vec<u64>,
    /// What each message is, in the order of the messages.
    pub(crate) kinds: Vec<MessageKind>,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// An event, which has the next digest and the next time.
    Event,
    /// A message without a value, which is passed on and not compared.
    Tombstone,
    /// A message that is no event.
    Rejected(Box<Rejection>),
}

impl Events {
    /// Returns the number of messages, whether they are events or not.
    pub fn messages(&self) -> usize {
        self.kinds.len()
    }

    /// Returns the digests of the events.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// Returns the index of the first message that is no event, and the reason.
    pub(crate) fn first_rejection(&self) -> Option<(usize, &Rejection)> {
        self.kinds.iter().enumerate().find_map(|(index, kind)| match kind {
            MessageKind::Rejected(rejection) => Some((index, &**rejection)),
            MessageKind::Event | MessageKind::Tombstone => None,
        })
    }

    /// Returns the number of events among the first `messages` messages.
    pub(crate) fn events_before(&self, messages: usize) -> usize {
        self.kinds[..messages.min(self.kinds.len())].iter().filter(|kind| **kind == MessageKind::Event).count()
    }

    fn clear(&mut self) {
        self.digests.clear();
        self.times_ms.clear();
        self.kinds.clear();
    }
}

/// Reads keys and times. The memory of one batch is reused for the next.
pub struct EventReader {
    keys: KeySources,
    times: TimeSource,
    needs_time: bool,
    secret: FilterSecret,
    /// Parser of values, if the key or the time is in them.
    parser: Option<RecordParser>,
    block: Block,
    parsed: ParsedBlock,
    /// Result of the parser for each message whose value was parsed, by line of the block.
    values: Vec<ParsedValue>,
    parts: Vec<Vec<u8>>,
    scratch: Vec<u8>,
}

/// What the parser found in the value of a message.
#[derive(Clone, Debug)]
enum ParsedValue {
    Fields { digest: Digest, time_ms: Option<i64> },
    Rejected(RejectReason),
}

impl EventReader {
    /// Creates a reader. `needs_time` says whether the window of the filter depends on time.
    ///
    /// # Errors
    /// Returns an error if the name of a field is invalid.
    pub fn new(keys: KeySources, times: TimeSource, needs_time: bool, secret: FilterSecret) -> Result<Self, PipeError> {
        let time_field = match &times {
            TimeSource::Json(field) if needs_time => Some(field.clone()),
            _ => None,
        };
        let is_parsed = !keys.json.is_empty() || time_field.is_some();
        let config = ParserConfig {
            key: keys.json.clone(),
            is_whole: keys.json.is_empty(),
            time: time_field,
            ..ParserConfig::new(RecordFormat::Jsonl)
        };
        let parser = if is_parsed { Some(RecordParser::new(config, secret.clone())?) } else { None };
        Ok(Self {
            parts: vec![Vec::new(); keys.raw.len()],
            keys,
            times,
            needs_time,
            secret,
            parser,
            block: Block::default(),
            parsed: ParsedBlock::default(),
            values: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Returns a text that identifies how keys and times are read. Filters whose texts differ cannot be exchanged.
    pub fn identity(&self) -> String {
        format!("pipe key {} time {}", self.keys, self.times)
    }

    /// Returns whether the time of an event is the one that the log keeps with its message.
    pub(crate) fn uses_log_times(&self) -> bool {
        self.times == TimeSource::Timestamp
    }

    /// Reads the messages of a batch into `events`, whose previous content is lost.
    ///
    /// # Errors
    /// Returns an error if the parser cannot be used. Messages that cannot be read are no error.
    pub fn read<M: Message>(&mut self, messages: &[M], events: &mut Events) -> Result<(), PipeError> {
        events.clear();
        self.parse_values(messages)?;
        let mut line = 0;
        for message in messages {
            let is_tombstone = message.value().is_none() && !self.keys.needs_value();
            let parsed = if self.parser.is_some() && message.value().is_some() {
                line += 1;
                self.values.get(line - 1).cloned()
            } else {
                None
            };
            let kind = if is_tombstone {
                MessageKind::Tombstone
            } else {
                match self.event(message, parsed) {
                    Ok(event) => {
                        events.digests.push(event.digest);
                        events.times_ms.extend(event.time_ms);
                        MessageKind::Event
                    }
                    Err(rejection) => MessageKind::Rejected(Box::new(rejection)),
                }
            };
            events.kinds.push(kind);
        }
        Ok(())
    }

    /// Parses the values that are not null, and stores one result for each of them.
    fn parse_values<M: Message>(&mut self, messages: &[M]) -> Result<(), PipeError> {
        let Some(parser) = &mut self.parser else { return Ok(()) };
        self.block.clear();
        self.values.clear();
        for value in messages.iter().filter_map(Message::value) {
            self.block.push_record(value);
            // A value without any record, such as one of blanks, stays rejected as blank.
            self.values.push(ParsedValue::Rejected(RejectReason::Blank));
        }
        parser.parse(&self.block, &mut self.parsed)?;
        let times_ms = self.parsed.times_ms();
        for (event, (span, digest)) in self.parsed.spans().iter().zip(self.parsed.digests()).enumerate() {
            if let Some(value) = self.values.get_mut(index_of(span.line)) {
                *value = ParsedValue::Fields { digest: *digest, time_ms: times_ms.get(event).copied() };
            }
        }
        for rejection in self.parsed.rejections() {
            if let Some(value) = self.values.get_mut(index_of(rejection.span.line)) {
                *value = ParsedValue::Rejected(rejection.reason.clone());
            }
        }
        Ok(())
    }

    fn event<M: Message>(&mut self, message: &M, parsed: Option<ParsedValue>) -> Result<ReadEvent, Rejection> {
        let needs_parser = self.parser.is_some();
        let fields = match parsed {
            Some(ParsedValue::Fields { digest, time_ms }) => Some(ReadEvent { digest, time_ms: time_ms.map(to_ms) }),
            Some(ParsedValue::Rejected(reason)) => return Err(Rejection::Record(reason)),
            None if needs_parser => return Err(Rejection::NullValue),
            None => None,
        };
        let json = fields.as_ref().filter(|_| !self.keys.json.is_empty()).map(|fields| fields.digest);
        let digest = self.digest(message, json)?;
        let time_ms = match (&self.times, self.needs_time) {
            (_, false) => None,
            (TimeSource::Timestamp, true) => {
                let time_ms = message.timestamp_ms().and_then(|time_ms| u64::try_from(time_ms).ok());
                Some(time_ms.ok_or(Rejection::NoTimestamp)?)
            }
            (TimeSource::Json(_), true) => fields.and_then(|fields| fields.time_ms),
        };
        Ok(ReadEvent { digest, time_ms })
    }

    fn digest<M: Message>(&mut self, message: &M, json: Option<Digest>) -> Result<Digest, Rejection> {
        for (source, part) in self.keys.raw.iter().zip(&mut self.parts) {
            part.clear();
            match source {
                KeySource::MessageKey => part.extend_from_slice(message.key().ok_or(Rejection::NullKey)?),
                KeySource::Value => part.extend_from_slice(message.value().ok_or(Rejection::NullValue)?),
                KeySource::Header(name) => {
                    if !message.read_header(name, part) {
                        return Err(Rejection::NoHeader(name.clone()));
                    }
                }
                KeySource::Json(_) => {}
            }
        }
        let json_bytes = json.map(digest_bytes);
        match (self.parts.as_slice(), json) {
            ([], Some(digest)) => Ok(digest),
            ([part], None) => Ok(self.secret.digest(part)),
            (parts, _) => {
                let last = json_bytes.as_ref().map(|bytes| &bytes[..]);
                let all = parts.iter().map(Vec::as_slice).chain(last);
                Ok(self.secret.digest_parts(all, &mut self.scratch))
            }
        }
    }
}

/// Key and time of an event.
struct ReadEvent {
    digest: Digest,
    time_ms: Option<u64>,
}

/// Returns the index of the value on this line of the block.
fn index_of(line: u64) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX).wrapping_sub(1)
}

/// Returns a time of the parser, which rejects times before 1970.
fn to_ms(time_ms: i64) -> u64 {
    time_ms.cast_unsigned()
}

/// Returns the bytes of a digest, in the order in which hashing.md lists them.
pub(crate) fn digest_bytes(digest: Digest) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&digest.lo.to_le_bytes());
    bytes[8..].copy_from_slice(&digest.hi.to_le_bytes());
    bytes
}
