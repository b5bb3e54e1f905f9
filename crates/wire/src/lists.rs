//! Encodes and decodes lists with an entry for each event, or for some of the events.
//!
//! Each decoded list has the length that its message requires, for example one entry for each event. If a list is
//! shorter or longer, decoding returns an error.

use firstseen_filter::{HASHES_MAX, UnitNumber};
use firstseen_routing::PositionLists;

use crate::error::{WireError, check_at_most, check_length};
use crate::limits::FRAME_EVENTS_MAX;
use crate::packing::unpack_lists;
use crate::varint;

/// Returns the number of events, if all lists agree about it.
pub(crate) fn check_events(events: usize, lists: &[(&'static str, usize)]) -> Result<u32, WireError> {
    check_at_most("events", events as u64, FRAME_EVENTS_MAX.into())?;
    lists.iter().try_for_each(|(field, length)| check_length(field, *length, events))?;
    Ok(events as u32)
}

/// Decodes lists of cell positions, with one list for each event. Each list takes at least four bits, so a message
/// cannot announce many events without being large itself. Decoding a small message therefore never needs much memory.
pub(crate) fn decode_lists(
    events: u32,
    counts: &[u8],
    positions: &[u8],
    range: u64,
) -> Result<(usize, PositionLists), WireError> {
    check_at_most("events", events.into(), FRAME_EVENTS_MAX.into())?;
    check_at_most("positions", positions.len() as u64, u64::from(FRAME_EVENTS_MAX * HASHES_MAX) * 8)?;
    let lists = unpack_lists(counts, positions, events as usize, range)?;
    Ok((events as usize, lists))
}

/// Encodes expiry times as varints. The list has one entry for each of `entries` entries, or is empty.
pub(crate) fn pack_expiries(
    field: &'static str,
    expiries: &[UnitNumber],
    entries: usize,
) -> Result<Vec<u8>, WireError> {
    if !expiries.is_empty() {
        check_length(field, expiries.len(), entries)?;
    }
    let mut bytes = Vec::with_capacity(expiries.len() * 5);
    expiries.iter().for_each(|expiry| varint::put(expiry.0, &mut bytes));
    Ok(bytes)
}

/// Decodes expiry times. The result has one entry for each of `entries` entries, or is empty.
pub(crate) fn unpack_expiries(
    field: &'static str,
    mut bytes: &[u8],
    entries: usize,
) -> Result<Vec<UnitNumber>, WireError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let expiries = (0..entries).map(|_| varint::take(field, &mut bytes).map(UnitNumber)).collect::<Result<_, _>>()?;
    varint::check_end(field, bytes)?;
    Ok(expiries)
}

/// Encodes masks of generations as two bytes each, the lower byte first.
pub(crate) fn pack_generations(masks: &[u16]) -> Vec<u8> {
    masks.iter().flat_map(|mask| mask.to_le_bytes()).collect()
}

/// Decodes masks of generations. The result has one entry for each of `entries` entries, or is empty.
pub(crate) fn unpack_generations(bytes: &[u8], entries: usize) -> Result<Vec<u16>, WireError> {
    if !bytes.is_empty() {
        check_length("generations", bytes.len(), entries * 2)?;
    }
    Ok(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}
