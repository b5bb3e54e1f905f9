//! Stamps as differences: most events of a batch share one.
//!
//! Promises: stamps are the same after packing and unpacking; bytes that were not packed here are refused or harmless.
//! Must not know: events.

use firstseen_filter::{Stamp, UnitNumber};

/// Units, each as the difference to the one before, and how far the judged one lies from each.
pub(crate) fn pack(stamps: &[Stamp]) -> (Vec<i64>, Vec<i64>) {
    let mut units = Vec::with_capacity(stamps.len());
    let mut before = UnitNumber::FIRST;
    for stamp in stamps {
        units.push(difference(stamp.unit, before));
        before = stamp.unit;
    }
    if stamps.iter().all(|stamp| stamp.judged == stamp.unit) {
        return (units, Vec::new());
    }
    (units, stamps.iter().map(|stamp| difference(stamp.judged, stamp.unit)).collect())
}

/// The stamps; `None` where the two lists do not belong together.
pub(crate) fn unpack(units: &[i64], judged: &[i64]) -> Option<Vec<Stamp>> {
    if !judged.is_empty() && judged.len() != units.len() {
        return None;
    }
    let mut unit = UnitNumber::FIRST;
    let stamps = units.iter().enumerate().map(|(index, difference)| {
        unit = moved(unit, *difference);
        Stamp { unit, judged: moved(unit, judged.get(index).copied().unwrap_or(0)) }
    });
    Some(stamps.collect())
}

/// Differences go round, so that any two units have one.
fn difference(unit: UnitNumber, before: UnitNumber) -> i64 {
    unit.0.wrapping_sub(before.0).cast_signed()
}

fn moved(unit: UnitNumber, difference: i64) -> UnitNumber {
    UnitNumber(unit.0.wrapping_add_signed(difference))
}
