//! Encodes and decodes batches of producers. A batch consists of runs, and each run has the events of one slice group.
//!
//! - A decoded batch keeps all limits of the protocol.
//! - The runs of a decoded batch belong to existing groups, and no group occurs twice.
//! - Every decoded event has the shape of its filter.
//!
//! This module does not depend on which node owns a group, or on whether the batch is a retry.

use std::ops::Range;

use firstseen_filter::{ProbeShape, Probes, UnitNumber};
use firstseen_routing::{Epoch, Fence, FilterId, FromLevel, Incarnation, Operation, SubmissionName, Tick, Times};

use crate::claims::{pack_fences, unpack_fences};
use crate::error::{WireError, check_at_most, check_length};
use crate::limits::{BATCH_EVENTS_MAX, BATCH_RUNS_MAX, NAME_BYTES, TRACEPARENT_BYTES_MAX};
use crate::packing::{pack_probes, packed_bytes, unpack_probes};
use crate::proto::producer as proto;
use crate::ticks::{are_trivial, pack_ticks, read_ms, unpack_ticks, written_ms};
use crate::varint;

/// Fields that all events of a batch share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Sequence number that identifies the batch among those of its producer. A retry has the same number.
    pub sequence: u64,
    /// Filter that the batch is for.
    pub filter: FilterId,
    /// Epoch of the filter in the producer's cluster map.
    pub epoch: Epoch,
    /// Incarnation of the head node (the node that decides the events) in the producer's cluster map.
    pub incarnation: Incarnation,
    /// Operation that is applied to the events.
    pub operation: Operation,
    /// Time to live of events that are observed or confirmed, in milliseconds. `None` means that the filter's window
    /// applies.
    pub ttl_ms: Option<u64>,
    /// Time for which the producer still waits for the answer, in milliseconds.
    pub deadline_in_ms: u32,
    /// Reading of the producer's clock before the first event, in units of the window.
    pub base_unit: UnitNumber,
    /// Time of the producer's clock after the last event of the batch, in milliseconds since 1970. `None` means that
    /// the producer keeps no clock for this filter.
    pub clock_ms: Option<u64>,
    /// W3C trace context. Empty if the producer does not trace.
    pub traceparent: String,
    /// Tree level that sent the batch, or `None` if a producer sent it. If a level sent the batch, the reply also
    /// states for each event at which level of the tree the event was found.
    pub from: Option<FromLevel>,
    /// Whether the events were sent before, so that they may have been recorded already.
    pub again: bool,
}

/// Events of one slice group, as a producer collects them.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Number of the slice group.
    pub group: u32,
    /// Positions of all events of the batch.
    pub probes: &'a Probes,
    /// Range of this run's events in `probes`.
    pub range: Range<usize>,
    /// Times of the events, one for each event of the range. Empty if all events are in `base_unit`.
    pub ticks: &'a [Tick],
    /// Idempotency keys of the events, one for each event of the range. Empty if the caller set none.
    pub names: &'a [SubmissionName],
    /// Fences of the events, one for each event of the range, if the operation confirms or releases events.
    pub fences: &'a [Fence],
}

/// Events of one slice group, as an owner receives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRun {
    /// Number of the slice group.
    pub group: u32,
    /// Positions of the events.
    pub probes: Probes,
    /// Times of the events.
    pub times: Times,
    /// Idempotency keys, one for each event, or empty.
    pub names: Vec<SubmissionName>,
    /// Fences, one for each event, or empty.
    pub fences: Vec<Fence>,
}

/// Shape of the batches of a filter, which is needed to decode them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Shape of the positions of every event.
    pub probes: ProbeShape,
    /// Number of slice groups of the filter.
    pub groups: u32,
}

/// Encodes runs as a message. The group numbers of the runs must be in ascending order.
///
/// # Errors
/// Returns [`WireError`] if the runs exceed a limit, if a group occurs twice, or if times run backwards.
pub fn encode(header: &BatchHeader, runs: &[Run<'_>]) -> Result<proto::Batch, WireError> {
    let lengths: Vec<(u32, usize)> = runs.iter().map(|run| (run.group, run.range.len())).collect();
    let events = check_runs(&lengths, u32::MAX)?;
    check_at_most("traceparent", header.traceparent.len() as u64, TRACEPARENT_BYTES_MAX as u64)?;
    let has_ticks = runs.iter().any(|run| !are_trivial(run.ticks, header.base_unit));
    let has_names = runs.iter().any(|run| !run.names.is_empty());
    let has_fences = header.operation.ends_claims();
    let mut fences = Vec::new();
    let packed: usize = runs.iter().map(|run| packed_bytes(run.probes.shape(), run.range.len())).sum();
    let mut probes = Vec::with_capacity(packed + 8);
    let mut ticks = Vec::new();
    let mut names = Vec::new();
    for run in runs {
        check_at_most("probes", run.range.end as u64, run.probes.len() as u64)?;
        pack_probes(run.probes, run.range.clone(), &mut probes);
        if has_ticks {
            pack_run_ticks(run, header.base_unit, &mut ticks)?;
        }
        if has_names {
            check_length("names", run.names.len(), run.range.len())?;
            run.names.iter().for_each(|name| pack_name(name, &mut names));
        }
        check_length("fences", run.fences.len(), if has_fences { run.range.len() } else { 0 })?;
        fences.extend_from_slice(run.fences);
    }
    Ok(proto::Batch {
        sequence: header.sequence,
        filter_id: header.filter.0,
        filter_epoch: header.epoch.0,
        incarnation: header.incarnation.0,
        operation: operation_message(header.operation, header.ttl_ms)?.into(),
        deadline_ms: header.deadline_in_ms,
        runs: run_pairs(&lengths),
        events,
        probes: probes.into(),
        ticks: ticks.into(),
        base_unit: header.base_unit.0,
        clock_ms: written_ms(header.clock_ms),
        names: names.into(),
        traceparent: header.traceparent.clone(),
        from_filter: header.from.map_or(0, |from| from.filter.0),
        from_incomplete: header.from.is_some_and(|from| !from.complete),
        again: header.again,
        // The sender sets these fields.
        former_asked: false,
        audited_tests: 0,
        audited_false_positives: 0,
        lease_ms: if let Operation::Claim { lease_ms } = header.operation { lease_ms } else { 0 },
        fences: pack_fences(&fences).into(),
        ttl_ms: header.ttl_ms.unwrap_or_default(),
    })
}

/// Decodes the fields that all events of a batch share. [`BatchReader`] also decodes the events.
///
/// # Errors
/// Returns a [`WireError`] that names the field.
pub fn decode_header(batch: &proto::Batch) -> Result<BatchHeader, WireError> {
    check_at_most("events", batch.events.into(), BATCH_EVENTS_MAX.into())?;
    check_at_most("traceparent", batch.traceparent.len() as u64, TRACEPARENT_BYTES_MAX as u64)?;
    Ok(BatchHeader {
        sequence: batch.sequence,
        filter: FilterId(batch.filter_id),
        epoch: Epoch(batch.filter_epoch),
        incarnation: Incarnation(batch.incarnation),
        operation: operation(batch.operation, batch.lease_ms)?,
        ttl_ms: ttl_ms(batch)?,
        deadline_in_ms: batch.deadline_ms,
        base_unit: UnitNumber(batch.base_unit),
        clock_ms: read_ms(batch.clock_ms),
        traceparent: batch.traceparent.clone(),
        from: (batch.from_filter > 0)
            .then_some(FromLevel { filter: FilterId(batch.from_filter), complete: !batch.from_incomplete }),
        again: batch.again,
    })
}

/// Batch whose header is decoded. The events are decoded later, when the shape of the filter is known.
#[derive(Clone, Debug)]
pub struct BatchReader<'a> {
    message: &'a proto::Batch,
    header: BatchHeader,
}

impl<'a> BatchReader<'a> {
    /// Decodes the header of a batch.
    ///
    /// # Errors
    /// Returns the same errors as [`decode_header`].
    pub fn new(message: &'a proto::Batch) -> Result<Self, WireError> {
        Ok(Self { message, header: decode_header(message)? })
    }

    /// Returns the fields that all events of the batch share.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Decodes the events, run by run. The memory of the buffers in `spare` is reused first.
    ///
    /// # Errors
    /// Returns a [`WireError`] that names the field.
    pub fn runs(&self, shape: BatchShape, spare: &mut Vec<Probes>) -> Result<Vec<OwnedRun>, WireError> {
        let Self { message, header } = self;
        let lengths = decode_lengths(message, shape.groups)?;
        let bytes: usize = lengths.iter().map(|(_, events)| packed_bytes(shape.probes, *events)).sum();
        check_length("probes", message.probes.len(), bytes)?;
        if !message.names.is_empty() {
            check_length("names", message.names.len(), message.events as usize * NAME_BYTES)?;
        }
        let mut fences = &message.fences[..];
        let all_fences = if header.operation.ends_claims() {
            unpack_fences(&mut fences, message.events as usize)?
        } else {
            Vec::new()
        };
        varint::check_end("fences", fences)?;
        let mut fences = all_fences.into_iter();
        let mut packed = &message.probes[..];
        let mut ticks = &message.ticks[..];
        let mut names = message.names.chunks_exact(NAME_BYTES);
        let base_unit = header.base_unit;
        let mut runs = Vec::with_capacity(lengths.len());
        for (group, events) in lengths {
            let mut probes = spare.pop().unwrap_or_else(|| Probes::new(shape.probes));
            probes.reset(shape.probes);
            let (own, others) = packed.split_at(packed_bytes(shape.probes, events));
            packed = others;
            unpack_probes(own, events, &mut probes)?;
            let own_ticks =
                if message.ticks.is_empty() { Vec::new() } else { unpack_ticks(&mut ticks, events, base_unit)? };
            runs.push(OwnedRun {
                group,
                probes,
                times: Times { base_unit, ticks: own_ticks, clock_ms: header.clock_ms, ttl_ms: header.ttl_ms },
                names: names.by_ref().take(events).map(unpack_name).collect(),
                fences: fences.by_ref().take(events).collect(),
            });
        }
        if ticks.is_empty() { Ok(runs) } else { Err(WireError::Damaged { field: "ticks" }) }
    }
}

/// Decodes the group of each run and the number of its events, in order.
fn decode_lengths(batch: &proto::Batch, groups: u32) -> Result<Vec<(u32, usize)>, WireError> {
    check_at_most("events", batch.events.into(), BATCH_EVENTS_MAX.into())?;
    check_at_most("runs", batch.runs.len() as u64, 2 * u64::from(BATCH_RUNS_MAX))?;
    let lengths = match &batch.runs[..] {
        [] => vec![(0, batch.events as usize)],
        pairs if pairs.len().is_multiple_of(2) => pairs.chunks(2).map(|pair| (pair[0], pair[1] as usize)).collect(),
        pairs => return Err(WireError::Invalid { field: "runs", value: pairs.len() as u64 }),
    };
    let events = check_runs(&lengths, groups)?;
    check_length("events", batch.events as usize, events as usize)?;
    Ok(lengths)
}

/// Checks the runs of a batch and returns the number of events. The slice groups of the runs must be in ascending
/// order, no run may be empty, and the number of events must not exceed the limit of a batch.
fn check_runs(lengths: &[(u32, usize)], groups: u32) -> Result<u32, WireError> {
    let mut sum = 0u64;
    for (index, (group, events)) in lengths.iter().enumerate() {
        let rises = index == 0 || lengths[index - 1].0 < *group;
        if *group >= groups || *events == 0 || !rises {
            return Err(WireError::Invalid { field: "runs", value: (*group).into() });
        }
        sum += *events as u64;
        check_at_most("events", sum, BATCH_EVENTS_MAX.into())?;
    }
    match u32::try_from(sum) {
        Ok(sum) if sum > 0 => Ok(sum),
        _ => Err(WireError::Missing { field: "events" }),
    }
}

/// Encodes groups and lengths as pairs. If all events belong to group 0, the list is empty.
fn run_pairs(lengths: &[(u32, usize)]) -> Vec<u32> {
    match lengths {
        [(0, _)] => Vec::new(),
        several => several.iter().flat_map(|(group, events)| [*group, *events as u32]).collect(),
    }
}

fn pack_run_ticks(run: &Run<'_>, base_unit: UnitNumber, out: &mut Vec<u8>) -> Result<(), WireError> {
    if run.ticks.is_empty() {
        out.resize(out.len() + run.range.len(), 0);
        return Ok(());
    }
    check_length("ticks", run.ticks.len(), run.range.len())?;
    pack_ticks(run.ticks, base_unit, out)
}

pub(crate) fn pack_name(name: &SubmissionName, out: &mut Vec<u8>) {
    out.extend_from_slice(&name.source.to_le_bytes());
    out.extend_from_slice(&name.number.to_le_bytes());
}

pub(crate) fn unpack_name(bytes: &[u8]) -> SubmissionName {
    let mut source = [0; 16];
    let mut number = [0; 8];
    source.copy_from_slice(&bytes[..16]);
    number.copy_from_slice(&bytes[16..NAME_BYTES]);
    SubmissionName { source: u128::from_le_bytes(source), number: u64::from_le_bytes(number) }
}

fn operation_message(operation: Operation, ttl_ms: Option<u64>) -> Result<proto::Operation, WireError> {
    if let Some(ttl_ms) = ttl_ms {
        return match operation {
            Operation::Observe => Ok(proto::Operation::ObserveFor),
            Operation::Confirm => Ok(proto::Operation::ConfirmFor),
            _ => Err(WireError::Invalid { field: "ttl_ms", value: ttl_ms }),
        };
    }
    Ok(match operation {
        Operation::Observe => proto::Operation::Observe,
        Operation::Lookup => proto::Operation::Lookup,
        Operation::Count => proto::Operation::Count,
        Operation::Estimate => proto::Operation::Estimate,
        Operation::Verify => proto::Operation::Verify,
        Operation::BringUp => proto::Operation::Record,
        Operation::Claim { .. } => proto::Operation::Claim,
        Operation::Confirm => proto::Operation::Confirm,
        Operation::Release => proto::Operation::Release,
    })
}

fn operation(value: i32, lease_ms: u32) -> Result<Operation, WireError> {
    match proto::Operation::try_from(value) {
        Ok(proto::Operation::Observe | proto::Operation::ObserveFor) => Ok(Operation::Observe),
        Ok(proto::Operation::Lookup) => Ok(Operation::Lookup),
        Ok(proto::Operation::Count) => Ok(Operation::Count),
        Ok(proto::Operation::Estimate) => Ok(Operation::Estimate),
        Ok(proto::Operation::Verify) => Ok(Operation::Verify),
        Ok(proto::Operation::Record) => Ok(Operation::BringUp),
        Ok(proto::Operation::Claim) => Ok(Operation::Claim { lease_ms }),
        Ok(proto::Operation::Confirm | proto::Operation::ConfirmFor) => Ok(Operation::Confirm),
        Ok(proto::Operation::Release) => Ok(Operation::Release),
        _ => Err(WireError::Invalid { field: "operation", value: value as u32 as u64 }),
    }
}

/// Returns the time to live of a batch's events, or `None` if they are remembered for the window.
fn ttl_ms(batch: &proto::Batch) -> Result<Option<u64>, WireError> {
    match (proto::Operation::try_from(batch.operation), batch.ttl_ms) {
        (Ok(proto::Operation::ObserveFor | proto::Operation::ConfirmFor), 0) => {
            Err(WireError::Missing { field: "ttl_ms" })
        }
        (Ok(proto::Operation::ObserveFor | proto::Operation::ConfirmFor), ttl_ms) => Ok(Some(ttl_ms)),
        (_, 0) => Ok(None),
        (_, ttl_ms) => Err(WireError::Invalid { field: "ttl_ms", value: ttl_ms }),
    }
}
