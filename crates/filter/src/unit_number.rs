//! The number of a unit: a position on a window's axis.
//!
//! Promises: plain data, as long as a number, and written as one. Must not know: how long a unit is, what happens in it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a unit of a window (a tick, a jump, a landmark, a counted event), from which events are placed, judged
/// and forgotten. How many units there are between two of them, such as a window's span, is a plain number, whose name
/// says that it counts units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitNumber(pub u64);

impl UnitNumber {
    /// The unit that every axis begins with. No cell expires in it, so as an expiry it stands for a cell that is not
    /// alive.
    pub const FIRST: Self = Self(0);

    /// The last unit that a clock comes to: whatever is later is refused, so that sums do not overflow.
    pub const LAST: Self = Self(1 << 62);

    /// After all units: what expires then never does.
    pub const NEVER: Self = Self(u64::MAX);

    /// The unit that is so many later, or none that ever comes.
    #[inline(always)]
    pub const fn after(self, units: u64) -> Self {
        Self(self.0.saturating_add(units))
    }

    /// The unit that is so many earlier, or the first.
    #[inline(always)]
    pub const fn before(self, units: u64) -> Self {
        Self(self.0.saturating_sub(units))
    }

    /// How many units this one is later than `former`; 0 where it is not.
    #[inline(always)]
    pub const fn since(self, former: Self) -> u64 {
        self.0.saturating_sub(former.0)
    }
}

impl fmt::Display for UnitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_takes_as_many_bytes_as_its_number_and_does_not_go_past_either_end() {
        assert_eq!(size_of::<UnitNumber>(), size_of::<u64>());
        let (early, late) = (UnitNumber(3), UnitNumber(u64::MAX - 1));
        assert_eq!((early.after(4), late.after(4)), (UnitNumber(7), UnitNumber::NEVER));
        assert_eq!((late.before(1), early.before(4)), (UnitNumber(u64::MAX - 2), UnitNumber::FIRST));
        assert_eq!((late.since(early), early.since(late)), (u64::MAX - 4, 0));
    }
}
