//! Execution of the commands of groups in the test network: at once, or at random later times.

use firstseen_mesh::GroupInstance;
use firstseen_routing::{Command, Decision, EarlyDuplicates, GroupOwner, GroupReply, Proposal};

use super::Network;

impl Network {
    pub(crate) fn command(&mut self, seat: GroupInstance, run: impl FnOnce(&mut GroupOwner)) {
        self.mesh.input(seat, run);
        self.send_soon(seat);
    }

    /// Sends the commands of a group after an input, or lets the group collect more.
    pub(super) fn send_soon(&mut self, seat: GroupInstance) {
        let Some(owner) = self.mesh.owners().get(&seat) else { return };
        if self.gathers && owner.gathers() && self.dice.below(4) > 0 {
            self.gathering.insert(seat);
        } else {
            self.carry_out(seat);
        }
    }

    /// Lets all groups send what they have collected, as owners do before they apply a new map.
    pub(super) fn send_gathered(&mut self) {
        while let Some(seat) = self.gathering.first().copied() {
            self.carry_out(seat);
        }
    }

    /// Executes the commands that a group has collected.
    pub(super) fn carry_out(&mut self, seat: GroupInstance) {
        self.gathering.remove(&seat);
        for command in self.mesh.take_commands(seat) {
            match command {
                Command::Send { to, message } => self.send(seat.node, to, message),
                Command::Propose(Proposal::OpenGeneration { group, number, .. }) => self.asked.push((group, number)),
                Command::Propose(Proposal::SlicesComplete { group, slices, incarnation, .. }) => {
                    self.complete.push((group, seat.node, incarnation, slices));
                }
                Command::EarlyDuplicates(EarlyDuplicates { reply_to, events, .. }) => {
                    assert!(!self.mesh.is_part(reply_to), "a level gets duplicates ahead of its answer");
                    let before = self.found.insert(reply_to, events);
                    assert_eq!(before, None, "two early messages ahead of one reply");
                }
                Command::Reply(GroupReply { reply_to, .. })
                    if self.mesh.is_part(reply_to) && self.dice.below(100) < self.lost_percent =>
                {
                    self.mesh.send_again(reply_to);
                }
                command => match self.mesh.carry_out(seat, command) {
                    Some(Command::Reply(reply)) => self.note(reply),
                    Some(left) => panic!("no journal: {left:?}"),
                    None => {}
                },
            }
        }
    }

    /// Delivers a reply to its producer.
    fn note(&mut self, reply: GroupReply) {
        let is_duplicate = |event: &u32| reply.answers.decisions()[*event as usize] == Decision::Duplicate;
        let found = self.found.remove(&reply.reply_to).unwrap_or_default();
        assert!(found.iter().all(is_duplicate), "{found:?} came ahead of {:?}", reply.answers.decisions());
        self.replies.push(reply);
    }
}
