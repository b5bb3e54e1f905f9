//! Encodes and decodes the messages in which head nodes ask another node to look up events. The head node of an event
//! is the node that decides the event. One message can contain events of a single head node or of several head nodes.
//!
//! If all events have the same head node, the message has its original form, which nodes of every version accept. If
//! there are several head nodes, the events are divided into runs, each with the events of one head node. The decoder
//! checks that the runs cover exactly the events of the message.

use firstseen_routing::{ClaimTests, NodeId, PeerMessage, TestBatch, TestRun};

use crate::error::{WireError, check_at_most, check_length};
use crate::limits::{FRAME_EVENTS_MAX, TRACEPARENT_BYTES_MAX};
use crate::lists::{check_events, decode_lists, pack_expiries, pack_generations, unpack_expiries, unpack_generations};
use crate::packing::pack_lists;
use crate::proto::peer as proto;
use crate::proto::peer::link_frame::Message;
use crate::ticks::{pack_stamps, pack_tickets, unpack_stamps, unpack_tickets};
use crate::varint;

/// Flags of a run.
const ASKS_ALL: u64 = 1;
const DEGRADED: u64 = 2;

/// Splits the runs into messages with one run each, for a node that does not accept events of several heads.
pub fn by_run(test: TestBatch) -> impl Iterator<Item = TestBatch> {
    let TestBatch { runs, tickets, left, stamps, generations, parallel, traceparent, expiries } = test;
    let mut tickets = tickets.into_iter();
    let mut stamps = stamps.into_iter();
    let mut generations = generations.into_iter();
    let mut expiries = expiries.into_iter();
    let mut counts = left.counts.into_iter();
    let mut positions = left.positions.into_iter();
    runs.into_iter().map(move |run| {
        let events = run.events as usize;
        let mut own = TestBatch { runs: vec![run], parallel, traceparent: traceparent.clone(), ..TestBatch::default() };
        own.tickets.extend(tickets.by_ref().take(events));
        own.stamps.extend(stamps.by_ref().take(events));
        own.generations.extend(generations.by_ref().take(events));
        own.expiries.extend(expiries.by_ref().take(events));
        for count in counts.by_ref().take(events) {
            own.left.push(positions.by_ref().take(count.into()));
        }
        own
    })
}

pub(crate) fn encode(message: &PeerMessage, test: &TestBatch, range: u64) -> Result<Message, WireError> {
    let batch = encode_batch(message, test, range)?;
    if test.runs.len() > 1 {
        return Ok(Message::Tests(proto::Tests { batch: Some(batch), runs: pack_runs(&test.runs).into() }));
    }
    let TestRun { head, asks_all, degraded, deadline_in_ms, .. } = test.runs.first().copied().unwrap_or_default();
    Ok(Message::Test(proto::TestBatch { head_node: head.0, asks_all, degraded, deadline_ms: deadline_in_ms, ..batch }))
}

/// Encodes the events without the fields that describe their heads.
fn encode_batch(message: &PeerMessage, test: &TestBatch, range: u64) -> Result<proto::TestBatch, WireError> {
    let traceparent_bytes = test.traceparent.as_ref().map_or(0, |traceparent| traceparent.len());
    check_at_most("traceparent", traceparent_bytes as u64, TRACEPARENT_BYTES_MAX as u64)?;
    let events = check_events(test.left.len(), &[("tickets", test.tickets.len()), ("stamps", test.stamps.len())])?;
    check_length("runs", test.run_of_each().count(), test.left.len())?;
    if !test.generations.is_empty() {
        check_length("generations", test.generations.len(), test.left.len())?;
    }
    let (counts, positions) = pack_lists(&test.left, range)?;
    Ok(proto::TestBatch {
        filter_id: message.filter.0,
        filter_epoch: message.epoch.0,
        group: message.group,
        events,
        tickets: pack_tickets(&test.tickets).into(),
        counts: counts.into(),
        positions: positions.into(),
        stamps: pack_stamps(&test.stamps)?.into(),
        generations: pack_generations(&test.generations).into(),
        parallel: test.parallel,
        traceparent: test.traceparent.as_deref().unwrap_or_default().to_owned(),
        expiries: pack_expiries("expiries", &test.expiries, test.left.len())?.into(),
        ..Default::default()
    })
}

pub(crate) fn encode_claims(
    message: &PeerMessage,
    claims: &ClaimTests,
    range: u64,
) -> Result<proto::ClaimTests, WireError> {
    check_length("events", claims.events.len(), claims.test.left.len())?;
    let batch = encode_batch(message, &claims.test, range)?;
    let tests = proto::Tests { batch: Some(batch), runs: pack_runs(&claims.test.runs).into() };
    let events: Vec<u8> = claims.events.iter().flat_map(|event| event.to_le_bytes()).collect();
    Ok(proto::ClaimTests { tests: Some(tests), events: events.into() })
}

pub(crate) fn decode_claims(claims: &proto::ClaimTests, range: u64) -> Result<ClaimTests, WireError> {
    let tests = claims.tests.as_ref().ok_or(WireError::Missing { field: "tests" })?;
    let test = decode_several(tests, range)?;
    check_length("events", claims.events.len(), test.tickets.len() * size_of::<u128>())?;
    let (events, _) = claims.events.as_chunks::<16>();
    Ok(ClaimTests { test, events: events.iter().map(|event| u128::from_le_bytes(*event)).collect() })
}

pub(crate) fn decode(test: &proto::TestBatch, range: u64) -> Result<TestBatch, WireError> {
    decode_runs(test, run_of_all(test).into_iter().collect(), range)
}

pub(crate) fn decode_several(tests: &proto::Tests, range: u64) -> Result<TestBatch, WireError> {
    let batch = batch_of(tests)?;
    decode_runs(batch, unpack_runs(&tests.runs, batch.events)?, range)
}

/// Decodes only the numbers of the events, which are enough to refuse them.
pub(crate) fn refusable(test: &proto::TestBatch) -> Result<TestBatch, WireError> {
    refusable_runs(test, run_of_all(test).into_iter().collect())
}

/// Decodes only the numbers of the events of several heads, which are enough to refuse them.
pub(crate) fn refusable_several(tests: &proto::Tests) -> Result<(&proto::TestBatch, TestBatch), WireError> {
    let batch = batch_of(tests)?;
    Ok((batch, refusable_runs(batch, unpack_runs(&tests.runs, batch.events)?)?))
}

fn batch_of(tests: &proto::Tests) -> Result<&proto::TestBatch, WireError> {
    tests.batch.as_ref().ok_or(WireError::Missing { field: "batch" })
}

fn refusable_runs(test: &proto::TestBatch, runs: Vec<TestRun>) -> Result<TestBatch, WireError> {
    check_at_most("events", test.events.into(), FRAME_EVENTS_MAX.into())?;
    let tickets = unpack_tickets(&test.tickets, test.events as usize)?;
    Ok(TestBatch { runs, tickets, ..TestBatch::default() })
}

fn run_of_all(test: &proto::TestBatch) -> Option<TestRun> {
    let &proto::TestBatch { head_node, events, asks_all, degraded, deadline_ms, .. } = test;
    let run = TestRun { head: NodeId(head_node), events, asks_all, degraded, deadline_in_ms: deadline_ms };
    (events > 0).then_some(run)
}

fn decode_runs(test: &proto::TestBatch, runs: Vec<TestRun>, range: u64) -> Result<TestBatch, WireError> {
    check_at_most("traceparent", test.traceparent.len() as u64, TRACEPARENT_BYTES_MAX as u64)?;
    let (events, left) = decode_lists(test.events, &test.counts, &test.positions, range)?;
    Ok(TestBatch {
        runs,
        tickets: unpack_tickets(&test.tickets, events)?,
        left,
        stamps: unpack_stamps(&test.stamps, events)?,
        generations: unpack_generations(&test.generations, events)?,
        parallel: test.parallel,
        traceparent: (!test.traceparent.is_empty()).then(|| test.traceparent.as_str().into()),
        expiries: unpack_expiries("expiries", &test.expiries, events)?,
    })
}

/// Encodes four varints for each run: its head, its number of events, the remaining milliseconds, and its flags.
fn pack_runs(runs: &[TestRun]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(runs.len() * 6);
    for run in runs {
        let flags = if run.asks_all { ASKS_ALL } else { 0 } | if run.degraded { DEGRADED } else { 0 };
        for number in [run.head.0, run.events.into(), run.deadline_in_ms.into(), flags] {
            varint::put(number, &mut bytes);
        }
    }
    bytes
}

/// Name of the field in error messages.
const FIELD: &str = "runs";

fn narrow(value: u64) -> Result<u32, WireError> {
    u32::try_from(value).map_err(|_| WireError::Invalid { field: FIELD, value })
}

/// Decodes runs. Each run has at least one event, and together they must cover all events.
fn unpack_runs(mut bytes: &[u8], events: u32) -> Result<Vec<TestRun>, WireError> {
    check_at_most("events", events.into(), FRAME_EVENTS_MAX.into())?;
    let mut runs = Vec::new();
    let mut left = events;
    while left > 0 {
        let head = varint::take(FIELD, &mut bytes)?;
        let own = varint::take(FIELD, &mut bytes)?;
        let deadline_in_ms = varint::take(FIELD, &mut bytes)?;
        let flags = varint::take(FIELD, &mut bytes)?;
        let own = narrow(own)?;
        if own == 0 || own > left || flags > (ASKS_ALL | DEGRADED) {
            return Err(WireError::Invalid { field: FIELD, value: own.into() });
        }
        left -= own;
        runs.push(TestRun {
            head: NodeId(head),
            events: own,
            asks_all: flags & ASKS_ALL != 0,
            degraded: flags & DEGRADED != 0,
            deadline_in_ms: narrow(deadline_in_ms)?,
        });
    }
    varint::check_end(FIELD, bytes)?;
    Ok(runs)
}
