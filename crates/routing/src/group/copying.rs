//! Transfers cells from a complete copy of a slice to a copy that lacks events. The cells are transferred in runs of
//! consecutive cells, while both copies continue to record events.
//!
//! The fetched copy contains every event for two reasons. First, every event that is recorded after a node has been
//! assigned a copy is also set in that copy. Second, the cells come from a complete copy whose node already acts under
//! the cluster map with that assignment, so the source contains all events that were recorded before. Cells that a
//! source sent under an older map may arrive late, and are ignored. Received runs of cells are merged into the slice.
//! The result therefore does not depend on their order, and a run may arrive twice or from different sources.
//!
//! A slice counts as complete only when its last cells have arrived. The copy that sends the cells continues to serve
//! clients, so the load on it is limited: only one request is open at a time, and the number of transferred bytes per
//! second has a maximum.

use std::collections::BTreeSet;

use firstseen_filter::{CellRun, FilterSlice, PartError, UnitNumber};

use super::limits::OwnerLimits;
use super::rules::Rule;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{AskCells, CellParts, CellPlace, CheckpointCursor, ClockReading, Entry, MonotonicMs};

/// Time in milliseconds after which an unanswered request is repeated.
const RETRY_MS: u64 = 1_000;

/// Maximum number of empty stretches of cells that one reply skips.
const EMPTY_STEPS_MAX: usize = 32;

/// Progress of fetching cells for the incomplete slices of a group.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// Slices that have been fetched completely. The cluster map may not know that yet.
    done: BTreeSet<u32>,
    current: Option<Fetch>,
    next_ask_ms: MonotonicMs,
}

/// The slice that is being fetched.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    slice: u32,
    /// Place of the next cells to fetch. `None` at the beginning of the slice.
    from: Option<CellPlace>,
    /// Epoch of the cluster map by which this slice was first requested.
    since_epoch: Epoch,
}

impl Copying {
    /// Returns whether a slice has been fetched completely.
    pub(crate) fn has(&self, slice: u32) -> bool {
        self.done.contains(&slice)
    }

    /// Forgets the progress of slices for which `is_needed` returns `false`. These slices need no more cells, or need
    /// all of them again.
    pub(crate) fn retain(&mut self, is_needed: impl Fn(u32) -> bool) {
        self.done.retain(|slice| is_needed(*slice));
        self.current = self.current.filter(|fetch| is_needed(fetch.slice));
    }

    /// Returns the next slice to fetch and the node to fetch it from. `sources` lists the incomplete slices that have a
    /// complete copy.
    fn next_source(&self, mut sources: impl Iterator<Item = (u32, NodeId)>) -> Option<(u32, NodeId)> {
        sources.find(|(slice, _)| match self.current {
            Some(fetch) => fetch.slice == *slice,
            None => !self.done.contains(slice),
        })
    }

    /// Returns the next request for cells, together with the node to which it must be sent. Returns `None` if the pause
    /// after the last request has not ended, or if no complete copy exists from which the cells can be fetched. `unit`
    /// is the greatest unit of the window that this node has seen, and `epoch` is the epoch of its cluster map.
    pub(crate) fn ask(
        &mut self,
        sources: impl Iterator<Item = (u32, NodeId)>,
        unit: UnitNumber,
        epoch: Epoch,
        now_ms: MonotonicMs,
    ) -> Option<(NodeId, AskCells)> {
        if now_ms < self.next_ask_ms {
            return None;
        }
        let Some((slice, source)) = self.next_source(sources) else {
            // The current slice has no source any more. Another slice may have one.
            self.current = None;
            return None;
        };
        let begun = self.current.filter(|fetch| fetch.from.is_some());
        let fetch = begun.unwrap_or(Fetch { slice, from: None, since_epoch: epoch });
        self.current = Some(fetch);
        self.next_ask_ms = now_ms.after(RETRY_MS);
        Some((source, AskCells { slice, unit, from: fetch.from }))
    }

    /// Returns the time at which [`Self::ask`] has work to do, if no other input arrives before.
    pub(crate) fn next_ms(&self, sources: impl Iterator<Item = (u32, NodeId)>) -> Option<MonotonicMs> {
        self.next_source(sources).map(|_| self.next_ask_ms)
    }

    /// Writes cells that another node has sent on request into a slice. The reply consists of several parts, and the
    /// function calls `put` to write each part. If the slice has no room for a part, the cells are requested again
    /// later. `epoch` is the epoch of the cluster map under which the other node has sent the cells.
    pub(crate) fn hear(
        &mut self,
        mut parts: CellParts,
        epoch: Epoch,
        now_ms: MonotonicMs,
        limits: &OwnerLimits,
        mut put: impl FnMut(Entry) -> Result<(), PartError>,
    ) {
        let CellParts { slice, asked, next, .. } = parts;
        let Some(fetch) = self.current.filter(|fetch| (fetch.slice, fetch.from) == (slice, asked)) else { return };
        if epoch < fetch.since_epoch {
            return;
        }
        let bytes = parts.runs.iter().map(|run| run.cells.len()).sum::<usize>() as u64;
        if !limits.rules.keep(Rule::TimestampsCells) {
            parts.runs.iter_mut().for_each(|run| run.unit = run.unit.before(1));
        }
        if parts.into_entries().try_for_each(&mut put).is_err() {
            return;
        }
        if next.is_none() || !limits.rules.keep(Rule::FetchesAll) {
            self.done.insert(slice);
        }
        self.current = next.map(|next| Fetch { from: Some(next), ..fetch });
        let pause_ms = (bytes * 1000).checked_div(limits.copied_bytes_per_s_max).unwrap_or(RETRY_MS);
        self.next_ask_ms = now_ms.after(pause_ms);
    }
}

/// Returns the reply of a complete copy to a request for cells. The reply contains about `bytes_max` bytes of the cells
/// of a slice, and the place at which the next request must continue.
pub(crate) fn parts_of(slice: &FilterSlice, ask: &AskCells, bytes_max: usize, clock: ClockReading) -> CellParts {
    let mut cursor = CheckpointCursor::at(ask.from);
    let mut entries = Vec::new();
    // Empty cells are not sent.
    for _ in 0..EMPTY_STEPS_MAX {
        entries = cursor.next(&[Some(slice)], bytes_max).unwrap_or_default();
        if !entries.is_empty() || cursor.place().is_none() {
            break;
        }
    }
    let runs = entries.into_iter().filter_map(|entry| match entry {
        Entry::Cells { run, .. } => Some(run),
        _ => None,
    });
    let runs: Vec<CellRun> = runs.collect();
    let outline = if ask.from.is_none() { slice.outline() } else { None };
    CellParts { slice: ask.slice, asked: ask.from, outline, runs, next: cursor.place(), clock }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> impl Iterator<Item = (u32, NodeId)> {
        std::iter::once((0, NodeId(2)))
    }

    #[test]
    fn cells_of_an_older_map_are_not_those_that_were_asked_for() {
        let (limits, parts) = (OwnerLimits::default(), CellParts::default);
        let mut copying = Copying::default();
        assert!(copying.ask(sources(), UnitNumber::FIRST, Epoch(3), MonotonicMs(0)).is_some());
        // The node was marked down and has started again, so it sends its request again by the newer cluster map.
        copying = Copying::default();
        assert!(copying.ask(sources(), UnitNumber::FIRST, Epoch(5), MonotonicMs(10)).is_some());
        copying.hear(parts(), Epoch(4), MonotonicMs(20), &limits, |_| Ok(()));
        assert!(!copying.has(0), "what the other had before lacks what was recorded since");
        copying.hear(parts(), Epoch(5), MonotonicMs(30), &limits, |_| Ok(()));
        assert!(copying.has(0));
    }
}
