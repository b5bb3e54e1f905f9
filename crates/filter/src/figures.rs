//! Figures that pages, `firstseen plan` and the experiments share, each with its measurement.
//!
//! Promises: one constant for each figure; `tests/all/figures.rs` compares the pages with it. What the kinds of filter
//! take is [`crate::KindProperties::bits_per_event`].

/// The memory that an event takes in another way to keep the events of a window.
#[derive(Debug)]
pub struct Alternative {
    /// Name in plans.
    pub name: &'static str,
    /// Bytes an event.
    pub bytes_per_event: u64,
    /// What was measured, and how.
    pub measured: &'static str,
}

/// A map of digests.
pub const EXACT_MAP: Alternative = Alternative {
    name: "exact map of digests",
    bytes_per_event: 90,
    measured: "a digest of 16 bytes and two expiries of 8 in a hash map, after two windows of 48,000 events: experiment \
               `memory`, 719.4 bits",
};

/// A key of Redis with a time to live.
pub const REDIS_KEY: Alternative = Alternative {
    name: "Redis SET key EX",
    bytes_per_event: 130,
    measured: "`used_memory` of Redis 7 after ten million keys of 24 bytes: `bench rivals`, 1,236 MiB",
};

/// The alternatives that a plan compares filters with.
pub const ALTERNATIVES: [&Alternative; 2] = [&EXACT_MAP, &REDIS_KEY];
