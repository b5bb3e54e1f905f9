//! A batch on its way from the clock to the slices.

use firstseen_filter::{Digest, Stamp};

/// Events with their places in the window; the answers of events without a place say so already.
pub(crate) struct PlacedBatch<'a> {
    pub(crate) digests: &'a [Digest],
    pub(crate) stamps: &'a [Stamp],
    /// Groups of the events; empty where there is only one.
    pub(crate) groups: &'a [u32],
    pub(crate) all_placed: bool,
    /// Whether events that are not there are recorded, or only looked up.
    pub(crate) record: bool,
}

impl PlacedBatch<'_> {
    /// The group of an event: 0 where there is one alone.
    #[inline]
    pub(crate) fn group(&self, event: usize) -> usize {
        self.groups.get(event).map_or(0, |group| *group as usize)
    }
}
