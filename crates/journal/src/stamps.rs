//! Encodes stamps as differences. Most events of a batch have the same stamp, so most differences are 0 and take little
//! space.
//!
//! Decoding returns stamps that are equal to the encoded ones. If the bytes are not an encoding, decoding fails or
//! returns arbitrary stamps, but never panics.

use firstseen_filter::{Stamp, UnitNumber};

/// Returns each unit as the difference from the unit before, and the differences between the judged units and the
/// units.
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

/// Returns the stamps, or `None` if the lengths of the two lists do not match.
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

/// Returns the difference between two units. The difference wraps around, so it exists for any two units.
fn difference(unit: UnitNumber, before: UnitNumber) -> i64 {
    unit.0.wrapping_sub(before.0).cast_signed()
}

fn moved(unit: UnitNumber, difference: i64) -> UnitNumber {
    UnitNumber(unit.0.wrapping_add_signed(difference))
}
