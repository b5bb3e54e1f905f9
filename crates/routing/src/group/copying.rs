//! Copies that lack something get it from those that have everything: cells of a slice, run after run, while both go on.
//!
//! From the epoch at which a node gets a copy, every event is also set there. The source, a copy that has everything,
//! refuses sets by older maps once it has that map. So what the source holds then, plus what is set here since, is
//! everything. Cells that the source sent by an older map may come late, and do not count. Runs of cells are merged, so
//! it does not matter in which order they come, how often, or from whom.
//!
//! Promises: nothing is taken as complete before its last cells are here; one question is under way at a time, and no more
//! than so many bytes a second. Must not know: how the map learns of it, what cells mean.

use std::collections::BTreeSet;

use firstseen_filter::{CellRun, FilterSlice, PartError, UnitNumber};

use super::limits::OwnerLimits;
use super::rules::Rule;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{AskCells, CellParts, CellPlace, CheckpointCursor, ClockReading, Entry, MonotonicMs};

/// What has not been answered is asked again after so long.
const AGAIN_MS: u64 = 1_000;

/// Steps through empty cells for one answer.
const EMPTY_STEPS_MAX: usize = 32;

/// What is fetched for the copies of a group that lack something.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// Slices of the group that have everything now, though the map does not know yet.
    done: BTreeSet<u32>,
    current: Option<Fetch>,
    next_ask_ms: MonotonicMs,
}

/// The slice that is fetched.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    slice: u32,
    /// How far it has come.
    from: Option<CellPlace>,
    /// By which map it was asked for first.
    since_epoch: Epoch,
}

impl Copying {
    /// Whether a slice has been fetched.
    pub(crate) fn has(&self, slice: u32) -> bool {
        self.done.contains(&slice)
    }

    /// What was fetched of slices that need no more, or need all of it again, is forgotten.
    pub(crate) fn retain(&mut self, is_needed: impl Fn(u32) -> bool) {
        self.done.retain(|slice| is_needed(*slice));
        self.current = self.current.filter(|fetch| is_needed(fetch.slice));
    }

    /// The next slice to be fetched, and from whom, of those that lack something and have a source.
    fn next_source(&self, mut sources: impl Iterator<Item = (u32, NodeId)>) -> Option<(u32, NodeId)> {
        sources.find(|(slice, _)| match self.current {
            Some(fetch) => fetch.slice == *slice,
            None => !self.done.contains(slice),
        })
    }

    /// Asks for the next cells, if it is time; `unit` is the greatest that has been seen here, `epoch` that of the map.
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
            // Another one may have a source.
            self.current = None;
            return None;
        };
        let begun = self.current.filter(|fetch| fetch.from.is_some());
        let fetch = begun.unwrap_or(Fetch { slice, from: None, since_epoch: epoch });
        self.current = Some(fetch);
        self.next_ask_ms = now_ms.after(AGAIN_MS);
        Some((source, AskCells { slice, unit, from: fetch.from }))
    }

    /// When [`Self::ask`] has something to do, if nothing comes.
    pub(crate) fn next_ms(&self, sources: impl Iterator<Item = (u32, NodeId)>) -> Option<MonotonicMs> {
        self.next_source(sources).map(|_| self.next_ask_ms)
    }

    /// Takes the cells that were asked for, and that another node had by the map of `epoch`: `put` puts them in, each part once.
    /// What does not fit now is asked for again.
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
        if !limits.rules.keep(Rule::DatesCells) {
            parts.runs.iter_mut().for_each(|run| run.unit = run.unit.before(1));
        }
        if parts.into_entries().try_for_each(&mut put).is_err() {
            return;
        }
        if next.is_none() || !limits.rules.keep(Rule::FetchesAll) {
            self.done.insert(slice);
        }
        self.current = next.map(|next| Fetch { from: Some(next), ..fetch });
        let pause_ms = (bytes * 1000).checked_div(limits.copied_bytes_per_s_max).unwrap_or(AGAIN_MS);
        self.next_ask_ms = now_ms.after(pause_ms);
    }
}

/// The answer of a complete copy: about `bytes_max` bytes of the cells of a slice, and where the next ones begin.
pub(crate) fn parts_of(slice: &FilterSlice, ask: &AskCells, bytes_max: usize, clock: ClockReading) -> CellParts {
    let mut cursor = CheckpointCursor::at(ask.from);
    let mut entries = Vec::new();
    // Cells that are empty are not sent.
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
        // The node was given up, and has begun anew: it asks again, by the map that says so.
        copying = Copying::default();
        assert!(copying.ask(sources(), UnitNumber::FIRST, Epoch(5), MonotonicMs(10)).is_some());
        copying.hear(parts(), Epoch(4), MonotonicMs(20), &limits, |_| Ok(()));
        assert!(!copying.has(0), "what the other had before lacks what was recorded since");
        copying.hear(parts(), Epoch(5), MonotonicMs(30), &limits, |_| Ok(()));
        assert!(copying.has(0));
    }
}
