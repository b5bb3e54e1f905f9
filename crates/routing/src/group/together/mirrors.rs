//! Copies of a slice that has all positions of its events: what the one that answers has recorded and told goes to the
//! others in the same order, and nobody is told before they have it.
//!
//! Promises: replies leave in the order in which they were given, each behind all that was recorded before it, here or by the
//! copy that answered before this one, on every copy that the map names as live; what a copy could not take, as the map by
//! which it was sent is over, is sent again by the next, or its replies are unknown. Must not know: cells, what is recorded.

use std::collections::VecDeque;
use std::sync::Arc;

use super::heard::Heard;
use crate::group::site::{Sender, Site};
use crate::ids::{Incarnation, NodeId};
use crate::map::{COPIES_MAX, ClusterMap, FilterRecord, SliceOwner};
use crate::protocol::{Command, GroupReply, MirrorNumber, Mirrored, PeerBody};
use crate::verdict::{Decision, Reason};

/// Events of a group that are kept though another copy has answered since.
const GIVEN_UP_EVENTS_MAX: usize = 1 << 17;

/// A copy of the slice on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copy {
    node: NodeId,
    start: Incarnation,
    is_down: bool,
    is_complete: bool,
}

/// What waits.
enum Held {
    /// Something that was recorded, for the copies that have not acknowledged it.
    Record { number: u64, mirrored: Arc<Mirrored>, missing: Vec<NodeId> },
    /// An answer, with the monotonic time after which nobody waits for it.
    Reply(GroupReply, u64),
}

/// The copies of a slice, as one of them sees the others.
pub(super) struct Mirrors {
    /// By the map that was followed last.
    sender: Sender,
    others: Vec<Copy>,
    /// The copy that answers, with its start.
    asked: Option<(NodeId, Incarnation)>,
    /// Whether that is this one.
    is_asked: bool,
    heard: Heard,
    is_down_here: bool,
    /// Events may have been recorded without this copy since it was complete last.
    has_gap_here: bool,
    /// Since which epoch the slice is on its way here, where it is.
    arriving_since: Option<u64>,
    /// Whoever it comes from tells what is told under which name.
    has_live_origin: bool,
    unreachable: Vec<NodeId>,
    held: VecDeque<Held>,
    held_events: usize,
    /// What was recorded here, and may be on no other copy, as another one has answered since.
    given_up: VecDeque<Arc<Mirrored>>,
    next_number: u64,
}

impl Mirrors {
    /// None, before the first map; numbers are apart from those of another process.
    pub(super) fn new(site: &Site) -> Self {
        Self {
            sender: Sender { filter: site.filter, epoch: 0, group: site.group },
            others: Vec::new(),
            asked: None,
            is_asked: true,
            heard: Heard::default(),
            is_down_here: false,
            has_gap_here: false,
            arriving_since: None,
            has_live_origin: false,
            unreachable: Vec::new(),
            held: VecDeque::new(),
            held_events: 0,
            given_up: VecDeque::new(),
            next_number: site.first_number(),
        }
    }

    /// Follows the map. What is not acknowledged is sent again by it where this copy answers, that of the copy that answered
    /// before, too; what had been told by then is unknown where another does. Whether something was told under names here, or
    /// is known to have been told, that may have been told by nobody.
    pub(super) fn follow(
        &mut self,
        map: &ClusterMap,
        record: &FilterRecord,
        me: NodeId,
        commands: &mut Vec<Command>,
    ) -> bool {
        let start = |node: NodeId| map.nodes.get(&node).map_or(Incarnation::default(), |node| node.incarnation);
        let copy = |copy: &SliceOwner| {
            let (is_down, is_complete) = (map.is_gone(copy), map.is_complete_copy(copy));
            Copy { node: copy.node, start: start(copy.node), is_down, is_complete }
        };
        let group = self.sender.group;
        let copies = record.copies_of(group).take(COPIES_MAX);
        let others: Vec<Copy> = copies.filter(|owner| owner.node != me).map(copy).collect();
        let is_new = self.sender.epoch != record.epoch || self.others != others;
        let epochs = record.epoch.saturating_sub(self.sender.epoch);
        (self.sender.epoch, self.others) = (record.epoch, others);
        let asked = map.asked(record, group).map(|asked| (asked.node, start(asked.node)));
        let asked_before = std::mem::replace(&mut self.asked, asked);
        self.is_asked = asked.is_some_and(|(node, _)| node == me);
        let own = record.copies_of(group).find(|copy| copy.node == me);
        self.is_down_here = own.is_none_or(|own| map.is_gone(own));
        self.has_gap_here = own.is_some_and(|own| own.has_gap);
        self.arriving_since = record.arriving_since(group, me);
        let origin = record.moves().find(|way| way.slice == group && way.to == me).map(|way| way.from);
        let has_live_origin = self.live().any(|copy| Some(copy.node) == origin);
        self.has_live_origin = has_live_origin;
        if !self.is_asked || self.is_down_here {
            let had_held = !self.held.is_empty();
            self.give_up(commands);
            // Who has answered in between, if a map was missed, nobody knows.
            let may_differ = epochs > 1 || asked != asked_before;
            return may_differ && self.heard.follow(asked.map(|(node, _)| node), record.epoch) || had_held;
        }
        let is_void = epochs > 0 && !self.take_over(asked_before.map(|(node, _)| node), epochs, commands);
        if is_new {
            self.send_again(commands);
        }
        is_void
    }

    /// This copy answers: what it has heard of the one before is to be on all copies, and what it has recorded when it answered
    /// last. Whether what was told counts, too: where maps were missed, nobody knows who has answered by these, and what he has
    /// told instead.
    fn take_over(&mut self, before: Option<NodeId>, epochs: u64, commands: &mut Vec<Command>) -> bool {
        let (heard, is_all) = self.heard.take_from(before);
        let counts = is_all && (epochs == 1 || heard.is_empty());
        if !counts {
            self.give_up(commands);
        }
        for mirrored in std::mem::take(&mut self.given_up) {
            self.held_events += mirrored.decisions.len();
            self.held.push_back(Held::Record { number: 0, mirrored, missing: Vec::new() });
        }
        for mirrored in heard {
            let mirrored = if counts { mirrored } else { Arc::new(untold(&mirrored)) };
            self.held_events += mirrored.decisions.len();
            self.held.push_back(Held::Record { number: 0, mirrored, missing: Vec::new() });
        }
        counts
    }

    /// Whether other nodes have the slice, too.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Why this copy answers nothing.
    pub(super) fn refusal(&self, events_max: usize) -> Option<Reason> {
        match () {
            () if !self.is_asked => Some(Reason::StaleMap),
            () if self.live().any(|copy| self.unreachable.contains(&copy.node)) => Some(Reason::SlicesDown),
            () if self.held_events > events_max => Some(Reason::Overloaded),
            () => None,
        }
    }

    /// Whether what is sent to this copy by a map of `epoch` may be taken.
    pub(super) fn takes(&self, epoch: u64) -> bool {
        epoch >= self.sender.epoch
    }

    pub(super) fn epoch(&self) -> u64 {
        self.sender.epoch
    }

    pub(super) fn has_gap_here(&self) -> bool {
        self.has_gap_here
    }

    /// Since which epoch the slice is on its way here, where it is.
    pub(super) fn arriving_since(&self) -> Option<u64> {
        self.arriving_since
    }

    /// Whether it comes from a node that is not down.
    pub(super) fn has_live_origin(&self) -> bool {
        self.has_live_origin
    }

    pub(super) fn is_down_here(&self) -> bool {
        self.is_down_here
    }

    /// Copies that have everything.
    pub(super) fn sources(&self) -> impl Iterator<Item = (u32, NodeId)> {
        self.others.iter().filter(|copy| copy.is_complete).map(|copy| (0, copy.node))
    }

    pub(super) fn set_unreachable(&mut self, nodes: impl Iterator<Item = NodeId>) {
        self.unreachable = nodes.collect();
    }

    fn live(&self) -> impl Iterator<Item = &Copy> {
        self.others.iter().filter(|copy| !copy.is_down)
    }

    /// Something was recorded and told: the others get it, ahead of what is told from now on.
    pub(super) fn push(&mut self, mirrored: Mirrored, commands: &mut Vec<Command>) {
        let missing: Vec<NodeId> = self.live().map(|copy| copy.node).collect();
        if missing.is_empty() {
            return;
        }
        let (number, mirrored) = (self.next_number, Arc::new(mirrored));
        self.next_number += 1;
        self.held_events += mirrored.decisions.len();
        let number_of = |held: &Held| match held {
            Held::Record { number, .. } => Some(*number),
            Held::Reply(..) => None,
        };
        let acknowledged_below = self.held.iter().find_map(number_of).unwrap_or(number);
        let as_number = MirrorNumber { number, acknowledged_below };
        missing.iter().for_each(|node| commands.push(self.message(*node, as_number, &mirrored)));
        self.held.push_back(Held::Record { number, mirrored, missing });
    }

    fn message(&self, to: NodeId, number: MirrorNumber, mirrored: &Arc<Mirrored>) -> Command {
        self.send(to, PeerBody::Mirror(number, mirrored.clone()))
    }

    /// What another copy has recorded was taken here.
    pub(super) fn heard(
        &mut self,
        (from, epoch): (NodeId, u64),
        number: MirrorNumber,
        mirrored: &Arc<Mirrored>,
        events_max: usize,
    ) {
        self.heard.push((from, epoch), number, mirrored, events_max);
    }

    /// A message about the group.
    pub(super) fn send(&self, to: NodeId, body: PeerBody) -> Command {
        self.sender.send(to, body)
    }

    /// Answers, once all that was recorded before is on all copies.
    pub(super) fn reply(&mut self, reply: GroupReply, deadline_ms: u64, commands: &mut Vec<Command>) {
        if self.held.is_empty() {
            commands.push(Command::Reply(reply))
        } else {
            self.held_events += reply.decisions.len();
            self.held.push_back(Held::Reply(reply, deadline_ms));
        }
    }

    /// A copy did not know yet that it is one.
    pub(super) fn send_early_again(&self, to: NodeId, refused: &[u64], commands: &mut Vec<Command>) {
        for held in &self.held {
            if let Held::Record { number, mirrored, missing } = held
                && refused.contains(number)
                && missing.contains(&to)
            {
                let number = MirrorNumber { number: *number, acknowledged_below: 0 };
                commands.push(self.message(to, number, mirrored));
            }
        }
    }

    /// A copy has something. What it has refused is sent again by another map, which it has heard of first.
    pub(super) fn acknowledged(&mut self, from: NodeId, done: &[u64], commands: &mut Vec<Command>) {
        for held in &mut self.held {
            if let Held::Record { number, missing, .. } = held
                && done.contains(number)
            {
                missing.retain(|node| *node != from);
            }
        }
        self.release(commands);
    }

    fn release(&mut self, commands: &mut Vec<Command>) {
        while let Some(held) = self.held.front() {
            if matches!(held, Held::Record { missing, .. } if !missing.is_empty()) {
                return;
            }
            match self.held.pop_front() {
                Some(Held::Reply(reply, _)) => {
                    self.held_events = self.held_events.saturating_sub(reply.decisions.len());
                    commands.push(Command::Reply(reply));
                }
                Some(Held::Record { mirrored, .. }) => {
                    self.held_events = self.held_events.saturating_sub(mirrored.decisions.len());
                }
                None => return,
            }
        }
    }

    /// By another map, or to another start of a node: what is taken twice changes nothing.
    fn send_again(&mut self, commands: &mut Vec<Command>) {
        let live: Vec<NodeId> = self.live().map(|copy| copy.node).collect();
        let mut held = std::mem::take(&mut self.held);
        for held in &mut held {
            if let Held::Record { number, mirrored, missing } = held {
                // The acknowledgement of the copy that had it counts no more: it may have been another start.
                missing.clone_from(&live);
                *number = self.next_number;
                self.next_number += 1;
                // Who has heard it under its last number keeps that until it hears this one.
                let number = MirrorNumber { number: *number, acknowledged_below: 0 };
                live.iter().for_each(|node| commands.push(self.message(*node, number, mirrored)));
            }
        }
        self.held = held;
        self.release(commands);
    }

    /// The node counts as started anew: what it has heard says nothing of what others have told since.
    pub(super) fn begin_anew(&mut self, first_number: u64, commands: &mut Vec<Command>) {
        self.give_up(commands);
        self.heard.clear();
        self.next_number = first_number;
    }

    /// Another copy answers from now on, or may have: what was recorded here may be there or not.
    pub(super) fn give_up(&mut self, commands: &mut Vec<Command>) {
        self.held_events = 0;
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Reply(reply, _) => commands.push(Command::Reply(unknown(reply))),
                Held::Record { mirrored, .. } => self.given_up.push_back(Arc::new(untold(&mirrored))),
            }
        }
        // No more than one who answers holds; what is beyond that, copies may find when they are compared.
        let mut events: usize = self.given_up.iter().map(|mirrored| mirrored.decisions.len()).sum();
        while events > GIVEN_UP_EVENTS_MAX
            && let Some(oldest) = self.given_up.pop_front()
        {
            events -= oldest.decisions.len();
        }
    }

    /// Answers what nobody waits for any longer.
    pub(super) fn expire(&mut self, now_ms: u64, commands: &mut Vec<Command>) {
        let is_over = |held: &mut Held| matches!(held, Held::Reply(_, deadline_ms) if *deadline_ms <= now_ms);
        for index in (0..self.held.len()).rev() {
            if is_over(&mut self.held[index])
                && let Some(Held::Reply(reply, _)) = self.held.remove(index)
            {
                self.held_events = self.held_events.saturating_sub(reply.decisions.len());
                commands.push(Command::Reply(unknown(reply)));
            }
        }
        self.release(commands);
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn next_expiry_ms(&self) -> Option<u64> {
        let deadline = |held: &Held| match held {
            Held::Reply(_, deadline_ms) => Some(*deadline_ms),
            Held::Record { .. } => None,
        };
        self.held.iter().filter_map(deadline).min()
    }

    /// Events that wait.
    pub(super) fn held_events(&self) -> usize {
        self.held_events
    }
}

/// What was to be told may be recorded elsewhere or not; what was undecided stays so.
fn unknown(mut reply: GroupReply) -> GroupReply {
    make_unknown(&mut reply.decisions);
    reply
}

/// What was recorded, without what was told.
fn untold(mirrored: &Mirrored) -> Mirrored {
    let mut untold = mirrored.clone();
    make_unknown(&mut untold.decisions);
    untold
}

fn make_unknown(decisions: &mut [Decision]) {
    let decided = decisions.iter_mut().filter(|decision| !matches!(decision, Decision::Undecided(_)));
    decided.for_each(|decision| *decision = Decision::Undecided(Reason::Unknown));
}
