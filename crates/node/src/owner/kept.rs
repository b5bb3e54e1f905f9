//! Persistence of the slice groups of one owner. Changes of a slice group become records, which this module passes to
//! the journal of the node. Replies and messages that depend on a record are delayed until that record is on the disk.
//!
//! # Guarantees
//! - A durable filter replies and sends messages only after all earlier records have been synced. All commands leave in
//!   order.
//! - A filter with another durability waits only for the record that marks the beginning of its journal.
//! - While the disk is full, lookups are answered from memory. The node requests no cells from other copies if these
//!   cells would then wait for the disk.
//! - If a group is not served because the disk hangs or other copies answer, it replies only that its verdicts are
//!   unknown.
//!
//! This module does not depend on the content of records or on how they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firstseen_journal::encode;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{CheckpointCursor, Command, Durability, GroupOwner, NodeId, OwnerLimits, PeerBody, Proposal};

use super::awaiting_disk::{AwaitingDisk, abandoned};
use crate::group_key::GroupKey;
use crate::journal_writer::{CheckpointMark, JournalWriter};

/// Maximum time that records of a checkpoint may wait to be written, in milliseconds. No reply depends on them.
const CHECKPOINT_WITHIN_MS: u64 = 1000;

/// Number of cell bytes that one step of a checkpoint persists.
const CHECKPOINT_STEP_BYTES: usize = 256 << 10;

/// A group takes a checkpoint when the journal has grown by this multiple of the node's cells.
const JOURNAL_PARTS: u64 = 4;

/// Number of segments by which the journal may grow before checkpoints are taken. It applies even if the filters are
/// very small.
const SEGMENTS_MIN: u64 = 2;

/// State of the journal of one slice group.
struct GroupJournal {
    durability: Durability,
    /// Number of records that the journal contained when the group last wrote a record.
    last: u64,
    /// Number of records that the journal contained just after this group had written its first record. When that many
    /// records are on the disk, the first record of the group is safe. Until then, the group sends no reply and no
    /// message, even if the filter does not have to be durable.
    ///
    /// The first record of a group is important because it tells a restarted node that the group existed, and that its
    /// data is in the journal. Without this record, the node would assume that it has lost the data of the group. It
    /// would then treat the slices of the group as incomplete for a whole window.
    beginning: u64,
    /// Progress of the current checkpoint.
    cursor: Option<CheckpointCursor>,
    /// Whether the last checkpoint marks the group as complete.
    is_complete: bool,
    /// Size of the journal when the last checkpoint began, in bytes.
    begun_bytes: u64,
}

/// The journals of the slice groups of one owner.
pub(super) struct GroupJournals {
    keeper: Arc<JournalWriter>,
    rules: Rules,
    checkpoint_after_bytes: Option<u64>,
    groups: BTreeMap<GroupKey, GroupJournal>,
    /// Commands that wait until records are synced.
    held: AwaitingDisk,
    /// Slice groups that the owner stopped serving because their disk hung or stayed full. The owner sends no replies
    /// and no messages of these groups. Even if the disk recovers, it serves the groups again only when the node counts
    /// as restarted, because other nodes may have continued without them.
    abandoned: BTreeSet<GroupKey>,
    /// Size of the cells of these groups that was last reported to the journal writer, in bytes.
    cells_bytes: u64,
}

impl GroupJournals {
    pub(super) fn new(keeper: Arc<JournalWriter>, limits: &OwnerLimits) -> Self {
        Self {
            keeper,
            rules: limits.rules,
            checkpoint_after_bytes: limits.checkpoint_after_bytes,
            groups: BTreeMap::new(),
            held: AwaitingDisk::default(),
            abandoned: BTreeSet::new(),
            cells_bytes: 0,
        }
    }

    pub(super) fn keeper(&self) -> &Arc<JournalWriter> {
        &self.keeper
    }

    /// Adds a group whose journal has been read. Its last complete checkpoint began in segment `base`.
    pub(super) fn resume(&mut self, key: GroupKey, durability: Durability, base: u64, is_complete: bool) {
        self.keeper.need(key, base);
        self.groups.insert(key, GroupJournal::new(durability, is_complete));
    }

    /// Adds a group without a complete checkpoint, and begins a checkpoint. If no record of the group was found, the
    /// checkpoint contains no cells.
    pub(super) fn begin(&mut self, key: GroupKey, durability: Durability, owner: &GroupOwner, is_empty: bool) {
        self.keeper.need(key, 0);
        let is_complete = owner.is_complete() && is_empty;
        let mut journal = GroupJournal::new(durability, is_complete);
        // The node knows that the group has lost nothing only once the checkpoint is on the disk.
        journal.last = journal.begin_checkpoint(key, owner, is_complete, &self.keeper);
        if is_empty {
            journal.last = journal.end_checkpoint(key, owner, &self.keeper);
            journal.beginning = journal.last;
        }
        self.groups.insert(key, journal);
    }

    /// Keeps all records of a group that cannot be held.
    pub(super) fn keep_all_of(&self, key: GroupKey) {
        self.keeper.need(key, 0);
    }

    /// Drops the waiting messages to a node whose process has ended, because its next process must not receive them.
    pub(super) fn forget_sends_to(&mut self, peer: NodeId) {
        self.held.forget_sends_to(peer);
    }

    /// Returns whether a group has a journal.
    pub(super) fn has(&self, key: GroupKey) -> bool {
        self.groups.contains_key(&key)
    }

    /// Returns the number of records when the group last wrote one. The number is 0 for a group without a journal.
    pub(super) fn records_of(&self, key: GroupKey) -> u64 {
        self.groups.get(&key).map_or(0, |group| group.last)
    }

    /// Removes the groups that are no longer on this node.
    pub(super) fn retain(&mut self, is_here: impl Fn(GroupKey) -> bool) {
        let Self { keeper, groups, abandoned, .. } = self;
        abandoned.retain(|key| is_here(*key));
        groups.retain(|key, _| {
            is_here(*key) || {
                keeper.forget(*key);
                false
            }
        });
    }

    /// Notes that the reply with this number belongs to a lookup.
    pub(super) fn note_lookup(&mut self, reply_to: u64) {
        self.held.note_lookup(reply_to);
    }

    /// Processes the commands of a group. Records go to the journal, and the commands that may leave now go to
    /// `commands`.
    pub(super) fn pass(&mut self, key: GroupKey, scratch: &mut Vec<Command>, commands: &mut Vec<Command>) {
        let Some(group) = self.groups.get_mut(&key) else { return commands.append(scratch) };
        let synced = self.keeper.synced();
        let is_full = self.keeper.is_full();
        let is_abandoned = self.abandoned.contains(&key);
        for command in scratch.drain(..) {
            match command {
                Command::Persist(record) => {
                    let within_ms = match group.durability {
                        // The other half of the interval is reserved for the disk.
                        Durability::Interval { interval_ms } => u64::from(interval_ms) / 2,
                        Durability::Durable | Durability::Memory => 0,
                    };
                    group.last = self.keeper.keep(key, CheckpointMark::None, encode(record), within_ms);
                }
                // Only the disk can tell whether the event was recorded. Other nodes do not wait for these messages.
                command if is_abandoned => {
                    abandoned(command).into_iter().for_each(|answer| self.held.pass(answer, commands));
                }
                // The requested cells would wait in memory for a disk that accepts no data. The group repeats the
                // request later.
                command if asks_cells(&command) && self.keeper.is_held_up() => {}
                command if is_full && (self.held.answers_lookup(&command) || sends_cells(&command)) => {
                    self.held.pass(command, commands);
                }
                // Cells that were fetched must be on the disk before the cluster map lists the slice as complete,
                // however long that takes. A full disk cannot keep any interval, and the sets of other nodes would fill
                // the memory without a limit.
                command
                    if (group.durability == Durability::Durable
                        || is_full
                        || group.beginning > synced
                        || matches!(command, Command::Propose(Proposal::SlicesComplete { .. })))
                        && self.rules.keep(Rule::AwaitsDisk)
                        && (group.last > synced || !self.held.is_empty()) =>
                {
                    self.held.push(key, group.last, command);
                }
                command => self.held.pass(command, commands),
            }
        }
    }

    /// Releases the commands that may leave now.
    pub(super) fn release(&mut self, commands: &mut Vec<Command>) {
        if self.held.is_empty() {
            return;
        }
        self.held.release(self.keeper.synced(), commands);
        if self.keeper.is_full() {
            self.held.release_lookups(commands);
        }
    }

    /// Stops serving the given slice groups, and returns those that were still served before this call. Clients whose
    /// replies are already waiting for the disk receive the reply "unknown" at once. After that, the owner sends no
    /// reply and no message of these groups until the node counts as restarted.
    pub(super) fn abandon(&mut self, mut groups: Vec<GroupKey>, commands: &mut Vec<Command>) -> Vec<GroupKey> {
        groups.retain(|key| self.abandoned.insert(*key));
        if !groups.is_empty() {
            self.held.abandon(|key| groups.contains(&key), commands);
        }
        groups
    }

    /// Serves all groups again, because the node counts as restarted.
    pub(super) fn take_up_again(&mut self) {
        self.abandoned.clear();
    }

    /// Returns the groups that have a journal.
    pub(super) fn keys(&self) -> impl Iterator<Item = GroupKey> {
        self.groups.keys().copied()
    }

    /// Returns the groups that are not served at present.
    pub(super) fn abandoned(&self) -> impl Iterator<Item = GroupKey> {
        self.abandoned.iter().copied()
    }

    /// Returns whether a group is not served at present.
    pub(super) fn is_abandoned(&self, key: GroupKey) -> bool {
        self.abandoned.contains(&key)
    }

    /// Returns whether a group should accept no more lookups, because too many of their replies wait for the disk.
    pub(super) fn is_full(&self, key: GroupKey) -> bool {
        self.held.is_full() && self.has(key)
    }

    /// Returns whether a group should accept no more events that must be persisted.
    pub(super) fn is_held_up(&self, key: GroupKey) -> bool {
        let Some(group) = self.groups.get(&key) else { return false };
        let is_late = match group.durability {
            Durability::Interval { interval_ms } => self.keeper.is_overdue(u64::from(interval_ms) / 2),
            Durability::Durable | Durability::Memory => false,
        };
        is_late || self.keeper.is_held_up()
    }

    /// Returns whether no command waits for the disk.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Continues the checkpoint that is in progress, or begins a new checkpoint if a slice group needs one. There are
    /// two reasons for a new checkpoint:
    ///
    /// - The journal has grown enough since the group's last checkpoint began.
    /// - The group has become complete or incomplete since that checkpoint. A checkpoint states which of the two its
    ///   group is, so the old checkpoint is wrong about it.
    pub(super) fn checkpoint(
        &mut self,
        owners: &BTreeMap<GroupKey, GroupOwner>,
        is_complete: impl Fn(GroupKey) -> bool,
    ) {
        let own_bytes: u64 = self.groups.keys().filter_map(|key| owners.get(key)).map(GroupOwner::bytes).sum();
        let before_bytes = std::mem::replace(&mut self.cells_bytes, own_bytes);
        let cells_bytes = self.keeper.count_cells(before_bytes, own_bytes);
        if self.groups.is_empty() || self.keeper.is_held_up() {
            return;
        }
        let least_bytes = self.keeper.segment_bytes() * SEGMENTS_MIN;
        let growth_bytes = cells_bytes.saturating_mul(JOURNAL_PARTS).max(least_bytes);
        let growth_bytes = self.checkpoint_after_bytes.unwrap_or(growth_bytes);
        let journal_bytes = self.keeper.journal_bytes();
        let in_progress = self.groups.iter().find(|(_, group)| group.cursor.is_some());
        let next = in_progress.or_else(|| {
            let due = self.groups.iter().filter(|(key, group)| {
                let growth = journal_bytes.saturating_sub(group.begun_bytes);
                is_complete(**key) != group.is_complete || growth > growth_bytes
            });
            // A group that has become complete is first. Next is the group with the oldest checkpoint, so every group
            // eventually gets its turn.
            due.min_by_key(|(key, group)| (is_complete(**key) == group.is_complete, group.begun_bytes))
        });
        let Some((key, owner)) = next.and_then(|(key, _)| Some((*key, owners.get(key)?))) else { return };
        let Some(group) = self.groups.get_mut(&key) else { return };
        if group.cursor.is_some() {
            group.go_on(key, owner, &self.keeper);
        } else {
            group.begin_checkpoint(key, owner, is_complete(key), &self.keeper);
        }
    }

    /// Returns whether a checkpoint is in progress.
    pub(super) fn has_checkpoint(&self) -> bool {
        self.groups.values().any(|group| group.cursor.is_some())
    }
}

/// Returns whether a command sends cells to another node that has a copy of the same slice. Such a command need not
/// wait for the disk of this node. The receiving node stores the cells on its own disk, so they are safe there even if
/// this node loses them.
fn sends_cells(command: &Command) -> bool {
    matches!(command, Command::Send { message, .. } if matches!(message.body, PeerBody::Cells(_)))
}

/// Returns whether a command requests cells from another copy.
fn asks_cells(command: &Command) -> bool {
    matches!(command, Command::Send { message, .. } if matches!(message.body, PeerBody::AskCells(_)))
}

impl GroupJournal {
    fn new(durability: Durability, is_complete: bool) -> Self {
        Self { durability, last: 0, beginning: 0, cursor: None, is_complete, begun_bytes: 0 }
    }

    /// Begins a checkpoint and returns the number of records after its first part.
    fn begin_checkpoint(
        &mut self,
        key: GroupKey,
        owner: &GroupOwner,
        is_complete: bool,
        keeper: &JournalWriter,
    ) -> u64 {
        self.is_complete = is_complete;
        self.begun_bytes = keeper.journal_bytes();
        self.cursor = Some(CheckpointCursor::default());
        let mut taken = 0;
        for (index, record) in owner.checkpoint(is_complete).into_iter().enumerate() {
            let mark = if index == 0 { CheckpointMark::Begin } else { CheckpointMark::None };
            taken = keeper.keep(key, mark, encode(record), CHECKPOINT_WITHIN_MS);
        }
        taken
    }

    fn go_on(&mut self, key: GroupKey, owner: &GroupOwner, keeper: &JournalWriter) {
        let Some(cursor) = &mut self.cursor else { return };
        let Some(records) = owner.checkpoint_cells(cursor, CHECKPOINT_STEP_BYTES) else {
            self.end_checkpoint(key, owner, keeper);
            return;
        };
        for record in records {
            keeper.keep(key, CheckpointMark::None, encode(record), CHECKPOINT_WITHIN_MS);
        }
    }

    /// Ends a checkpoint and returns the number of records after it.
    fn end_checkpoint(&mut self, key: GroupKey, owner: &GroupOwner, keeper: &JournalWriter) -> u64 {
        self.cursor = None;
        keeper.keep(key, CheckpointMark::End, encode(owner.checkpoint_end()), 0)
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::UnitNumber;
    use firstseen_journal::MemoryDisk;
    use firstseen_routing::{AskCells, Epoch, FilterId, PeerMessage};
    use firstseen_wire::watch;

    use super::*;
    use crate::clock::SystemClock;
    use crate::journal_writer::GatedDisk;
    use crate::owner::awaiting_disk::tests::reply;
    use crate::owner::worker::tests::map;

    const KEY: GroupKey = GroupKey { filter: FilterId(1), group: 0 };

    /// Returns whether a request for cells leaves a group. `is_short` says whether the node is short of disk space.
    fn asks_where(is_short: bool) -> bool {
        let disk = GatedDisk::over(Arc::new(MemoryDisk::default()), [watch::channel(is_short).1]);
        let keeper = Arc::new(JournalWriter::new(disk, 1 << 20, Arc::new(SystemClock::new()), 1));
        let mut kept = GroupJournals::new(keeper, &OwnerLimits::default());
        kept.resume(KEY, Durability::Durable, 0, false);
        let ask = PeerBody::AskCells(AskCells { slice: 0, unit: UnitNumber::FIRST, from: None });
        let message = PeerMessage { filter: KEY.filter, epoch: Epoch::FIRST, group: KEY.group, body: ask };
        let mut commands = Vec::new();
        kept.pass(KEY, &mut vec![Command::Send { to: NodeId(2), message }], &mut commands);
        !commands.is_empty()
    }

    /// Returns whether a reply leaves a group before its disk has written anything. The filter persists events within a
    /// minute.
    fn replies_where(has_begun: bool) -> bool {
        let keeper =
            Arc::new(JournalWriter::new(Arc::new(MemoryDisk::default()), 1 << 20, Arc::new(SystemClock::new()), 1));
        let mut kept = GroupJournals::new(keeper, &OwnerLimits::default());
        let durability = Durability::Interval { interval_ms: 60_000 };
        if has_begun {
            kept.resume(KEY, durability, 0, true);
        } else {
            let owner = GroupOwner::build(KEY.filter, &map(), KEY.group, NodeId(1), OwnerLimits::default());
            kept.begin(KEY, durability, &owner.expect("a group"), true);
        }
        let mut commands = Vec::new();
        kept.pass(KEY, &mut vec![reply(1, 1)], &mut commands);
        !commands.is_empty()
    }

    #[test]
    fn a_group_replies_when_its_beginning_is_on_the_medium() {
        assert!(replies_where(true) && !replies_where(false));
    }

    #[test]
    fn nothing_is_fetched_that_a_full_disk_does_not_take() {
        assert!(asks_where(false) && !asks_where(true));
    }
}
