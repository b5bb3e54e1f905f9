//! State that groups of one slice and groups of several slices write to the journal in the same way: idempotency keys
//! with their replies, and the outlines of slices. If the entries are restored in the order in which they were created,
//! the result is the same state again. This module does not depend on bytes, disks or cells.

use firstseen_filter::FilterSlice;

use super::clock::HeadClock;
use super::group_time::GroupTime;
use super::guard::ReplayGuard;
use super::rules::Rule;
use crate::protocol::Entry;

/// Restores an entry if it contains idempotency keys that an earlier process has persisted. Returns any other entry
/// unchanged.
pub(crate) fn restore_names(entry: Entry, guard: &mut ReplayGuard, present: &mut GroupTime) -> Option<Entry> {
    let now_ms = present.now_ms();
    match entry {
        Entry::Replied { name, names, decisions, clock: reading } => {
            if present.keeps(Rule::RestoresIdempotencyKeys) {
                guard.restore(&(name, names, decisions), now_ms);
            }
            present.clock_mut().restore(reading);
        }
        Entry::Marks { producers, sources } => guard.restore_marks(&producers, &sources, now_ms),
        Entry::CheckpointEnd => {}
        entry => return Some(entry),
    }
    None
}

/// Returns the entries of a checkpoint: first `entries`, then idempotency keys and outlines. Cells are not included.
pub(crate) fn checkpoint(
    mut entries: Vec<Entry>,
    guard: &ReplayGuard,
    clock: &HeadClock,
    slices: &[Option<&FilterSlice>],
) -> Vec<Entry> {
    let clock = clock.reading();
    entries.extend(guard.marks());
    for (slice, own) in (0..).zip(slices) {
        entries.extend(own.and_then(FilterSlice::outline).map(|outline| Entry::Slice { slice, outline }));
    }
    entries.extend(guard.kept().map(|(name, names, decisions)| Entry::Replied { name, names, decisions, clock }));
    entries
}
