//! Points in time, either on the monotonic clock of a process alone, or on the monotonic clock and the time of day
//! together. A point on the monotonic clock has a type of its own, so that code which confuses it with a time of day,
//! the time of an event or a duration does not compile.

/// Point in time on the monotonic clock of one process, in milliseconds since an arbitrary start. The clock never steps
/// back. Its values cannot be compared with those of other processes, because each process has another start.
///
/// Durations and times of day have no types of their own. They are plain numbers, and the name of a variable or field
/// tells the unit. A time of day often comes from a file, a producer or another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicMs(pub u64);

impl MonotonicMs {
    /// Start of the clock. A task that is due at this time is due immediately.
    pub const START: Self = Self(0);

    /// End of the clock, which no process reaches. It represents a deadline that never expires.
    pub const END: Self = Self(u64::MAX);

    /// Returns the time that is `ms` milliseconds later, or the end of the clock.
    pub const fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the time that is `ms` milliseconds earlier, or the start of the clock.
    pub const fn before(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Returns how many milliseconds this time is later than `former`, or 0 if it is not later.
    pub const fn since(self, former: Self) -> u64 {
        self.0.saturating_sub(former.0)
    }
}

/// Reading of both clocks of an owner at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic time, which never steps back.
    pub monotonic_ms: MonotonicMs,
    /// Time of day in milliseconds since 1970.
    pub wall_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_takes_as_many_bytes_as_its_number_and_does_not_go_past_the_end() {
        assert_eq!(size_of::<MonotonicMs>(), size_of::<u64>());
        let (early, late) = (MonotonicMs(3), MonotonicMs(u64::MAX - 1));
        assert_eq!((early.after(4), late.after(4)), (MonotonicMs(7), MonotonicMs(u64::MAX)));
        assert_eq!((late.since(early), early.since(late)), (u64::MAX - 4, 0));
    }
}
