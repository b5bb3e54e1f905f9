//! For how long claims that earlier heads of an event have granted may still run.
//!
//! A grant needs the answers of all nodes that would record the event. The claim's lease runs from when these nodes
//! were asked, and a node that acts by the new map answers no former head. So all old grants are over one lease after
//! the last node acts by the new map: after 65/64 of it, as clocks do not go at one rate.
//!
//! Promises: while a change is not over, events that had another head before it are unsure; memory is bounded. Must not
//! know: claims, how nodes are asked.

use super::lease::CLOCK_RATE_PARTS;
use crate::ids::{Epoch, NodeId, distinct};
use crate::protocol::MonotonicMs;

/// So many changes of heads are kept one by one; older ones count for all events.
const CHANGES_MAX: usize = 16;

/// Changes of heads that may not be over, each with what is known of heads before it.
pub(crate) struct Unsure<Former> {
    /// The greatest lease of a claim, and what clocks may differ in that time.
    wait_ms: u64,
    changes: Vec<Change<Former>>,
}

/// Events have other heads.
struct Change<Former> {
    /// Who headed them before; none where that may be anybody.
    former: Option<Former>,
    /// The epoch of the map that says so.
    epoch: Epoch,
    /// Nodes that are not known to act by that map.
    unheard: Vec<NodeId>,
    /// When it is over, once all are.
    until_ms: Option<MonotonicMs>,
}

impl<Former> Unsure<Former> {
    pub(crate) fn new(claim_lease_max_ms: u64) -> Self {
        Self { wait_ms: claim_lease_max_ms + claim_lease_max_ms.div_ceil(CLOCK_RATE_PARTS), changes: Vec::new() }
    }

    /// By the map of this epoch some events have another head than they had by `former`, and these nodes have copies of
    /// slices.
    pub(crate) fn push(&mut self, former: Option<Former>, epoch: Epoch, others: impl Iterator<Item = NodeId>) {
        if former.is_none() {
            // Nothing is known of the former heads: this change covers all those before it, and ends last.
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

    /// A message of a node that acts by the map of this epoch.
    pub(crate) fn hear(&mut self, from: NodeId, epoch: Epoch) {
        for change in self.changes.iter_mut().filter(|change| change.epoch <= epoch) {
            change.unheard.retain(|node| *node != from);
        }
    }

    /// Nodes that have no copies of slices any more, or are down, need not be heard.
    pub(crate) fn follow(&mut self, is_live: impl Fn(NodeId) -> bool) {
        self.changes.iter_mut().for_each(|change| change.unheard.retain(|node| is_live(*node)));
    }

    /// Time has passed.
    pub(crate) fn pass(&mut self, now_ms: MonotonicMs) {
        let until_ms = now_ms.after(self.wait_ms);
        for change in self.changes.iter_mut().filter(|change| change.unheard.is_empty()) {
            change.until_ms.get_or_insert(until_ms);
        }
        self.changes.retain(|change| change.until_ms.is_none_or(|until_ms| until_ms > now_ms));
    }

    /// For how long another node may still hold an event, as far as is known; none where no other node can. `counts` gets the former
    /// heads of a change (none: anybody), and says whether the change concerns that event.
    pub(crate) fn left_ms(&self, counts: impl Fn(Option<&Former>) -> bool, now_ms: MonotonicMs) -> Option<u64> {
        let changes = self.changes.iter().filter(|change| counts(change.former.as_ref()));
        changes.map(|change| change.until_ms.map_or(self.wait_ms, |until_ms| until_ms.since(now_ms).max(1))).max()
    }

    /// This node heads no events.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
    }

    /// Whether all events are sure.
    pub(crate) fn is_over(&self) -> bool {
        self.changes.is_empty()
    }

    /// Nodes that are not known to act by the newest map.
    pub(crate) fn unheard(&self) -> Vec<NodeId> {
        distinct(self.changes.iter().flat_map(|change| change.unheard.iter().copied()))
    }

    /// When the next change is over.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        self.changes.iter().filter_map(|change| change.until_ms).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: [NodeId; 2] = [NodeId(2), NodeId(3)];

    fn unsure(changes: u32) -> Unsure<u32> {
        let mut unsure = Unsure::new(1_000);
        (0..changes).for_each(|former| unsure.push(Some(former), Epoch(former.into()), OTHERS.into_iter()));
        unsure
    }

    fn left_ms(unsure: &Unsure<u32>, of: u32, now_ms: u64) -> Option<u64> {
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
