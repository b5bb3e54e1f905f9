//! What all groups persist alike: names with their replies, and the outlines of slices.
//!
//! Promises: entries put in again in the order in which they were made give the state that they were made from. Must
//! not know: bytes, disks, cells.

use firstseen_filter::FilterSlice;

use super::clock::HeadClock;
use super::guard::ReplayGuard;
use super::present::Present;
use super::rules::Rule;
use crate::protocol::Entry;

/// Takes up an entry of names that an earlier process has persisted; gives back any other entry.
pub(crate) fn restore_names(entry: Entry, guard: &mut ReplayGuard, present: &mut Present) -> Option<Entry> {
    let now_ms = present.now_ms();
    match entry {
        Entry::Replied { name, names, decisions, clock: reading } => {
            if present.keeps(Rule::RestoresNames) {
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

/// A checkpoint that begins with `entries`: names and outlines, all but the cells.
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
