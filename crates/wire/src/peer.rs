//! Messages between nodes about events in flight.
//!
//! Promises: a message that is decoded has one entry an event in every list, and positions inside its group. Must not
//! know: links and their numbers, what messages make an owner do.

use std::sync::Arc;

use firstseen_filter::{HASHES_MAX, ProbeShape};
use firstseen_routing::{
    ClusterId, FilterId, HandedOver, Incarnation, MirrorNumber, NodeId, Past, PeerBody, PeerMessage, PositionLists,
    Reason, Resolved, SetAcks, SetBatch, TestBatch,
};

use crate::cells::CellsOf;
use crate::error::{WireError, check_at_most, check_length};
use crate::limits::{FRAME_EVENTS_MAX, PROTOCOL_VERSION, SET_ACKS_MAX, TRACEPARENT_BYTES_MAX};
use crate::packing::{pack_lists, unpack_lists};
use crate::proto::peer as proto;
use crate::proto::peer::link_frame::Message;
use crate::ticks::{pack_stamps, pack_tickets, unpack_stamps, unpack_tickets};
use crate::varint;
use crate::verdicts::{bit, check_bitmap, pack_bitmap, pack_reasons, unpack_reasons};
use crate::{cells, mirror};

/// The two ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEnds {
    /// The cluster of both.
    pub cluster: ClusterId,
    /// The sender of messages.
    pub from: NodeId,
    /// Its start.
    pub from_incarnation: Incarnation,
    /// Their receiver.
    pub to: NodeId,
    /// The start of it that the sender means.
    pub to_incarnation: Incarnation,
}

/// The first frame of a link's stream.
pub fn hello(ends: &LinkEnds) -> proto::LinkFrame {
    let hello = proto::LinkHello {
        protocol_version: PROTOCOL_VERSION,
        from_node: ends.from.0,
        from_incarnation: ends.from_incarnation.0,
        to_node: ends.to.0,
        to_incarnation: ends.to_incarnation.0,
        cluster_id: ends.cluster.0.to_vec().into(),
    };
    proto::LinkFrame { number: 0, message: Some(Message::Hello(hello)) }
}

/// The ends of the link whose first frame this is.
///
/// # Errors
/// [`WireError`] where it is another message or of another version.
pub fn accept_hello(frame: &proto::LinkFrame) -> Result<LinkEnds, WireError> {
    let Some(Message::Hello(hello)) = &frame.message else { return Err(WireError::Missing { field: "hello" }) };
    if hello.protocol_version != PROTOCOL_VERSION {
        return Err(WireError::Version { theirs: hello.protocol_version, ours: PROTOCOL_VERSION });
    }
    let cluster = <[u8; 16]>::try_from(&hello.cluster_id[..]);
    let length = |_| WireError::Length { field: "cluster_id", found: hello.cluster_id.len() as u64, expected: 16 };
    Ok(LinkEnds {
        cluster: ClusterId(cluster.map_err(length)?),
        from: NodeId(hello.from_node),
        from_incarnation: Incarnation(hello.from_incarnation),
        to: NodeId(hello.to_node),
        to_incarnation: Incarnation(hello.to_incarnation),
    })
}

/// The filter that a message is about, by which its receiver finds the range of positions.
pub fn filter_of(message: &Message) -> Option<FilterId> {
    match message {
        Message::Hello(_) | Message::Ping(_) => None,
        Message::Test(test) => Some(FilterId(test.filter_id)),
        Message::Resolved(resolved) => Some(FilterId(resolved.filter_id)),
        Message::Set(set) => Some(FilterId(set.filter_id)),
        Message::SetAcks(acks) => Some(FilterId(acks.filter_id)),
        Message::AskPast(ask) => Some(FilterId(ask.filter_id)),
        Message::Past(past) => Some(FilterId(past.filter_id)),
        Message::AskCells(ask) => Some(FilterId(ask.filter_id)),
        Message::Cells(cells) => Some(FilterId(cells.filter_id)),
        Message::Mirror(mirror) => Some(FilterId(mirror.filter_id)),
        Message::HandedOver(handed) => Some(FilterId(handed.filter_id)),
    }
}

/// The epoch of its filter that a receiver must know before it answers: by an older map, it might give an answer that
/// the newer map forbids, or not know yet that it has slices of a set.
pub fn epoch_awaited(message: &Message) -> Option<u64> {
    match message {
        Message::Test(test) => Some(test.filter_epoch),
        Message::AskCells(ask) => Some(ask.filter_epoch),
        Message::Set(set) => Some(set.filter_epoch),
        Message::Mirror(mirror) => Some(mirror.filter_epoch),
        _ => None,
    }
}

/// The message as it travels; group positions of its filter are below `range`.
///
/// # Errors
/// [`WireError`] where lists disagree about the number of events, or something is out of range.
pub fn encode(message: &PeerMessage, range: u64) -> Result<Message, WireError> {
    Ok(match &message.body {
        PeerBody::Test(test) => Message::Test(encode_test(message, test, range)?),
        PeerBody::Resolved(resolved) => Message::Resolved(encode_resolved(message, resolved)?),
        PeerBody::Set(set) => Message::Set(encode_set(message, set, range)?),
        PeerBody::SetAcks(acks) => {
            check_acks(&acks.set_numbers, &acks.refused_numbers)?;
            Message::SetAcks(proto::SetAcks {
                filter_id: message.filter.0,
                group: message.group,
                set_numbers: acks.set_numbers.clone(),
                refused_numbers: acks.refused_numbers.clone(),
                filter_epoch: message.epoch,
            })
        }
        PeerBody::AskPast => Message::AskPast(proto::AskPast {
            filter_id: message.filter.0,
            filter_epoch: message.epoch,
            group: message.group,
        }),
        PeerBody::Past(past) => Message::Past(proto::Past {
            filter_id: message.filter.0,
            filter_epoch: message.epoch,
            group: message.group,
            newest_unit: past.newest_unit,
            has_handed_over: past.has_handed_over,
        }),
        PeerBody::AskCells(ask) => Message::AskCells(cells::encode_ask(CellsOf::of(message), ask)),
        PeerBody::Cells(parts) => Message::Cells(cells::encode(CellsOf::of(message), parts)?),
        PeerBody::Mirror(number, mirrored) => Message::Mirror(mirror::encode(message, *number, mirrored)?),
        PeerBody::HandedOver(handed) => Message::HandedOver(proto::HandedOver {
            filter_id: message.filter.0,
            filter_epoch: message.epoch,
            group: message.group,
            told_for_ms: handed.told_for_ms,
            taken_over_epoch: handed.epoch,
        }),
    })
}

/// The message that came; group positions of its filter are below `range`, and events of its batches of shape `probes`.
///
/// # Errors
/// [`WireError`] names the field.
pub fn decode(message: &Message, range: u64, probes: ProbeShape) -> Result<PeerMessage, WireError> {
    let (filter, epoch, group, body) = match message {
        Message::Hello(_) => return Err(WireError::Invalid { field: "hello", value: 0 }),
        Message::Ping(_) => return Err(WireError::Invalid { field: "ping", value: 0 }),
        Message::Test(test) => {
            (test.filter_id, test.filter_epoch, test.group, PeerBody::Test(decode_test(test, range)?))
        }
        Message::Resolved(resolved) => {
            let body = PeerBody::Resolved(decode_resolved(resolved)?);
            (resolved.filter_id, resolved.filter_epoch, resolved.group, body)
        }
        Message::Set(set) => (set.filter_id, set.filter_epoch, set.group, PeerBody::Set(decode_set(set, range)?)),
        Message::SetAcks(acks) => {
            check_acks(&acks.set_numbers, &acks.refused_numbers)?;
            let body = PeerBody::SetAcks(SetAcks {
                set_numbers: acks.set_numbers.clone(),
                refused_numbers: acks.refused_numbers.clone(),
            });
            (acks.filter_id, acks.filter_epoch, acks.group, body)
        }
        Message::AskPast(ask) => (ask.filter_id, ask.filter_epoch, ask.group, PeerBody::AskPast),
        Message::Past(past) => {
            let (newest_unit, has_handed_over) = (past.newest_unit, past.has_handed_over);
            let body = PeerBody::Past(Past { newest_unit, has_handed_over });
            (past.filter_id, past.filter_epoch, past.group, body)
        }
        Message::AskCells(ask) => {
            (ask.filter_id, ask.filter_epoch, ask.group, PeerBody::AskCells(cells::decode_ask(ask)))
        }
        Message::Cells(parts) => {
            (parts.filter_id, parts.filter_epoch, parts.group, PeerBody::Cells(cells::decode(parts)?))
        }
        Message::Mirror(mirror) => {
            let number = MirrorNumber { number: mirror.number, acknowledged_below: mirror.acknowledged_below };
            let body = PeerBody::Mirror(number, Arc::new(mirror::decode(mirror, probes)?));
            (mirror.filter_id, mirror.filter_epoch, mirror.group, body)
        }
        Message::HandedOver(handed) => {
            let body =
                PeerBody::HandedOver(HandedOver { epoch: handed.taken_over_epoch, told_for_ms: handed.told_for_ms });
            (handed.filter_id, handed.filter_epoch, handed.group, body)
        }
    };
    Ok(PeerMessage { filter: FilterId(filter), epoch, group, body })
}

/// The part of a message that cannot be decoded by which it can be refused: its group, and the head's numbers of its
/// events, or its own number; all else in the returned message is made up. None where not even that can be read, and
/// for answers, which are not refused.
pub fn refusable(message: &Message) -> Option<PeerMessage> {
    let (filter, epoch, group, body) = match message {
        Message::Test(test) => {
            check_at_most("events", test.events.into(), FRAME_EVENTS_MAX.into()).ok()?;
            let tickets = unpack_tickets(&test.tickets, test.events as usize).ok()?;
            let body = TestBatch { head: NodeId(test.head_node), tickets, ..TestBatch::default() };
            (test.filter_id, test.filter_epoch, test.group, PeerBody::Test(body))
        }
        Message::Set(set) => {
            let body = SetBatch { set_number: set.set_number, ..SetBatch::default() };
            (set.filter_id, set.filter_epoch, set.group, PeerBody::Set(body))
        }
        // A mirror message without acknowledgement is sent again by another map, or its batches are unknown in time.
        Message::Mirror(_)
        | Message::Hello(_)
        | Message::Ping(_)
        | Message::Resolved(_)
        | Message::SetAcks(_)
        | Message::AskPast(_)
        | Message::Past(_)
        | Message::AskCells(_)
        | Message::Cells(_)
        | Message::HandedOver(_) => return None,
    };
    Some(PeerMessage { filter: FilterId(filter), epoch, group, body })
}

fn encode_test(message: &PeerMessage, test: &TestBatch, range: u64) -> Result<proto::TestBatch, WireError> {
    let traceparent_bytes = test.traceparent.as_ref().map_or(0, |traceparent| traceparent.len());
    check_at_most("traceparent", traceparent_bytes as u64, TRACEPARENT_BYTES_MAX as u64)?;
    let events = check_events(test.left.len(), &[("tickets", test.tickets.len()), ("stamps", test.stamps.len())])?;
    if !test.generations.is_empty() {
        check_length("generations", test.generations.len(), test.left.len())?;
    }
    let (counts, positions) = pack_lists(&test.left, range)?;
    Ok(proto::TestBatch {
        filter_id: message.filter.0,
        filter_epoch: message.epoch,
        group: message.group,
        events,
        tickets: pack_tickets(&test.tickets).into(),
        counts: counts.into(),
        positions: positions.into(),
        stamps: pack_stamps(&test.stamps)?.into(),
        generations: pack_generations(&test.generations).into(),
        parallel: test.parallel,
        asks_all: test.asks_all,
        head_node: test.head.0,
        deadline_ms: test.deadline_in_ms,
        degraded: test.degraded,
        traceparent: test.traceparent.as_deref().unwrap_or_default().to_owned(),
        expiries: pack_expiries("expiries", &test.expiries, test.left.len())?.into(),
        ..Default::default()
    })
}

fn decode_test(test: &proto::TestBatch, range: u64) -> Result<TestBatch, WireError> {
    check_at_most("traceparent", test.traceparent.len() as u64, TRACEPARENT_BYTES_MAX as u64)?;
    let (events, left) = decode_lists(test.events, &test.counts, &test.positions, range)?;
    Ok(TestBatch {
        head: NodeId(test.head_node),
        tickets: unpack_tickets(&test.tickets, events)?,
        left,
        stamps: unpack_stamps(&test.stamps, events)?,
        generations: unpack_generations(&test.generations, events)?,
        parallel: test.parallel,
        asks_all: test.asks_all,
        deadline_in_ms: test.deadline_ms,
        degraded: test.degraded,
        traceparent: (!test.traceparent.is_empty()).then(|| test.traceparent.as_str().into()),
        expiries: unpack_expiries("expiries", &test.expiries, events)?,
    })
}

fn encode_resolved(message: &PeerMessage, resolved: &Resolved) -> Result<proto::Resolved, WireError> {
    let events = check_events(resolved.tickets.len(), &[("hits", resolved.hits.len())])?;
    let hits = resolved.hits.iter().filter(|hit| **hit).count();
    if !resolved.generations.is_empty() {
        check_length("generations", resolved.generations.len(), hits)?;
    }
    let rises = resolved.undecided.windows(2).all(|pair| pair[0].0 < pair[1].0);
    match resolved.undecided.last() {
        Some((last, _)) if *last >= events || !rises => {
            return Err(WireError::Invalid { field: "undecided", value: (*last).into() });
        }
        _ => {}
    }
    Ok(proto::Resolved {
        filter_id: message.filter.0,
        group: message.group,
        events,
        tickets: pack_tickets(&resolved.tickets).into(),
        hits: pack_bitmap(resolved.hits.iter().copied()).into(),
        generations: pack_generations(&resolved.generations).into(),
        undecided: pack_reasons(resolved.undecided.iter().copied()),
        slice_visits: resolved.slice_visits,
        degraded: resolved.degraded,
        node_visits: resolved.node_visits,
        filter_epoch: message.epoch,
        expiries: pack_expiries("expiries", &resolved.expiries, hits)?.into(),
    })
}

fn decode_resolved(resolved: &proto::Resolved) -> Result<Resolved, WireError> {
    check_at_most("events", resolved.events.into(), FRAME_EVENTS_MAX.into())?;
    let events = resolved.events as usize;
    let tickets = unpack_tickets(&resolved.tickets, events)?;
    check_bitmap("hits", &resolved.hits, events)?;
    let hits: Vec<bool> = (0..events).map(|index| bit(&resolved.hits, index)).collect();
    let hit_count = hits.iter().filter(|hit| **hit).count();
    let generations = unpack_generations(&resolved.generations, hit_count)?;
    let expiries = unpack_expiries("expiries", &resolved.expiries, hit_count)?;
    let mut undecided: Vec<(u32, Reason)> = Vec::new();
    unpack_reasons("undecided", &resolved.undecided, events, |index, reason| undecided.push((index as u32, reason)))?;
    Ok(Resolved {
        tickets,
        hits,
        generations,
        undecided,
        slice_visits: resolved.slice_visits,
        node_visits: resolved.node_visits,
        degraded: resolved.degraded,
        expiries,
    })
}

fn encode_set(message: &PeerMessage, set: &SetBatch, range: u64) -> Result<proto::SetBatch, WireError> {
    let events = check_events(set.cells.len(), &[("stamps", set.stamps.len())])?;
    let (counts, positions) = pack_lists(&set.cells, range)?;
    Ok(proto::SetBatch {
        filter_id: message.filter.0,
        filter_epoch: message.epoch,
        group: message.group,
        events,
        set_number: set.set_number,
        generation: set.generation,
        counts: counts.into(),
        positions: positions.into(),
        stamps: pack_stamps(&set.stamps)?.into(),
    })
}

fn decode_set(set: &proto::SetBatch, range: u64) -> Result<SetBatch, WireError> {
    let (events, cells) = decode_lists(set.events, &set.counts, &set.positions, range)?;
    Ok(SetBatch {
        set_number: set.set_number,
        generation: set.generation,
        cells,
        stamps: unpack_stamps(&set.stamps, events)?,
    })
}

/// Lists take at least four bits an event, so they bound what the other fields may claim.
fn decode_lists(events: u32, counts: &[u8], positions: &[u8], range: u64) -> Result<(usize, PositionLists), WireError> {
    check_at_most("events", events.into(), FRAME_EVENTS_MAX.into())?;
    check_at_most("positions", positions.len() as u64, u64::from(FRAME_EVENTS_MAX * HASHES_MAX) * 8)?;
    let lists = unpack_lists(counts, positions, events as usize, range)?;
    Ok((events as usize, lists))
}

/// The number of events, where all lists agree about it.
fn check_events(events: usize, lists: &[(&'static str, usize)]) -> Result<u32, WireError> {
    check_at_most("events", events as u64, FRAME_EVENTS_MAX.into())?;
    lists.iter().try_for_each(|(field, length)| check_length(field, *length, events))?;
    Ok(events as u32)
}

fn check_acks(done: &[u64], refused: &[u64]) -> Result<(), WireError> {
    check_at_most("set_numbers", done.len() as u64, SET_ACKS_MAX as u64)?;
    check_at_most("refused_numbers", refused.len() as u64, SET_ACKS_MAX as u64)
}

/// Varints, none or one for each of `entries`.
fn pack_expiries(field: &'static str, expiries: &[u64], entries: usize) -> Result<Vec<u8>, WireError> {
    if !expiries.is_empty() {
        check_length(field, expiries.len(), entries)?;
    }
    let mut bytes = Vec::with_capacity(expiries.len() * 5);
    expiries.iter().for_each(|expiry| varint::put(*expiry, &mut bytes));
    Ok(bytes)
}

/// None, or one for each of `entries`.
fn unpack_expiries(field: &'static str, mut bytes: &[u8], entries: usize) -> Result<Vec<u64>, WireError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let expiries = (0..entries).map(|_| varint::take(field, &mut bytes)).collect::<Result<_, _>>()?;
    varint::check_end(field, bytes)?;
    Ok(expiries)
}

/// Two bytes each, low end first.
fn pack_generations(masks: &[u16]) -> Vec<u8> {
    masks.iter().flat_map(|mask| mask.to_le_bytes()).collect()
}

/// None, or one for each of `entries`.
fn unpack_generations(bytes: &[u8], entries: usize) -> Result<Vec<u16>, WireError> {
    if !bytes.is_empty() {
        check_length("generations", bytes.len(), entries * 2)?;
    }
    Ok(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}
