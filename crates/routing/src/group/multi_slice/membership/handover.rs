//! Hands over the events that a node heads when slices move to another node. While a slice is moving, the old node
//! sends the new node every reply that it gives, with the idempotency key of the submission. The old node also reports
//! when none of the events that it headed is in flight any more. The new node becomes the head of these events only
//! after this report.
//!
//! The new head of a moved slice starts to decide events when the former head has finished its events or is gone. The
//! new head also knows the replies of the former head. A producer that retries a submission therefore gets the same
//! reply from the new head as from the former one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Membership;
use crate::group::guard::ReplayGuard;
use crate::group::limits::NAMES_AWAITED_MS_MAX;
use crate::group::multi_slice::flights::{InFlightEvents, Ticket};
use crate::group::multi_slice::outbox::Outbox;
use crate::group::multi_slice::placement::{Arrival, Placement};
use crate::ids::{Epoch, Incarnation, NodeId, distinct};
use crate::map::ClusterMap;
use crate::protocol::{HandedOver, Mirrored, MonotonicMs, PeerBody};

/// Maximum time in milliseconds to wait for a former head. By then it has ended all events or was marked down.
const AWAITED_MS_MAX: u64 = 30_000;

/// Time in milliseconds after which this node asks a former head whether it has finished its events. Normally the
/// former head reports this without being asked. However, if it has restarted in the meantime, the new process may not
/// know that this node waits for the report.
const ASK_AFTER_MS: u64 = 1_000;

/// State of what this node hands over to other nodes and receives from them.
#[derive(Default)]
pub(crate) struct Handover {
    /// Nodes to which slices of this node are moving.
    targets: Vec<ReplyTarget>,
    due: Vec<Due>,
    /// Nodes to which everything was handed over recently.
    handed: Vec<Handed>,
    awaited: Vec<Awaited>,
    /// Reports that have arrived too early to be applied. Each report states that a node has finished the events whose
    /// head it was, up to an epoch that this node does not know yet. The report is applied when the cluster map with
    /// that epoch arrives. Each entry contains the epoch, and the time from which this node knows all idempotency keys
    /// of the reporting node.
    ended_ahead: BTreeMap<NodeId, (Epoch, MonotonicMs)>,
    /// The incarnations of nodes according to the last cluster map.
    starts: BTreeMap<NodeId, Incarnation>,
    /// Slices that are moving to this node.
    arrivals: Vec<Given>,
}

/// A slice that is moving to this node.
#[derive(Clone, Copy)]
struct Given {
    arrival: Arrival,
    /// Time at which the slice was assigned to this node.
    given_ms: MonotonicMs,
}

/// A node to which every reply is sent.
#[derive(Clone, Copy)]
struct ReplyTarget {
    node: NodeId,
    /// Time since which replies are sent to the node.
    since_ms: MonotonicMs,
}

/// A node to which everything was handed over.
struct Handed {
    to: ReplyTarget,
    /// Time until which the node may still wait. By a later map it may not know which of two nodes gave it the slices.
    until_ms: MonotonicMs,
}

/// A node that has taken over slices of this node.
struct Due {
    node: NodeId,
    /// Time since which every reply is sent to the node.
    since_ms: MonotonicMs,
    /// The first ticket of the events that this node headed after the other node took over.
    first_free: Ticket,
    /// The epoch by which the node has taken over.
    epoch: Epoch,
}

/// A node that headed events before and has not ended them yet.
struct Awaited {
    node: NodeId,
    start: Incarnation,
    /// The placement by which the node headed events.
    former: Placement,
    /// The epoch from which on the node no longer heads these events.
    epoch: Epoch,
    until_ms: MonotonicMs,
    next_ask_ms: MonotonicMs,
}

impl Handover {
    /// Applies a new cluster map. `former` is the placement before, and `first_free` is the ticket of the next event.
    fn follow(
        &mut self,
        map: &ClusterMap,
        former: &Placement,
        placement: &Placement,
        first_free: Ticket,
        now_ms: MonotonicMs,
    ) {
        self.follow_takeovers(former, placement, first_free, now_ms);
        for node in placement.targets() {
            if !self.targets.iter().any(|target| target.node == *node) {
                self.targets.push(ReplyTarget { node: *node, since_ms: now_ms });
            }
        }
        let nodes = placement.nodes().iter().chain(former.nodes());
        let starts = nodes.filter_map(|node| Some((*node, live_start(map, *node)?))).collect();
        let before = std::mem::replace(&mut self.starts, starts);
        for node in placement.arrived_since(former) {
            // A new start of the node has not headed any event by the map before.
            if let Some(start) = live_start(map, node).filter(|start| before.get(&node) == Some(start)) {
                self.awaited.push(Awaited {
                    node,
                    start,
                    former: former.clone(),
                    epoch: placement.epoch(),
                    until_ms: now_ms.after(AWAITED_MS_MAX),
                    next_ask_ms: now_ms.after(ASK_AFTER_MS),
                });
            }
        }
        self.awaited.retain(|awaited| live_start(map, awaited.node) == Some(awaited.start));
        self.due.retain(|due| live_start(map, due.node).is_some());
        self.arrivals.retain(|given| placement.arriving_here().contains(&given.arrival));
        for arrival in placement.arriving_here() {
            if !self.arrivals.iter().any(|known| known.arrival == *arrival) {
                self.arrivals.push(Given { arrival: *arrival, given_ms: now_ms });
            }
        }
    }

    /// Determines which nodes take over slices from this node under the new cluster map. When this node has finished
    /// the events whose head it was, it must notify each of these nodes. If an earlier notification may not have
    /// arrived, it is sent again.
    fn follow_takeovers(&mut self, former: &Placement, placement: &Placement, first_free: Ticket, now_ms: MonotonicMs) {
        let epoch = placement.epoch();
        let gone: Vec<ReplyTarget> =
            self.targets.extract_if(.., |target| !placement.targets().contains(&target.node)).collect();
        // This node may have missed the map by which the slices were moving.
        let others: Vec<ReplyTarget> = former
            .taken_from_here(placement)
            .into_iter()
            .map(|node| {
                let told = self.targets.iter().find(|target| target.node == node);
                ReplyTarget { node, since_ms: told.map_or(now_ms, |told| told.since_ms) }
            })
            .collect();
        self.handed.retain(|handed| handed.until_ms > now_ms);
        let is_next = epoch != former.epoch();
        let again: Vec<ReplyTarget> = self.handed.iter().filter(|_| is_next).map(|handed| handed.to).collect();
        for ReplyTarget { node, since_ms } in gone.into_iter().chain(others).chain(again) {
            if !self.due.iter().any(|due| due.node == node && due.epoch == epoch) {
                self.due.push(Due { node, since_ms, first_free, epoch });
            }
        }
    }

    /// Treats the node as restarted. The other nodes have continued without it, so it no longer waits for former heads.
    pub(super) fn mark_restarted(&mut self) {
        self.awaited.clear();
    }

    /// Returns the nodes that must be asked now whether they have ended their events.
    fn ask(&mut self, now_ms: MonotonicMs) -> Vec<NodeId> {
        let due = self.awaited.iter_mut().filter(|awaited| awaited.next_ask_ms <= now_ms);
        let asked = due.map(|awaited| {
            awaited.next_ask_ms = now_ms.after(ASK_AFTER_MS);
            awaited.node
        });
        distinct(asked)
    }

    /// Returns the time at which [`Membership::hand_over`] has work to do, if no other input arrives before.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        self.awaited.iter().map(|awaited| awaited.next_ask_ms.min(awaited.until_ms)).min()
    }

    /// Returns whether a former head of an event has not ended its events yet.
    pub(crate) fn awaits_head_of(&self, positions: &[u64]) -> bool {
        self.awaited.iter().any(|awaited| awaited.former.head(positions) == Some(awaited.node))
    }

    /// Returns whether another node waits until this node has ended the events that it headed.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns whether this node sends its replies to other nodes.
    pub(crate) fn sends_replies(&self) -> bool {
        !self.targets.is_empty() || !self.due.is_empty()
    }

    /// Sends replies with their idempotency keys to the nodes that may have to repeat them.
    pub(crate) fn send_replies(&self, outbox: &mut Outbox, replies: Mirrored) {
        let replies = Arc::new(replies);
        let targets = self.targets.iter().map(|target| target.node);
        for node in targets.chain(self.due.iter().map(|due| due.node)) {
            outbox.send(node, PeerBody::Mirror(None, replies.clone()));
        }
    }
}

/// Returns the incarnation of a node that is not down.
fn live_start(map: &ClusterMap, node: NodeId) -> Option<Incarnation> {
    map.nodes.get(&node).filter(|node| !node.is_down).map(|node| node.incarnation)
}

impl Membership {
    /// Applies a new cluster map.
    pub(super) fn follow_handing(
        &mut self,
        map: &ClusterMap,
        former: &Placement,
        first_free: Ticket,
        now_ms: MonotonicMs,
    ) {
        self.handing.follow(map, former, &self.placement, first_free, now_ms);
        let epoch_now = self.placement.epoch();
        let known: Vec<_> = self.handing.ended_ahead.extract_if(.., |_, (epoch, _)| *epoch <= epoch_now).collect();
        known.into_iter().for_each(|(from, (epoch, until_ms))| self.end_awaited(from, epoch, until_ms));
    }

    /// Returns the time from which this node knows all replies that it may have to repeat for a moving slice. The
    /// former owner of the slice gave these replies to producers. While the slice moves, the former owner also sends
    /// each new reply to this node, together with the reply's idempotency key.
    ///
    /// Replies that were given before the move began are missing on this node. They are no longer needed after one
    /// retry horizon, because a producer does not retry a batch after that time.
    ///
    /// This node therefore waits for one retry horizon, but not longer than [`NAMES_AWAITED_MS_MAX`] milliseconds.
    fn known_ms(&self, slice: u32, now_ms: MonotonicMs) -> MonotonicMs {
        let wait_ms = self.horizon_ms.min(NAMES_AWAITED_MS_MAX);
        let given = self.handing.arrivals.iter().filter(|given| given.arrival.slice == slice);
        let since_ms = given.map(|given| given.given_ms).filter(|_| self.placement.has_live_origin(slice)).max();
        let begun_ms = self.first_ms.unwrap_or(now_ms);
        since_ms.map_or(MonotonicMs::START, |since_ms| since_ms.max(begun_ms).after(wait_ms))
    }

    /// Returns whether this node knows all idempotency keys of a slice's events that may be retried.
    pub(super) fn knows_names_of(&self, slice: u32, now_ms: MonotonicMs) -> bool {
        self.known_ms(slice, now_ms) <= now_ms
    }

    /// Returns the next time at which [`Self::knows_names_of`] becomes true for a slice.
    pub(super) fn next_known_ms(&self, now_ms: MonotonicMs) -> Option<MonotonicMs> {
        let arrivals = self.handing.arrivals.iter().map(|given| self.known_ms(given.arrival.slice, now_ms));
        arrivals.filter(|known_ms| *known_ms > now_ms).min()
    }

    /// Notifies the nodes that have taken over, once this node has ended the events that it headed and its own former
    /// heads have ended theirs.
    pub(crate) fn hand_over(
        &mut self,
        flights: &InFlightEvents,
        guard: &ReplayGuard,
        now_ms: MonotonicMs,
        outbox: &mut Outbox,
    ) {
        self.handing.awaited.retain(|awaited| awaited.until_ms > now_ms);
        for node in self.handing.ask(now_ms) {
            // A node that has nothing of the group replies that there is nothing to end.
            outbox.send(node, PeerBody::AskPast);
        }
        if self.handing.due.is_empty() {
            return;
        }
        let Self { handing, former_heads, first_ms, .. } = self;
        // This node does not know the idempotency keys of events that other nodes headed before.
        let known_since_ms = guard.whole_since_ms().max(former_heads.gained_ms()).max(first_ms.unwrap_or_default());
        let Handover { due, awaited, handed, .. } = handing;
        let ended = due.extract_if(.., |due| {
            let is_first = awaited.iter().all(|awaited| awaited.epoch >= due.epoch);
            is_first && flights.have_ended_before(due.first_free)
        });
        for Due { node, since_ms, epoch, .. } in ended {
            handed.retain(|known| known.to.node != node);
            handed.push(Handed { to: ReplyTarget { node, since_ms }, until_ms: now_ms.after(AWAITED_MS_MAX) });
            let told_for_ms = now_ms.since(since_ms.max(known_since_ms));
            outbox.send(node, PeerBody::HandedOver(HandedOver { epoch, told_for_ms }));
        }
    }

    /// Handles the question of a node that has taken over slices, and waits until this node has finished the events
    /// whose head it was. This node replies with a notification as soon as all events have ended that are in flight
    /// now.
    ///
    /// Normally this node sends the notification without being asked. The other node asks if the notification was lost,
    /// or if this node has not received the cluster map by which the slices were taken over.
    pub(crate) fn hand_over_again(&mut self, to: NodeId, first_free: Ticket, now_ms: MonotonicMs) {
        let Self { handing, placement, .. } = self;
        if handing.due.iter().all(|due| due.node != to) {
            // The notification covers the epochs before the first epoch that this node itself still waits for.
            let awaited = handing.awaited.iter().map(|awaited| awaited.epoch).min();
            let epoch = awaited.map_or(placement.epoch(), |awaited| awaited.min(placement.epoch()));
            handing.due.push(Due { node: to, since_ms: now_ms, first_free, epoch });
        }
    }

    /// Tells the other nodes that this process was not the head of any event under earlier cluster maps. A node that
    /// has taken over slices of this node may still wait until the earlier process of this node has finished its
    /// events. That process has ended, so the message ends the wait.
    pub(super) fn hand_over_the_past(&self, outbox: &mut Outbox) {
        let handed = HandedOver { epoch: self.placement.epoch(), told_for_ms: 0 };
        self.placement.live_peers().for_each(|(peer, _)| outbox.send(peer, PeerBody::HandedOver(handed)));
    }

    /// Returns whether another node may have replied first-seen to events whose cells are not set on all nodes yet.
    /// This requires that the filter replies early, and that a former head has not reported yet that it has finished
    /// its events.
    ///
    /// The result matters when a node with slices of the group goes down. If such events exist, no remaining node knows
    /// which of them the failed node has missed.
    pub(super) fn is_owed_by_others(&self) -> bool {
        !self.replies_are_safe && !self.handing.awaited.is_empty()
    }

    /// Notes that another node has ended all events that this node took over by maps up to the reported epoch.
    pub(crate) fn receive_handed_over(&mut self, from: NodeId, handed: HandedOver, now_ms: MonotonicMs) {
        let epoch = handed.epoch;
        let until_ms = now_ms.after(self.horizon_ms.saturating_sub(handed.told_for_ms));
        if epoch > self.placement.epoch() {
            self.handing.ended_ahead.insert(from, (epoch, until_ms));
            return;
        }
        self.end_awaited(from, epoch, until_ms);
    }

    fn end_awaited(&mut self, from: NodeId, epoch: Epoch, until_ms: MonotonicMs) {
        let before = self.handing.awaited.len();
        self.handing.awaited.retain(|awaited| awaited.node != from || awaited.epoch > epoch);
        if self.handing.awaited.len() < before {
            self.former_heads.handed_over(from, epoch, until_ms);
        }
    }
}
