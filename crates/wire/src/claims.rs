//! Encodes and decodes fences of claims, and the holders of claimed events in a reply.
//!
//! A decoded list of fences or holders has exactly one entry for each event of the message. A message can announce a
//! large number of entries without containing them. Decoding never allocates memory for entries that are only
//! announced, so a forged message cannot exhaust memory.

use firstseen_routing::{Decision, Epoch, Fence, FilterId, Hold, Reason};

use crate::error::{WireError, check_at_most};
use crate::varint;

/// Encodes fences. Consecutive fences of the same filter and epoch form a run, which starts with its number of events.
pub(crate) fn pack_fences(fences: &[Fence]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in fences.chunk_by(is_of_one_run) {
        varint::put(run.len() as u64, &mut bytes);
        pack_run(run, &mut bytes);
    }
    bytes
}

/// Decodes the fences of `events` events.
pub(crate) fn unpack_fences(bytes: &mut &[u8], events: usize) -> Result<Vec<Fence>, WireError> {
    let mut fences = Vec::with_capacity(events.min(bytes.len()));
    while fences.len() < events {
        let run = take_length(bytes, events - fences.len())?;
        unpack_run(bytes, run, &mut fences)?;
    }
    Ok(fences)
}

/// Encodes who holds the events that are undecided because another consumer has claimed them.
pub(crate) fn pack_holds(decisions: &[Decision], holds: &[Hold]) -> Vec<u8> {
    let claimed = decisions.iter().zip(holds).filter(|(decision, _)| is_claimed(decision));
    let claimed: Vec<Hold> = claimed.map(|(_, hold)| *hold).collect();
    let mut bytes = Vec::new();
    for run in claimed.chunk_by(|one, other| match (one, other) {
        (Hold::Own(one), Hold::Own(other)) => is_of_one_run(one, other),
        _ => own_fence(one).is_some() == own_fence(other).is_some(),
    }) {
        varint::put((run.len() as u64) << 1 | u64::from(own_fence(&run[0]).is_some()), &mut bytes);
        let fences: Vec<Fence> = run.iter().filter_map(own_fence).collect();
        if !fences.is_empty() {
            pack_run(&fences, &mut bytes);
            continue;
        }
        for hold in run {
            let left_ms = if let Hold::Other { left_ms } = hold { u64::from(*left_ms) + 1 } else { 0 };
            varint::put(left_ms, &mut bytes);
        }
    }
    bytes
}

/// Decodes the holders, one for each event. The result is empty if the message contains no holders.
pub(crate) fn unpack_holds(decisions: &[Decision], mut bytes: &[u8]) -> Result<Vec<Hold>, WireError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut holds = vec![Hold::None; decisions.len()];
    let mut claimed =
        decisions.iter().zip(&mut holds).filter(|(decision, _)| is_claimed(decision)).map(|(_, hold)| hold);
    while !bytes.is_empty() {
        let head = varint::take("holds", &mut bytes)?;
        check_at_most("holds", head >> 1, decisions.len() as u64)?;
        let events = (head >> 1) as usize;
        if events == 0 {
            return Err(WireError::Invalid { field: "holds", value: head });
        }
        let mut own = Vec::new();
        if head & 1 == 1 {
            unpack_run(&mut bytes, events, &mut own)?;
        }
        for index in 0..events {
            let hold = claimed.next().ok_or(WireError::Invalid { field: "holds", value: events as u64 })?;
            *hold = match own.get(index) {
                Some(fence) => Hold::Own(*fence),
                None => other(varint::take("holds", &mut bytes)?),
            };
        }
    }
    Ok(holds)
}

fn is_claimed(decision: &Decision) -> bool {
    *decision == Decision::Undecided(Reason::Claimed)
}

fn other(left_ms: u64) -> Hold {
    let left_ms = left_ms.checked_sub(1).map(|left_ms| u32::try_from(left_ms).unwrap_or(u32::MAX));
    left_ms.map_or(Hold::None, |left_ms| Hold::Other { left_ms })
}

fn is_of_one_run(one: &Fence, other: &Fence) -> bool {
    (one.filter(), one.epoch()) == (other.filter(), other.epoch())
}

fn pack_run(run: &[Fence], bytes: &mut Vec<u8>) {
    varint::put(run[0].filter().0, bytes);
    varint::put(run[0].epoch().0, bytes);
    let mut last = 0u64;
    for fence in run {
        varint::put(varint::zigzag(fence.number().wrapping_sub(last) as i64), bytes);
        last = fence.number();
    }
}

fn unpack_run(bytes: &mut &[u8], events: usize, fences: &mut Vec<Fence>) -> Result<(), WireError> {
    let filter = FilterId(varint::take("fences", bytes)?);
    let epoch = Epoch(varint::take("fences", bytes)?);
    let mut last = 0u64;
    for _ in 0..events {
        last = last.wrapping_add(varint::unzigzag(varint::take("fences", bytes)?) as u64);
        fences.push(Fence::of_number(filter, epoch, last));
    }
    Ok(())
}

/// Returns the fence of a hold that belongs to the caller itself.
fn own_fence(hold: &Hold) -> Option<Fence> {
    if let Hold::Own(fence) = hold { Some(*fence) } else { None }
}

fn take_length(bytes: &mut &[u8], events_max: usize) -> Result<usize, WireError> {
    let events = varint::take("fences", bytes)?;
    check_at_most("fences", events, events_max as u64)?;
    if events == 0 { Err(WireError::Invalid { field: "fences", value: 0 }) } else { Ok(events as usize) }
}
