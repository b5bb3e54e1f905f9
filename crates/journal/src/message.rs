//! Encodes records as protocol-buffer messages and decodes them (`docs/reference/disk-format.md`).
//!
//! Decoding an encoded record returns a record that is equal to the original. Bytes that are not the encoding of any
//! record are rejected. Decoding uses at most a small multiple of the size of the bytes as memory, so damaged bytes
//! cannot exhaust the memory.

use firstseen_filter::{
    BlockProbe, CellRun, GenerationNumber, LiveEvents, ProbeShape, Probes, SliceOutline, UnitNumber,
};
use firstseen_routing::{
    BatchName, ClockReading, Decision, Entry, Epoch, EventTag, FilterId, NamedEvent, PositionLists, Reason, Record,
    SubmissionName,
};
use prost::Message;
use thiserror::Error;

use crate::stamps;

/// Maximum number of events in a batch, in any record.
const EVENTS_MAX: u32 = 1 << 20;

/// Error returned when bytes do not encode a record.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The bytes are not a valid protocol-buffer message.
    #[error("no record: {0}")]
    Message(#[from] prost::DecodeError),
    /// A field has an invalid value.
    #[error("no record: {0}")]
    Field(&'static str),
}

#[derive(Clone, PartialEq, Message)]
struct RecordMessage {
    #[prost(uint64, tag = "1")]
    filter: u64,
    #[prost(uint32, tag = "2")]
    group: u32,
    #[prost(message, repeated, tag = "3")]
    entries: Vec<EntryMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct EntryMessage {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Events(EventsMessage),
    #[prost(message, tag = "2")]
    Set(SetMessage),
    #[prost(message, tag = "3")]
    Told(ToldMessage),
    #[prost(message, tag = "4")]
    Checkpoint(CheckpointMessage),
    #[prost(message, tag = "5")]
    Slice(SliceMessage),
    #[prost(message, tag = "6")]
    Cells(CellsMessage),
    #[prost(message, tag = "7")]
    CheckpointEnd(EndMessage),
    #[prost(message, tag = "8")]
    Taken(TakenMessage),
    #[prost(message, tag = "9")]
    Marks(MarksMessage),
    #[prost(message, tag = "10")]
    Headed(HeadedMessage),
    #[prost(message, tag = "11")]
    Owed(OwedMessage),
    #[prost(message, tag = "12")]
    Reported(ReportedMessage),
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct EndMessage {}

#[derive(Clone, PartialEq, Message)]
struct EventsMessage {
    #[prost(uint64, tag = "1")]
    generation: u64,
    /// Number of cells for positions that are spread over all cells, otherwise 0.
    #[prost(uint64, tag = "2")]
    cells: u64,
    #[prost(uint32, tag = "3")]
    hashes: u32,
    /// Number of blocks for events whose positions lie in one block, otherwise 0.
    #[prost(uint64, tag = "4")]
    blocks: u64,
    #[prost(uint32, tag = "5")]
    offset_bits: u32,
    /// Positions of each event if they are spread over all cells, otherwise the block of each event.
    #[prost(uint64, repeated, tag = "6")]
    positions: Vec<u64>,
    /// Two words for each event whose positions lie in one block.
    #[prost(fixed64, repeated, tag = "7")]
    words: Vec<u64>,
    #[prost(sint64, repeated, tag = "8")]
    units: Vec<i64>,
    #[prost(sint64, repeated, tag = "9")]
    judged: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct SetMessage {
    #[prost(uint64, tag = "1")]
    generation: u64,
    /// Number of positions of each event.
    #[prost(bytes, tag = "2")]
    counts: Vec<u8>,
    #[prost(uint64, repeated, tag = "3")]
    positions: Vec<u64>,
    #[prost(sint64, repeated, tag = "4")]
    units: Vec<i64>,
    #[prost(sint64, repeated, tag = "5")]
    judged: Vec<i64>,
    #[prost(uint64, tag = "6")]
    counted: u64,
}

#[derive(Clone, PartialEq, Message)]
struct TakenMessage {
    /// Incarnation of the producer, 16 bytes.
    #[prost(bytes, tag = "1")]
    producer: Vec<u8>,
    #[prost(uint64, tag = "2")]
    sequence: u64,
    /// Idempotency keys of 24 bytes each: the source and the number.
    #[prost(bytes, tag = "3")]
    names: Vec<u8>,
    #[prost(uint32, tag = "4")]
    events: u32,
    /// Tags of the events with an idempotency key, 2 bytes each. The list is empty if the tags are not known.
    #[prost(bytes, tag = "5")]
    tags: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ToldMessage {
    /// Incarnation of the producer, 16 bytes.
    #[prost(bytes, tag = "1")]
    producer: Vec<u8>,
    #[prost(uint64, tag = "2")]
    sequence: u64,
    /// Idempotency keys of 24 bytes each: the source and the number.
    #[prost(bytes, tag = "3")]
    names: Vec<u8>,
    #[prost(uint32, tag = "4")]
    events: u32,
    /// Decisions of the events, encoded with two bits for each event. The first event is in the lowest bits of the
    /// first byte. The value 1 means first-seen, 2 means duplicate, and 3 means undecided because the outcome is
    /// unknown. The value 0 means undecided for any other reason, and a node that restores the journal ignores such a
    /// decision.
    #[prost(bytes, tag = "5")]
    decisions: Vec<u8>,
    #[prost(message, optional, tag = "6")]
    clock: Option<ClockMessage>,
    /// Tags of the events with an idempotency key, 2 bytes each. The list is empty if the tags are not known.
    #[prost(bytes, tag = "7")]
    tags: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct ClockMessage {
    #[prost(uint64, tag = "1")]
    unit: u64,
    #[prost(uint64, tag = "2")]
    time_ms: u64,
    #[prost(uint64, tag = "3")]
    events: u64,
}

#[derive(Clone, PartialEq, Message)]
struct CheckpointMessage {
    #[prost(message, optional, tag = "1")]
    clock: Option<ClockMessage>,
    #[prost(uint64, tag = "2")]
    newest: u64,
    #[prost(bytes, tag = "3")]
    counted: Vec<u8>,
    #[prost(bool, tag = "4")]
    is_complete: bool,
}

#[derive(Clone, PartialEq, Message)]
struct MarksMessage {
    /// Low-water marks of 24 bytes each: the producer or source, and the mark.
    #[prost(bytes, tag = "1")]
    producers: Vec<u8>,
    #[prost(bytes, tag = "2")]
    sources: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct HeadedMessage {
    #[prost(uint64, tag = "1")]
    epoch: u64,
}

#[derive(Clone, PartialEq, Message)]
struct OwedMessage {
    /// Number of each event, in ascending order.
    #[prost(uint64, repeated, tag = "1")]
    numbers: Vec<u64>,
    /// Number of positions of each event.
    #[prost(bytes, tag = "2")]
    counts: Vec<u8>,
    /// Positions at the root of the tree, event after event.
    #[prost(uint64, repeated, tag = "3")]
    positions: Vec<u64>,
    #[prost(sint64, repeated, tag = "4")]
    units: Vec<i64>,
    #[prost(sint64, repeated, tag = "5")]
    judged: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ReportedMessage {
    #[prost(uint64, repeated, tag = "1")]
    numbers: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct SliceMessage {
    #[prost(uint32, tag = "1")]
    slice: u32,
    #[prost(uint64, tag = "2")]
    unit: u64,
    #[prost(uint64, tag = "3")]
    oldest: u64,
    /// Counts of live events in each generation, in the same format as in snapshots.
    #[prost(bytes, repeated, tag = "4")]
    live: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct CellsMessage {
    #[prost(uint32, tag = "1")]
    slice: u32,
    #[prost(uint64, tag = "2")]
    generation: u64,
    #[prost(uint64, tag = "3")]
    unit: u64,
    #[prost(uint64, tag = "4")]
    start_bytes: u64,
    #[prost(bytes, tag = "5")]
    cells: Vec<u8>,
}

/// Encodes a record.
pub fn encode(record: Record) -> Vec<u8> {
    let entries = record.entries.into_iter().map(|entry| EntryMessage { kind: Some(kind_of(entry)) }).collect();
    RecordMessage { filter: record.filter.0, group: record.group, entries }.encode_to_vec()
}

/// Decodes a record.
///
/// # Errors
/// Returns [`RecordError`] if `bytes` do not encode a record.
pub fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
    let RecordMessage { filter, group, entries } = RecordMessage::decode(bytes)?;
    let kinds = entries.into_iter().map(|entry| entry.kind.ok_or(RecordError::Field("an entry of no kind")));
    let entries = kinds.map(|kind| entry_of(kind?)).collect::<Result<_, _>>()?;
    Ok(Record { filter: FilterId(filter), group, entries })
}

fn kind_of(entry: Entry) -> Kind {
    match entry {
        Entry::Events { generation, probes, stamps } => Kind::Events(events_message(generation, &probes, &stamps)),
        Entry::Set { generation, cells, stamps, counted } => {
            let (units, judged) = stamps::pack(&stamps);
            let PositionLists { counts, positions } = cells;
            Kind::Set(SetMessage { generation: generation.0, counts, positions, units, judged, counted })
        }
        Entry::Taken { name, names, events } => Kind::Taken(TakenMessage {
            producer: name.producer.to_le_bytes().to_vec(),
            sequence: name.sequence,
            names: pack_names(&names),
            events,
            tags: pack_tags(&names),
        }),
        Entry::Replied { name, names, decisions, clock } => Kind::Told(ToldMessage {
            producer: name.producer.to_le_bytes().to_vec(),
            sequence: name.sequence,
            names: pack_names(&names),
            events: decisions.len() as u32,
            decisions: pack_decisions(&decisions),
            clock: Some(clock_message(clock)),
            tags: pack_tags(&names),
        }),
        Entry::Checkpoint { is_complete, clock, newest, counted } => Kind::Checkpoint(CheckpointMessage {
            clock: Some(clock_message(clock)),
            newest: newest.0,
            counted: live_bytes(&counted),
            is_complete,
        }),
        Entry::Marks { producers, sources } => Kind::Marks(MarksMessage {
            producers: pack_pairs(producers.into_iter()),
            sources: pack_pairs(sources.into_iter()),
        }),
        Entry::Headed { epoch } => Kind::Headed(HeadedMessage { epoch: epoch.0 }),
        Entry::Owed { numbers, positions, stamps } => {
            let (units, judged) = stamps::pack(&stamps);
            let PositionLists { counts, positions } = positions;
            Kind::Owed(OwedMessage { numbers, counts, positions, units, judged })
        }
        Entry::Reported { numbers } => Kind::Reported(ReportedMessage { numbers }),
        Entry::Slice { slice, outline: SliceOutline { unit, oldest, live } } => Kind::Slice(SliceMessage {
            slice,
            unit: unit.0,
            oldest: oldest.0,
            live: live.iter().map(live_bytes).collect(),
        }),
        Entry::Cells { slice, run: CellRun { generation, unit, start_bytes, cells } } => {
            Kind::Cells(CellsMessage { slice, generation: generation.0, unit: unit.0, start_bytes, cells })
        }
        Entry::CheckpointEnd => Kind::CheckpointEnd(EndMessage {}),
    }
}

fn entry_of(kind: Kind) -> Result<Entry, RecordError> {
    Ok(match kind {
        Kind::Events(message) => {
            let stamps = stamps::unpack(&message.units, &message.judged).ok_or(RecordError::Field("stamps"))?;
            Entry::Events {
                generation: GenerationNumber(message.generation),
                probes: probes(&message, stamps.len())?,
                stamps,
            }
        }
        Kind::Set(SetMessage { generation, counts, positions, units, judged, counted }) => {
            let stamps = stamps::unpack(&units, &judged).ok_or(RecordError::Field("stamps"))?;
            let cells = position_lists(counts, positions, stamps.len())?;
            Entry::Set { generation: GenerationNumber(generation), cells, stamps, counted }
        }
        Kind::Taken(TakenMessage { producer, sequence, names: bytes, events, tags }) => {
            // The number determines the size of lists, so it must be checked before they are allocated.
            if events > EVENTS_MAX {
                return Err(RecordError::Field("events"));
            }
            Entry::Taken { name: batch_name(producer, sequence)?, names: names(&bytes, &tags, events)?, events }
        }
        Kind::Told(message) => {
            let name = batch_name(message.producer, message.sequence)?;
            let names = names(&message.names, &message.tags, message.events)?;
            let decisions = decisions(&message.decisions, message.events as usize)?;
            Entry::Replied { name, names, decisions, clock: clock(message.clock) }
        }
        Kind::Checkpoint(message) => Entry::Checkpoint {
            is_complete: message.is_complete,
            clock: clock(message.clock),
            newest: GenerationNumber(message.newest),
            counted: live(&message.counted)?,
        },
        Kind::Marks(MarksMessage { producers, sources }) => {
            Entry::Marks { producers: pairs(&producers)?.collect(), sources: pairs(&sources)?.collect() }
        }
        Kind::Headed(HeadedMessage { epoch }) => Entry::Headed { epoch: Epoch(epoch) },
        Kind::Owed(OwedMessage { numbers, counts, positions, units, judged }) => {
            let stamps = stamps::unpack(&units, &judged).ok_or(RecordError::Field("stamps"))?;
            if numbers.len() != stamps.len() || !numbers.is_sorted_by(|number, next| number < next) {
                return Err(RecordError::Field("numbers"));
            }
            let positions = position_lists(counts, positions, stamps.len())?;
            Entry::Owed { numbers, positions, stamps }
        }
        Kind::Reported(ReportedMessage { numbers }) => Entry::Reported { numbers },
        Kind::Slice(SliceMessage { slice, unit, oldest, live: counts }) => {
            let live = counts.iter().map(|bytes| live(bytes)).collect::<Result<_, _>>()?;
            let outline = SliceOutline { unit: UnitNumber(unit), oldest: GenerationNumber(oldest), live };
            Entry::Slice { slice, outline }
        }
        Kind::Cells(CellsMessage { slice, generation, unit, start_bytes, cells }) => {
            let generation = GenerationNumber(generation);
            Entry::Cells { slice, run: CellRun { generation, unit: UnitNumber(unit), start_bytes, cells } }
        }
        Kind::CheckpointEnd(EndMessage {}) => Entry::CheckpointEnd,
    })
}

/// Returns the position lists of `events` events.
fn position_lists(counts: Vec<u8>, positions: Vec<u64>, events: usize) -> Result<PositionLists, RecordError> {
    let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
    if counts.len() != events || total != positions.len() {
        return Err(RecordError::Field("positions"));
    }
    Ok(PositionLists { counts, positions })
}

fn events_message(generation: GenerationNumber, probes: &Probes, stamps: &[firstseen_filter::Stamp]) -> EventsMessage {
    let (units, judged) = stamps::pack(stamps);
    let mut message = EventsMessage {
        generation: generation.0,
        units,
        judged,
        hashes: probes.shape().hashes(),
        ..EventsMessage::default()
    };
    match probes.shape() {
        ProbeShape::Spread { cells, .. } => {
            message.cells = cells;
            (0..probes.len()).for_each(|event| message.positions.extend_from_slice(probes.positions(event)));
        }
        ProbeShape::Blocked { blocks, offset_bits, .. } => {
            message.blocks = blocks;
            message.offset_bits = offset_bits;
            for probe in (0..probes.len()).filter_map(|event| probes.block(event)) {
                message.positions.push(probe.block);
                message.words.extend_from_slice(&probe.words);
            }
        }
    }
    message
}

fn probes(message: &EventsMessage, events: usize) -> Result<Probes, RecordError> {
    let EventsMessage { cells, hashes, blocks, offset_bits, positions, words, .. } = message;
    const WRONG: RecordError = RecordError::Field("positions");
    let per_event = if *cells > 0 { *hashes as usize } else { 1 };
    if !(1..=firstseen_filter::HASHES_MAX).contains(hashes) || positions.len() != events * per_event {
        return Err(WRONG);
    }
    if *cells > 0 {
        let mut probes = Probes::new(ProbeShape::Spread { cells: *cells, hashes: *hashes });
        for event in positions.chunks_exact(per_event) {
            probes.push_positions(event).map_err(|_| WRONG)?;
        }
        return Ok(probes);
    }
    if words.len() != 2 * events || *offset_bits >= u64::BITS {
        return Err(RecordError::Field("words"));
    }
    let mut probes = Probes::new(ProbeShape::Blocked { blocks: *blocks, offset_bits: *offset_bits, hashes: *hashes });
    for (block, words) in positions.iter().zip(words.chunks_exact(2)) {
        probes.push_block(BlockProbe { block: *block, words: [words[0], words[1]] }).map_err(|_| WRONG)?;
    }
    Ok(probes)
}

fn clock_message(clock: ClockReading) -> ClockMessage {
    let ClockReading { unit, time_ms, events } = clock;
    ClockMessage { unit: unit.0, time_ms: time_ms.unwrap_or(0), events }
}

fn clock(message: Option<ClockMessage>) -> ClockReading {
    let ClockMessage { unit, time_ms, events } = message.unwrap_or_default();
    ClockReading { unit: UnitNumber(unit), time_ms: (time_ms > 0).then_some(time_ms), events }
}

fn live_bytes(live: &LiveEvents) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory never fails.
    let _ = live.write(&mut bytes);
    bytes
}

fn live(mut bytes: &[u8]) -> Result<LiveEvents, RecordError> {
    let units_max = bytes.len() as u64 / 16;
    LiveEvents::read(&mut bytes, units_max).map_err(|_| RecordError::Field("live events"))
}

fn batch_name(producer: Vec<u8>, sequence: u64) -> Result<BatchName, RecordError> {
    let producer = producer.try_into().map_err(|_| RecordError::Field("producer"))?;
    Ok(BatchName { producer: u128::from_le_bytes(producer), sequence })
}

fn pack_names(events: &[NamedEvent]) -> Vec<u8> {
    pack_pairs(events.iter().map(|event| (event.name.source, event.name.number)))
}

fn pack_tags(events: &[NamedEvent]) -> Vec<u8> {
    events.iter().flat_map(|event| event.tag.bits().to_le_bytes()).collect()
}

/// Decodes the idempotency keys of `events` events. The list may also be empty.
fn names(bytes: &[u8], tags: &[u8], events: u32) -> Result<Vec<NamedEvent>, RecordError> {
    let names = pairs(bytes)?.map(|(source, number)| SubmissionName { source, number });
    let mut names: Vec<NamedEvent> = names.map(|name| NamedEvent { name, tag: EventTag::NONE }).collect();
    if !names.is_empty() && names.len() != events as usize {
        return Err(RecordError::Field("names"));
    }
    // Records of early versions do not contain tags.
    if !tags.is_empty() && tags.len() != 2 * names.len() {
        return Err(RecordError::Field("tags"));
    }
    for (event, tag) in names.iter_mut().zip(tags.as_chunks::<2>().0) {
        event.tag = EventTag::from_bits(u16::from_le_bytes(*tag));
    }
    Ok(names)
}

fn pack_pairs(pairs: impl Iterator<Item = (u128, u64)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (first, second) in pairs {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&second.to_le_bytes());
    }
    bytes
}

fn pairs(bytes: &[u8]) -> Result<impl Iterator<Item = (u128, u64)>, RecordError> {
    let (pairs, rest) = bytes.as_chunks::<24>();
    if !rest.is_empty() {
        return Err(RecordError::Field("pairs"));
    }
    Ok(pairs.iter().map(|pair| {
        let mut first = [0; 16];
        let mut second = [0; 8];
        first.copy_from_slice(&pair[..16]);
        second.copy_from_slice(&pair[16..]);
        (u128::from_le_bytes(first), u64::from_le_bytes(second))
    }))
}

fn pack_decisions(decisions: &[Decision]) -> Vec<u8> {
    let fours = decisions.chunks(4);
    fours.map(|four| four.iter().rev().fold(0, |byte, decision| byte << 2 | bits_of(*decision))).collect()
}

fn bits_of(decision: Decision) -> u8 {
    match decision {
        Decision::FirstSeen => 1,
        Decision::Duplicate => 2,
        Decision::Undecided(Reason::Unknown) => 3,
        Decision::Undecided(_) => 0,
    }
}

fn decisions(bytes: &[u8], events: usize) -> Result<Vec<Decision>, RecordError> {
    if bytes.len() != events.div_ceil(4) {
        return Err(RecordError::Field("decisions"));
    }
    let bits = (0..events).map(|event| bytes[event / 4] >> (event % 4 * 2) & 3);
    Ok(bits
        .map(|bits| match bits {
            1 => Decision::FirstSeen,
            2 => Decision::Duplicate,
            3 => Decision::Undecided(Reason::Unknown),
            // The replay guard does not remember this decision.
            _ => Decision::Undecided(Reason::Overloaded),
        })
        .collect())
}
