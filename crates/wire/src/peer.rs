//! Encodes and decodes messages between nodes about events in flight.
//!
//! In a decoded message, every list has one entry for each event, and all positions are within the slice group that the
//! message names.

use std::sync::Arc;

use firstseen_filter::{GenerationNumber, ProbeShape, UnitNumber};
use firstseen_routing::{
    ClaimTests, ClusterId, Epoch, FilterId, HandedOver, Incarnation, NodeId, Past, PeerBody, PeerMessage, Reason,
    Resolved, SetAcks, SetBatch,
};

use crate::cells::CellsOf;
use crate::error::{WireError, check_at_most, check_length};
use crate::hello::check_versions;
use crate::limits::{FRAME_EVENTS_MAX, PROTOCOL_VERSION, SET_ACKS_MAX};
use crate::lists::{check_events, decode_lists, pack_expiries, pack_generations, unpack_expiries, unpack_generations};
use crate::packing::pack_lists;
use crate::proto::peer as proto;
use crate::proto::peer::link_frame::Message;
use crate::ticks::{pack_stamps, pack_tickets, unpack_stamps, unpack_tickets};
use crate::verdicts::{bit, check_bitmap, pack_bitmap, pack_reasons, unpack_reasons};
use crate::{cells, mirror, tests_of_heads};

/// Both ends of a link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEnds {
    /// Cluster that both nodes belong to.
    pub cluster: ClusterId,
    /// Node that sends the messages.
    pub from: NodeId,
    /// Incarnation of the sender.
    pub from_incarnation: Incarnation,
    /// Node that receives the messages.
    pub to: NodeId,
    /// Incarnation of the receiver that the messages are meant for.
    pub to_incarnation: Incarnation,
}

/// Creates the first frame of a link's stream.
pub fn hello(ends: &LinkEnds) -> proto::LinkFrame {
    let hello = proto::LinkHello {
        protocol_version: PROTOCOL_VERSION,
        from_node: ends.from.0,
        from_incarnation: ends.from_incarnation.0,
        to_node: ends.to.0,
        to_incarnation: ends.to_incarnation.0,
        cluster_id: ends.cluster.0.to_vec().into(),
        protocol_version_max: PROTOCOL_VERSION,
    };
    proto::LinkFrame { number: 0, message: Some(Message::Hello(hello)) }
}

/// Decodes the first frame of a link's stream, and returns the ends of the link.
///
/// # Errors
/// Returns [`WireError`] if this is a different message, or if the sender speaks another version of the protocol.
pub fn accept_hello(frame: &proto::LinkFrame) -> Result<LinkEnds, WireError> {
    let Some(Message::Hello(hello)) = &frame.message else { return Err(WireError::Missing { field: "hello" }) };
    check_versions(hello.protocol_version, hello.protocol_version_max)?;
    let Ok(cluster) = <[u8; 16]>::try_from(&hello.cluster_id[..]) else {
        return Err(WireError::Length { field: "cluster_id", found: hello.cluster_id.len() as u64, expected: 16 });
    };
    Ok(LinkEnds {
        cluster: ClusterId(cluster),
        from: NodeId(hello.from_node),
        from_incarnation: Incarnation(hello.from_incarnation),
        to: NodeId(hello.to_node),
        to_incarnation: Incarnation(hello.to_incarnation),
    })
}

/// Returns the filter that a message is about. The receiver needs the filter to determine the range of positions.
pub fn filter_of(message: &Message) -> Option<FilterId> {
    match message {
        Message::Hello(_) | Message::Ping(_) => None,
        Message::Test(test) => Some(FilterId(test.filter_id)),
        Message::Tests(tests) => tests.batch.as_ref().map(|batch| FilterId(batch.filter_id)),
        Message::ClaimTests(claims) => tests_of(claims).ok().map(|batch| FilterId(batch.filter_id)),
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

/// Returns the epoch of the filter that the receiver must know before it answers this message. The epoch is a number
/// that rises when the head nodes or the copies of slices change.
///
/// A receiver with an older epoch must first learn the newer cluster map, because it could otherwise make two mistakes.
/// It could give an answer that the newer map forbids. It could also ignore cells that the message sets, because it
/// does not know yet that it owns their slices.
pub fn epoch_awaited(message: &Message) -> Option<Epoch> {
    match message {
        Message::Test(test) => Some(Epoch(test.filter_epoch)),
        Message::Tests(tests) => tests.batch.as_ref().map(|batch| Epoch(batch.filter_epoch)),
        Message::ClaimTests(claims) => tests_of(claims).ok().map(|batch| Epoch(batch.filter_epoch)),
        Message::AskCells(ask) => Some(Epoch(ask.filter_epoch)),
        Message::Set(set) => Some(Epoch(set.filter_epoch)),
        Message::Mirror(mirror) => Some(Epoch(mirror.filter_epoch)),
        _ => None,
    }
}

/// Encodes a message. Positions within a group of its filter are below `range`.
///
/// # Errors
/// Returns [`WireError`] if lists disagree about the number of events, or if a value is out of range.
pub fn encode(message: &PeerMessage, range: u64) -> Result<Message, WireError> {
    Ok(match &message.body {
        PeerBody::Test(test) => tests_of_heads::encode(message, test, range)?,
        PeerBody::ClaimTests(tests) => Message::ClaimTests(tests_of_heads::encode_claims(message, tests, range)?),
        PeerBody::Resolved(resolved) => Message::Resolved(encode_resolved(message, resolved)?),
        PeerBody::Set(set) => Message::Set(encode_set(message, set, range)?),
        PeerBody::SetAcks(acks) => {
            check_acks(&acks.set_numbers, &acks.refused_numbers)?;
            Message::SetAcks(proto::SetAcks {
                filter_id: message.filter.0,
                group: message.group,
                set_numbers: acks.set_numbers.clone(),
                refused_numbers: acks.refused_numbers.clone(),
                filter_epoch: message.epoch.0,
            })
        }
        PeerBody::AskPast => Message::AskPast(proto::AskPast {
            filter_id: message.filter.0,
            filter_epoch: message.epoch.0,
            group: message.group,
        }),
        PeerBody::Past(past) => Message::Past(proto::Past {
            filter_id: message.filter.0,
            filter_epoch: message.epoch.0,
            group: message.group,
            newest_unit: past.newest_unit.0,
            has_handed_over: past.has_handed_over,
        }),
        PeerBody::AskCells(ask) => Message::AskCells(cells::encode_ask(CellsOf::of(message), ask)),
        PeerBody::Cells(parts) => Message::Cells(cells::encode(CellsOf::of(message), parts)?),
        PeerBody::Mirror(number, mirrored) => Message::Mirror(mirror::encode(message, *number, mirrored)?),
        PeerBody::HandedOver(handed) => Message::HandedOver(proto::HandedOver {
            filter_id: message.filter.0,
            filter_epoch: message.epoch.0,
            group: message.group,
            told_for_ms: handed.told_for_ms,
            taken_over_epoch: handed.epoch.0,
        }),
    })
}

/// Decodes a message. Positions within a group of its filter are below `range`, and events of its batches have the
/// shape `probes`.
///
/// # Errors
/// Returns a [`WireError`] that names the field.
pub fn decode(message: &Message, range: u64, probes: ProbeShape) -> Result<PeerMessage, WireError> {
    let (filter, epoch, group, body) = match message {
        Message::Hello(_) => return Err(WireError::Invalid { field: "hello", value: 0 }),
        Message::Ping(_) => return Err(WireError::Invalid { field: "ping", value: 0 }),
        Message::Test(test) => {
            let body = PeerBody::Test(tests_of_heads::decode(test, range)?);
            (test.filter_id, test.filter_epoch, test.group, body)
        }
        Message::Tests(tests) => {
            let body = PeerBody::Test(tests_of_heads::decode_several(tests, range)?);
            let batch = tests.batch.as_ref().ok_or(WireError::Missing { field: "batch" })?;
            (batch.filter_id, batch.filter_epoch, batch.group, body)
        }
        Message::ClaimTests(claims) => {
            let body = PeerBody::ClaimTests(Box::new(tests_of_heads::decode_claims(claims, range)?));
            let batch = tests_of(claims)?;
            (batch.filter_id, batch.filter_epoch, batch.group, body)
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
            let body = PeerBody::Past(Past {
                newest_unit: UnitNumber(past.newest_unit),
                has_handed_over: past.has_handed_over,
            });
            (past.filter_id, past.filter_epoch, past.group, body)
        }
        Message::AskCells(ask) => {
            (ask.filter_id, ask.filter_epoch, ask.group, PeerBody::AskCells(cells::decode_ask(ask)))
        }
        Message::Cells(parts) => {
            (parts.filter_id, parts.filter_epoch, parts.group, PeerBody::Cells(cells::decode(parts)?))
        }
        Message::Mirror(mirror) => {
            let body = PeerBody::Mirror(mirror::number(mirror), Arc::new(mirror::decode(mirror, probes)?));
            (mirror.filter_id, mirror.filter_epoch, mirror.group, body)
        }
        Message::HandedOver(handed) => {
            let body = PeerBody::HandedOver(HandedOver {
                epoch: Epoch(handed.taken_over_epoch),
                told_for_ms: handed.told_for_ms,
            });
            (handed.filter_id, handed.filter_epoch, handed.group, body)
        }
    };
    Ok(PeerMessage { filter: FilterId(filter), epoch: Epoch(epoch), group, body })
}

/// Decodes only those parts of an invalid message that are needed to refuse it. All other fields of the result are
/// placeholders.
///
/// The needed parts are the slice group, and the numbers by which the sender recognises what was refused. These are
/// either the number of the message, or the numbers of its events, which the head node (the node that decides the
/// events) has assigned.
///
/// Returns `None` if these parts cannot be decoded. Also returns `None` if the message is itself an answer, because a
/// node never refuses an answer.
pub fn refusable(message: &Message) -> Option<PeerMessage> {
    let (filter, epoch, group, body) = match message {
        Message::Test(test) => {
            let body = PeerBody::Test(tests_of_heads::refusable(test).ok()?);
            (test.filter_id, test.filter_epoch, test.group, body)
        }
        Message::Tests(tests) => {
            let (batch, test) = tests_of_heads::refusable_several(tests).ok()?;
            (batch.filter_id, batch.filter_epoch, batch.group, PeerBody::Test(test))
        }
        Message::ClaimTests(claims) => {
            let (batch, test) = tests_of_heads::refusable_several(claims.tests.as_ref()?).ok()?;
            let body = PeerBody::ClaimTests(Box::new(ClaimTests { test, events: Vec::new() }));
            (batch.filter_id, batch.filter_epoch, batch.group, body)
        }
        Message::Set(set) => {
            let body = SetBatch { set_number: set.set_number, ..SetBatch::default() };
            (set.filter_id, set.filter_epoch, set.group, PeerBody::Set(body))
        }
        // A mirror message that gets no acknowledgement is sent again with another cluster map, or the nodes forget its
        // batches after some time.
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
    Some(PeerMessage { filter: FilterId(filter), epoch: Epoch(epoch), group, body })
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
        filter_epoch: message.epoch.0,
        expiries: pack_expiries("expiries", &resolved.expiries, hits)?.into(),
        held: pack_vetoes(&resolved.vetoes),
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
        vetoes: unpack_vetoes(&resolved.held, events)?,
    })
}

/// Returns the events of a message about claims.
fn tests_of(claims: &proto::ClaimTests) -> Result<&proto::TestBatch, WireError> {
    let batch = claims.tests.as_ref().and_then(|tests| tests.batch.as_ref());
    batch.ok_or(WireError::Missing { field: "batch" })
}

/// Encodes a list of events, each with its index and a remaining time. Each entry becomes two numbers. The first is the
/// number of events between this entry and the previous entry, and the second is the remaining time in milliseconds.
/// The indices must be in ascending order.
fn pack_vetoes(vetoes: &[(u32, u32)]) -> Vec<u32> {
    let mut end = 0;
    let pairs = vetoes.iter().map(|(index, left_ms)| [index - std::mem::replace(&mut end, index + 1), *left_ms]);
    pairs.flatten().collect()
}

fn unpack_vetoes(pairs: &[u32], events: usize) -> Result<Vec<(u32, u32)>, WireError> {
    check_at_most("held", pairs.len() as u64, 2 * events as u64)?;
    let (pairs, rest) = pairs.as_chunks::<2>();
    check_length("held", rest.len(), 0)?;
    let mut end = 0u64;
    let mut vetoes = Vec::with_capacity(pairs.len());
    for [skipped, left_ms] in pairs {
        let index = end + u64::from(*skipped);
        end = index + 1;
        check_at_most("held", end, events as u64)?;
        vetoes.push((index as u32, *left_ms));
    }
    Ok(vetoes)
}

fn encode_set(message: &PeerMessage, set: &SetBatch, range: u64) -> Result<proto::SetBatch, WireError> {
    let events = check_events(set.cells.len(), &[("stamps", set.stamps.len())])?;
    let (counts, positions) = pack_lists(&set.cells, range)?;
    Ok(proto::SetBatch {
        filter_id: message.filter.0,
        filter_epoch: message.epoch.0,
        group: message.group,
        events,
        set_number: set.set_number,
        generation: set.generation.0,
        counts: counts.into(),
        positions: positions.into(),
        stamps: pack_stamps(&set.stamps)?.into(),
    })
}

fn decode_set(set: &proto::SetBatch, range: u64) -> Result<SetBatch, WireError> {
    let (events, cells) = decode_lists(set.events, &set.counts, &set.positions, range)?;
    Ok(SetBatch {
        set_number: set.set_number,
        generation: GenerationNumber(set.generation),
        cells,
        stamps: unpack_stamps(&set.stamps, events)?,
    })
}

fn check_acks(done: &[u64], refused: &[u64]) -> Result<(), WireError> {
    check_at_most("set_numbers", done.len() as u64, SET_ACKS_MAX as u64)?;
    check_at_most("refused_numbers", refused.len() as u64, SET_ACKS_MAX as u64)
}
