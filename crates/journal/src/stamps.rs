//! Stamps as differences: most events of a batch share one.
//!
//! Promises: stamps are the same after packing and unpacking; bytes that were not packed here are refused or harmless.
//! Must not know: events.

use firstseen_filter::Stamp;

/// Units, each as the difference to the one before, and how far the judged one lies from each.
pub(crate) fn pack(stamps: &[Stamp]) -> (Vec<i64>, Vec<i64>) {
    let (mut units, mut before) = (Vec::with_capacity(stamps.len()), 0u64);
    for stamp in stamps {
        units.push(stamp.unit.wrapping_sub(before).cast_signed());
        before = stamp.unit;
    }
    let is_on_time = stamps.iter().all(|stamp| stamp.judged == stamp.unit);
    let judged = |stamp: &Stamp| stamp.judged.wrapping_sub(stamp.unit).cast_signed();
    let judged = if is_on_time { Vec::new() } else { stamps.iter().map(judged).collect() };
    (units, judged)
}

/// The stamps; `None` where the two lists do not belong together.
pub(crate) fn unpack(units: &[i64], judged: &[i64]) -> Option<Vec<Stamp>> {
    if !judged.is_empty() && judged.len() != units.len() {
        return None;
    }
    let mut unit = 0u64;
    let stamps = units.iter().enumerate().map(|(index, difference)| {
        unit = unit.wrapping_add_signed(*difference);
        Stamp { unit, judged: unit.wrapping_add_signed(judged.get(index).copied().unwrap_or(0)) }
    });
    Some(stamps.collect())
}
