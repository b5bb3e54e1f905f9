//! Restores the state that the previous process of this node has persisted.
//!
//! # Guarantees
//! - A group counts as restored only if a complete checkpoint and all records after it were read.
//! - Damage is reported. The node then serves nothing that could depend on missing records.
//!
//! This module does not depend on the byte format of the journal.

use std::collections::BTreeMap;

use firstseen_filter::PartError;
use firstseen_journal::{ScanError, decode};
use firstseen_meta::Identity;
use firstseen_routing::{Entry, GroupOwner, Moment};

use crate::group_key::GroupKey;
use crate::journal_writer::JournalWriter;

/// Progress of reading the journal of one group.
#[derive(Clone, Copy, Default)]
struct Progress {
    begun: Option<WholeCheckpoint>,
    last: Option<WholeCheckpoint>,
    /// Whether an event was dropped for lack of room since the last complete checkpoint began. The group then lacks
    /// this event.
    lacks_events: bool,
    /// Whether an event was dropped for lack of room after the newest checkpoint began. Only these events matter if
    /// that checkpoint turns out to be complete. Events that were dropped before it began are contained in the
    /// checkpoint, so reading the checkpoint restores them.
    lacks_events_since_begun: bool,
}

/// A checkpoint whose beginning and end were both read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WholeCheckpoint {
    /// Journal segment in which the checkpoint began.
    pub(super) base: u64,
    /// Whether the group contained all events that were ever recorded in it.
    pub(super) is_complete: bool,
}

impl Progress {
    fn begin(&mut self, checkpoint: WholeCheckpoint) {
        self.begun = Some(checkpoint);
        self.lacks_events_since_begun = false;
    }

    fn end(&mut self) {
        if let Some(whole) = self.begun.take() {
            self.last = Some(whole);
            self.lacks_events = self.lacks_events_since_begun;
        }
    }

    fn lacks_events(&mut self) {
        self.lacks_events = true;
        self.lacks_events_since_begun = true;
    }

    /// Returns the result after all records have been read.
    fn found(self) -> Option<WholeCheckpoint> {
        let found = self.last?;
        Some(WholeCheckpoint { is_complete: found.is_complete && !self.lacks_events, ..found })
    }
}

/// Reads the journal and restores the groups that have one. Returns the last complete checkpoint of each group that has
/// at least one record.
pub(super) fn read(
    keeper: &JournalWriter,
    identity: Identity,
    groups: &mut BTreeMap<GroupKey, GroupOwner>,
    keeps_journal: impl Fn(GroupKey) -> bool,
    now: Moment,
) -> Result<BTreeMap<GroupKey, Option<WholeCheckpoint>>, ScanError> {
    let mut progress: BTreeMap<GroupKey, Progress> = BTreeMap::new();
    keeper.read(identity, |segment, bytes| {
        let record = decode(bytes).map_err(|error| error.to_string())?;
        let key = GroupKey { filter: record.filter, group: record.group };
        let Some(group) = groups.get_mut(&key).filter(|_| keeps_journal(key)) else { return Ok(()) };
        let progress = progress.entry(key).or_default();
        for entry in record.entries {
            match &entry {
                Entry::Checkpoint { is_complete, .. } => {
                    progress.begin(WholeCheckpoint { base: segment, is_complete: *is_complete });
                }
                Entry::CheckpointEnd => progress.end(),
                _ => {}
            }
            // A group that is incomplete anyway may also lack a record that does not fit.
            let promises = progress.begun.or(progress.last).is_some_and(|found| found.is_complete);
            match group.restore(entry, now) {
                // The record is valid, but the group has no room for it. Another copy may have the event.
                Err(error @ PartError::Full) => {
                    tracing::warn!(filter = %key.filter, group = key.group, %error, "no room for a record of the journal: its slice is incomplete");
                    progress.lacks_events();
                }
                Err(error) if promises => return Err(format!("filter {} group {}: {error}", key.filter, key.group)),
                Err(error) => {
                    tracing::warn!(filter = %key.filter, group = key.group, %error, "a record of the journal is skipped");
                }
                Ok(()) => {}
            }
        }
        Ok(())
    })?;
    let found: BTreeMap<GroupKey, Option<WholeCheckpoint>> =
        progress.into_iter().map(|(key, progress)| (key, progress.found())).collect();
    for (key, group) in groups.iter_mut().filter(|(key, _)| keeps_journal(**key)) {
        group.end_restore(found.get(key).copied().flatten().is_some_and(|found| found.is_complete));
    }
    Ok(found)
}
