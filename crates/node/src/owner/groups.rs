//! The groups of one owner, and how they follow the map.
//!
//! Promises: a group is there while the map gives this node a slice of it, and then until its events in flight are
//! over; events that a peer had in flight before it started anew are given up before the new map counts. Must not know:
//! queues, who waits for answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firstseen_filter::FILL_SAMPLE_BYTES;
use firstseen_journal::ScanError;
use firstseen_routing::{
    AskCells, BackupCells, CellParts, Climbed, Command, Ending, FilterId, GroupOwner, Incarnation, Lease, Moment,
    MonotonicMs, NodeId, OwnerLimits, PeerBody, PeerMessage, Reason, Shares, Submission, refuse,
};

use super::advice::{self, REPAIR};
use super::gathered::Gathered;
use super::kept::GroupJournals;
use super::{GroupLook, Owners, reading};
use crate::group_key::GroupKey;
use crate::keeper::{DiskState, Keeper};
use crate::link_handle::LinkHandle;
use crate::view::{GroupFault, View};

/// Bytes of cells that one look reads, unless there are so many slices that each reads its least: nothing else is done
/// meanwhile, so it must be over in some milliseconds however large the filters are.
const LOOK_SAMPLE_BYTES: usize = 16 << 20;

/// Bytes that the replay guard of a group may take however many groups there are: room for a few batches.
const GUARD_BYTES_MIN: u64 = 16 << 10;

/// Bytes that the claims of a group may take however many groups there are.
const CLAIMS_BYTES_MIN: u64 = 64 << 10;

/// Events of divided groups that a node may have in flight, of all groups together: about 200 bytes each. However many groups
/// there are, each may have a batch.
const INFLIGHT_EVENTS_MAX: usize = 1 << 20;

/// Events that a node keeps for each node that is down, of all groups together: about 100 bytes each.
const MISSED_EVENTS_MAX: usize = 1 << 20;

/// The groups of one owner.
pub(crate) struct Groups {
    /// The index of this owner.
    index: usize,
    owners: usize,
    limits: OwnerLimits,
    lease: Lease,
    doubt: Option<Reason>,
    groups: BTreeMap<GroupKey, GroupOwner>,
    view: Arc<View>,
    pub(super) kept: GroupJournals,
    /// Whether the journal of an earlier process was read.
    has_read: bool,
    /// Why the journal cannot be relied on.
    damage: Option<String>,
    /// Groups that could not be built when their records were read, and why: they need another process.
    unbuilt: BTreeMap<GroupKey, String>,
    /// Groups that have been restored, which the map may not know yet.
    restored: BTreeSet<GroupKey>,
    /// The start of this node that owners act on.
    start: Option<Incarnation>,
    /// The start in which groups with a journal were given up, as the disk hung, or some of them, as it stayed full.
    given_up_in: Option<Incarnation>,
    /// Groups of which other nodes have all slices now, and that still have events in flight.
    leaving: BTreeSet<GroupKey>,
    /// Groups that are catching up: others hand over what they have missed.
    catching_up: BTreeSet<GroupKey>,
    gathered: Gathered,
}

impl Groups {
    /// No groups yet, for owner `index` of `owners`.
    pub(super) fn new(index: usize, owners: usize, limits: OwnerLimits, keeper: Arc<Keeper>) -> Self {
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
            given_up_in: None,
            leaving: BTreeSet::new(),
            catching_up: BTreeSet::new(),
            gathered: Gathered::default(),
        }
    }

    /// The view that counts.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Until when the node may record.
    pub(super) fn set_lease(&mut self, lease: Lease) {
        if std::mem::replace(&mut self.lease, lease) != lease {
            self.groups.values_mut().for_each(|group| group.set_lease(lease));
        }
    }

    /// Why the time of day is not to be relied on, where that is so.
    pub(super) fn set_doubt(&mut self, doubt: Option<Reason>) {
        if std::mem::replace(&mut self.doubt, doubt) != doubt {
            self.groups.values_mut().for_each(|group| group.set_doubt(doubt));
        }
    }

    /// Has a group do `work`, and hands its commands on.
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

    /// The same for all groups.
    fn run_all(&mut self, commands: &mut Vec<Command>, mut work: impl FnMut(&mut GroupOwner)) {
        for (key, group) in &mut self.groups {
            work(group);
            self.gathered.hand_on(&mut self.kept, *key, group, commands);
        }
    }

    /// Has a group do `work`, whose commands may gather; false where it is not here.
    fn gather(&mut self, key: GroupKey, commands: &mut Vec<Command>, work: impl FnOnce(&mut GroupOwner)) -> bool {
        let Some(group) = self.groups.get_mut(&key) else { return false };
        work(group);
        self.gathered.hand_on_later(&mut self.kept, key, group, commands);
        true
    }

    /// Whether commands have gathered.
    pub(super) fn has_gathered(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Hands on the commands that have gathered.
    pub(super) fn send_gathered(&mut self, commands: &mut Vec<Command>) {
        while let Some(key) = self.gathered.next() {
            self.run(key, commands, |_| ());
        }
    }

    /// Follows the map; returns the groups that cannot be held.
    pub(super) fn follow(&mut self, view: Arc<View>, now: Moment, commands: &mut Vec<Command>) -> Vec<GroupFault> {
        for lost in lost_peers(&self.view, &view) {
            self.kept.forget_sends_to(lost);
            self.run_all(commands, |group| group.peer_lost(lost, now));
        }
        self.mind_disk(&view, now, commands);
        if let Some(me) = view.me
            && self.start.replace(me.incarnation).is_some_and(|before| before != me.incarnation)
        {
            self.run_all(commands, |group| group.begin_anew(me.incarnation, now));
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
            tracing::error!(%filter, group, slices, "no memory for slices on their way here: give up their move, or free some");
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
        let reason = advice::given_up(view.disk);
        let given_up = self.kept.given_up();
        faults.extend(given_up.map(|key| GroupFault { key, reason: reason.to_owned(), is_of_disk: true }));
        // What all groups of the node share, those of other owners too: memory, events in flight, bytes a second.
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

    /// Groups that are catching up; only a map makes more of them.
    pub(super) fn catching_up(&mut self) -> usize {
        let Self { groups, catching_up, .. } = self;
        catching_up.retain(|key| groups.get(key).is_some_and(GroupOwner::is_catching_up));
        catching_up.len()
    }

    /// Gives up the groups with a journal where the disk hangs; where it stays full, those that the others go on
    /// without. Takes them up again when the node counts as started anew.
    fn mind_disk(&mut self, view: &View, now: Moment, commands: &mut Vec<Command>) {
        let Some(me) = view.me else { return };
        if view.disk != DiskState::Hangs && self.given_up_in.is_some_and(|start| start != me.incarnation) {
            self.given_up_in = None;
            self.kept.take_up_again();
        }
        let given_up = match view.disk {
            DiskState::Works => Vec::new(),
            DiskState::StaysFull => view.are_missing_here(self.kept.keys()),
            DiskState::Hangs => self.kept.keys().collect(),
        };
        let given_up = self.kept.give_up(given_up, commands);
        if view.disk == DiskState::Hangs || !given_up.is_empty() {
            self.given_up_in = Some(me.incarnation);
        }
        // Events in flight there would wait for acknowledgements of messages that were not sent.
        for key in given_up {
            self.run(key, commands, |group| group.give_up_flights(now));
        }
    }

    /// Drops groups that are not this node's any more, once their events in flight are over.
    fn let_go(&mut self, is_own: impl Fn(&GroupKey) -> bool) {
        let Self { groups, leaving, kept, .. } = self;
        leaving.retain(|key| groups.get(key).is_some_and(|group| !group.is_idle()));
        groups.retain(|key, _| is_own(key) || leaving.contains(key));
        kept.retain(|key| groups.contains_key(&key));
    }

    /// Builds a group that is not there; returns whether it was built, or why it cannot be.
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

    /// Takes care of groups that were built now; at the beginning of the process, from the records of an earlier one.
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

    /// Groups that cannot be served, as their records cannot be read: they are not here.
    fn damaged(&mut self, view: &View, built: &[GroupKey]) -> Vec<GroupFault> {
        let Some(damage) = &self.damage else { return Vec::new() };
        let mut faults = Vec::new();
        for key in built.iter().copied().filter(|key| view.keeps_journal(*key)) {
            self.groups.remove(&key);
            faults.push(GroupFault { key, reason: damage.clone(), is_of_disk: false });
        }
        faults
    }

    /// Takes events up; false where the group is not here.
    pub(super) fn submit(
        &mut self,
        key: GroupKey,
        submission: Submission,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> bool {
        if self.kept.is_given_up(key) {
            return false;
        }
        if submission.operation.is_lookup() && self.kept.has(key) {
            self.kept.note_lookup(submission.reply_to);
        }
        self.gather(key, commands, |group| group.submit(submission, now))
    }

    /// A producer has ended a stream.
    pub(super) fn end_producer(&mut self, producer: u128) {
        self.groups.values_mut().for_each(|group| group.end_producer(producer));
    }

    /// Takes a message of another node. A message for a group that is not here is refused.
    pub(super) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment, commands: &mut Vec<Command>) {
        let key = GroupKey::of(&message);
        if message.body.is_question() && self.kept.is_full(key) {
            return commands.extend(refuse(from, message, Reason::Overloaded));
        }
        if !self.groups.contains_key(&key) || self.kept.is_given_up(key) {
            tracing::debug!(%from, filter = %key.filter, group = key.group, "a message for a group that is not here");
            // The group may be here by a map that has not come to this node yet.
            let known = self.view.map.filters.get(&key.filter).map(|record| record.epoch);
            if known.is_none() && matches!(message.body, PeerBody::AskPast) {
                return;
            }
            let epoch = known.unwrap_or(message.epoch);
            return commands.extend(refuse(from, PeerMessage { epoch, ..message }, NOT_HERE));
        }
        self.gather(key, commands, |group| group.receive(from, message, now));
    }

    /// Cells of a slice for a backup; none where it is not here.
    pub(super) fn read_cells(&mut self, key: GroupKey, ask: &AskCells) -> Option<BackupCells> {
        self.groups.get_mut(&key)?.read_cells(ask)
    }

    /// Puts cells of a backup in; returns how many records must be on the medium before they are persisted.
    pub(super) fn write_cells(
        &mut self,
        key: GroupKey,
        parts: CellParts,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> Result<u64, String> {
        let put = self.run(key, commands, |group| group.write_cells(parts, now));
        put.ok_or("the slice is not here")?.map_err(|error| error.to_string())?;
        Ok(self.kept.records_of(key))
    }

    /// The answer of the level above to a climb. A group that is gone need not know.
    pub(super) fn climbed(&mut self, key: GroupKey, climbed: &Climbed, now: Moment, commands: &mut Vec<Command>) {
        self.gather(key, commands, |group| group.climbed(climbed, now));
    }

    /// Whether the group takes no events that are to be persisted, as the disk is full or slow; or no events at all, as
    /// too much waits for the disk.
    pub(super) fn is_disk_held_up(&self, key: GroupKey, records: bool) -> bool {
        records && self.kept.is_held_up(key) || self.kept.is_full(key)
    }

    /// Whether one of the links that the group needs is half full: the rest is for messages that follow from events in
    /// flight already, not for more events.
    pub(super) fn is_held_up(&self, GroupKey { filter, group }: GroupKey) -> bool {
        let Some(record) = self.view.map.filters.get(&filter) else { return false };
        let slices = record.definition.slicing.slices_of(group);
        let copies = slices.flat_map(|slice| record.copies_of(slice));
        let mut links = copies.filter_map(|owner| self.view.links.get(&owner.node));
        (record.has_flights() || !record.copies.is_empty()) && links.any(LinkHandle::is_half_full)
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.run_all(commands, |group| group.tick(now));
        if !self.leaving.is_empty() {
            let leaving = self.leaving.clone();
            self.let_go(|key| !leaving.contains(key));
        }
        let Self { kept, groups, restored, .. } = self;
        kept.checkpoint(groups, |key| restored.contains(&key) || groups.get(&key).is_some_and(GroupOwner::is_complete));
    }

    /// The monotonic time at which a group has something to do.
    pub(super) fn next_tick_ms(&self) -> Option<MonotonicMs> {
        self.groups.values().filter_map(GroupOwner::next_tick_ms).min()
    }

    /// Whether no event is in flight or has still to climb.
    pub(super) fn are_idle(&self) -> bool {
        self.kept.is_empty() && self.gathered.is_empty() && self.groups.values().all(GroupOwner::is_idle)
    }

    /// Nothing new will come.
    pub(super) fn drain(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.run_all(commands, |group| group.drain(now));
    }

    /// The states of the groups of `filter`, or of all.
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

    /// The greatest clock of the groups of `filter`; none where none shows one.
    pub(super) fn clock_ms(&self, filter: FilterId) -> Option<u64> {
        self.of(filter).filter_map(GroupOwner::clock_ms).max()
    }

    /// How far the groups of the closed `filter` have come; none where there are no groups.
    pub(super) fn ending(&self, filter: FilterId, now: Moment) -> Option<Ending> {
        self.of(filter).map(|owner| owner.ending(now)).reduce(Ending::and)
    }

    fn of(&self, filter: FilterId) -> impl Iterator<Item = &GroupOwner> {
        self.groups.range(GroupKey::all_of(filter)).map(|(_, owner)| owner)
    }
}

/// The reason for events of a group that is not here.
pub(super) const NOT_HERE: Reason = Reason::NotReady;

/// Nodes whose process of the old view is gone.
pub(super) fn lost_peers(old: &View, new: &View) -> Vec<NodeId> {
    let lost = old
        .map
        .nodes
        .iter()
        .filter(|(id, node)| new.map.nodes.get(id).is_none_or(|now| now.incarnation != node.incarnation));
    lost.map(|(id, _)| *id).collect()
}
