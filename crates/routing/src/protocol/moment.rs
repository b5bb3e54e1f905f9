//! Points in time: of the monotonic clock of a process, and of both of its clocks together.
//!
//! Promises: a point of a monotonic clock is no time of day, no time of an event and no length of time; what mixes them
//! does not compile. Must not know: who reads the clocks.

/// A point in time by the monotonic clock of one process, in milliseconds since some start of that clock, which never
/// steps back. It means nothing to another process. Lengths of time are plain numbers, whose names say their unit; the
/// time of day is one too, as it also comes from files, from producers and from other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicMs(pub u64);

impl MonotonicMs {
    /// The start of the clock: what is due by then is due at once.
    pub const START: Self = Self(0);

    /// The end of the clock, which no process sees: a deadline that never comes.
    pub const END: Self = Self(u64::MAX);

    /// The time that is so many milliseconds later, or the end of the clock.
    pub const fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The time that is so many milliseconds earlier, or the start of the clock.
    pub const fn before(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// How many milliseconds this time is later than `former`; 0 where it is not.
    pub const fn since(self, former: Self) -> u64 {
        self.0.saturating_sub(former.0)
    }
}

/// The owner's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// By the clock that never steps back.
    pub monotonic_ms: MonotonicMs,
    /// Milliseconds since 1970.
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
