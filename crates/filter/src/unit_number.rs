//! The number of a unit of a window.
//!
//! [`UnitNumber`] is plain data: it has the size of a 64-bit number and is stored as a number.
//!
//! This module does not depend on how long a unit is or what happens in it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a unit of a window, such as a tick, a jump, a landmark or a counted event. The filter places, judges and
/// forgets events at such units. A distance between two units, such as the span of a window, is a plain number instead,
/// whose name says that it counts units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitNumber(pub u64);

impl UnitNumber {
    /// First unit of every window. No cell expires in this unit, so an expiry of 0 stands for a cell that is not alive.
    pub const FIRST: Self = Self(0);

    /// Last unit that a clock can reach. Later units are rejected, so that sums do not overflow.
    pub const LAST: Self = Self(1 << 62);

    /// Expiry of cells that never expire. This value is greater than every unit that a clock can reach.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the unit that is `units` units later. The result saturates at [`Self::NEVER`].
    #[inline(always)]
    pub const fn after(self, units: u64) -> Self {
        Self(self.0.saturating_add(units))
    }

    /// Returns the unit that is `units` units earlier, or the first unit.
    #[inline(always)]
    pub const fn before(self, units: u64) -> Self {
        Self(self.0.saturating_sub(units))
    }

    /// Returns how many units this unit is later than `former`. Returns 0 if it is not later.
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
