//! What the groups of one owner persist: their records on the way to the journal, and the replies and messages that
//! must not leave before these are on the medium.
//!
//! Promises: a durable filter replies and sends nothing while a record from before is not synced, and all leaves in
//! order; another filter does so only while its beginning is not; while the disk is full, lookups get replies from
//! memory, and no cells are asked for that would wait for it; a group that is given up, as the disk hangs or other copies
//! answer, replies only that its verdicts are unknown. Must not know: what records hold, how they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firstseen_journal::encode;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{CheckpointCursor, Command, Durability, GroupOwner, NodeId, OwnerLimits, PeerBody, Proposal};

use super::awaiting_disk::{AwaitingDisk, given_up};
use crate::group_key::GroupKey;
use crate::keeper::{CheckpointMark, Keeper};

/// How long records of a checkpoint may wait: no reply waits for them.
const CHECKPOINT_WITHIN_MS: u64 = 1000;

/// Bytes of cells that one step of a checkpoint persists.
const CHECKPOINT_STEP_BYTES: usize = 256 << 10;

/// A group takes a checkpoint when the journal has grown by so many times the cells of the node.
const JOURNAL_PARTS: u64 = 4;

/// The journal may grow by so many segments before checkpoints are taken, however small the filters are.
const SEGMENTS_MIN: u64 = 2;

/// The journal of one group.
struct GroupJournal {
    durability: Durability,
    /// How many records the journal had when the group last wrote one.
    last: u64,
    /// How many it had when a group without records had begun. Until these are on the medium nothing leaves, whatever the durability: a
    /// restart that finds nothing of the group takes all that it had for lost, and its slices are incomplete for a window.
    beginning: u64,
    /// The checkpoint that is under way.
    cursor: Option<CheckpointCursor>,
    /// Whether the last checkpoint calls the group complete.
    is_complete: bool,
    /// Bytes that the journal had taken when the last checkpoint began.
    begun_bytes: u64,
}

/// What the groups of one owner persist.
pub(super) struct GroupJournals {
    keeper: Arc<Keeper>,
    rules: Rules,
    checkpoint_after_bytes: Option<u64>,
    groups: BTreeMap<GroupKey, GroupJournal>,
    /// Commands that wait for records to be synced.
    held: AwaitingDisk,
    /// Groups of which no command leaves until the node counts as started anew: their disk hangs or is full, or has
    /// been.
    given_up: BTreeSet<GroupKey>,
    /// Bytes of cells of these groups, as the keeper knows them.
    cells_bytes: u64,
}

impl GroupJournals {
    pub(super) fn new(keeper: Arc<Keeper>, limits: &OwnerLimits) -> Self {
        Self {
            keeper,
            rules: limits.rules,
            checkpoint_after_bytes: limits.checkpoint_after_bytes,
            groups: BTreeMap::new(),
            held: AwaitingDisk::default(),
            given_up: BTreeSet::new(),
            cells_bytes: 0,
        }
    }

    pub(super) fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    /// Takes care of a group whose journal was read, with a whole checkpoint that began in segment `base`.
    pub(super) fn resume(&mut self, key: GroupKey, durability: Durability, base: u64, is_complete: bool) {
        self.keeper.need(key, base);
        self.groups.insert(key, GroupJournal::new(durability, is_complete));
    }

    /// Takes care of a group without a whole checkpoint: one begins now. The checkpoint has no cells where nothing was
    /// read of the group.
    pub(super) fn begin(&mut self, key: GroupKey, durability: Durability, owner: &GroupOwner, is_empty: bool) {
        self.keeper.need(key, 0);
        let is_complete = owner.is_complete() && is_empty;
        let mut journal = GroupJournal::new(durability, is_complete);
        // Only once it is on the medium is it known that the group has lost nothing.
        journal.last = journal.begin_checkpoint(key, owner, is_complete, &self.keeper);
        if is_empty {
            journal.last = journal.end_checkpoint(key, owner, &self.keeper);
            journal.beginning = journal.last;
        }
        self.groups.insert(key, journal);
    }

    /// A group cannot be held: its records stay.
    pub(super) fn keep_all_of(&self, key: GroupKey) {
        self.keeper.need(key, 0);
    }

    /// Messages to a process that is gone are not sent to the next one.
    pub(super) fn forget_sends_to(&mut self, peer: NodeId) {
        self.held.forget_sends_to(peer);
    }

    /// Whether the group keeps a journal.
    pub(super) fn has(&self, key: GroupKey) -> bool {
        self.groups.contains_key(&key)
    }

    /// The number of records when the group's last one was taken; 0 where it keeps no journal.
    pub(super) fn records_of(&self, key: GroupKey) -> u64 {
        self.groups.get(&key).map_or(0, |group| group.last)
    }

    /// Lets go of groups that are gone.
    pub(super) fn retain(&mut self, is_here: impl Fn(GroupKey) -> bool) {
        let Self { keeper, groups, given_up, .. } = self;
        given_up.retain(|key| is_here(*key));
        groups.retain(|key, _| {
            is_here(*key) || {
                keeper.forget(*key);
                false
            }
        });
    }

    /// The reply at this place is to a lookup.
    pub(super) fn note_lookup(&mut self, reply_to: u64) {
        self.held.note_lookup(reply_to);
    }

    /// Takes the commands of a group: records go to the journal, and `commands` gets those that may leave.
    pub(super) fn pass(&mut self, key: GroupKey, scratch: &mut Vec<Command>, commands: &mut Vec<Command>) {
        let Some(group) = self.groups.get_mut(&key) else { return commands.append(scratch) };
        let synced = self.keeper.synced();
        let is_full = self.keeper.is_full();
        let is_given_up = self.given_up.contains(&key);
        for command in scratch.drain(..) {
            match command {
                Command::Persist(record) => {
                    let within_ms = match group.durability {
                        // The rest is for the disk.
                        Durability::Interval { interval_ms } => u64::from(interval_ms) / 2,
                        Durability::Durable | Durability::Memory => 0,
                    };
                    group.last = self.keeper.keep(key, CheckpointMark::None, encode(record), within_ms);
                }
                // Only the disk shows whether the event was recorded; and other nodes do not wait for the messages.
                command if is_given_up => {
                    given_up(command).into_iter().for_each(|answer| self.held.pass(answer, commands));
                }
                // What is fetched would wait in memory for a disk that takes nothing. The group asks again.
                command if asks_cells(&command) && self.keeper.is_held_up() => {}
                command if is_full && (self.held.answers_lookup(&command) || sends_cells(&command)) => {
                    self.held.pass(command, commands);
                }
                // Fetched cells are on the medium before the map calls the slice complete, however long that may take.
                // On a full disk no interval can be kept, and sets of other nodes would wait in memory without a limit.
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

    /// Gives groups up: no command of theirs waits for the disk any longer, and none leaves until the node counts as
    /// started anew. Returns those that were not given up before.
    pub(super) fn give_up(&mut self, mut groups: Vec<GroupKey>, commands: &mut Vec<Command>) -> Vec<GroupKey> {
        groups.retain(|key| self.given_up.insert(*key));
        if !groups.is_empty() {
            self.held.give_up(|key| groups.contains(&key), commands);
        }
        groups
    }

    /// The node counts as started anew.
    pub(super) fn take_up_again(&mut self) {
        self.given_up.clear();
    }

    /// The groups that keep a journal.
    pub(super) fn keys(&self) -> impl Iterator<Item = GroupKey> {
        self.groups.keys().copied()
    }

    /// The groups that are given up.
    pub(super) fn given_up(&self) -> impl Iterator<Item = GroupKey> {
        self.given_up.iter().copied()
    }

    /// Whether the group is given up.
    pub(super) fn is_given_up(&self, key: GroupKey) -> bool {
        self.given_up.contains(&key)
    }

    /// Whether the group is to take no more lookups: too many of their replies wait for the disk.
    pub(super) fn is_full(&self, key: GroupKey) -> bool {
        self.held.is_full() && self.has(key)
    }

    /// Whether the group is to take no more events that are to be persisted.
    pub(super) fn is_held_up(&self, key: GroupKey) -> bool {
        let Some(group) = self.groups.get(&key) else { return false };
        let is_late = match group.durability {
            Durability::Interval { interval_ms } => self.keeper.is_overdue(u64::from(interval_ms) / 2),
            Durability::Durable | Durability::Memory => false,
        };
        is_late || self.keeper.is_held_up()
    }

    /// Whether nothing waits for the disk.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Goes on with the checkpoint of one group, or begins one that is due: when the journal has grown, or a group has
    /// become complete, which `is_complete` tells.
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
        let under_way = self.groups.iter().find(|(_, group)| group.cursor.is_some());
        let next = under_way.or_else(|| {
            let due = self.groups.iter().filter(|(key, group)| {
                let growth = journal_bytes.saturating_sub(group.begun_bytes);
                is_complete(**key) != group.is_complete || growth > growth_bytes
            });
            // A group that has become complete comes first, then the one whose last checkpoint is the oldest: so no
            // group waits until others have none due.
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

    /// Whether a checkpoint is under way.
    pub(super) fn has_checkpoint(&self) -> bool {
        self.groups.values().any(|group| group.cursor.is_some())
    }
}

/// Whether this command sends cells to another copy: that copy persists them by itself, also where the disk here does
/// not have them yet.
fn sends_cells(command: &Command) -> bool {
    matches!(command, Command::Send { message, .. } if matches!(message.body, PeerBody::Cells(_)))
}

/// Whether this asks another copy for cells.
fn asks_cells(command: &Command) -> bool {
    matches!(command, Command::Send { message, .. } if matches!(message.body, PeerBody::AskCells(_)))
}

impl GroupJournal {
    fn new(durability: Durability, is_complete: bool) -> Self {
        Self { durability, last: 0, beginning: 0, cursor: None, is_complete, begun_bytes: 0 }
    }

    /// Begins a checkpoint; returns the number of records then.
    fn begin_checkpoint(&mut self, key: GroupKey, owner: &GroupOwner, is_complete: bool, keeper: &Keeper) -> u64 {
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

    fn go_on(&mut self, key: GroupKey, owner: &GroupOwner, keeper: &Keeper) {
        let Some(cursor) = &mut self.cursor else { return };
        let Some(records) = owner.checkpoint_cells(cursor, CHECKPOINT_STEP_BYTES) else {
            self.end_checkpoint(key, owner, keeper);
            return;
        };
        for record in records {
            keeper.keep(key, CheckpointMark::None, encode(record), CHECKPOINT_WITHIN_MS);
        }
    }

    /// Ends a checkpoint; returns the number of records then.
    fn end_checkpoint(&mut self, key: GroupKey, owner: &GroupOwner, keeper: &Keeper) -> u64 {
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
    use crate::keeper::Yielding;
    use crate::owner::awaiting_disk::tests::reply;
    use crate::owner::worker::tests::map;

    const KEY: GroupKey = GroupKey { filter: FilterId(1), group: 0 };

    /// Whether a question for cells leaves a group whose node is short of room, or is not.
    fn asks_where(is_short: bool) -> bool {
        let disk = Yielding::over(Arc::new(MemoryDisk::default()), [watch::channel(is_short).1]);
        let keeper = Arc::new(Keeper::new(disk, 1 << 20, Arc::new(SystemClock::new()), 1));
        let mut kept = GroupJournals::new(keeper, &OwnerLimits::default());
        kept.resume(KEY, Durability::Durable, 0, false);
        let ask = PeerBody::AskCells(AskCells { slice: 0, unit: UnitNumber::FIRST, from: None });
        let message = PeerMessage { filter: KEY.filter, epoch: Epoch::FIRST, group: KEY.group, body: ask };
        let mut commands = Vec::new();
        kept.pass(KEY, &mut vec![Command::Send { to: NodeId(2), message }], &mut commands);
        !commands.is_empty()
    }

    /// Whether a reply leaves a group of a filter that persists events within a minute, whose disk has written nothing yet.
    fn replies_where(has_begun: bool) -> bool {
        let keeper = Arc::new(Keeper::new(Arc::new(MemoryDisk::default()), 1 << 20, Arc::new(SystemClock::new()), 1));
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
