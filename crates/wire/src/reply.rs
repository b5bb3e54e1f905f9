//! Replies to batches: one bit an event, and the few that are undecided.
//!
//! Promises: a reply that is decoded has an answer for every event that was asked, and none for others. Must not know:
//! how answers come about.

use firstseen_routing::{Decision, Reason};

use crate::error::{WireError, check_length};
use crate::limits::DETAIL_BYTES_MAX;
use crate::proto::producer as proto;
use crate::verdicts::{bit, check_bitmap, pack_bitmap, pack_reasons, reason, reason_message, unpack_reasons};

/// The answers to a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// One an event.
    pub decisions: Vec<Decision>,
    /// One an event where frequencies were asked for; otherwise none.
    pub estimates: Vec<f32>,
    /// The owner's clock in milliseconds since 1970; 0 where it shows none.
    pub clock_ms: u64,
    /// The version of the map that the node acts on.
    pub map_version: u64,
    /// Slices that the answers rest on have lost what came before their node started.
    pub degraded: bool,
    /// Why the whole batch was refused; empty where it was not.
    pub detail: String,
}

/// The reply to batch `sequence`.
pub fn encode(sequence: u64, answers: &Answers) -> proto::BatchReply {
    let decisions = &answers.decisions;
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
        detail: truncated(&answers.detail),
        clock_ms: answers.clock_ms,
        map_version: answers.map_version,
        degraded: answers.degraded,
        estimates: answers.estimates.clone(),
        degraded_events: Vec::new(),
    }
}

/// The reply that refuses all of batch `sequence`: every event of it is undecided for this reason.
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

/// The answers to a batch of `events` events.
///
/// # Errors
/// [`WireError`] where the reply is not for as many events, or has two answers for one.
pub fn decode(reply: &proto::BatchReply, events: usize) -> Result<Answers, WireError> {
    check_length("events", reply.events as usize, events)?;
    let answers = Answers {
        decisions: Vec::new(),
        estimates: Vec::new(),
        clock_ms: reply.clock_ms,
        map_version: reply.map_version,
        degraded: reply.degraded,
        detail: truncated(&reply.detail),
    };
    if reply.refused != i32::from(proto::Reason::Unspecified) {
        let reason = reason("refused", reply.refused as u32)?;
        return Ok(Answers { decisions: vec![Decision::Undecided(reason); events], ..answers });
    }
    check_bitmap("duplicates", &reply.duplicates, events)?;
    if !reply.estimates.is_empty() {
        check_length("estimates", reply.estimates.len(), events)?;
    }
    let verdict = |index| if bit(&reply.duplicates, index) { Decision::Duplicate } else { Decision::FirstSeen };
    let mut decisions: Vec<Decision> = (0..events).map(verdict).collect();
    let mut twice = None;
    unpack_reasons("undecided", &reply.undecided, events, |index, reason| {
        twice = twice.or((decisions[index] == Decision::Duplicate).then_some(index));
        decisions[index] = Decision::Undecided(reason);
    })?;
    match twice {
        Some(index) => Err(WireError::Invalid { field: "undecided", value: index as u64 }),
        None => Ok(Answers { decisions, estimates: reply.estimates.clone(), ..answers }),
    }
}

fn truncated(text: &str) -> String {
    let mut end = text.len().min(DETAIL_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
