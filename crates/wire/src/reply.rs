//! Encodes and decodes replies to batches. A reply has one bit for each event, and a list of the few events that are
//! undecided.
//!
//! A decoded reply has exactly one answer for every event of the batch.

use firstseen_filter::UnitNumber;
use firstseen_routing::{Answers, Decision, Reason, Seen, TREE_LEVELS_MAX};

use crate::claims::{pack_holds, unpack_holds};
use crate::error::{WireError, check_at_most, check_length};
use crate::limits::DETAIL_BYTES_MAX;
use crate::proto::producer as proto;
use crate::proto::producer::{ObserveReply, observe_reply};
use crate::ticks::{read_ms, written_ms};
use crate::varint;
use crate::verdicts::{bit, check_bitmap, pack_bitmap, pack_reasons, reason, reason_message, unpack_reasons};

/// Decoded reply to a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Answers, one for each event.
    pub answers: Answers,
    /// Version of the cluster map that the node uses.
    pub map_version: u64,
    /// Reason why the whole batch was refused. Empty if the batch was not refused.
    pub detail: String,
}

/// Encodes the reply to the batch with this sequence number. `map_version` is the version of the cluster map that the
/// node uses.
pub fn encode(sequence: u64, answers: &Answers, map_version: u64) -> proto::BatchReply {
    let decisions = answers.decisions();
    let undecided = decisions.iter().zip(0..).filter_map(|(decision, index)| match decision {
        Decision::Undecided(reason) => Some((index, *reason)),
        _ => None,
    });
    proto::BatchReply {
        sequence,
        events: decisions.len() as u32,
        duplicates: pack_bitmap(decisions.iter().map(|decision| *decision == Decision::Duplicate)).into(),
        undecided: pack_reasons(undecided),
        refused: proto::Reason::Unspecified.into(),
        detail: String::new(),
        clock_ms: written_ms(answers.clock_ms()),
        map_version,
        degraded: answers.is_degraded(),
        estimates: answers.estimates().to_vec(),
        degraded_events: pack_events(answers.degraded_events()),
        seen: pack_seen(decisions, answers.seen()).into(),
        level_hits: answers.level_hits().to_vec(),
        expected_rate: answers.expected_rate(),
        holds: pack_holds(decisions, answers.holds()).into(),
        retry_after_ms: 0,
    }
}

/// Encodes a reply that refuses the whole batch. Every event of the batch is then undecided with this reason.
pub fn refusal(sequence: u64, events: u32, reason: Reason, detail: &str, map_version: u64) -> proto::BatchReply {
    proto::BatchReply {
        sequence,
        events,
        refused: reason_message(reason).into(),
        detail: truncated(detail),
        map_version,
        ..Default::default()
    }
}

/// Encodes the duplicates that were found early in a batch of `events` events. The indices in `found` must be in
/// ascending order.
pub fn found(sequence: u64, events: u32, found: &[u32], clock_ms: Option<u64>) -> ObserveReply {
    let mut found = found.iter().copied().peekable();
    let is_found = (0..events as usize).map(|event| found.next_if_eq(&(event as u32)).is_some());
    let message =
        proto::Found { sequence, events, duplicates: pack_bitmap(is_found).into(), clock_ms: written_ms(clock_ms) };
    ObserveReply { message: Some(observe_reply::Message::Found(message)) }
}

/// Decodes for each of `events` events whether the event is certainly a duplicate.
///
/// # Errors
/// Returns [`WireError`] if the message is about a different number of events.
pub fn decode_found(found: &proto::Found, events: usize) -> Result<Vec<bool>, WireError> {
    check_length("events", found.events as usize, events)?;
    check_bitmap("duplicates", &found.duplicates, events)?;
    Ok((0..events).map(|event| bit(&found.duplicates, event)).collect())
}

/// Decodes the answers to a batch of `events` events.
///
/// # Errors
/// Returns [`WireError`] if the reply is for a different number of events, or has two answers for one event.
pub fn decode(reply: &proto::BatchReply, events: usize) -> Result<Reply, WireError> {
    check_length("events", reply.events as usize, events)?;
    let answers = if reply.refused == i32::from(proto::Reason::Unspecified) {
        decode_answers(reply, events)?
    } else {
        Answers::undecided(events, reason("refused", reply.refused as u32)?)
    };
    let answers = answers
        .with_clock(read_ms(reply.clock_ms))
        .with_quality(reply.degraded, rate(reply.expected_rate))
        .with_degraded_events(unpack_events("degraded_events", &reply.degraded_events, events)?);
    Ok(Reply { answers, map_version: reply.map_version, detail: truncated(&reply.detail) })
}

fn decode_answers(reply: &proto::BatchReply, events: usize) -> Result<Answers, WireError> {
    check_bitmap("duplicates", &reply.duplicates, events)?;
    if !reply.estimates.is_empty() {
        check_length("estimates", reply.estimates.len(), events)?;
    }
    let mut decisions: Vec<Decision> = (0..events)
        .map(|index| if bit(&reply.duplicates, index) { Decision::Duplicate } else { Decision::FirstSeen })
        .collect();
    let mut twice = None;
    unpack_reasons("undecided", &reply.undecided, events, |index, reason| {
        twice = twice.or((decisions[index] == Decision::Duplicate).then_some(index));
        decisions[index] = Decision::Undecided(reason);
    })?;
    if let Some(index) = twice {
        return Err(WireError::Invalid { field: "undecided", value: index as u64 });
    }
    check_at_most("level_hits", reply.level_hits.len() as u64, TREE_LEVELS_MAX as u64)?;
    let seen = unpack_seen(&decisions, &reply.seen)?;
    let holds = unpack_holds(&decisions, &reply.holds)?;
    Ok(Answers::new(decisions)
        .with_estimates(reply.estimates.clone())
        .with_seen(seen)
        .with_level_hits(reply.level_hits.clone())
        .with_holds(holds))
}

/// Encodes ascending indexes of events as runs. Each run is a pair: the number of events that it skips, and its length.
fn pack_events(indexes: &[u32]) -> Vec<u32> {
    let mut runs: Vec<u32> = Vec::new();
    let mut end = 0;
    for index in indexes {
        match runs.last_mut() {
            Some(length) if *index == end => *length += 1,
            _ => runs.extend([index - end, 1]),
        }
        end = index + 1;
    }
    runs
}

/// Decodes the indexes that [`pack_events`] has encoded, for a batch of `events` events.
fn unpack_events(field: &'static str, runs: &[u32], events: usize) -> Result<Vec<u32>, WireError> {
    let mut indexes = Vec::new();
    let mut end = 0_u64;
    for run in runs.chunks(2) {
        let [skipped, length] = run else { return Err(WireError::Missing { field }) };
        let begin = end + u64::from(*skipped);
        end = begin + u64::from(*length);
        check_at_most(field, end, events as u64)?;
        indexes.extend(begin as u32..end as u32);
    }
    Ok(indexes)
}

/// Flag of an event whose time unit is not remembered.
const NO_UNIT: u8 = 0x80;

/// Encodes for each decided event one byte with its tree level, followed by the difference of its time unit from the
/// previous one.
fn pack_seen(decisions: &[Decision], seen: &[Seen]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = UnitNumber::FIRST;
    let decided = decisions.iter().zip(seen).filter(|(decision, _)| !matches!(decision, Decision::Undecided(_)));
    for (_, Seen { unit, level }) in decided {
        bytes.push(level & !NO_UNIT | if unit.is_none() { NO_UNIT } else { 0 });
        if let Some(unit) = unit {
            varint::put(varint::zigzag(unit.0.wrapping_sub(last.0) as i64), &mut bytes);
            last = *unit;
        }
    }
    bytes
}

fn unpack_seen(decisions: &[Decision], mut bytes: &[u8]) -> Result<Vec<Seen>, WireError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut seen = Vec::with_capacity(decisions.len());
    let mut last = UnitNumber::FIRST;
    for decision in decisions {
        if let Decision::Undecided(_) = decision {
            seen.push(Seen::default());
            continue;
        }
        let (first, rest) = bytes.split_first().ok_or(WireError::Missing { field: "seen" })?;
        bytes = rest;
        let unit = if first & NO_UNIT == 0 {
            last = UnitNumber(last.0.wrapping_add_signed(varint::unzigzag(varint::take("seen", &mut bytes)?)));
            Some(last)
        } else {
            None
        };
        seen.push(Seen { unit, level: first & !NO_UNIT });
    }
    varint::check_end("seen", bytes)?;
    Ok(seen)
}

/// Returns the rate if it is between 0 and 1, and otherwise 0.
fn rate(rate: f32) -> f32 {
    if (0.0..=1.0).contains(&rate) { rate } else { 0.0 }
}

fn truncated(text: &str) -> String {
    let mut end = text.len().min(DETAIL_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
