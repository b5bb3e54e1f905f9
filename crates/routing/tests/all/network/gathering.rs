//! What nodes do with the commands of their groups: at once, or when the dice say so.

use firstseen_routing::{Command, GroupOwner, NodeId};

use super::Network;

impl Network {
    pub(crate) fn command(&mut self, key: (u32, NodeId), run: impl FnOnce(&mut GroupOwner)) {
        let Some(owner) = self.owners.get_mut(&key) else { return };
        run(owner);
        if self.gathers && owner.gathers() && self.dice.below(4) > 0 {
            self.gathering.insert(key);
        } else {
            self.carry_out(key);
        }
    }

    /// All groups send what they have gathered, as owners do before they follow a new map.
    pub(super) fn send_gathered(&mut self) {
        while let Some(key) = self.gathering.first().copied() {
            self.carry_out(key);
        }
    }

    /// Carries out what a group has gathered.
    pub(super) fn carry_out(&mut self, key: (u32, NodeId)) {
        self.gathering.remove(&key);
        let mut commands = Vec::new();
        if let Some(owner) = self.owners.get_mut(&key) {
            owner.take_commands(&mut commands);
        }
        for command in commands {
            match command {
                Command::Reply(reply) => self.replies.push(reply),
                Command::Send { to, message } => self.send(key.1, to, message),
                Command::OpenGeneration { group, number, .. } => self.asked.push((group, number)),
                Command::SlicesComplete { group, slices, incarnation, .. } => {
                    self.complete.push((group, key.1, incarnation, slices));
                }
                Command::Climb(_) | Command::EarlyDuplicates(_) => panic!("no tree: {command:?}"),
                Command::Persist(record) => panic!("no journal: {record:?}"),
            }
        }
    }
}
