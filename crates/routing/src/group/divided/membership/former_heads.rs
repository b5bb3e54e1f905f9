//! Who headed events before, for as long as submissions may come again.
//!
//! Promises: memory is bounded; a former head that is forgotten is taken for the former head of all events. Must not
//! know: replies.

use crate::group::divided::placement::Placement;
use crate::ids::{Epoch, NodeId};
use crate::protocol::MonotonicMs;

/// So many changes of heads are kept one by one; older ones count for all events.
const CHANGES_MAX: usize = 64;

/// A hand-over is remembered for so long after it has ceased to matter: longer than any retry horizon.
const HANDED_OVER_KEPT_MS: u64 = 24 * 3_600_000;

/// Who headed events before, for as long as submissions may come again.
#[derive(Default)]
pub(super) struct FormerHeads {
    /// Former placements.
    placements: Vec<FormerPlacement>,
    /// Until this time any event may have had another head.
    any_until_ms: MonotonicMs,
    /// The heads before this process began are not known.
    is_unknown: bool,
    /// Nodes that have sent all replies that they gave before an epoch.
    handed_over: Vec<KnownReplies>,
    /// When this node became the head of events that others have headed, last.
    gained_ms: MonotonicMs,
}

/// A placement by which events were headed before.
struct FormerPlacement {
    placement: Placement,
    /// Until when it matters.
    until_ms: MonotonicMs,
}

/// A node that has sent all replies that it gave before an epoch.
struct KnownReplies {
    node: NodeId,
    before: Epoch,
    /// When those that are not known here stop mattering.
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

    /// Others may have headed any event before this process began.
    pub(super) fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// The process begins; earlier heads matter until `until_ms`.
    pub(super) fn begin(&mut self, until_ms: MonotonicMs) {
        if std::mem::take(&mut self.is_unknown) {
            self.any_until_ms = until_ms;
        }
    }

    /// Whether no submission may come again that another node has headed.
    pub(super) fn are_over(&self, now_ms: MonotonicMs) -> bool {
        let are_over = self.placements.iter().all(|former| former.until_ms <= now_ms);
        !self.is_unknown && self.any_until_ms <= now_ms && are_over
    }

    /// A node has sent all replies that it gave by maps before `epoch`, but for those that stop mattering at
    /// `until_ms`.
    pub(super) fn handed_over(&mut self, node: NodeId, epoch: Epoch, until_ms: MonotonicMs) {
        self.handed_over.push(KnownReplies { node, before: epoch, until_ms });
    }

    /// This node has become the head of events that others have headed.
    pub(super) fn gained(&mut self, now_ms: MonotonicMs) {
        self.gained_ms = now_ms;
    }

    /// When this node has last become the head of events that others have headed.
    pub(super) fn gained_ms(&self) -> MonotonicMs {
        self.gained_ms
    }

    /// Whether another node than `me` headed an event of these positions lately.
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

    /// Whether all replies that a node gave by the map of `epoch` are known, as far as they matter.
    fn knows_replies_of(&self, node: NodeId, epoch: Epoch, now_ms: MonotonicMs) -> bool {
        let mut known = self.handed_over.iter().filter(|known| known.node == node);
        known.any(|known| known.before > epoch && known.until_ms <= now_ms)
    }
}
