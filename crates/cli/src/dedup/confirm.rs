//! A bounded exact cache of the events that were passed on. It separates certain duplicates from those that only the
//! filter calls so (M05: "events called duplicate may go to a separate exact cache").
//!
//! Promises: an event that is called certain was passed on within the window (up to a collision of 128-bit digests).
//! Must not know: how the filter works.

use std::num::NonZeroUsize;
use std::str::FromStr;

use firstseen_filter::{Digest, UnitNumber};
use lru::LruCache;

use crate::report::Confirmed;
use crate::text::size::ByteSize;

/// `exact:SIZE`.
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

/// Bytes that a remembered key takes, with the map around it.
const ENTRY_BYTES: u64 = 96;

/// The cache. Full, it drops the key that was asked about longest ago.
pub(super) struct Confirm {
    expiries: LruCache<Digest, UnitNumber>,
    /// Duplicates that were looked up.
    pub(super) counts: Confirmed,
}

impl Confirm {
    /// A cache of at most the size asked for.
    pub(super) fn new(arg: ConfirmArg) -> Self {
        let entries = usize::try_from(arg.memory_bytes / ENTRY_BYTES).unwrap_or(usize::MAX);
        let entries = NonZeroUsize::new(entries).unwrap_or(NonZeroUsize::MIN);
        // It grows as keys come: memory for all of them at once may be more than the machine has.
        let mut expiries = LruCache::unbounded();
        expiries.resize(entries);
        Self { expiries, counts: Confirmed::default() }
    }

    /// An event was passed on; it counts until `expiry`.
    pub(super) fn delivered(&mut self, digest: Digest, expiry: UnitNumber) {
        self.expiries.put(digest, expiry);
    }

    /// Whether an event that is judged at `judged`, and that the filter called a duplicate, is certain.
    pub(super) fn is_certain(&mut self, digest: Digest, judged: UnitNumber) -> bool {
        let certain = self.expiries.get(&digest).is_some_and(|expiry| *expiry > judged);
        *(if certain { &mut self.counts.certain } else { &mut self.counts.uncertain }) += 1;
        certain
    }
}
