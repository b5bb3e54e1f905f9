//! A bounded, exact cache of the events that were passed on. The cache is used to confirm duplicates, because a filter
//! sometimes reports a new event as a duplicate by mistake. If the cache contains the event too, it is certainly a
//! duplicate. Otherwise the report of the filter remains uncertain (Metwally et al. 2005: "events called duplicate may
//! go to a separate exact cache").
//!
//! The cache identifies events by their 128-bit digests, so only a collision of two digests can make it wrong.

use std::num::NonZeroUsize;
use std::str::FromStr;

use firstseen_filter::{Digest, UnitNumber};
use lru::LruCache;

use crate::report::Confirmed;
use crate::text::size::ByteSize;

/// The value `exact:SIZE` of `--confirm`.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmArg {
    memory_bytes: u64,
}

impl FromStr for ConfirmArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = text.strip_prefix("exact:").ok_or("write exact: and a size, such as exact:64MiB")?;
        let ByteSize(memory_bytes) = size.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { memory_bytes })
    }
}

/// Approximate number of bytes that one remembered key takes, including its share of the map.
const ENTRY_BYTES: u64 = 96;

/// The exact cache. When the cache is full, it drops the key that was looked up longest ago.
pub(super) struct Confirm {
    expiries: LruCache<Digest, UnitNumber>,
    /// Counts of the duplicates that were looked up.
    pub(super) counts: Confirmed,
}

impl Confirm {
    /// Creates a cache that takes at most the requested memory.
    pub(super) fn new(arg: ConfirmArg) -> Self {
        let entries = usize::try_from(arg.memory_bytes / ENTRY_BYTES).unwrap_or(usize::MAX);
        let entries = NonZeroUsize::new(entries).unwrap_or(NonZeroUsize::MIN);
        // The map grows as keys arrive. Reserving memory for all of them at once might need more than the machine has.
        let mut expiries = LruCache::unbounded();
        expiries.resize(entries);
        Self { expiries, counts: Confirmed::default() }
    }

    /// Remembers that an event was passed on. It counts as seen until `expiry`.
    pub(super) fn delivered(&mut self, digest: Digest, expiry: UnitNumber) {
        self.expiries.put(digest, expiry);
    }

    /// Returns whether an event that the filter reports as a duplicate at the time `judged` is certainly a duplicate.
    pub(super) fn is_certain(&mut self, digest: Digest, judged: UnitNumber) -> bool {
        let certain = self.expiries.get(&digest).is_some_and(|expiry| *expiry > judged);
        *(if certain { &mut self.counts.certain } else { &mut self.counts.uncertain }) += 1;
        certain
    }
}
