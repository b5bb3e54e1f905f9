//! The slice groups of one owner, and the way they follow the cluster map.
//!
//! # Guarantees
//! - A group exists as long as the cluster map assigns one of its slices to this node. Afterwards it remains until its
//!   in-flight events have ended.
//! - When a peer restarts, the events that the peer had in flight are abandoned before the owner acts on the new map.
//!
//! This module does not depend on queues or on the clients that wait for replies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firstseen_filter::FILL_SAMPLE_BYTES;
use firstseen_journal::ScanError;
use firstseen_routing::{
    AskCells, BackupCells, CellParts, Command, Ending, FilterId, GroupOwner, Incarnation, Lease, LevelReply, Moment,
    MonotonicMs, NodeId, OwedCounts, OwnerLimits, PeerBody, PeerMessage, Reason, Shares, Submission, refuse,
};

use super::advice::{self, REPAIR};
use super::gathered::Gathered;
use super::kept::GroupJournals;
use super::{GroupLook, Owners, reading};
use crate::group_key::GroupKey;
use crate::journal_writer::{DiskState, JournalWriter};
use crate::link_handle::LinkHandle;
use crate::view::{GroupFault, View};

/// Maximum number of cell bytes that one inspection of all slice groups reads. An inspection determines, for example,
/// how full the slices are. The owner processes no events in the meantime, so an inspection must end within a few
/// milliseconds, even if the filters are large. The maximum is exceeded only if a node has very many slices, because at
/// least a small sample is read from each slice.
const LOOK_SAMPLE_BYTES: usize = 16 << 20;

/// Minimum memory of the replay guard of each slice group, in bytes. The replay guard stores recent replies, so that a
/// retry of a batch gets the same reply. All groups of a node share a configured amount of memory. If a node has many
/// groups, the share of each group would become too small to be useful. This minimum has room for the replies to a few
/// batches.
const GUARD_BYTES_MIN: u64 = 16 << 10;

/// Minimum memory of the claims of each slice group, in bytes. It applies regardless of the number of groups.
const CLAIMS_BYTES_MIN: u64 = 64 << 10;

/// Maximum number of in-flight events of vertically sliced filters on one node, for all slice groups together. The
/// limit bounds the memory of these events, which is about 200 bytes for each event. Every group may always have one
/// batch in flight, so a node with very many groups can exceed the limit.
const INFLIGHT_EVENTS_MAX: usize = 1 << 20;

/// Maximum number of events that this node stores for another node that is down. These are events that the down node
/// should have recorded, so it must receive them when it is up again. Each down node has a limit of its own, which
/// applies to the events of all slice groups together. A stored event takes about 100 bytes.
const MISSED_EVENTS_MAX: usize = 1 << 20;

/// The slice groups of one owner.
pub(crate) struct Groups {
    /// Index of this owner.
    index: usize,
    owners: usize,
    limits: OwnerLimits,
    lease: Lease,
    doubt: Option<Reason>,
    groups: BTreeMap<GroupKey, GroupOwner>,
    view: Arc<View>,
    pub(super) kept: GroupJournals,
    /// Whether the owner has read the journal of the previous process.
    has_read: bool,
    /// Reason why the journal is not reliable.
    damage: Option<String>,
    /// Slice groups that could not be created when their records were read, with the reason. They need a restart of the
    /// process.
    unbuilt: BTreeMap<GroupKey, String>,
    /// Slice groups that have been restored from the journal. The cluster map may not list them as complete yet.
    restored: BTreeSet<GroupKey>,
    /// The start of this node that the owners act on.
    start: Option<Incarnation>,
    /// The incarnation that this node had at its newest disk problem. An incarnation is a number that identifies one
    /// start of the node. The owner serves the affected slice groups again only when the node has a new incarnation,
    /// which means that it counts as restarted.
    abandoned_in: Option<Incarnation>,
    /// Slice groups that no longer belong to this node but still have in-flight events.
    leaving: BTreeSet<GroupKey>,
    /// Slice groups that are catching up: they are receiving the events that they missed from other nodes.
    catching_up: BTreeSet<GroupKey>,
    gathered: Gathered,
}

impl Groups {
    /// Creates the state of the owner with index `index` of `owners` owners, without any slice groups.
    pub(super) fn new(index: usize, owners: usize, limits: OwnerLimits, keeper: Arc<JournalWriter>) -> Self {
        Self {
            index,
            owners,
            limits,
            lease: Lease::NONE,
            doubt: None,
            groups: BTreeMap::new(),
            view: Arc::default(),
            kept: GroupJournals::new(keeper, &limits),
            has_read: false,
            damage: None,
            unbuilt: BTreeMap::new(),
            restored: BTreeSet::new(),
            start: None,
            abandoned_in: None,
            leaving: BTreeSet::new(),
            catching_up: BTreeSet::new(),
            gathered: Gathered::default(),
        }
    }

    /// Returns the current view.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Sets the time until which the node may record events.
    pub(super) fn set_lease(&mut self, lease: Lease) {
        if std::mem::replace(&mut self.lease, lease) != lease {
            self.groups.values_mut().for_each(|group| group.set_lease(lease));
        }
    }

    /// Sets the reason why the time of day is not reliable. `None` means that the time of day is reliable.
    pub(super) fn set_doubt(&mut self, doubt: Option<Reason>) {
        if std::mem::replace(&mut self.doubt, doubt) != doubt {
            self.groups.values_mut().for_each(|group| group.set_doubt(doubt));
        }
    }

    /// Applies `work` to a slice group, and passes on the resulting commands.
    fn run<T>(
        &mut self,
        key: GroupKey,
        commands: &mut Vec<Command>,
        work: impl FnOnce(&mut GroupOwner) -> T,
    ) -> Option<T> {
        let group = self.groups.get_mut(&key)?;
        let done = work(group);
        self.gathered.hand_on(&mut self.kept, key, group, commands);
        Some(done)
    }

    /// Applies `work` to all slice groups, and passes on the resulting commands.
    fn run_all(&mut self, commands: &mut Vec<Command>, mut work: impl FnMut(&mut GroupOwner)) {
        for (key, group) in &mut self.groups {
            work(group);
            self.gathered.hand_on(&mut self.kept, *key, group, commands);
        }
    }

    /// Applies `work` to a slice group, which may collect the resulting commands for later. Returns `false` if the
    /// group is not on this node.
    fn gather(&mut self, key: GroupKey, commands: &mut Vec<Command>, work: impl FnOnce(&mut GroupOwner)) -> bool {
        let Some(group) = self.groups.get_mut(&key) else { return false };
        work(group);
        self.gathered.hand_on_later(&mut self.kept, key, group, commands);
        true
    }

    /// Returns whether a group has collected commands.
    pub(super) fn has_gathered(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Passes on the commands that the groups have collected.
    pub(super) fn send_gathered(&mut self, commands: &mut Vec<Command>) {
        while let Some(key) = self.gathered.next() {
            self.run(key, commands, |_| ());
        }
    }

    /// Acts on a new version of the cluster map, and returns the slice groups that this node cannot hold.
    pub(super) fn follow(&mut self, view: Arc<View>, now: Moment, commands: &mut Vec<Command>) -> Vec<GroupFault> {
        for lost in lost_peers(&self.view, &view) {
            self.kept.forget_sends_to(lost);
            self.run_all(commands, |group| group.peer_lost(lost, now));
        }
        self.mind_disk(&view, now, commands);
        if let Some(me) = view.me
            && self.start.replace(me.incarnation).is_some_and(|before| before != me.incarnation)
        {
            self.run_all(commands, |group| group.mark_restarted(me.incarnation, now));
        }
        let own = view.own_groups().filter(|key| Owners::index_of(self.owners, *key) == self.index);
        let own: BTreeSet<GroupKey> = own.collect();
        self.run_all(commands, |group| group.map_changed(&view.map, now));
        let others = self.groups.keys().filter(|key| !own.contains(key));
        self.leaving = others.filter(|key| view.map.filters.contains_key(&key.filter)).copied().collect();
        self.let_go(|key| own.contains(key));
        self.restored.retain(|key| own.contains(key));
        for (GroupKey { filter, group }, owner) in self.groups.iter().filter(|(_, owner)| owner.unbuilt_slices() > 0) {
            let slices = owner.unbuilt_slices();
            tracing::error!(
                %filter,
                group,
                slices,
                "there is no memory for slices that are being moved here: cancel the move, or free memory"
            );
        }
        let mut faults = Vec::new();
        let mut built = Vec::new();
        for key in own {
            match self.build(&view, key) {
                Ok(true) => built.push(key),
                Ok(false) => {}
                Err(reason) => faults.push(GroupFault { key, reason, is_of_disk: false }),
            }
        }
        self.restore(&view, &built, &faults, now);
        faults.extend(self.damaged(&view, &built));
        for GroupFault { key: GroupKey { filter, group }, reason, .. } in &faults {
            tracing::error!(%filter, group, reason, "the node cannot hold its slices of a filter");
        }
        let reason = advice::abandoned(view.disk);
        let abandoned = self.kept.abandoned();
        faults.extend(abandoned.map(|key| GroupFault { key, reason: reason.to_owned(), is_of_disk: true }));
        // All slice groups of the node share these limits, including the groups of other owners. The limits concern
        // memory, in-flight events and bytes per second.
        let groups = (view.own_groups().count() as u64).max(1);
        let inflight_events = self.limits.inflight_events_max;
        let inflight_events = inflight_events.min(inflight_events.max(INFLIGHT_EVENTS_MAX) / groups as usize);
        let shares = Shares {
            inflight_events_max: inflight_events.max(self.limits.batch_events_max),
            guard_bytes_max: (self.limits.guard_bytes_max / groups).max(GUARD_BYTES_MIN),
            claims_bytes_max: (self.limits.claims_bytes_max / groups).max(CLAIMS_BYTES_MIN),
            missed_events_max: self.limits.missed_events_max.min(MISSED_EVENTS_MAX / groups as usize),
            copied_bytes_per_s_max: (self.limits.copied_bytes_per_s_max / view.fetching_groups().max(1)).max(1),
            compared_bytes_per_s_max: (self.limits.compared_bytes_per_s_max / groups).max(1),
        };
        let stalling = view.stalling();
        self.run_all(commands, |group| {
            group.reach_changed(&stalling, now);
            group.set_shares(shares, now);
        });
        self.catching_up =
            self.groups.iter().filter(|(_, group)| group.is_catching_up()).map(|(key, _)| *key).collect();
        self.view = view;
        faults
    }

    /// Returns the number of slice groups that are catching up. This number increases only when the cluster map
    /// changes.
    pub(super) fn catching_up(&mut self) -> usize {
        let Self { groups, catching_up, .. } = self;
        catching_up.retain(|key| groups.get(key).is_some_and(GroupOwner::is_catching_up));
        catching_up.len()
    }

    /// Stops serving the slice groups that a disk problem affects. If the disk hangs, all groups that have a journal
    /// are affected. If the disk stays full, only some of these groups are affected: those that the cluster serves on
    /// other nodes without this node. The owner serves the affected groups again when the disk has recovered and the
    /// node counts as restarted.
    fn mind_disk(&mut self, view: &View, now: Moment, commands: &mut Vec<Command>) {
        let Some(me) = view.me else { return };
        if view.disk != DiskState::Hangs && self.abandoned_in.is_some_and(|start| start != me.incarnation) {
            self.abandoned_in = None;
            self.kept.take_up_again();
        }
        let abandoned = match view.disk {
            DiskState::Works => Vec::new(),
            DiskState::StaysFull => view.are_missing_here(self.kept.keys()),
            DiskState::Hangs => self.kept.keys().collect(),
        };
        let abandoned = self.kept.abandon(abandoned, commands);
        if view.disk == DiskState::Hangs || !abandoned.is_empty() {
            self.abandoned_in = Some(me.incarnation);
        }
        // In-flight events of these groups would wait for acknowledgements of messages that were never sent.
        for key in abandoned {
            self.run(key, commands, |group| group.abandon_in_flight(now));
        }
    }

    /// Removes the slice groups that no longer belong to this node, once their in-flight events have ended.
    fn let_go(&mut self, is_own: impl Fn(&GroupKey) -> bool) {
        let Self { groups, leaving, kept, .. } = self;
        leaving.retain(|key| groups.get(key).is_some_and(|group| !group.is_idle()));
        groups.retain(|key, _| is_own(key) || leaving.contains(key));
        kept.retain(|key| groups.contains_key(&key));
    }

    /// Creates a slice group if it does not exist. Returns whether it was created, or the reason why it cannot be.
    fn build(&mut self, view: &View, key: GroupKey) -> Result<bool, String> {
        let Some(me) = view.node().filter(|_| !self.groups.contains_key(&key)) else { return Ok(false) };
        if let Some(reason) = self.unbuilt.get(&key) {
            return Err(reason.clone());
        }
        let mut owner =
            GroupOwner::build(key.filter, &view.map, key.group, me, self.limits).map_err(|error| error.to_string())?;
        owner.set_lease(self.lease);
        owner.set_doubt(self.doubt);
        self.groups.insert(key, owner);
        Ok(true)
    }

    /// Prepares newly created slice groups. At the start of the process, this method restores the groups from the
    /// records of the previous process.
    fn restore(&mut self, view: &View, built: &[GroupKey], faults: &[GroupFault], now: Moment) {
        let Some(me) = view.me else { return };
        let begins = !std::mem::replace(&mut self.has_read, true);
        let mut found = BTreeMap::new();
        if begins {
            match reading::read(self.kept.keeper(), me.identity, &mut self.groups, |key| view.keeps_journal(key), now) {
                Ok(read) => found = read,
                Err(error @ (ScanError::Damage(_) | ScanError::Record { .. })) => {
                    self.damage = Some(format!("{error}: {REPAIR}"));
                }
                Err(error) => self.damage = Some(error.to_string()),
            }
            for GroupFault { key, reason, .. } in faults.iter().filter(|fault| view.keeps_journal(fault.key)) {
                self.unbuilt.insert(*key, reason.clone());
                self.kept.keep_all_of(*key);
            }
        }
        for key in built.iter().copied().filter(|key| view.keeps_journal(*key) && self.damage.is_none()) {
            let durability = view.durability(key);
            match (found.get(&key), self.groups.get(&key)) {
                (Some(Some(found)), _) => {
                    self.kept.resume(key, durability, found.base, found.is_complete);
                    if found.is_complete {
                        self.restored.insert(key);
                    }
                }
                (read, Some(owner)) => self.kept.begin(key, durability, owner, read.is_none()),
                (_, None) => {}
            }
        }
        if begins {
            self.kept.keeper().has_read(self.damage.as_ref());
        }
    }

    /// Returns the slice groups that cannot be served because their records are unreadable, and removes them.
    fn damaged(&mut self, view: &View, built: &[GroupKey]) -> Vec<GroupFault> {
        let Some(damage) = &self.damage else { return Vec::new() };
        let mut faults = Vec::new();
        for key in built.iter().copied().filter(|key| view.keeps_journal(*key)) {
            self.groups.remove(&key);
            faults.push(GroupFault { key, reason: damage.clone(), is_of_disk: false });
        }
        faults
    }

    /// Submits events to a slice group. Returns `false` if the group is not on this node.
    pub(super) fn submit(
        &mut self,
        key: GroupKey,
        submission: Submission,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> bool {
        if self.kept.is_abandoned(key) {
            return false;
        }
        if submission.operation.is_lookup() && self.kept.has(key) {
            self.kept.note_lookup(submission.reply_to);
        }
        self.gather(key, commands, |group| group.submit(submission, now))
    }

    /// Tells all groups that a producer has closed a stream.
    pub(super) fn end_producer(&mut self, producer: u128) {
        self.groups.values_mut().for_each(|group| group.end_producer(producer));
    }

    /// Passes a message of another node to its slice group. If the group is not on this node, the message is rejected.
    pub(super) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment, commands: &mut Vec<Command>) {
        let key = GroupKey::of(&message);
        if message.body.is_question() && self.kept.is_full(key) {
            return commands.extend(refuse(from, message, Reason::Overloaded));
        }
        if !self.groups.contains_key(&key) || self.kept.is_abandoned(key) {
            tracing::debug!(
                %from,
                filter = %key.filter,
                group = key.group,
                "a message for a slice group that is not on this node"
            );
            // A newer cluster map that this node does not have yet may assign the group to this node.
            let known = self.view.map.filters.get(&key.filter).map(|record| record.epoch);
            if known.is_none() && matches!(message.body, PeerBody::AskPast) {
                return;
            }
            let epoch = known.unwrap_or(message.epoch);
            return commands.extend(refuse(from, PeerMessage { epoch, ..message }, NOT_HERE));
        }
        self.gather(key, commands, |group| group.receive(from, message, now));
    }

    /// Returns cells of a slice for a backup. Returns `None` if the slice is not on this node.
    pub(super) fn read_cells(&mut self, key: GroupKey, ask: &AskCells) -> Option<BackupCells> {
        self.groups.get_mut(&key)?.read_cells(ask)
    }

    /// Writes cells from a backup, and returns the number of records that must be on the disk before the cells count as
    /// persisted.
    pub(super) fn write_cells(
        &mut self,
        key: GroupKey,
        parts: CellParts,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> Result<u64, String> {
        let put = self.run(key, commands, |group| group.write_cells(parts, now));
        put.ok_or("the slice is not on this node")?.map_err(|error| error.to_string())?;
        Ok(self.kept.records_of(key))
    }

    /// Passes the reply of another tree level to the slice group that sent the query. The reply is dropped if the group
    /// no longer exists.
    pub(super) fn climbed(&mut self, key: GroupKey, climbed: &LevelReply, now: Moment, commands: &mut Vec<Command>) {
        self.gather(key, commands, |group| group.climbed(climbed, now));
    }

    /// Returns whether a slice group must reject events because of the disk. `records` tells whether the events are to
    /// be recorded or only looked up:
    ///
    /// - Events that are to be recorded are rejected while the disk is full or slow, because their journal records
    ///   could not be written in time.
    /// - All events, including lookups, are rejected while too many commands of the owner wait for the disk.
    pub(super) fn is_disk_held_up(&self, key: GroupKey, records: bool) -> bool {
        records && self.kept.is_held_up(key) || self.kept.is_full(key)
    }

    /// Returns whether the slice group must reject new events because a link to another node is too slow. This is the
    /// case if the queue of a link that the group needs is more than half full. The other half is reserved for messages
    /// about events that are already in flight, so that these events can be completed.
    pub(super) fn is_held_up(&self, GroupKey { filter, group }: GroupKey) -> bool {
        let Some(record) = self.view.map.filters.get(&filter) else { return false };
        let slices = record.definition.slicing.slices_of(group);
        let copies = slices.flat_map(|slice| record.copies_of(slice));
        let mut links = copies.filter_map(|owner| self.view.links.get(&owner.node));
        (record.has_flights() || !record.copies.is_empty()) && links.any(LinkHandle::is_half_full)
    }

    /// Lets all slice groups process the passage of time.
    pub(super) fn tick(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.run_all(commands, |group| group.tick(now));
        if !self.leaving.is_empty() {
            let leaving = self.leaving.clone();
            self.let_go(|key| !leaving.contains(key));
        }
        let Self { kept, groups, restored, .. } = self;
        kept.checkpoint(groups, |key| restored.contains(&key) || groups.get(&key).is_some_and(GroupOwner::is_complete));
    }

    /// Returns the next monotonic time at which a slice group must act.
    pub(super) fn next_tick_ms(&self) -> Option<MonotonicMs> {
        self.groups.values().filter_map(GroupOwner::next_tick_ms).min()
    }

    /// Returns whether no event is in flight or waits to be sent to another tree level.
    pub(super) fn are_idle(&self) -> bool {
        self.kept.is_empty() && self.gathered.is_empty() && self.groups.values().all(GroupOwner::is_idle)
    }

    /// Tells all slice groups that no new work will arrive.
    pub(super) fn drain(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.run_all(commands, |group| group.drain(now));
    }

    /// Returns the states of the slice groups of `filter`, or of all filters if `filter` is `None`.
    pub(super) fn look(&mut self, filter: Option<FilterId>) -> Vec<GroupLook> {
        let asked = match filter {
            Some(filter) => GroupKey::all_of(filter),
            None => GroupKey::ALL,
        };
        let groups = self.groups.range(asked.clone()).count();
        let sample_bytes = FILL_SAMPLE_BYTES.min(LOOK_SAMPLE_BYTES / groups.max(1));
        let looks = self.groups.range_mut(asked).map(|(GroupKey { filter, group }, owner)| GroupLook {
            filter: *filter,
            group: *group,
            state: owner.state(sample_bytes),
        });
        looks.collect()
    }

    /// Returns the slice groups that have decided events without the parent level of their filter tree, and have not
    /// reported all of them yet. A group whose slices have left this node counts until it has.
    pub(super) fn owed(&self) -> Vec<(GroupKey, OwedCounts)> {
        let owed = self.groups.iter().map(|(key, owner)| (*key, owner.owed()));
        owed.filter(|(_, counts)| counts.waiting_events > 0).collect()
    }

    /// Returns the greatest clock of the slice groups of `filter`. Returns `None` if no group has a clock.
    pub(super) fn clock_ms(&self, filter: FilterId) -> Option<u64> {
        self.of(filter).filter_map(GroupOwner::clock_ms).max()
    }

    /// Returns the progress of the closed `filter` towards its end. Returns `None` if this owner has no group of the
    /// filter.
    pub(super) fn ending(&self, filter: FilterId, now: Moment) -> Option<Ending> {
        self.of(filter).map(|owner| owner.ending(now)).reduce(Ending::and)
    }

    fn of(&self, filter: FilterId) -> impl Iterator<Item = &GroupOwner> {
        self.groups.range(GroupKey::all_of(filter)).map(|(_, owner)| owner)
    }
}

/// The reason that is replied for events of a slice group that is not on this node.
pub(super) const NOT_HERE: Reason = Reason::NotReady;

/// Returns the nodes that have restarted or left the cluster between two views.
pub(super) fn lost_peers(old: &View, new: &View) -> Vec<NodeId> {
    let lost = old
        .map
        .nodes
        .iter()
        .filter(|(id, node)| new.map.nodes.get(id).is_none_or(|now| now.incarnation != node.incarnation));
    lost.map(|(id, _)| *id).collect()
}
