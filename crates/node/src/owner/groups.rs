//! The groups of one owner, and how they follow the map.
//!
//! Promises: a group is there exactly while the map gives this node a slice of it; what a peer that was started anew
//! had in flight is let go before the new map counts. Must not know: queues, who waits for answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_filter::FILL_SAMPLE_BYTES;
use firstseen_routing::divided::Climbed;
use firstseen_routing::{
    Command, FilterId, GroupOwner, Moment, NodeId, OwnerLimits, PeerMessage, Reason, SliceOwner, Submission, divided,
};

use super::{GroupLook, Owners};
use crate::links::LinkHandle;
use crate::view::{GroupFault, View};

/// Bytes of cells that one look reads, unless there are so many slices that each reads its least: nothing else is done
/// meanwhile, so it must be over in some milliseconds however large the filters are.
const LOOK_SAMPLE_BYTES: usize = 16 << 20;

/// What the replay guard of a group may take however many groups there are: a few batches.
const GUARD_BYTES_MIN: u64 = 16 << 10;

/// The groups of one owner.
pub(super) struct Groups {
    /// Which of the owners this is.
    index: usize,
    owners: usize,
    limits: OwnerLimits,
    groups: BTreeMap<(FilterId, u32), GroupOwner>,
    view: Arc<View>,
}

impl Groups {
    /// None yet, for owner `index` of `owners`.
    pub(super) fn new(index: usize, owners: usize, limits: OwnerLimits) -> Self {
        Self { index, owners, limits, groups: BTreeMap::new(), view: Arc::default() }
    }

    /// The view that counts.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Follows the map; what could not be done.
    pub(super) fn follow(&mut self, view: Arc<View>, now: Moment, commands: &mut Vec<Command>) -> Vec<GroupFault> {
        for lost in lost_peers(&self.view, &view) {
            self.groups.values_mut().for_each(|group| group.peer_lost(lost, now, commands));
        }
        let is_mine = |filter, group| Owners::index_of(self.owners, filter, group) == self.index;
        let own: Vec<_> = view.own_groups().filter(|(filter, group)| is_mine(*filter, *group)).collect();
        self.groups.retain(|key, _| own.binary_search(key).is_ok());
        for group in self.groups.values_mut() {
            group.map_changed(&view.map, now, commands);
        }
        let mut faults = Vec::new();
        for (filter, group) in own {
            if let Some(reason) = self.build(&view, filter, group) {
                tracing::error!(%filter, group, reason, "the node cannot hold its slices of a filter");
                faults.push(GroupFault { filter, group, reason });
            }
        }
        // The node's memory for it, shared by all groups that it has, those of other owners too.
        let guard_bytes_max = self.limits.guard_bytes_max / (view.own_groups().count() as u64).max(1);
        for group in self.groups.values_mut() {
            group.reach_changed(&view.unreachable, now, commands);
            group.set_guard_bytes_max(guard_bytes_max.max(GUARD_BYTES_MIN), now);
        }
        self.view = view;
        faults
    }

    /// Builds a group that is not there; why it cannot be.
    fn build(&mut self, view: &View, filter: FilterId, group: u32) -> Option<String> {
        if self.groups.contains_key(&(filter, group)) {
            return None;
        }
        let me = view.node()?;
        match GroupOwner::build(filter, &view.map, group, me, self.limits) {
            Ok(owner) => {
                self.groups.insert((filter, group), owner);
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// Takes events up; false where the group is not here.
    pub(super) fn submit(
        &mut self,
        key: (FilterId, u32),
        submission: Submission,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> bool {
        let Some(group) = self.groups.get_mut(&key) else { return false };
        group.submit(submission, now, commands);
        true
    }

    /// Takes a message of another node. What is asked of a group that is not here is refused.
    pub(super) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment, commands: &mut Vec<Command>) {
        match self.groups.get_mut(&(message.filter, message.group)) {
            Some(group) => group.receive(from, message, now, commands),
            None => {
                let (filter, group) = (message.filter, message.group);
                tracing::debug!(%from, %filter, group, "a message for a group that is not here");
                commands.extend(divided::refuse(from, message, NOT_HERE));
            }
        }
    }

    /// What the level above says of a climb. A group that is gone need not know.
    pub(super) fn climbed(
        &mut self,
        key: (FilterId, u32),
        climbed: &Climbed,
        now: Moment,
        commands: &mut Vec<Command>,
    ) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.climbed(climbed, now, commands);
        }
    }

    /// Whether one of the links that the group needs is half full: room for what follows from events that are in
    /// flight already, not for more of them.
    pub(super) fn is_held_up(&self, (filter, group): (FilterId, u32)) -> bool {
        let Some(record) = self.view.map.filters.get(&filter) else { return false };
        let slicing = record.definition.slicing;
        let per_group = slicing.slices_per_group() as usize;
        let owners = record.owners.chunks(per_group.max(1)).nth(group as usize).unwrap_or_default();
        let link = |owner: &SliceOwner| self.view.links.get(&owner.node);
        slicing.divides_cells() && owners.iter().filter_map(link).any(LinkHandle::is_half_full)
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.groups.values_mut().for_each(|group| group.tick(now, commands));
    }

    /// The monotonic time at which a group has something to do.
    pub(super) fn next_tick_ms(&self) -> Option<u64> {
        self.groups.values().filter_map(GroupOwner::next_tick_ms).min()
    }

    /// Whether nothing is in flight, and nothing is left to be brought up.
    pub(super) fn are_idle(&self) -> bool {
        self.groups.values().all(|group| group.inflight_events() == 0 && group.journal_events() == 0)
    }

    /// Nothing new will come.
    pub(super) fn drain(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.groups.values_mut().for_each(|group| group.drain(now, commands));
    }

    /// The states of the groups of `filter`, or of all.
    pub(super) fn look(&mut self, filter: Option<FilterId>) -> Vec<GroupLook> {
        let is_asked = |of: &FilterId| filter.is_none_or(|filter| filter == *of);
        let asked = self.groups.keys().filter(|(of, _)| is_asked(of)).count();
        let sample_bytes = FILL_SAMPLE_BYTES.min(LOOK_SAMPLE_BYTES / asked.max(1));
        let groups = self.groups.iter_mut().filter(|((of, _), _)| is_asked(of));
        let look = |((filter, group), owner): (&(FilterId, u32), &mut GroupOwner)| GroupLook {
            filter: *filter,
            group: *group,
            state: owner.state(sample_bytes),
        };
        groups.map(look).collect()
    }

    /// The greatest clock of the groups of `filter`; 0 where none shows one.
    pub(super) fn clock_ms(&self, filter: FilterId) -> u64 {
        self.groups.range((filter, 0)..=(filter, u32::MAX)).map(|(_, owner)| owner.clock_ms()).max().unwrap_or(0)
    }
}

/// The reason for events of a group that is not here.
pub(super) const NOT_HERE: Reason = Reason::NotReady;

/// Nodes whose process of the old view is gone.
pub(super) fn lost_peers(old: &View, new: &View) -> Vec<NodeId> {
    let is_lost = |(id, node): (&NodeId, &firstseen_routing::NodeRecord)| {
        let same = new.map.nodes.get(id).is_some_and(|now| now.incarnation == node.incarnation);
        (!same).then_some(*id)
    };
    old.map.nodes.iter().filter_map(is_lost).collect()
}
