//! Taking up what an earlier process of this node has persisted.
//!
//! Promises: a group counts as restored only where a whole checkpoint and everything after it was read; damage is
//! reported, and then nothing is served that rests on records that may be missing. Must not know: bytes on disks.

use std::collections::BTreeMap;

use firstseen_filter::PartError;
use firstseen_journal::{ScanError, decode};
use firstseen_meta::Identity;
use firstseen_routing::{Entry, GroupOwner, Moment};

use crate::group_key::GroupKey;
use crate::keeper::Keeper;

/// How far the reading of one group has come.
#[derive(Clone, Copy, Default)]
struct Progress {
    begun: Option<WholeCheckpoint>,
    last: Option<WholeCheckpoint>,
    /// Events that were read since the last whole checkpoint began found no room: the group lacks them.
    lacks_events: bool,
    /// The same since the checkpoint began that was begun last: it has all that a complete group had before.
    lacks_events_since_begun: bool,
}

/// A whole checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WholeCheckpoint {
    /// The segment in which it began.
    pub(super) base: u64,
    /// The group had all that was ever recorded in it.
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

    /// What was found, when all was read.
    fn found(self) -> Option<WholeCheckpoint> {
        let found = self.last?;
        Some(WholeCheckpoint { is_complete: found.is_complete && !self.lacks_events, ..found })
    }
}

/// Feeds the journal to the groups that keep one; returns the last whole checkpoint of each group of which anything was
/// read.
pub(super) fn read(
    keeper: &Keeper,
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
            // A group that is incomplete anyway may miss a record that does not fit, too.
            let promises = progress.begun.or(progress.last).is_some_and(|found| found.is_complete);
            match group.restore(entry, now) {
                // What the records say is right, and there is no room for it: another copy may have it.
                Err(error @ PartError::Full) => {
                    tracing::warn!(filter = %key.filter, group = key.group, %error, "left out: incomplete");
                    progress.lacks_events();
                }
                Err(error) if promises => return Err(format!("filter {} group {}: {error}", key.filter, key.group)),
                Err(error) => tracing::warn!(filter = %key.filter, group = key.group, %error, "left out"),
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
