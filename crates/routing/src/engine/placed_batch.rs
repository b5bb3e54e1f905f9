//! Batch of events that have a place in the window and are about to be tested in the slices.

use firstseen_filter::{Digest, Stamp};

/// Events with their stamps, which are their places in the window. Events without a place already have their final
/// answer.
pub(crate) struct PlacedBatch<'a> {
    pub(crate) digests: &'a [Digest],
    pub(crate) stamps: &'a [Stamp],
    /// Group of each event. The list is empty if there is only one group.
    pub(crate) groups: &'a [u32],
    pub(crate) all_placed: bool,
    /// Whether new events are recorded. Otherwise the events are only looked up.
    pub(crate) record: bool,
}

impl PlacedBatch<'_> {
    /// Returns the group of an event, or 0 if there is only one group.
    #[inline]
    pub(crate) fn group(&self, event: usize) -> usize {
        self.groups.get(event).map_or(0, |group| *group as usize)
    }
}
