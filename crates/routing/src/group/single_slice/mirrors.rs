//! Replication of a slice that contains all positions of its events. One copy of the slice answers producers. It sends
//! its records, together with its replies, to all other copies in the same order. It does not send a reply to a
//! producer before the other copies have acknowledged the record that contains the reply.
//!
//! # Guarantees
//!
//! - Replies are sent in the order of their submissions. When a reply is sent, every earlier record is on all copies
//!   that are live by the cluster map. Earlier records include those of the copy that answered before this one.
//! - A copy can reject a record because it was sent by an outdated map. Such a record is sent again by the next map, or
//!   its replies become unknown.
//! - A record for which a copy has no room is sent again until there is room.
//!
//! This module does not depend on cells or on the contents of records.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::received::ReceivedRecords;
use crate::group::site::{Sender, Site};
use crate::ids::{Epoch, Incarnation, NodeId};
use crate::map::{COPIES_MAX, ClusterMap, FilterRecord, SliceOwner};
use crate::protocol::{Command, GroupReply, MirrorNumber, Mirrored, MonotonicMs, PeerBody};
use crate::verdict::{Reason, make_unknown};

/// Maximum number of events in records that are kept although another copy answers now.
const ABANDONED_EVENTS_MAX: usize = 1 << 17;

/// Time in milliseconds after which a record is sent again to a copy that had no room for it. Meanwhile events expire
/// there.
const RETRY_MS: u64 = 1_000;

/// A copy of the slice on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copy {
    node: NodeId,
    start: Incarnation,
    is_gone: bool,
    is_complete: bool,
}

impl Copy {
    fn of(owner: &SliceOwner, map: &ClusterMap) -> Self {
        Self {
            node: owner.node,
            start: start_of(owner.node, map),
            is_gone: map.is_gone(owner),
            is_complete: map.is_complete_copy(owner),
        }
    }
}

fn start_of(node: NodeId, map: &ClusterMap) -> Incarnation {
    map.nodes.get(&node).map_or(Incarnation::default(), |node| node.incarnation)
}

/// A record or reply that waits for other copies.
enum WaitingRecords {
    /// A record that was made here, with the copies that have not acknowledged it yet.
    Mirrored { number: u64, mirrored: Arc<Mirrored>, missing: Vec<NodeId> },
    /// A reply to a producer, with the monotonic time of its deadline.
    Reply(Box<GroupReply>, MonotonicMs),
}

impl WaitingRecords {
    /// Returns whether this is a record that some copy has not acknowledged.
    fn awaits_copies(&self) -> bool {
        matches!(self, Self::Mirrored { missing, .. } if !missing.is_empty())
    }

    /// Returns the deadline of a reply, or `None` for a record.
    fn deadline_ms(&self) -> Option<MonotonicMs> {
        match self {
            Self::Reply(_, deadline_ms) => Some(*deadline_ms),
            Self::Mirrored { .. } => None,
        }
    }
}

/// The other copies of a slice, and what waits for them.
pub(super) struct Mirrors {
    /// The filter, the group, and the epoch of the last cluster map.
    sender: Sender,
    others: Vec<Copy>,
    /// The copy that answers (the leader), with the incarnation of its node.
    asked: Option<(NodeId, Incarnation)>,
    /// Whether this copy is the one that answers.
    is_asked: bool,
    /// Records that were received from other copies and applied here.
    pub(super) heard: ReceivedRecords,
    is_gone_here: bool,
    /// Whether events may have been recorded without this copy since it was last complete.
    has_gap_here: bool,
    /// Epoch since which the slice is moving to this node. `None` if it is not moving here.
    arriving_since: Option<Epoch>,
    /// Whether the node from which the slice moves here is not gone. That node then also sends its replies to
    /// idempotency keys.
    has_live_origin: bool,
    unreachable: Vec<NodeId>,
    held: VecDeque<WaitingRecords>,
    held_events: usize,
    /// Records that were made here before another copy started to answer. They may be on no other copy.
    abandoned: VecDeque<Arc<Mirrored>>,
    /// Records that copies have rejected, each as a copy and a record number, and the time at which they are sent
    /// again.
    refused: Option<(BTreeSet<(NodeId, u64)>, MonotonicMs)>,
    next_number: u64,
}

impl Mirrors {
    /// Creates the state without any copies, before the first cluster map. Record numbers differ from those of earlier
    /// processes.
    pub(super) fn new(site: &Site) -> Self {
        Self {
            sender: Sender { filter: site.filter, epoch: Epoch::default(), group: site.group },
            others: Vec::new(),
            asked: None,
            is_asked: true,
            heard: ReceivedRecords::default(),
            is_gone_here: false,
            has_gap_here: false,
            arriving_since: None,
            has_live_origin: false,
            unreachable: Vec::new(),
            held: VecDeque::new(),
            held_events: 0,
            abandoned: VecDeque::new(),
            refused: None,
            next_number: site.first_number(),
        }
    }

    /// Applies a new cluster map, which determines the answering copy, that is, the copy of the slice that answers
    /// producers. If this copy is the answering copy now, it sends all unacknowledged records again, including those
    /// that it received from the previous answering copy. If a different copy is the answering copy now, the replies
    /// that still wait on this node become unknown.
    ///
    /// Returns `true` if some remembered replies may never have reached their producers, in which case this copy must
    /// forget them.
    pub(super) fn follow(
        &mut self,
        map: &ClusterMap,
        record: &FilterRecord,
        me: NodeId,
        commands: &mut Vec<Command>,
    ) -> bool {
        let group = self.sender.group;
        let copies = record.copies_of(group).take(COPIES_MAX);
        let others: Vec<Copy> = copies.filter(|owner| owner.node != me).map(|owner| Copy::of(owner, map)).collect();
        let is_new = self.sender.epoch != record.epoch || self.others != others;
        let epochs = record.epoch.since(self.sender.epoch);
        self.sender.epoch = record.epoch;
        self.others = others;
        let asked = map.asked(record, group).map(|asked| (asked.node, start_of(asked.node, map)));
        let asked_before = std::mem::replace(&mut self.asked, asked);
        self.is_asked = asked.is_some_and(|(node, _)| node == me);
        let own = record.copies_of(group).find(|copy| copy.node == me);
        self.is_gone_here = own.is_none_or(|own| map.is_gone(own));
        self.has_gap_here = own.is_some_and(|own| own.has_gap);
        self.arriving_since = record.arriving_since(group, me);
        let origin = record.moves().find(|way| way.slice == group && way.to == me).map(|way| way.from);
        let has_live_origin = self.live().any(|copy| Some(copy.node) == origin);
        self.has_live_origin = has_live_origin;
        if !self.is_asked || self.is_gone_here {
            let had_held = !self.held.is_empty();
            self.abandon(commands);
            // If this node missed a map, another copy may have answered in between.
            let may_differ = epochs > 1 || asked != asked_before;
            return may_differ && self.heard.follow(asked.map(|(node, _)| node), record.epoch) || had_held;
        }
        let is_void = epochs > 0 && !self.take_over(asked_before.map(|(node, _)| node), epochs, commands);
        if is_new {
            self.send_again(commands);
        }
        is_void
    }

    /// Makes this copy the one that answers producers. It first sends two sorts of records to the other copies, because
    /// some of them may lack these records. The first sort are the records that it received from the previous answering
    /// copy. The second sort are the records that it made itself when it was the answering copy earlier.
    ///
    /// Returns whether the replies in the received records are still valid. They are not valid if this node has missed
    /// cluster maps. A third copy may have been the answering copy under one of these maps, and may have sent different
    /// replies.
    fn take_over(&mut self, before: Option<NodeId>, epochs: u64, commands: &mut Vec<Command>) -> bool {
        let (heard, is_all) = self.heard.take_from(before);
        let counts = is_all && (epochs == 1 || heard.is_empty());
        if !counts {
            self.abandon(commands);
        }
        let heard =
            heard.into_iter().map(|mirrored| if counts { mirrored } else { Arc::new(without_replies(&mirrored)) });
        for mirrored in std::mem::take(&mut self.abandoned).into_iter().chain(heard) {
            self.held_events += mirrored.weight();
            self.held.push_back(WaitingRecords::Mirrored { number: 0, mirrored, missing: Vec::new() });
        }
        counts
    }

    /// Returns whether other nodes have a copy of the slice.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns the reason why this copy answers no submission, or `None` if it answers.
    pub(super) fn refusal(&self, events_max: usize) -> Option<Reason> {
        match () {
            () if !self.is_asked => Some(Reason::StaleMap),
            () if self.live().any(|copy| self.unreachable.contains(&copy.node)) => Some(Reason::SlicesDown),
            () if self.held_events > events_max => Some(Reason::Overloaded),
            () => None,
        }
    }

    /// Returns whether this copy may accept a message that was sent by a map of `epoch`.
    pub(super) fn takes(&self, epoch: Epoch) -> bool {
        epoch >= self.sender.epoch
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.sender.epoch
    }

    pub(super) fn has_gap_here(&self) -> bool {
        self.has_gap_here
    }

    /// Returns the epoch since which the slice is moving to this node, or `None` if it is not moving here.
    pub(super) fn arriving_since(&self) -> Option<Epoch> {
        self.arriving_since
    }

    /// Returns whether the node from which the slice moves here is not gone.
    pub(super) fn has_live_origin(&self) -> bool {
        self.has_live_origin
    }

    pub(super) fn is_gone_here(&self) -> bool {
        self.is_gone_here
    }

    /// Returns the copy that answers, if it is a complete copy on another node.
    pub(super) fn other_that_answers(&self) -> Option<NodeId> {
        let (answering, _) = self.asked.filter(|_| !self.is_asked)?;
        self.live().find(|copy| copy.node == answering && copy.is_complete).map(|copy| copy.node)
    }

    /// Returns the complete copies from which cells may be fetched.
    pub(super) fn sources(&self) -> impl Iterator<Item = (u32, NodeId)> {
        self.others.iter().filter(|copy| copy.is_complete).map(|copy| (0, copy.node))
    }

    pub(super) fn set_unreachable(&mut self, nodes: impl Iterator<Item = NodeId>) {
        self.unreachable = nodes.collect();
    }

    fn live(&self) -> impl Iterator<Item = &Copy> {
        self.others.iter().filter(|copy| !copy.is_gone)
    }

    /// Returns the other nodes that have the slice and are not gone.
    pub(super) fn live_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.live().map(|copy| copy.node)
    }

    /// Returns whether no record or reply waits for other copies.
    pub(super) fn awaits_nothing(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns whether this copy answers and is not gone.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked && !self.is_gone_here
    }

    /// Sends the record of a batch that was recorded and decided here to the other copies. The record precedes all
    /// later replies.
    pub(super) fn push(&mut self, mirrored: Mirrored, commands: &mut Vec<Command>) {
        let missing: Vec<NodeId> = self.live().map(|copy| copy.node).collect();
        if missing.is_empty() {
            return;
        }
        let number = self.next_number;
        let mirrored = Arc::new(mirrored);
        self.next_number += 1;
        self.held_events += mirrored.weight();
        let first_held = self.held.iter().find_map(|held| match held {
            WaitingRecords::Mirrored { number, .. } => Some(*number),
            WaitingRecords::Reply(..) => None,
        });
        let acknowledged_below = first_held.unwrap_or(number);
        let as_number = MirrorNumber { number, acknowledged_below };
        missing.iter().for_each(|node| commands.push(self.message(*node, as_number, &mirrored)));
        self.held.push_back(WaitingRecords::Mirrored { number, mirrored, missing });
    }

    fn message(&self, to: NodeId, number: MirrorNumber, mirrored: &Arc<Mirrored>) -> Command {
        self.send(to, PeerBody::Mirror(Some(number), mirrored.clone()))
    }

    /// Returns a command that sends a message about the group.
    pub(super) fn send(&self, to: NodeId, body: PeerBody) -> Command {
        self.sender.send(to, body)
    }

    /// Sends a reply as soon as all earlier records are on all copies.
    pub(super) fn reply(&mut self, reply: GroupReply, deadline_ms: MonotonicMs, commands: &mut Vec<Command>) {
        if self.held.is_empty() {
            commands.push(Command::Reply(reply))
        } else {
            self.held_events += reply.answers.len();
            self.held.push_back(WaitingRecords::Reply(Box::new(reply), deadline_ms));
        }
    }

    /// Sends records again to a copy that rejected them because it did not know yet that it is a copy.
    pub(super) fn send_again_to_new_copy(&self, to: NodeId, refused: &[u64], commands: &mut Vec<Command>) {
        for held in &self.held {
            if let WaitingRecords::Mirrored { number, mirrored, missing } = held
                && refused.contains(number)
                && missing.contains(&to)
            {
                let number = MirrorNumber { number: *number, acknowledged_below: 0 };
                commands.push(self.message(to, number, mirrored));
            }
        }
    }

    /// Schedules records that another copy has rejected to be sent again. The other copy acts under the same cluster
    /// map, so an outdated map is not the reason. Usually it has no room for the records, or cannot open another
    /// generation, until some of its events expire. A later attempt then succeeds. It may also have lost the slice, or
    /// its disk may hang. In these two cases, a new cluster map follows soon.
    pub(super) fn refused(&mut self, of: NodeId, refused: &[u64], now_ms: MonotonicMs) {
        let lacking = self.held.iter().filter_map(|held| match held {
            WaitingRecords::Mirrored { number, missing, .. } if refused.contains(number) && missing.contains(&of) => {
                Some((of, *number))
            }
            _ => None,
        });
        let mut lacking = lacking.peekable();
        if lacking.peek().is_some() {
            self.refused.get_or_insert((BTreeSet::new(), now_ms.after(RETRY_MS))).0.extend(lacking);
        }
    }

    /// Sends records again that copies have rejected, if it is time.
    fn send_again_refused(&mut self, now_ms: MonotonicMs, commands: &mut Vec<Command>) {
        let Some((refused, _)) = self.refused.take_if(|(_, retry_ms)| *retry_ms <= now_ms) else { return };
        for held in &self.held {
            let WaitingRecords::Mirrored { number, mirrored, missing } = held else { continue };
            let again = MirrorNumber { number: *number, acknowledged_below: 0 };
            let lacking = missing.iter().filter(|node| refused.contains(&(**node, *number)));
            lacking.for_each(|node| commands.push(self.message(*node, again, mirrored)));
        }
    }

    /// Notes that a copy has acknowledged records. Records that it rejected because of its map are sent again with the
    /// next map.
    pub(super) fn acknowledged(&mut self, from: NodeId, done: &[u64], commands: &mut Vec<Command>) {
        for held in &mut self.held {
            if let WaitingRecords::Mirrored { number, missing, .. } = held
                && done.contains(number)
            {
                missing.retain(|node| *node != from);
            }
        }
        self.release(commands);
    }

    fn release(&mut self, commands: &mut Vec<Command>) {
        while let Some(held) = self.held.pop_front_if(|held| !held.awaits_copies()) {
            match held {
                WaitingRecords::Reply(reply, _) => {
                    self.held_events = self.held_events.saturating_sub(reply.answers.len());
                    commands.push(Command::Reply(*reply));
                }
                WaitingRecords::Mirrored { mirrored, .. } => {
                    self.held_events = self.held_events.saturating_sub(mirrored.weight());
                }
            }
        }
    }

    /// Sends all records again, by a new map or to a new start of a node. A record that a copy receives twice changes
    /// nothing.
    fn send_again(&mut self, commands: &mut Vec<Command>) {
        let live: Vec<NodeId> = self.live().map(|copy| copy.node).collect();
        let mut held = std::mem::take(&mut self.held);
        for held in &mut held {
            if let WaitingRecords::Mirrored { number, mirrored, missing } = held {
                // Earlier acknowledgements no longer count, because they may come from an earlier start of the node.
                missing.clone_from(&live);
                *number = self.next_number;
                self.next_number += 1;
                // A copy that received the record under its previous number keeps it until it gets the new number.
                let number = MirrorNumber { number: *number, acknowledged_below: 0 };
                live.iter().for_each(|node| commands.push(self.message(*node, number, mirrored)));
            }
        }
        self.held = held;
        self.release(commands);
    }

    /// Treats the node as restarted. The records that it received say nothing about later replies of other copies.
    pub(super) fn mark_restarted(&mut self, first_number: u64, commands: &mut Vec<Command>) {
        self.abandon(commands);
        self.heard.clear();
        self.next_number = first_number;
    }

    /// Stops waiting for acknowledgements of the other copies, because a different copy may answer producers from now
    /// on. This node does not know whether that copy has received the records that were made here. The replies that
    /// still wait on this node therefore become unknown.
    pub(super) fn abandon(&mut self, commands: &mut Vec<Command>) {
        self.held_events = 0;
        for held in std::mem::take(&mut self.held) {
            match held {
                WaitingRecords::Reply(reply, _) => commands.push(Command::Reply(unknown(*reply))),
                WaitingRecords::Mirrored { mirrored, .. } => {
                    self.abandoned.push_back(Arc::new(without_replies(&mirrored)))
                }
            }
        }
        // No more records are kept than an answering copy may hold. The remaining differences are found when copies are
        // compared.
        let mut events: usize = self.abandoned.iter().map(|mirrored| mirrored.weight()).sum();
        while events > ABANDONED_EVENTS_MAX
            && let Some(oldest) = self.abandoned.pop_front()
        {
            events -= oldest.weight();
        }
    }

    /// Replies to submissions that have passed their deadline, and sends records again that are due.
    pub(super) fn expire(&mut self, now_ms: MonotonicMs, commands: &mut Vec<Command>) {
        self.send_again_refused(now_ms, commands);
        for index in (0..self.held.len()).rev() {
            if self.held[index].deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms)
                && let Some(WaitingRecords::Reply(reply, _)) = self.held.remove(index)
            {
                self.held_events = self.held_events.saturating_sub(reply.answers.len());
                commands.push(Command::Reply(unknown(*reply)));
            }
        }
        self.release(commands);
    }

    /// Returns the time at which [`Self::expire`] is due.
    pub(super) fn next_expiry_ms(&self) -> Option<MonotonicMs> {
        let retry_ms = self.refused.as_ref().map(|(_, retry_ms)| *retry_ms);
        self.held.iter().filter_map(WaitingRecords::deadline_ms).chain(retry_ms).min()
    }

    /// Returns the number of events whose records or replies wait.
    pub(super) fn held_events(&self) -> usize {
        self.held_events
    }
}

/// Returns the reply with unknown verdicts, because the events may or may not be recorded on other copies. Undecided
/// events stay as they are.
fn unknown(mut reply: GroupReply) -> GroupReply {
    reply.answers.abandon();
    reply
}

/// Returns the record without its replies.
fn without_replies(mirrored: &Mirrored) -> Mirrored {
    let mut without_replies = mirrored.clone();
    make_unknown(&mut without_replies.decisions);
    without_replies
}
