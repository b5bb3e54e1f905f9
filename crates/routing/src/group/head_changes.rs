//! Computes for how long claims that earlier heads of an event granted may still be active.
//!
//! A former head may have granted a claim that the new head does not know, so the new head waits until all such claims
//! have ended. A claim is granted only after all nodes that would record the event have replied, and its lease starts
//! when these nodes are asked. A node that acts under the new cluster map no longer replies to a former head. All
//! claims of former heads have therefore ended one lease after the last node has started to act under the new map.
//! Because clocks run at slightly different rates, the wait is 65/64 of the longest lease.
//!
//! As long as a former head may still have an active claim of an event, the event counts as *unsure*. The new head does
//! not know that claim, so it grants no claim of an unsure event. Otherwise two consumers could hold the event at the
//! same time.

use super::lease::CLOCK_RATE_PARTS;
use crate::ids::{Epoch, NodeId, distinct};
use crate::protocol::MonotonicMs;

/// Number of changes of heads that are stored one by one. Older changes are merged and apply to all events.
const CHANGES_MAX: usize = 16;

/// Changes of heads after which old claims may still be active, each with the former heads.
pub(crate) struct HeadChanges<Former> {
    /// Maximum lease of a claim in milliseconds, plus the drift of clocks in that time.
    wait_ms: u64,
    changes: Vec<Change<Former>>,
}

/// One change of the heads of some events.
struct Change<Former> {
    /// The former heads of these events. `None` means that any node may have been the head of any event.
    former: Option<Former>,
    /// Epoch of the cluster map that contains the change.
    epoch: Epoch,
    /// Nodes that are not yet known to act by that map.
    unheard: Vec<NodeId>,
    /// Time at which the last old claim ends. It is set once all nodes act by the new map.
    until_ms: Option<MonotonicMs>,
}

impl<Former> HeadChanges<Former> {
    pub(crate) fn new(claim_lease_max_ms: u64) -> Self {
        Self { wait_ms: claim_lease_max_ms + claim_lease_max_ms.div_ceil(CLOCK_RATE_PARTS), changes: Vec::new() }
    }

    /// Adds a change of the cluster map that has given some events a different head node. `epoch` is the epoch of the
    /// map with the change. `former` describes the heads before the change. If it is `None`, any node may have been the
    /// head of any event. `others` are the other nodes that have copies of slices.
    pub(crate) fn push(&mut self, former: Option<Former>, epoch: Epoch, others: impl Iterator<Item = NodeId>) {
        if former.is_none() {
            // The former heads are unknown, so this change covers all earlier changes and ends last.
            self.changes.clear();
        } else if self.changes.len() >= CHANGES_MAX {
            self.changes[0].former = None;
            let second = self.changes.remove(1);
            self.changes[0].unheard.extend(second.unheard);
            self.changes[0].epoch = second.epoch;
            self.changes[0].until_ms = self.changes[0].until_ms.zip(second.until_ms).map(|(one, other)| one.max(other));
        }
        self.changes.push(Change { former, epoch, unheard: others.collect(), until_ms: None });
    }

    /// Notes that node `from` acts by the map of this epoch.
    pub(crate) fn hear(&mut self, from: NodeId, epoch: Epoch) {
        for change in self.changes.iter_mut().filter(|change| change.epoch <= epoch) {
            change.unheard.retain(|node| *node != from);
        }
    }

    /// Stops waiting for nodes that no longer have copies of slices or are down.
    pub(crate) fn follow(&mut self, is_live: impl Fn(NodeId) -> bool) {
        self.changes.iter_mut().for_each(|change| change.unheard.retain(|node| is_live(*node)));
    }

    /// Notes the current time. Starts the final wait of changes that all nodes know, and removes changes whose wait has
    /// ended.
    pub(crate) fn pass(&mut self, now_ms: MonotonicMs) {
        let until_ms = now_ms.after(self.wait_ms);
        for change in self.changes.iter_mut().filter(|change| change.unheard.is_empty()) {
            change.until_ms.get_or_insert(until_ms);
        }
        self.changes.retain(|change| change.until_ms.is_none_or(|until_ms| until_ms > now_ms));
    }

    /// Returns for how many milliseconds a former head may still have an active claim of an event, or `None` if no
    /// former head can have one. The callback `counts` decides which changes of heads matter for the event. It is
    /// called with a description of the heads before each change, or with `None` if these heads are unknown.
    pub(crate) fn left_ms(&self, counts: impl Fn(Option<&Former>) -> bool, now_ms: MonotonicMs) -> Option<u64> {
        let changes = self.changes.iter().filter(|change| counts(change.former.as_ref()));
        changes.map(|change| change.until_ms.map_or(self.wait_ms, |until_ms| until_ms.since(now_ms).max(1))).max()
    }

    /// Forgets all changes, because this node heads no events.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
    }

    /// Returns whether no change of heads is pending, so that all events are sure.
    pub(crate) fn is_over(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the nodes that are not yet known to act by the newest map.
    pub(crate) fn unheard(&self) -> Vec<NodeId> {
        distinct(self.changes.iter().flat_map(|change| change.unheard.iter().copied()))
    }

    /// Returns the time at which the next change ends.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        self.changes.iter().filter_map(|change| change.until_ms).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: [NodeId; 2] = [NodeId(2), NodeId(3)];

    fn unsure(changes: u32) -> HeadChanges<u32> {
        let mut unsure = HeadChanges::new(1_000);
        (0..changes).for_each(|former| unsure.push(Some(former), Epoch(former.into()), OTHERS.into_iter()));
        unsure
    }

    fn left_ms(unsure: &HeadChanges<u32>, of: u32, now_ms: u64) -> Option<u64> {
        unsure.left_ms(|former| former.is_none_or(|former| *former == of), MonotonicMs(now_ms))
    }

    #[test]
    fn a_change_is_over_a_lease_after_the_last_node_was_heard() {
        let mut unsure = unsure(3);
        unsure.pass(MonotonicMs(50));
        assert_eq!([0, 1, 2, 3].map(|of| left_ms(&unsure, of, 50)), [Some(1_016), Some(1_016), Some(1_016), None]);
        unsure.hear(NodeId(2), Epoch(1));
        unsure.hear(NodeId(3), Epoch(0));
        unsure.pass(MonotonicMs(100));
        assert_eq!([0, 1].map(|of| left_ms(&unsure, of, 110)), [Some(1_006), Some(1_016)], "of 1, node 3 is not heard");
        assert_eq!((unsure.unheard(), unsure.next_ms()), (OTHERS.to_vec(), Some(MonotonicMs(1_116))));
        unsure.pass(MonotonicMs(1_116));
        assert_eq!([0, 1].map(|of| left_ms(&unsure, of, 1_116)), [None, Some(1_016)]);
        unsure.follow(|node| node == NodeId(2));
        unsure.hear(NodeId(2), Epoch(9));
        unsure.pass(MonotonicMs(1_200));
        assert_eq!(left_ms(&unsure, 1, 1_200), Some(1_016));
        unsure.pass(MonotonicMs(2_216));
        assert!(unsure.is_over() && left_ms(&unsure, 1, 2_216).is_none());
    }

    #[test]
    fn what_is_not_kept_one_by_one_counts_for_all_events() {
        let mut unsure = unsure(40);
        assert_eq!(left_ms(&unsure, 99, 0), Some(1_016));
        unsure.hear(NodeId(2), Epoch(99));
        unsure.hear(NodeId(3), Epoch(23));
        unsure.pass(MonotonicMs(10));
        unsure.pass(MonotonicMs(1_026));
        assert_eq!(left_ms(&unsure, 99, 1_026), Some(1_016), "change 24 is among them");
        unsure.hear(NodeId(3), Epoch(39));
        unsure.pass(MonotonicMs(1_026));
        unsure.pass(MonotonicMs(2_042));
        assert!(unsure.is_over());
    }

    #[test]
    fn a_change_of_anybody_takes_the_place_of_all_before() {
        let mut unsure = unsure(3);
        unsure.push(None, Epoch(5), std::iter::empty());
        unsure.pass(MonotonicMs(10));
        assert_eq!((left_ms(&unsure, 99, 10), unsure.unheard()), (Some(1_016), vec![]));
        unsure.pass(MonotonicMs(1_026));
        assert!(unsure.is_over());
    }
}
