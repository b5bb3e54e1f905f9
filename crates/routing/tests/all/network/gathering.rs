//! Execution of the commands of groups in the test network: at once, or at random later times.

use firstseen_mesh::GroupInstance;
use firstseen_routing::{Command, Decision, EarlyDuplicates, GroupOwner, GroupReply, Proposal};

use super::Network;

impl Network {
    pub(crate) fn command(&mut self, instance: GroupInstance, run: impl FnOnce(&mut GroupOwner)) {
        self.mesh.input(instance, run);
        self.send_soon(instance);
    }

    /// Sends the commands of a group after an input, or lets the group collect more.
    pub(super) fn send_soon(&mut self, instance: GroupInstance) {
        let Some(owner) = self.mesh.owners().get(&instance) else { return };
        if self.gathers && owner.gathers() && self.rng.below(4) > 0 {
            self.gathering.insert(instance);
        } else {
            self.execute(instance);
        }
    }

    /// Lets all groups send what they have collected, as owners do before they apply a new map.
    pub(super) fn send_gathered(&mut self) {
        while let Some(instance) = self.gathering.first().copied() {
            self.execute(instance);
        }
    }

    /// Executes the commands that a group has collected.
    pub(super) fn execute(&mut self, instance: GroupInstance) {
        self.gathering.remove(&instance);
        for command in self.mesh.take_commands(instance) {
            match command {
                Command::Send { to, message } => self.send(instance.node, to, message),
                Command::Propose(Proposal::OpenGeneration { group, number, .. }) => self.asked.push((group, number)),
                Command::Propose(Proposal::SlicesComplete { group, slices, incarnation, .. }) => {
                    self.complete.push((group, instance.node, incarnation, slices));
                }
                Command::EarlyDuplicates(EarlyDuplicates { reply_to, events, .. }) => {
                    assert!(!self.mesh.is_part(reply_to), "a level gets duplicates ahead of its answer");
                    let before = self.found.insert(reply_to, events);
                    assert_eq!(before, None, "two early messages ahead of one reply");
                }
                Command::Reply(GroupReply { reply_to, .. })
                    if self.mesh.is_part(reply_to) && self.rng.below(100) < self.lost_percent =>
                {
                    self.mesh.send_again(reply_to);
                }
                command => match self.mesh.execute(instance, command) {
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
