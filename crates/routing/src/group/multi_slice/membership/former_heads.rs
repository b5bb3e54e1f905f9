//! Remembers which nodes were the heads of events before the cluster map changed. This knowledge is kept for as long as
//! submissions may be retried, because the reply to a retry may depend on what a former head has replied. Memory is
//! bounded: if a former head is forgotten, every node counts as a possible former head of every event.

use crate::group::multi_slice::placement::Placement;
use crate::ids::{Epoch, NodeId};
use crate::protocol::MonotonicMs;

/// Number of changes of heads that are stored one by one. Older changes apply to all events.
const CHANGES_MAX: usize = 64;

/// Time in milliseconds for which a hand-over is remembered after it has stopped mattering. It is longer than any retry
/// horizon.
const HANDED_OVER_KEPT_MS: u64 = 24 * 3_600_000;

/// The former heads of events, for as long as submissions may be retried.
#[derive(Default)]
pub(super) struct FormerHeads {
    /// Former placements.
    placements: Vec<FormerPlacement>,
    /// Time until which any event may have had another head.
    any_until_ms: MonotonicMs,
    /// Whether the heads before the start of this process are unknown.
    is_unknown: bool,
    /// Nodes that have sent all replies that they gave before some epoch.
    handed_over: Vec<KnownReplies>,
    /// The last time at which this node became the head of events that other nodes had headed.
    gained_ms: MonotonicMs,
}

/// A placement that determined the heads of events before.
struct FormerPlacement {
    placement: Placement,
    /// Time until which this placement matters.
    until_ms: MonotonicMs,
}

/// A node that has sent all replies that it gave before an epoch.
struct KnownReplies {
    node: NodeId,
    before: Epoch,
    /// Time at which the replies that are not known here stop mattering.
    until_ms: MonotonicMs,
}

impl FormerHeads {
    pub(super) fn push(&mut self, placement: Placement, until_ms: MonotonicMs, now_ms: MonotonicMs) {
        self.placements.retain(|former| former.until_ms > now_ms);
        if self.placements.len() >= CHANGES_MAX {
            self.any_until_ms = self.placements.remove(0).until_ms;
        }
        self.placements.push(FormerPlacement { placement, until_ms });
        self.handed_over.retain(|known| known.until_ms.after(HANDED_OVER_KEPT_MS) > now_ms);
    }

    /// Notes that other nodes may have headed any event before this process began.
    pub(super) fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Notes the start of the process. Earlier heads matter until `until_ms`.
    pub(super) fn begin(&mut self, until_ms: MonotonicMs) {
        if std::mem::take(&mut self.is_unknown) {
            self.any_until_ms = until_ms;
        }
    }

    /// Returns whether no submission can be retried any more that another node has headed.
    pub(super) fn are_over(&self, now_ms: MonotonicMs) -> bool {
        let are_over = self.placements.iter().all(|former| former.until_ms <= now_ms);
        !self.is_unknown && self.any_until_ms <= now_ms && are_over
    }

    /// Notes that a node has sent all replies that it gave by maps before `epoch`, except replies that stop mattering
    /// at `until_ms`.
    pub(super) fn handed_over(&mut self, node: NodeId, epoch: Epoch, until_ms: MonotonicMs) {
        self.handed_over.push(KnownReplies { node, before: epoch, until_ms });
    }

    /// Notes that this node has become the head of events that other nodes had headed.
    pub(super) fn gained(&mut self, now_ms: MonotonicMs) {
        self.gained_ms = now_ms;
    }

    /// Returns the last time at which this node became the head of events that other nodes had headed.
    pub(super) fn gained_ms(&self) -> MonotonicMs {
        self.gained_ms
    }

    /// Returns whether a node other than `me` recently headed an event with these positions.
    pub(super) fn are_elsewhere(&self, positions: &[u64], me: NodeId, now_ms: MonotonicMs) -> bool {
        if self.is_unknown || self.any_until_ms > now_ms {
            return true;
        }
        let mut lately = self.placements.iter().filter(|former| former.until_ms > now_ms);
        lately.any(|FormerPlacement { placement, .. }| match placement.head(positions) {
            Some(head) => head != me && !self.knows_replies_of(head, placement.epoch(), now_ms),
            None => true,
        })
    }

    /// Returns whether all replies are known that a node gave by the map of `epoch`, as far as they still matter.
    fn knows_replies_of(&self, node: NodeId, epoch: Epoch, now_ms: MonotonicMs) -> bool {
        let mut known = self.handed_over.iter().filter(|known| known.node == node);
        known.any(|known| known.before > epoch && known.until_ms <= now_ms)
    }
}
