//! Restores the state of an earlier process from journal entries, and creates checkpoints from which a later process
//! can restore it. If all entries are restored in the order of the journal, the result is the state from which they
//! were created. This module works with decoded entries, and does not depend on bytes or disks.

use firstseen_filter::{GenerationNumber, PartError, Stamp};

use super::durable::ToPersist;
use super::flights::InFlightEvents;
use super::local::LocalState;
use crate::group::guard::ReplayGuard;
use crate::group::parts::TakesParts;
use crate::group::persisting::{checkpoint, restore_names};
use crate::group::rules::Rule;
use crate::protocol::{Entry, PositionLists};
use crate::verdict::{Decision, Reason};

impl ToPersist {
    /// Restores an entry that an earlier process of this node has persisted.
    pub(super) fn restore(
        &mut self,
        entry: Entry,
        local: &mut LocalState,
        guard: &mut ReplayGuard,
    ) -> Result<(), PartError> {
        if let Entry::Replied { name, .. } = &entry {
            self.taken.remove(name);
        }
        let Some(entry) = restore_names(entry, guard, &mut local.present) else { return Ok(()) };
        match entry {
            // The cluster map is newer than any entry, so it contains every generation that was opened.
            Entry::Set { generation, .. } | Entry::Checkpoint { newest: generation, .. }
                if generation > local.fill.newest() =>
            {
                Err(PartError::Misfit("a generation that was never opened"))
            }
            Entry::Set { generation, cells, stamps, counted } => {
                let put = restore_cells(generation, &cells, &stamps, local);
                if matches!(put, Ok(()) | Err(PartError::Full)) && local.fill.newest() == generation {
                    (0..counted.min(stamps.len() as u64)).for_each(|_| local.fill.record());
                }
                put
            }
            Entry::Taken { name, names, events } => {
                self.taken.insert(name, (names, events));
                Ok(())
            }
            Entry::Checkpoint { clock, newest, counted, .. } => {
                local.present.clock_mut().restore(clock);
                if local.fill.newest() == newest {
                    local.fill.restore(counted);
                }
                Ok(())
            }
            // Cells of slices that have left this node are not needed.
            Entry::Slice { slice, .. } | Entry::Cells { slice, .. } if !local.own.has(slice) => Ok(()),
            Entry::Slice { .. } | Entry::Cells { .. } => local.own.put_part(&entry),
            Entry::Headed { epoch } => {
                self.headed_epoch = Some(epoch);
                Ok(())
            }
            Entry::Owed { .. } if !local.present.keeps(Rule::RestoresOwedEvents) => Ok(()),
            Entry::Owed { numbers, positions, stamps } => {
                local.tree.restore_owed(&numbers, &positions, &stamps, local.present.now_ms())
            }
            Entry::Reported { numbers } => {
                local.tree.restore_reported(&numbers);
                Ok(())
            }
            Entry::Replied { .. } | Entry::Marks { .. } | Entry::CheckpointEnd => Ok(()),
            Entry::Events { .. } => Err(PartError::Misfit("an entry of a group that is one slice")),
        }
    }

    /// Ends the restore. Batches without replies become unknown.
    pub(super) fn end_restore(&mut self, is_whole: bool, local: &mut LocalState, guard: &mut ReplayGuard) {
        let knows_heads = self.headed_epoch == Some(local.membership.placement().epoch());
        local.membership.end_restore(is_whole, knows_heads);
        for (name, (names, events)) in std::mem::take(&mut self.taken) {
            let decisions = vec![Decision::Undecided(Reason::Unknown); events as usize];
            if local.present.keeps(Rule::RestoresIdempotencyKeys) {
                guard.restore(&(name, names, decisions), local.present.now_ms());
            }
        }
        local.own.recount();
    }

    /// Begins a checkpoint and returns everything except the cells.
    pub(super) fn checkpoint(
        &self,
        is_complete: bool,
        local: &LocalState,
        guard: &ReplayGuard,
        flights: &InFlightEvents,
    ) -> Vec<Entry> {
        let clock = local.present.clock();
        let counted = local.fill.counted().clone();
        let newest = local.fill.newest();
        let mut entries = vec![Entry::Checkpoint { is_complete, clock: clock.reading(), newest, counted }];
        entries.extend(self.headed_epoch.map(|epoch| Entry::Headed { epoch }));
        entries.extend(local.tree.checkpoint());
        let mut entries = checkpoint(entries, guard, clock, &local.own.each());
        let open = flights.batches().into_iter().filter_map(|first| flights.batch(first));
        entries.extend(open.filter(|batch| batch.is_unlearnt()).map(|batch| Entry::Taken {
            name: batch.header().name(),
            names: batch.header().names.clone(),
            events: batch.flights().len() as u32,
        }));
        entries
    }
}

/// Sets cells that were persisted.
fn restore_cells(
    generation: GenerationNumber,
    cells: &PositionLists,
    stamps: &[Stamp],
    local: &mut LocalState,
) -> Result<(), PartError> {
    let placement = local.membership.placement();
    let mut is_full = false;
    for (positions, stamp) in cells.iter().zip(stamps) {
        if !placement.admits(positions) {
            return Err(PartError::Misfit("positions of another group"));
        }
        match local.own.put(placement, positions, *stamp, generation) {
            // Other events may still find room elsewhere in the slice.
            Err(PartError::Full) => is_full = true,
            put => put?,
        }
        local.fill.advance(stamp.unit);
    }
    if is_full { Err(PartError::Full) } else { Ok(()) }
}
