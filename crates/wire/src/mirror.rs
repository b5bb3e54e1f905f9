//! Encodes and decodes messages of type `Mirror`. With these messages, the copy of a slice that answers clients sends
//! its records and replies to the other copies.
//!
//! The module checks each message that it decodes, so a receiver can rely on the following:
//!
//! - Each event of the message has exactly one decision.
//! - Each event that was recorded also has exactly one stamp. The stamp is the event's place in the window: the unit in
//!   which the event occurred, and the unit at which it was judged.
//! - The positions of each recorded event fit the filter, which means that they name cells that the filter has.

use firstseen_filter::{GenerationNumber, ProbeShape, Probes, UnitNumber};
use firstseen_routing::{BatchName, ClockReading, Decision, EventTag, MirrorNumber, Mirrored, NamedEvent, PeerMessage};

use crate::batch::{pack_name, unpack_name};
use crate::error::{WireError, check_at_most, check_length};
use crate::limits::{FRAME_EVENTS_MAX, NAME_BYTES};
use crate::packing::{pack_probes, packed_bytes, unpack_probes};
use crate::proto::peer as proto;
use crate::ticks::{pack_stamps, read_ms, unpack_stamps, written_ms};
use crate::verdicts::{bit, check_bitmap, pack_bitmap, pack_reasons, unpack_reasons};

/// Size of an event's tag, in bytes.
const TAG_BYTES: usize = 2;
/// Message number that means that the sender expects no acknowledgement.
const UNNUMBERED: u64 = u64::MAX;

pub(crate) fn encode(
    message: &PeerMessage,
    number: Option<MirrorNumber>,
    mirrored: &Mirrored,
) -> Result<proto::Mirror, WireError> {
    let Mirrored { name, names, decisions, clock, generation, probes, stamps } = mirrored;
    let unnumbered = MirrorNumber { number: UNNUMBERED, acknowledged_below: 0 };
    let MirrorNumber { number, acknowledged_below } = number.unwrap_or(unnumbered);
    check_at_most("events", decisions.len() as u64, FRAME_EVENTS_MAX.into())?;
    check_length("stamps", stamps.len(), probes.len())?;
    if !names.is_empty() {
        check_length("names", names.len(), decisions.len())?;
    }
    let mut packed_names = Vec::new();
    let mut packed = Vec::with_capacity(packed_bytes(probes.shape(), probes.len()));
    names.iter().for_each(|event| pack_name(&event.name, &mut packed_names));
    let tags: Vec<u8> = names.iter().flat_map(|event| event.tag.bits().to_le_bytes()).collect();
    pack_probes(probes, 0..probes.len(), &mut packed);
    let undecided = (0..).zip(decisions).filter_map(|(event, decision)| match decision {
        Decision::Undecided(reason) => Some((event, *reason)),
        _ => None,
    });
    Ok(proto::Mirror {
        filter_id: message.filter.0,
        filter_epoch: message.epoch.0,
        group: message.group,
        number,
        acknowledged_below,
        producer: name.producer.to_le_bytes().to_vec().into(),
        sequence: name.sequence,
        events: decisions.len() as u32,
        names: packed_names.into(),
        first_seen: pack_bitmap(decisions.iter().map(|decision| *decision == Decision::FirstSeen)).into(),
        undecided: pack_reasons(undecided),
        clock_unit: clock.unit.0,
        clock_ms: written_ms(clock.time_ms),
        clock_events: clock.events,
        generation: generation.0,
        recorded: stamps.len() as u32,
        probes: packed.into(),
        stamps: pack_stamps(stamps)?.into(),
        tags: tags.into(),
    })
}

/// Returns the number that the receiver must acknowledge, or `None` if the sender expects no acknowledgement.
pub(crate) fn number(mirror: &proto::Mirror) -> Option<MirrorNumber> {
    let proto::Mirror { number, acknowledged_below, .. } = *mirror;
    (number != UNNUMBERED).then_some(MirrorNumber { number, acknowledged_below })
}

pub(crate) fn decode(mirror: &proto::Mirror, shape: ProbeShape) -> Result<Mirrored, WireError> {
    check_at_most("events", mirror.events.into(), FRAME_EVENTS_MAX.into())?;
    check_at_most("recorded", mirror.recorded.into(), mirror.events.into())?;
    let events = mirror.events as usize;
    let recorded = mirror.recorded as usize;
    if !mirror.names.is_empty() {
        check_length("names", mirror.names.len(), events * NAME_BYTES)?;
    }
    if !mirror.tags.is_empty() {
        check_length("tags", mirror.tags.len(), mirror.names.len() / NAME_BYTES * TAG_BYTES)?;
    }
    // A node of an earlier version sends no tags.
    let tags = mirror.tags.as_chunks::<TAG_BYTES>().0.iter().map(|tag| EventTag::from_bits(u16::from_le_bytes(*tag)));
    let tags = tags.chain(std::iter::repeat(EventTag::NONE));
    let names = mirror.names.chunks_exact(NAME_BYTES).map(unpack_name);
    check_bitmap("first_seen", &mirror.first_seen, events)?;
    let mut decisions: Vec<Decision> = (0..events)
        .map(|event| if bit(&mirror.first_seen, event) { Decision::FirstSeen } else { Decision::Duplicate })
        .collect();
    unpack_reasons("undecided", &mirror.undecided, events, |event, reason| {
        decisions[event] = Decision::Undecided(reason);
    })?;
    let producer = <[u8; 16]>::try_from(&mirror.producer[..]);
    let mut probes = Probes::new(shape);
    unpack_probes(&mirror.probes, recorded, &mut probes)?;
    let Ok(producer) = producer else {
        return Err(WireError::Length { field: "producer", found: mirror.producer.len() as u64, expected: 16 });
    };
    Ok(Mirrored {
        name: BatchName { producer: u128::from_le_bytes(producer), sequence: mirror.sequence },
        names: names.zip(tags).map(|(name, tag)| NamedEvent { name, tag }).collect(),
        decisions,
        clock: ClockReading {
            unit: UnitNumber(mirror.clock_unit),
            time_ms: read_ms(mirror.clock_ms),
            events: mirror.clock_events,
        },
        generation: GenerationNumber(mirror.generation),
        probes,
        stamps: unpack_stamps(&mirror.stamps, recorded)?,
    })
}
