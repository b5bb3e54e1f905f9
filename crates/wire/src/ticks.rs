//! Encodes and decodes the times of events: ticks on the way to an owner, and stamps and tickets between nodes.
//!
//! The encoding is small because consecutive events usually have similar times. An event whose time differs little from
//! that of the previous event takes one byte. If all events have the same time, an event takes no byte at all.

use firstseen_filter::{Stamp, UnitNumber};
use firstseen_routing::Tick;

use crate::error::{WireError, check_at_most};
use crate::varint;

/// Greatest time unit that can be encoded. Units have 62 bits, because two flags share a 64-bit number with them.
pub const UNIT_MAX: UnitNumber = UnitNumber((1 << 62) - 1);

/// Encodes the reading of a clock. The value 0 means that there is no reading.
pub fn written_ms(clock_ms: Option<u64>) -> u64 {
    clock_ms.unwrap_or(0)
}

/// Decodes the reading of a clock. The value 0 means that there is no reading.
pub fn read_ms(written_ms: u64) -> Option<u64> {
    (written_ms > 0).then_some(written_ms)
}

/// Encodes the ticks of events, and appends them to `out`. A tick consists of two numbers: the reading of the
/// producer's clock (`clock_unit`), and the event's own time unit (`unit`).
///
/// For each event, the encoding contains the increase of the clock since the previous event, shifted left by one bit.
/// For the first event, this is the increase since `base_unit`. For example, if the clock advances from 7 to 9 and the
/// event's own unit is also 9, the event is encoded as the single number 4.
///
/// If the event's own unit differs from the clock, the lowest bit of that number is set, and the difference between the
/// clock and the unit follows as a second number. The difference is calculated modulo 2^64, because it can be negative:
/// an event that is only looked up does not advance the clock, so its unit may be greater than the clock's reading.
///
/// # Errors
/// Returns [`WireError`] if the clock runs backwards, or if a unit exceeds [`UNIT_MAX`].
pub fn pack_ticks(ticks: &[Tick], base_unit: UnitNumber, out: &mut Vec<u8>) -> Result<(), WireError> {
    let mut clock_unit = base_unit;
    for tick in ticks {
        check_unit("ticks", tick.clock_unit)?;
        check_unit("ticks", tick.unit)?;
        let Some(step) = tick.clock_unit.0.checked_sub(clock_unit.0) else {
            return Err(WireError::Invalid { field: "ticks", value: tick.unit.0 });
        };
        let late = tick.clock_unit.0.wrapping_sub(tick.unit.0);
        varint::put(step << 1 | u64::from(late != 0), out);
        if late > 0 {
            varint::put(late, out);
        }
        clock_unit = tick.clock_unit;
    }
    Ok(())
}

/// Decodes the ticks of `events` events from the front of `bytes`, starting from a clock at `base_unit`.
///
/// # Errors
/// Returns [`WireError`] if the bytes end early, or if a unit is out of range.
pub fn unpack_ticks(bytes: &mut &[u8], events: usize, base_unit: UnitNumber) -> Result<Vec<Tick>, WireError> {
    const FIELD: &str = "ticks";
    check_unit("base_unit", base_unit)?;
    let mut clock_unit = base_unit;
    let mut ticks = Vec::with_capacity(events.min(bytes.len()));
    for _ in 0..events {
        let step = varint::take(FIELD, bytes)?;
        clock_unit = clock_unit.after(step >> 1);
        check_unit(FIELD, clock_unit)?;
        let late = if step & 1 == 1 { varint::take(FIELD, bytes)? } else { 0 };
        let unit = UnitNumber(clock_unit.0.wrapping_sub(late));
        check_unit(FIELD, unit)?;
        ticks.push(Tick { clock_unit, unit });
    }
    Ok(ticks)
}

/// Returns whether all ticks equal `base_unit`, so that they need not be sent.
pub fn are_trivial(ticks: &[Tick], base_unit: UnitNumber) -> bool {
    ticks.iter().all(|tick| *tick == Tick { clock_unit: base_unit, unit: base_unit })
}

/// Encodes the stamps of events. A stamp consists of two numbers: the event's own `unit`, and the unit at which the
/// event is `judged`.
///
/// For each event, the encoding contains the difference between its judged unit and the judged unit of the previous
/// event (or 0 for the first event). This difference can be negative, so it is zigzag-encoded. It is then shifted left
/// by one bit.
///
/// If the event's own unit differs from its judged unit, the lowest bit is set, and the difference between the two
/// units follows as a second number. If all stamps of the batch are equal, only the first stamp is encoded.
///
/// # Errors
/// Returns [`WireError`] if an event is judged before its unit, or if a unit exceeds [`UNIT_MAX`].
pub fn pack_stamps(stamps: &[Stamp]) -> Result<Vec<u8>, WireError> {
    let are_equal = stamps.windows(2).all(|pair| pair[0] == pair[1]);
    let stamps = if are_equal { &stamps[..stamps.len().min(1)] } else { stamps };
    let mut out = Vec::with_capacity(stamps.len() + 8);
    let mut before = 0;
    for stamp in stamps {
        check_unit("stamps", stamp.judged)?;
        let Some(late) = stamp.judged.0.checked_sub(stamp.unit.0) else {
            return Err(WireError::Invalid { field: "stamps", value: stamp.unit.0 });
        };
        varint::put(varint::zigzag(stamp.judged.0 as i64 - before) << 1 | u64::from(late > 0), &mut out);
        if late > 0 {
            varint::put(late, &mut out);
        }
        before = stamp.judged.0 as i64;
    }
    Ok(out)
}

/// Decodes the stamps of `events` events.
///
/// # Errors
/// Returns [`WireError`] if there are more or fewer stamps, or if a stamp is out of range.
pub fn unpack_stamps(mut bytes: &[u8], events: usize) -> Result<Vec<Stamp>, WireError> {
    let mut stamps = Vec::with_capacity(events.min(bytes.len()));
    let mut judged = 0i64;
    while stamps.len() < events {
        if let ([first], []) = (&stamps[..], bytes) {
            stamps = vec![*first; events];
            break;
        }
        stamps.push(take_stamp(&mut bytes, &mut judged)?);
    }
    varint::check_end("stamps", bytes)?;
    Ok(stamps)
}

fn take_stamp(bytes: &mut &[u8], judged: &mut i64) -> Result<Stamp, WireError> {
    const FIELD: &str = "stamps";
    let step = varint::take(FIELD, bytes)?;
    // The absolute values of both numbers are below 2^62, so the sum cannot overflow.
    *judged += varint::unzigzag(step >> 1);
    let judged = u64::try_from(*judged).map_err(|_| WireError::Damaged { field: FIELD })?;
    check_unit(FIELD, UnitNumber(judged))?;
    let late = if step & 1 == 1 { varint::take(FIELD, bytes)? } else { 0 };
    match judged.checked_sub(late) {
        Some(unit) => Ok(Stamp { unit: UnitNumber(unit), judged: UnitNumber(judged) }),
        None => Err(WireError::Damaged { field: FIELD }),
    }
}

/// Encodes tickets as zigzag differences from the previous ticket. The first difference is from 0.
pub fn pack_tickets(tickets: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tickets.len() + 8);
    let mut before = 0u64;
    for ticket in tickets {
        varint::put(varint::zigzag(ticket.wrapping_sub(before) as i64), &mut out);
        before = *ticket;
    }
    out
}

/// Decodes the tickets of `events` events.
///
/// # Errors
/// Returns [`WireError`] if there are more or fewer tickets.
pub fn unpack_tickets(mut bytes: &[u8], events: usize) -> Result<Vec<u64>, WireError> {
    let mut tickets = Vec::with_capacity(events.min(bytes.len()));
    let mut ticket = 0u64;
    for _ in 0..events {
        ticket = ticket.wrapping_add(varint::unzigzag(varint::take("tickets", &mut bytes)?) as u64);
        tickets.push(ticket);
    }
    varint::check_end("tickets", bytes)?;
    Ok(tickets)
}

fn check_unit(field: &'static str, unit: UnitNumber) -> Result<(), WireError> {
    check_at_most(field, unit.0, UNIT_MAX.0)
}
