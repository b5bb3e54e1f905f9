//! Heads that move: a node that gives a slice to another sends it every reply that it gives meanwhile, with its name,
//! and says when none of the events that it headed is in flight any more; until then the other node heads none of these
//! events.
//!
//! Promises: of the two heads of an event, one before and one after its slice has moved, the second begins when the
//! first has ended or is gone; a retry gets the same reply from either, as long as it may come. Must not know: how
//! cells move.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Membership;
use crate::group::divided::flights::{Flights, Ticket};
use crate::group::divided::outbox::Outbox;
use crate::group::divided::placement::{Arrival, Placement};
use crate::group::guard::ReplayGuard;
use crate::group::limits::NAMES_AWAITED_MS_MAX;
use crate::ids::{Epoch, Incarnation, NodeId, distinct};
use crate::map::ClusterMap;
use crate::protocol::{HandedOver, Mirrored, MonotonicMs, PeerBody};

/// A former head is not waited for any longer than this: it has had time to end all events, or to be called down.
const AWAITED_MS_MAX: u64 = 30_000;

/// After so long a former head is asked: where it has started anew in between, it may have nothing of the group, and
/// need not know that another node waits.
const ASK_AFTER_MS: u64 = 1_000;

/// What this node hands over to others, and gets from them.
#[derive(Default)]
pub(crate) struct Handing {
    /// Nodes that slices here are on their way to.
    targets: Vec<Told>,
    due: Vec<Due>,
    /// Nodes that were handed everything lately.
    handed: Vec<Handed>,
    awaited: Vec<Awaited>,
    /// Nodes that have ended ahead of this node's map, by an epoch that has not come here yet, with the time until
    /// which not all names are known.
    ended_ahead: BTreeMap<NodeId, (Epoch, MonotonicMs)>,
    /// The starts of nodes by the map that was followed last.
    starts: BTreeMap<NodeId, Incarnation>,
    /// Slices that are on their way here.
    arrivals: Vec<Given>,
}

/// A slice that is on its way here.
#[derive(Clone, Copy)]
struct Given {
    arrival: Arrival,
    /// When this node was given it.
    given_ms: MonotonicMs,
}

/// A node that is sent every reply.
#[derive(Clone, Copy)]
struct Told {
    node: NodeId,
    /// Since when.
    since_ms: MonotonicMs,
}

/// A node that was handed everything.
struct Handed {
    to: Told,
    /// Until then the other may still wait, because by a later map it may not know which of two nodes gave it the
    /// slices.
    until_ms: MonotonicMs,
}

/// A node that has taken over.
struct Due {
    node: NodeId,
    /// Since when it is sent every reply.
    since_ms: MonotonicMs,
    /// The ticket from which on this node has headed none of the other's events.
    first_free: Ticket,
    /// The epoch by which it has taken over.
    epoch: Epoch,
}

/// A node that headed events before, and has not ended yet.
struct Awaited {
    node: NodeId,
    start: Incarnation,
    /// The placement by which it headed events.
    former: Placement,
    /// The epoch from which on it heads them no more.
    epoch: Epoch,
    until_ms: MonotonicMs,
    next_ask_ms: MonotonicMs,
}

impl Handing {
    /// Follows the map: `former` is the placement before, `first_free` the ticket of the next event.
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
                self.targets.push(Told { node: *node, since_ms: now_ms });
            }
        }
        let nodes = placement.nodes().iter().chain(former.nodes());
        let starts = nodes.filter_map(|node| Some((*node, live_start(map, *node)?))).collect();
        let before = std::mem::replace(&mut self.starts, starts);
        for node in placement.arrived_since(former) {
            // A new start of the node has headed nothing by the map before.
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

    /// Adds the nodes that took slices over from this one by the new map to those that it must notify when it has ended
    /// the events that it headed. Nodes that may not have received that notification stay among them.
    fn follow_takeovers(&mut self, former: &Placement, placement: &Placement, first_free: Ticket, now_ms: MonotonicMs) {
        let epoch = placement.epoch();
        let gone: Vec<Told> =
            self.targets.extract_if(.., |target| !placement.targets().contains(&target.node)).collect();
        // The map by which the slices were on their way may have gone by unseen.
        let others: Vec<Told> = former
            .taken_from_here(placement)
            .into_iter()
            .map(|node| {
                let told = self.targets.iter().find(|target| target.node == node);
                Told { node, since_ms: told.map_or(now_ms, |told| told.since_ms) }
            })
            .collect();
        self.handed.retain(|handed| handed.until_ms > now_ms);
        let is_next = epoch != former.epoch();
        let again: Vec<Told> = self.handed.iter().filter(|_| is_next).map(|handed| handed.to).collect();
        for Told { node, since_ms } in gone.into_iter().chain(others).chain(again) {
            if !self.due.iter().any(|due| due.node == node && due.epoch == epoch) {
                self.due.push(Due { node, since_ms, first_free, epoch });
            }
        }
    }

    /// The node counts as started anew: the others have gone on without it, and the nodes that it awaited owe it
    /// nothing any more.
    pub(super) fn begin_anew(&mut self) {
        self.awaited.clear();
    }

    /// The nodes to ask now whether they have ended.
    fn ask(&mut self, now_ms: MonotonicMs) -> Vec<NodeId> {
        let due = self.awaited.iter_mut().filter(|awaited| awaited.next_ask_ms <= now_ms);
        let asked = due.map(|awaited| {
            awaited.next_ask_ms = now_ms.after(ASK_AFTER_MS);
            awaited.node
        });
        distinct(asked)
    }

    /// When [`Membership::hand_over`] has something to do, if nothing comes.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        self.awaited.iter().map(|awaited| awaited.next_ask_ms.min(awaited.until_ms)).min()
    }

    /// Whether a former head of an event has not ended yet.
    pub(crate) fn awaits_head_of(&self, positions: &[u64]) -> bool {
        self.awaited.iter().any(|awaited| awaited.former.head(positions) == Some(awaited.node))
    }

    /// Whether another node waits for this one to end the events that it has headed.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether replies of this node are sent to other nodes.
    pub(crate) fn sends_replies(&self) -> bool {
        !self.targets.is_empty() || !self.due.is_empty()
    }

    /// Sends the replies under a name to the nodes that may have to repeat them.
    pub(crate) fn send_replies(&self, outbox: &mut Outbox, replies: Mirrored) {
        let replies = Arc::new(replies);
        let targets = self.targets.iter().map(|target| target.node);
        for node in targets.chain(self.due.iter().map(|due| due.node)) {
            outbox.send(node, PeerBody::Mirror(None, replies.clone()));
        }
    }
}

/// The start of a node that is not down.
fn live_start(map: &ClusterMap, node: NodeId) -> Option<Incarnation> {
    map.nodes.get(&node).filter(|node| !node.is_down).map(|node| node.incarnation)
}

impl Membership {
    /// The map has changed.
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

    /// When all names of a slice's events that may come again are known here, where the node that the slice comes from
    /// sends them.
    fn known_ms(&self, slice: u32, now_ms: MonotonicMs) -> MonotonicMs {
        let wait_ms = self.horizon_ms.min(NAMES_AWAITED_MS_MAX);
        let given = self.handing.arrivals.iter().filter(|given| given.arrival.slice == slice);
        let since_ms = given.map(|given| given.given_ms).filter(|_| self.placement.has_live_origin(slice)).max();
        let begun_ms = self.first_ms.unwrap_or(now_ms);
        since_ms.map_or(MonotonicMs::START, |since_ms| since_ms.max(begun_ms).after(wait_ms))
    }

    /// Whether all names of a slice's events that may come again are known here.
    pub(super) fn knows_names_of(&self, slice: u32, now_ms: MonotonicMs) -> bool {
        self.known_ms(slice, now_ms) <= now_ms
    }

    /// When that will be so of the next slice.
    pub(super) fn next_known_ms(&self, now_ms: MonotonicMs) -> Option<MonotonicMs> {
        let arrivals = self.handing.arrivals.iter().map(|given| self.known_ms(given.arrival.slice, now_ms));
        arrivals.filter(|known_ms| *known_ms > now_ms).min()
    }

    /// Sends the nodes that have taken over word that this node has ended the events that it headed, once it has, and
    /// once former heads have.
    pub(crate) fn hand_over(
        &mut self,
        flights: &Flights,
        guard: &ReplayGuard,
        now_ms: MonotonicMs,
        outbox: &mut Outbox,
    ) {
        self.handing.awaited.retain(|awaited| awaited.until_ms > now_ms);
        for node in self.handing.ask(now_ms) {
            // A node that has nothing of the group answers that there is nothing to end.
            outbox.send(node, PeerBody::AskPast);
        }
        if self.handing.due.is_empty() {
            return;
        }
        let Self { handing, former_heads, first_ms, .. } = self;
        // This node does not know the names of events that others headed before.
        let known_since_ms = guard.whole_since_ms().max(former_heads.gained_ms()).max(first_ms.unwrap_or_default());
        let Handing { due, awaited, handed, .. } = handing;
        let ended = due.extract_if(.., |due| {
            let is_first = awaited.iter().all(|awaited| awaited.epoch >= due.epoch);
            is_first && flights.have_ended_before(due.first_free)
        });
        for Due { node, since_ms, epoch, .. } in ended {
            handed.retain(|known| known.to.node != node);
            handed.push(Handed { to: Told { node, since_ms }, until_ms: now_ms.after(AWAITED_MS_MAX) });
            let told_for_ms = now_ms.since(since_ms.max(known_since_ms));
            outbox.send(node, PeerBody::HandedOver(HandedOver { epoch, told_for_ms }));
        }
    }

    /// Another node asks. It may wait for an answer that it has not got, or for one that this node does not know it
    /// owes, as it has seen several maps as one: it gets the answer once all events in flight have ended.
    pub(crate) fn hand_over_again(&mut self, to: NodeId, first_free: Ticket, now_ms: MonotonicMs) {
        let Self { handing, placement, .. } = self;
        if handing.due.iter().all(|due| due.node != to) {
            // The answer is for epochs before the first of those that this node itself still awaits.
            let awaited = handing.awaited.iter().map(|awaited| awaited.epoch).min();
            let epoch = awaited.map_or(placement.epoch(), |awaited| awaited.min(placement.epoch()));
            handing.due.push(Due { node: to, since_ms: now_ms, first_free, epoch });
        }
    }

    /// This process has headed nothing by the maps before its first: a node that has taken over by one of these may
    /// know of its start and wait for it.
    pub(super) fn hand_over_the_past(&self, outbox: &mut Outbox) {
        let handed = HandedOver { epoch: self.placement.epoch(), told_for_ms: 0 };
        self.placement.live_peers().for_each(|(peer, _)| outbox.send(peer, PeerBody::HandedOver(handed)));
    }

    /// Whether another node that had slices may have given the reply first-seen for events that not all nodes have set
    /// yet. If a node goes down now, no node with slices knows which of these events it misses. The other does not end
    /// such events before they are set here by the map that says so.
    pub(super) fn is_owed_by_others(&self) -> bool {
        !self.replies_are_safe && !self.handing.awaited.is_empty()
    }

    /// Another node has ended all events that this one has taken over by maps up to that epoch.
    pub(crate) fn hear_handed_over(&mut self, from: NodeId, handed: HandedOver, now_ms: MonotonicMs) {
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
