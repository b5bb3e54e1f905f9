//! Encodes and decodes cells of slices, for transfers to copies that lack them and for backups.
//!
//! Decoding checks that a message with cells is within the limits of the protocol. It does not check whether the cells
//! fit a certain slice, because the decoder does not know the slice. The slice checks this when it receives the cells.

use firstseen_filter::{CellRun, GenerationNumber, LiveEvents, SliceOutline, UnitNumber};
use firstseen_routing::{AskCells, CellParts, CellPlace, ClockReading, Epoch, FilterId, PeerMessage};
use prost::Message;

use crate::error::{WireError, check_at_most};
use crate::limits::{CELL_RUNS_MAX, CELLS_BYTES_MAX, OUTLINE_GENERATIONS_MAX};
use crate::proto::peer as proto;
use crate::ticks::{read_ms, written_ms};

/// Slice group that cells belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellsOf {
    /// Filter of the group.
    pub filter: FilterId,
    /// Epoch of the filter, as the sender knows it.
    pub epoch: Epoch,
    /// Number of the group.
    pub group: u32,
}

impl CellsOf {
    pub(crate) fn of(message: &PeerMessage) -> Self {
        let PeerMessage { filter, epoch, group, .. } = *message;
        Self { filter, epoch, group }
    }
}

/// Encodes a request for cells.
pub fn encode_ask(of: CellsOf, ask: &AskCells) -> proto::AskCells {
    proto::AskCells {
        filter_id: of.filter.0,
        filter_epoch: of.epoch.0,
        group: of.group,
        slice: ask.slice,
        unit: ask.unit.0,
        from: ask.from.map(encode_place),
    }
}

/// Decodes a request for cells.
pub fn decode_ask(ask: &proto::AskCells) -> AskCells {
    AskCells { slice: ask.slice, unit: UnitNumber(ask.unit), from: ask.from.as_ref().map(decode_place) }
}

/// Encodes cells.
///
/// # Errors
/// Returns [`WireError`] if the cells exceed the limit of one message.
pub fn encode(of: CellsOf, parts: &CellParts) -> Result<proto::Cells, WireError> {
    check(parts.runs.iter().map(|run| run.cells.len()))?;
    Ok(proto::Cells {
        filter_id: of.filter.0,
        filter_epoch: of.epoch.0,
        group: of.group,
        slice: parts.slice,
        asked: parts.asked.map(encode_place),
        outline: parts.outline.as_ref().map(encode_outline),
        runs: parts.runs.iter().map(encode_run).collect(),
        next: parts.next.map(encode_place),
        clock_unit: parts.clock.unit.0,
        clock_ms: written_ms(parts.clock.time_ms),
        clock_events: parts.clock.events,
    })
}

/// Decodes cells.
///
/// # Errors
/// Returns a [`WireError`] that names the field.
pub fn decode(parts: &proto::Cells) -> Result<CellParts, WireError> {
    check(parts.runs.iter().map(|run| run.cells.len()))?;
    Ok(CellParts {
        slice: parts.slice,
        asked: parts.asked.as_ref().map(decode_place),
        outline: parts.outline.as_ref().map(decode_outline).transpose()?,
        runs: parts.runs.iter().map(decode_run).collect(),
        next: parts.next.as_ref().map(decode_place),
        clock: ClockReading {
            unit: UnitNumber(parts.clock_unit),
            time_ms: read_ms(parts.clock_ms),
            events: parts.clock_events,
        },
    })
}

/// Returns the bytes of the message, as files store it.
pub fn to_bytes(parts: &proto::Cells) -> Vec<u8> {
    parts.encode_to_vec()
}

/// Parses the bytes of a message.
///
/// # Errors
/// Returns [`WireError`] if the bytes are not such a message, or if the message exceeds a limit.
pub fn from_bytes(bytes: &[u8]) -> Result<proto::Cells, WireError> {
    let parts = proto::Cells::decode(bytes).map_err(|_| WireError::Damaged { field: "cells" })?;
    decode(&parts)?;
    Ok(parts)
}

fn check(runs: impl Iterator<Item = usize> + Clone) -> Result<(), WireError> {
    check_at_most("runs", runs.clone().count() as u64, CELL_RUNS_MAX as u64)?;
    check_at_most("cells", runs.sum::<usize>() as u64, CELLS_BYTES_MAX as u64)
}

fn encode_run(run: &CellRun) -> proto::CellRun {
    proto::CellRun {
        generation: run.generation.0,
        unit: run.unit.0,
        start_bytes: run.start_bytes,
        cells: run.cells.clone().into(),
    }
}

fn decode_run(run: &proto::CellRun) -> CellRun {
    CellRun {
        generation: GenerationNumber(run.generation),
        unit: UnitNumber(run.unit),
        start_bytes: run.start_bytes,
        cells: run.cells.to_vec(),
    }
}

fn encode_place(place: CellPlace) -> proto::CellPlace {
    proto::CellPlace { generation: place.generation.0, start_bytes: place.start_bytes }
}

fn decode_place(place: &proto::CellPlace) -> CellPlace {
    CellPlace { generation: GenerationNumber(place.generation), start_bytes: place.start_bytes }
}

fn encode_outline(outline: &SliceOutline) -> proto::SliceOutline {
    let live = outline.live.iter().map(|live| {
        let mut bytes = Vec::new();
        // Writing to memory never fails.
        let _ = live.write(&mut bytes);
        bytes.into()
    });
    proto::SliceOutline { unit: outline.unit.0, oldest: outline.oldest.0, live: live.collect() }
}

fn decode_outline(outline: &proto::SliceOutline) -> Result<SliceOutline, WireError> {
    check_at_most("generations", outline.live.len() as u64, OUTLINE_GENERATIONS_MAX as u64)?;
    let live = outline.live.iter().map(|bytes| {
        let length = bytes.len() as u64;
        LiveEvents::read(&mut &bytes[..], length / 16).map_err(|_| WireError::Invalid { field: "live", value: length })
    });
    Ok(SliceOutline {
        unit: UnitNumber(outline.unit),
        oldest: GenerationNumber(outline.oldest),
        live: live.collect::<Result<_, _>>()?,
    })
}
