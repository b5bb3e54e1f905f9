//! Times of events: ticks on the way to an owner, stamps and tickets between nodes.
//!
//! Promises: an event takes a byte where times move little, and none where they do not move. Must not know: windows,
//! how long a unit is.

use firstseen_filter::{Stamp, UnitNumber};
use firstseen_routing::Tick;

use crate::error::{WireError, check_at_most};
use crate::varint;

/// The greatest unit that can be sent: units have 62 bits, two flags stand beside them.
pub const UNIT_MAX: UnitNumber = UnitNumber((1 << 62) - 1);

/// What stands in a message for what a clock shows: 0 where it shows nothing.
pub fn written_ms(clock_ms: Option<u64>) -> u64 {
    clock_ms.unwrap_or(0)
}

/// What a clock shows, by what stands for it in a message.
pub fn read_ms(written_ms: u64) -> Option<u64> {
    (written_ms > 0).then_some(written_ms)
}

/// Appends ticks that start from a clock of `base_unit`: an event's clock less that of the event before, shifted by one
/// bit, which is set where the event is of another unit than the clock; then follows by how much the event is older, in
/// 64 bits that go round, as an event that is only looked up may be ahead of a clock which it does not move.
///
/// # Errors
/// [`WireError`] where the clock steps back, or a unit is above [`UNIT_MAX`].
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

/// Takes the ticks of `events` events, which start from a clock of `base_unit`, from the front of `bytes`.
///
/// # Errors
/// [`WireError`] where the bytes end early, or a unit is out of range.
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

/// Whether ticks say nothing that `base_unit` does not.
pub fn are_trivial(ticks: &[Tick], base_unit: UnitNumber) -> bool {
    ticks.iter().all(|tick| *tick == Tick { clock_unit: base_unit, unit: base_unit })
}

/// Stamps: the zigzag difference of `judged` from the event before (the first from 0), shifted by one bit, which is set
/// where `unit` is another; by how much less follows then. Where all stamps are equal, it stands once.
///
/// # Errors
/// [`WireError`] where an event is judged before its unit, or above [`UNIT_MAX`].
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

/// The stamps of `events` events.
///
/// # Errors
/// [`WireError`] where there are more or fewer, or one is out of range.
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
    // Both are below 2^62 in size, so the sum is not cut.
    *judged += varint::unzigzag(step >> 1);
    let judged = u64::try_from(*judged).map_err(|_| WireError::Damaged { field: FIELD })?;
    check_unit(FIELD, UnitNumber(judged))?;
    let late = if step & 1 == 1 { varint::take(FIELD, bytes)? } else { 0 };
    match judged.checked_sub(late) {
        Some(unit) => Ok(Stamp { unit: UnitNumber(unit), judged: UnitNumber(judged) }),
        None => Err(WireError::Damaged { field: FIELD }),
    }
}

/// Tickets: zigzag differences from the one before, the first from 0.
pub fn pack_tickets(tickets: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tickets.len() + 8);
    let mut before = 0u64;
    for ticket in tickets {
        varint::put(varint::zigzag(ticket.wrapping_sub(before) as i64), &mut out);
        before = *ticket;
    }
    out
}

/// The tickets of `events` events.
///
/// # Errors
/// [`WireError`] where there are more or fewer.
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
