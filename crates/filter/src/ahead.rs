//! Processes a batch for kinds with several arrays of cells: each event is located and prefetched some time before it
//! is touched.
//!
//! Events are touched one after the other in the order of the batch. The code allocates no memory.
//!
//! This module does not depend on cells.

use crate::events::Events;
use crate::probe::{Offsets, SpreadOffsets};
use crate::{Digest, Geometry, HASHES_MAX};

/// Number of events between the prefetch of a cell and its use, if events are processed without other work between
/// them.
pub(crate) const AHEAD: usize = 16;
/// Number of events between the prefetch of an event's cells and their use, for callers that do further work for each
/// event, such as recording it or sending it on. The further work also gives the memory time to deliver the cells, so
/// this number is smaller than the one for loops without other work.
pub const PREFETCH_EVENTS: usize = 8;

/// Positions of one event in unpacked form.
#[derive(Clone, Copy, Default)]
pub(crate) struct Positions {
    at: [usize; HASHES_MAX as usize],
    len: usize,
}

impl Positions {
    /// Returns the positions of the event with index `index` in a classic or partitioned slice.
    #[inline(always)]
    pub(crate) fn of<E: Events>(events: E, index: usize, geometry: &Geometry) -> Self {
        Self::from(E::offsets(events.spread(index), geometry))
    }

    /// Returns the positions of `digest` in a classic or partitioned slice.
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

/// Runs `find`, which locates and prefetches an event, [`AHEAD`] events before it runs `touch` for the same event.
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
