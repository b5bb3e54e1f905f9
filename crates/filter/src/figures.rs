//! Figures that documentation pages, `firstseen plan` and the experiments share, each with its measurement.
//!
//! Each figure that documentation pages quote is defined here once, as a constant. The test `tests/all/figures.rs`
//! compares the pages with these constants. The memory of each filter kind is defined separately, in
//! [`crate::KindProperties::bits_per_event`].

/// Memory per event of another way to remember the events of a window, for comparison with filters.
#[derive(Debug)]
pub struct Alternative {
    /// Name in plans.
    pub name: &'static str,
    /// Bytes per event.
    pub bytes_per_event: u64,
    /// Description of the measurement.
    pub measured: &'static str,
}

/// Exact map of digests.
pub const EXACT_MAP: Alternative = Alternative {
    name: "exact map of digests",
    bytes_per_event: 90,
    measured: "a digest of 16 bytes and two expiries of 8 in a hash map, after two windows of 48,000 events: experiment \
               `memory`, 719.4 bits",
};

/// Redis key with a time to live.
pub const REDIS_KEY: Alternative = Alternative {
    name: "Redis SET key EX",
    bytes_per_event: 130,
    measured: "`used_memory` of Redis 7 after ten million keys of 24 bytes: `bench rivals`, 1,236 MiB",
};

/// Alternatives with which a plan compares filters.
pub const ALTERNATIVES: [&Alternative; 2] = [&EXACT_MAP, &REDIS_KEY];
