//! Copies (replicas) of a slice that has all positions of its events: the copy that answers sends its records, with the
//! replies, to the others in one order, and sends no reply before they have acknowledged the records.
//!
//! Promises: replies are sent in the order of their submissions, each after every earlier record is on all copies that
//! are live by the map. Earlier records are those made here, and those of the copy that answered before this one. A
//! record that a copy refuses, as it was sent by a map that is over, is sent again by the next map, or its replies
//! become unknown; one that a copy has no room for is sent again until it has. Must not know: cells, what is recorded.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::heard::Heard;
use crate::group::site::{Sender, Site};
use crate::ids::{Epoch, Incarnation, NodeId};
use crate::map::{COPIES_MAX, ClusterMap, FilterRecord, SliceOwner};
use crate::protocol::{Command, GroupReply, MirrorNumber, Mirrored, MonotonicMs, PeerBody};
use crate::verdict::{Reason, make_unknown};

/// Events of records that are kept though another copy has answered since.
const GIVEN_UP_EVENTS_MAX: usize = 1 << 17;

/// A record for which a copy has no room is sent there again after so long: meanwhile events expire there.
const AGAIN_MS: u64 = 1_000;

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

/// A record or a reply that waits for other copies.
enum HeldBack {
    /// A record that was made here, with the copies that have not acknowledged it.
    Mirrored { number: u64, mirrored: Arc<Mirrored>, missing: Vec<NodeId> },
    /// A reply, with the monotonic time of its deadline.
    Reply(GroupReply, MonotonicMs),
}

impl HeldBack {
    /// Whether it is a record that some copy has not acknowledged.
    fn awaits_copies(&self) -> bool {
        matches!(self, Self::Mirrored { missing, .. } if !missing.is_empty())
    }

    /// The deadline of a reply.
    fn deadline_ms(&self) -> Option<MonotonicMs> {
        match self {
            Self::Reply(_, deadline_ms) => Some(*deadline_ms),
            Self::Mirrored { .. } => None,
        }
    }
}

/// The copies of a slice, as one of them sees the others.
pub(super) struct Mirrors {
    /// The filter, the group, and the epoch of the map that was followed last.
    sender: Sender,
    others: Vec<Copy>,
    /// The copy that answers (the leader), with the start of its node.
    asked: Option<(NodeId, Incarnation)>,
    /// Whether this copy answers.
    is_asked: bool,
    /// Records of other copies that were taken here.
    pub(super) heard: Heard,
    is_gone_here: bool,
    /// Events may have been recorded without this copy since it was last complete.
    has_gap_here: bool,
    /// The epoch since which the slice is moving here, where it is.
    arriving_since: Option<Epoch>,
    /// Whether the node that it comes from is not gone: then that node sends its replies to names, too.
    has_live_origin: bool,
    unreachable: Vec<NodeId>,
    held: VecDeque<HeldBack>,
    held_events: usize,
    /// Records that were made here, and may be on no other copy, as another copy has answered since.
    given_up: VecDeque<Arc<Mirrored>>,
    /// Records, by the copy that has refused them and their number, and when they are sent again.
    refused: Option<(BTreeSet<(NodeId, u64)>, MonotonicMs)>,
    next_number: u64,
}

impl Mirrors {
    /// No copies, before the first map; the numbers of records are apart from those of another process.
    pub(super) fn new(site: &Site) -> Self {
        Self {
            sender: Sender { filter: site.filter, epoch: Epoch::default(), group: site.group },
            others: Vec::new(),
            asked: None,
            is_asked: true,
            heard: Heard::default(),
            is_gone_here: false,
            has_gap_here: false,
            arriving_since: None,
            has_live_origin: false,
            unreachable: Vec::new(),
            held: VecDeque::new(),
            held_events: 0,
            given_up: VecDeque::new(),
            refused: None,
            next_number: site.first_number(),
        }
    }

    /// Follows the map. Where this copy answers, records that are not acknowledged, also those of the copy that
    /// answered before, are sent again by the new map; where another copy answers, the replies that wait become
    /// unknown. Returns true if replies to names that this copy remembers may never have reached producers: then it has to
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
            self.give_up(commands);
            // If a map was missed, another copy may have answered in between.
            let may_differ = epochs > 1 || asked != asked_before;
            return may_differ && self.heard.follow(asked.map(|(node, _)| node), record.epoch) || had_held;
        }
        let is_void = epochs > 0 && !self.take_over(asked_before.map(|(node, _)| node), epochs, commands);
        if is_new {
            self.send_again(commands);
        }
        is_void
    }

    /// This copy answers from now on: the records that it has taken from the one before, and those that it made when it
    /// answered last, must get to all copies. Returns whether the replies of these records count, too. They do not
    /// where maps were missed: by one of those maps another copy may have answered, with other replies.
    fn take_over(&mut self, before: Option<NodeId>, epochs: u64, commands: &mut Vec<Command>) -> bool {
        let (heard, is_all) = self.heard.take_from(before);
        let counts = is_all && (epochs == 1 || heard.is_empty());
        if !counts {
            self.give_up(commands);
        }
        let heard = heard.into_iter().map(|mirrored| if counts { mirrored } else { Arc::new(untold(&mirrored)) });
        for mirrored in std::mem::take(&mut self.given_up).into_iter().chain(heard) {
            self.held_events += mirrored.weight();
            self.held.push_back(HeldBack::Mirrored { number: 0, mirrored, missing: Vec::new() });
        }
        counts
    }

    /// Whether other nodes have the slice, too.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Why this copy answers no submission.
    pub(super) fn refusal(&self, events_max: usize) -> Option<Reason> {
        match () {
            () if !self.is_asked => Some(Reason::StaleMap),
            () if self.live().any(|copy| self.unreachable.contains(&copy.node)) => Some(Reason::SlicesDown),
            () if self.held_events > events_max => Some(Reason::Overloaded),
            () => None,
        }
    }

    /// Whether this copy may take a message that was sent by a map of `epoch`.
    pub(super) fn takes(&self, epoch: Epoch) -> bool {
        epoch >= self.sender.epoch
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.sender.epoch
    }

    pub(super) fn has_gap_here(&self) -> bool {
        self.has_gap_here
    }

    /// The epoch since which the slice is moving here, where it is.
    pub(super) fn arriving_since(&self) -> Option<Epoch> {
        self.arriving_since
    }

    /// Whether the node that the slice comes from is not gone.
    pub(super) fn has_live_origin(&self) -> bool {
        self.has_live_origin
    }

    pub(super) fn is_gone_here(&self) -> bool {
        self.is_gone_here
    }

    /// The copy that answers, if that is another one which has everything.
    pub(super) fn other_that_answers(&self) -> Option<NodeId> {
        let (answering, _) = self.asked.filter(|_| !self.is_asked)?;
        self.live().find(|copy| copy.node == answering && copy.is_complete).map(|copy| copy.node)
    }

    /// Complete copies, from which cells may be fetched.
    pub(super) fn sources(&self) -> impl Iterator<Item = (u32, NodeId)> {
        self.others.iter().filter(|copy| copy.is_complete).map(|copy| (0, copy.node))
    }

    pub(super) fn set_unreachable(&mut self, nodes: impl Iterator<Item = NodeId>) {
        self.unreachable = nodes.collect();
    }

    fn live(&self) -> impl Iterator<Item = &Copy> {
        self.others.iter().filter(|copy| !copy.is_gone)
    }

    /// Nodes that have the slice, too, and are not gone.
    pub(super) fn live_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.live().map(|copy| copy.node)
    }

    /// Whether no record or reply waits for other copies.
    pub(super) fn awaits_nothing(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether this copy answers, and is not gone.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked && !self.is_gone_here
    }

    /// A batch was recorded and decided here: the other copies get the record, ahead of all later replies.
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
            HeldBack::Mirrored { number, .. } => Some(*number),
            HeldBack::Reply(..) => None,
        });
        let acknowledged_below = first_held.unwrap_or(number);
        let as_number = MirrorNumber { number, acknowledged_below };
        missing.iter().for_each(|node| commands.push(self.message(*node, as_number, &mirrored)));
        self.held.push_back(HeldBack::Mirrored { number, mirrored, missing });
    }

    fn message(&self, to: NodeId, number: MirrorNumber, mirrored: &Arc<Mirrored>) -> Command {
        self.send(to, PeerBody::Mirror(Some(number), mirrored.clone()))
    }

    /// A message about the group.
    pub(super) fn send(&self, to: NodeId, body: PeerBody) -> Command {
        self.sender.send(to, body)
    }

    /// Sends a reply, once all earlier records are on all copies.
    pub(super) fn reply(&mut self, reply: GroupReply, deadline_ms: MonotonicMs, commands: &mut Vec<Command>) {
        if self.held.is_empty() {
            commands.push(Command::Reply(reply))
        } else {
            self.held_events += reply.answers.len();
            self.held.push_back(HeldBack::Reply(reply, deadline_ms));
        }
    }

    /// A copy did not know yet that it is one: it gets its records again.
    pub(super) fn send_again_to_new_copy(&self, to: NodeId, refused: &[u64], commands: &mut Vec<Command>) {
        for held in &self.held {
            if let HeldBack::Mirrored { number, mirrored, missing } = held
                && refused.contains(number)
                && missing.contains(&to)
            {
                let number = MirrorNumber { number: *number, acknowledged_below: 0 };
                commands.push(self.message(to, number, mirrored));
            }
        }
    }

    /// A copy that has the same map has refused records: it gets these again later. It may have had no room, or as many
    /// generations as there may be, and events expire; where its disk hangs or its slice is gone, a map says so soon.
    pub(super) fn refused(&mut self, of: NodeId, refused: &[u64], now_ms: MonotonicMs) {
        let lacking = self.held.iter().filter_map(|held| match held {
            HeldBack::Mirrored { number, missing, .. } if refused.contains(number) && missing.contains(&of) => {
                Some((of, *number))
            }
            _ => None,
        });
        let mut lacking = lacking.peekable();
        if lacking.peek().is_some() {
            self.refused.get_or_insert((BTreeSet::new(), now_ms.after(AGAIN_MS))).0.extend(lacking);
        }
    }

    /// Sends the records again, if it is time, that copies have refused.
    fn send_again_refused(&mut self, now_ms: MonotonicMs, commands: &mut Vec<Command>) {
        let Some((refused, _)) = self.refused.take_if(|(_, again_ms)| *again_ms <= now_ms) else { return };
        for held in &self.held {
            let HeldBack::Mirrored { number, mirrored, missing } = held else { continue };
            let again = MirrorNumber { number: *number, acknowledged_below: 0 };
            let lacking = missing.iter().filter(|node| refused.contains(&(**node, *number)));
            lacking.for_each(|node| commands.push(self.message(*node, again, mirrored)));
        }
    }

    /// A copy has acknowledged records. Records that it has refused are sent again when the next map comes.
    pub(super) fn acknowledged(&mut self, from: NodeId, done: &[u64], commands: &mut Vec<Command>) {
        for held in &mut self.held {
            if let HeldBack::Mirrored { number, missing, .. } = held
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
                HeldBack::Reply(reply, _) => {
                    self.held_events = self.held_events.saturating_sub(reply.answers.len());
                    commands.push(Command::Reply(reply));
                }
                HeldBack::Mirrored { mirrored, .. } => {
                    self.held_events = self.held_events.saturating_sub(mirrored.weight());
                }
            }
        }
    }

    /// Sends all records again by another map, or to another start of a node: a record that is taken twice changes
    /// nothing.
    fn send_again(&mut self, commands: &mut Vec<Command>) {
        let live: Vec<NodeId> = self.live().map(|copy| copy.node).collect();
        let mut held = std::mem::take(&mut self.held);
        for held in &mut held {
            if let HeldBack::Mirrored { number, mirrored, missing } = held {
                // Acknowledgements so far no longer count: they may be of an earlier start.
                missing.clone_from(&live);
                *number = self.next_number;
                self.next_number += 1;
                // A copy that has taken the record under its last number keeps it until it gets this number.
                let number = MirrorNumber { number: *number, acknowledged_below: 0 };
                live.iter().for_each(|node| commands.push(self.message(*node, number, mirrored)));
            }
        }
        self.held = held;
        self.release(commands);
    }

    /// The node counts as started anew: the records that it has taken say nothing of later replies of other copies.
    pub(super) fn begin_anew(&mut self, first_number: u64, commands: &mut Vec<Command>) {
        self.give_up(commands);
        self.heard.clear();
        self.next_number = first_number;
    }

    /// Another copy answers from now on, or may: it may or may not have the records that were made here.
    pub(super) fn give_up(&mut self, commands: &mut Vec<Command>) {
        self.held_events = 0;
        for held in std::mem::take(&mut self.held) {
            match held {
                HeldBack::Reply(reply, _) => commands.push(Command::Reply(unknown(reply))),
                HeldBack::Mirrored { mirrored, .. } => self.given_up.push_back(Arc::new(untold(&mirrored))),
            }
        }
        // Keeps no more than a copy that answers may hold; further records are found when copies are compared.
        let mut events: usize = self.given_up.iter().map(|mirrored| mirrored.weight()).sum();
        while events > GIVEN_UP_EVENTS_MAX
            && let Some(oldest) = self.given_up.pop_front()
        {
            events -= oldest.weight();
        }
    }

    /// Answers submissions that have passed their deadline, and sends what is to be sent again.
    pub(super) fn expire(&mut self, now_ms: MonotonicMs, commands: &mut Vec<Command>) {
        self.send_again_refused(now_ms, commands);
        for index in (0..self.held.len()).rev() {
            if self.held[index].deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms)
                && let Some(HeldBack::Reply(reply, _)) = self.held.remove(index)
            {
                self.held_events = self.held_events.saturating_sub(reply.answers.len());
                commands.push(Command::Reply(unknown(reply)));
            }
        }
        self.release(commands);
    }

    /// When [`Self::expire`] is due.
    pub(super) fn next_expiry_ms(&self) -> Option<MonotonicMs> {
        let again_ms = self.refused.as_ref().map(|(_, again_ms)| *again_ms);
        self.held.iter().filter_map(HeldBack::deadline_ms).chain(again_ms).min()
    }

    /// Events whose records or replies wait.
    pub(super) fn held_events(&self) -> usize {
        self.held_events
    }
}

/// The reply with unknown verdicts, as the events may be recorded elsewhere or not; undecided events stay as they are.
fn unknown(mut reply: GroupReply) -> GroupReply {
    reply.answers.give_up();
    reply
}

/// The record without its replies.
fn untold(mirrored: &Mirrored) -> Mirrored {
    let mut untold = mirrored.clone();
    make_unknown(&mut untold.decisions);
    untold
}
