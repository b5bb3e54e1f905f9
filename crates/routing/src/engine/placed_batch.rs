//! A batch on its way from the clock to the slices.

use firstseen_filter::{Digest, Stamp};

/// Events that were placed in the window, or were not: then their answers say so already.
pub(crate) struct PlacedBatch<'a> {
    pub(crate) digests: &'a [Digest],
    pub(crate) stamps: &'a [Stamp],
    /// Groups of the events; empty where there is only one.
    pub(crate) groups: &'a [u32],
    pub(crate) all_placed: bool,
    /// Record events that are not there, or only look.
    pub(crate) record: bool,
}
