//! The groups of one owner, and how they follow the map.
//!
//! Promises: a group is there exactly while the map gives this node a slice of it; what a peer that was started anew
//! had in flight is let go before the new map counts. Must not know: queues, who waits for answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_routing::{Command, FilterId, GroupOwner, Moment, NodeId, OwnerLimits, PeerMessage, Reason, Submission};

use super::{GroupLook, Owners};
use crate::view::{GroupFault, View};

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

    /// Takes a message of another node. One for a group that is not here gets no answer: its sender's own deadline, or
    /// the map on its way to it, ends what it waits for.
    pub(super) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment, commands: &mut Vec<Command>) {
        match self.groups.get_mut(&(message.filter, message.group)) {
            Some(group) => group.receive(from, message, now, commands),
            None => {
                let (filter, group) = (message.filter, message.group);
                tracing::debug!(%from, %filter, group, "a message for a group that is not here");
            }
        }
    }

    /// A message of a group could not be sent: what is in flight to that node is lost to it.
    pub(super) fn unsent(&mut self, to: NodeId, key: (FilterId, u32), now: Moment, commands: &mut Vec<Command>) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.peer_lost(to, now, commands);
        }
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.groups.values_mut().for_each(|group| group.tick(now, commands));
    }

    /// The monotonic time at which a group has something to do.
    pub(super) fn next_tick_ms(&self) -> Option<u64> {
        self.groups.values().filter_map(GroupOwner::next_tick_ms).min()
    }

    /// Whether nothing is in flight.
    pub(super) fn are_idle(&mut self) -> bool {
        self.groups.values_mut().all(|group| group.state().inflight_events == 0)
    }

    /// Nothing new will come.
    pub(super) fn drain(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.groups.values_mut().for_each(|group| group.drain(now, commands));
    }

    /// The states of the groups of `filter`, or of all.
    pub(super) fn look(&mut self, filter: Option<FilterId>) -> Vec<GroupLook> {
        let asked = self.groups.iter_mut().filter(|((of, _), _)| filter.is_none_or(|filter| filter == *of));
        asked
            .map(|((filter, group), owner)| GroupLook { filter: *filter, group: *group, state: owner.state() })
            .collect()
    }
}

/// The reason for events of a group that is not here.
pub(super) const NOT_HERE: Reason = Reason::NotReady;

/// Nodes whose process of the old view is gone.
fn lost_peers(old: &View, new: &View) -> Vec<NodeId> {
    let is_lost = |(id, node): (&NodeId, &firstseen_routing::NodeRecord)| {
        let same = new.map.nodes.get(id).is_some_and(|now| now.incarnation == node.incarnation);
        (!same).then_some(*id)
    };
    old.map.nodes.iter().filter_map(is_lost).collect()
}
