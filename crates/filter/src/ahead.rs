//! The walk of a batch for kinds with several arrays of cells: find and prefetch first, touch later.
//!
//! Promises: events are touched one after the other in the order of the batch; no allocation. Must not know: cells.

use crate::events::Events;
use crate::probe::{Offsets, SpreadOffsets};
use crate::{Digest, Geometry, HASHES_MAX};

/// Events between the prefetch of a cell and its use, where nothing else is done for an event.
pub(crate) const AHEAD: usize = 16;
/// Events between the prefetch of cells and their use, where an event is asked of, recorded or sent on between them.
pub const PREFETCH_EVENTS: usize = 8;

/// The positions of one event, unpacked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Positions {
    at: [usize; HASHES_MAX as usize],
    len: usize,
}

impl Positions {
    /// The positions of event `index` in a classic or partitioned slice.
    #[inline(always)]
    pub(crate) fn of<E: Events>(events: E, index: usize, geometry: &Geometry) -> Self {
        Self::from(E::offsets(events.spread(index), geometry))
    }

    /// The positions of `digest` in a classic or partitioned slice.
    #[inline(always)]
    pub(crate) fn of_digest(digest: Digest, geometry: &Geometry) -> Self {
        Self::from(SpreadOffsets::new(digest, geometry))
    }

    #[inline(always)]
    pub(crate) fn from(offsets: impl Offsets) -> Self {
        let mut positions = Self::default();
        offsets.for_each(|position| {
            positions.at[positions.len] = position;
            positions.len += 1;
        });
        positions
    }

    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.at[..self.len].iter().copied()
    }
}

/// Runs `find` (locate and prefetch) of event `index` [`AHEAD`] events before its `touch`.
#[inline(always)]
pub(crate) fn walk<S: ?Sized, P: Copy + Default>(
    state: &mut S,
    events: usize,
    find: impl Fn(&S, usize) -> P,
    mut touch: impl FnMut(&mut S, usize, P),
) {
    let mut ring = [P::default(); AHEAD];
    for index in 0..events + AHEAD {
        let slot = &mut ring[index % AHEAD];
        if index >= AHEAD {
            touch(state, index - AHEAD, *slot);
        }
        if index < events {
            *slot = find(state, index);
        }
    }
}
