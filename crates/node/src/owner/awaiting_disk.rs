//! Commands that wait for the disk. A reply or a message must not leave before the records that it depends on have been
//! written to the disk.
//!
//! # Guarantees
//! - The commands leave in the order in which they were queued.
//! - The approximate memory use of the waiting commands is known at any time.
//!
//! This module does not depend on the content of the records or on how they are written.

use std::collections::{BTreeSet, VecDeque};

use firstseen_routing::{Command, NodeId, PeerBody, PeerMessage};

use crate::group_key::GroupKey;

/// Maximum memory of the commands of one owner that wait for the disk, in bytes. If the waiting commands use more
/// memory than this, the owner rejects new lookups from producers and other nodes. Batches that record events do not
/// need this limit, because the owner already rejects them when too many journal records wait for the disk.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// Estimated memory of one command without its events, and of one event of a command including its positions, in bytes.
const COMMAND_BYTES: u64 = 256;
const EVENT_BYTES: u64 = 160;

/// A command that waits for the disk.
struct WaitingCommand {
    /// Slice group that the command belongs to.
    key: GroupKey,
    /// Number of records that must have been synced before the command may leave.
    records: u64,
    command: Command,
}

/// The waiting commands, with the oldest command first.
#[derive(Default)]
pub(super) struct AwaitingDisk {
    waiting: VecDeque<WaitingCommand>,
    bytes: u64,
    /// Reply numbers (`reply_to`) of the pending lookups.
    lookups: BTreeSet<u64>,
}

impl AwaitingDisk {
    /// Notes that the reply with this number belongs to a lookup.
    pub(super) fn note_lookup(&mut self, reply_to: u64) {
        self.lookups.insert(reply_to);
    }

    /// Returns whether no command waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether the memory limit is reached, so that the owner should accept no more lookups.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > HELD_BYTES_MAX
    }

    /// Queues a command that must wait until the journal has synced `records` records. Commands leave the queue in the
    /// order in which they were queued. A command may therefore wait longer than its own records require, because an
    /// earlier command is still waiting.
    pub(super) fn push(&mut self, key: GroupKey, records: u64, command: Command) {
        let behind = self.waiting.back().map_or(0, |last| last.records);
        self.bytes += bytes_of(&command);
        self.waiting.push_back(WaitingCommand { key, records: records.max(behind), command });
    }

    /// Lets a command leave now.
    pub(super) fn pass(&mut self, command: Command, commands: &mut Vec<Command>) {
        if let Command::Reply(reply) = &command {
            self.lookups.remove(&reply.reply_to);
        }
        commands.push(command);
    }

    /// Releases the commands that needed at most `synced` records to be synced.
    pub(super) fn release(&mut self, synced: u64, commands: &mut Vec<Command>) {
        while let Some(WaitingCommand { command, .. }) = self.waiting.pop_front_if(|first| first.records <= synced) {
            self.bytes -= bytes_of(&command);
            self.pass(command, commands);
        }
    }

    /// Releases the replies to lookups at once. All other commands continue to wait.
    pub(super) fn release_lookups(&mut self, commands: &mut Vec<Command>) {
        let (ready, waiting): (VecDeque<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|held| self.answers_lookup(&held.command));
        self.waiting = waiting;
        for WaitingCommand { command, .. } in ready {
            self.bytes -= bytes_of(&command);
            self.pass(command, commands);
        }
    }

    /// Returns whether a command is the reply to a lookup.
    pub(super) fn answers_lookup(&self, command: &Command) -> bool {
        matches!(command, Command::Reply(reply) if self.lookups.contains(&reply.reply_to))
    }

    /// Drops the waiting messages to a node whose process has ended, because the next process of the node must not
    /// receive them.
    pub(super) fn forget_sends_to(&mut self, peer: NodeId) {
        self.waiting.retain(|held| !matches!(held.command, Command::Send { to, .. } if to == peer));
        self.recount();
    }

    /// Removes the commands of the selected slice groups from the queue. The owner calls this method when a disk hangs
    /// or stays full, because it is then uncertain whether the records that these commands wait for will ever be
    /// stored. Clients that wait for a reply receive the verdict "unknown". Messages to other nodes are dropped.
    pub(super) fn abandon(&mut self, is_of: impl Fn(GroupKey) -> bool, commands: &mut Vec<Command>) {
        let (theirs, waiting): (VecDeque<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|held| is_of(held.key));
        self.waiting = waiting;
        self.recount();
        for reply in theirs.into_iter().filter_map(|held| abandoned(held.command)) {
            self.pass(reply, commands);
        }
    }

    fn recount(&mut self) {
        self.bytes = self.waiting.iter().map(|held| bytes_of(&held.command)).sum();
    }
}

/// Returns what remains of a command whose records may never be stored. The command must not confirm any effect,
/// because the effect could be lost. If the command is a reply to a client, the result is the reply "unknown" instead.
/// If it is any other command, the result is `None`, and the command is dropped.
pub(super) fn abandoned(command: Command) -> Option<Command> {
    let Command::Reply(mut reply) = command else { return None };
    reply.answers.abandon();
    Some(Command::Reply(reply))
}

/// Returns the approximate memory use of a command, in bytes.
fn bytes_of(command: &Command) -> u64 {
    let events = match command {
        Command::Reply(reply) => reply.answers.len(),
        Command::Send { message: PeerMessage { body, .. }, .. } => match body {
            PeerBody::Test(test) => test.tickets.len(),
            PeerBody::ClaimTests(tests) => tests.events.len(),
            PeerBody::Resolved(resolved) => resolved.tickets.len(),
            PeerBody::Set(set) => set.stamps.len(),
            PeerBody::Mirror(_, mirrored) => mirrored.decisions.len(),
            PeerBody::Cells(parts) => {
                return COMMAND_BYTES + parts.runs.iter().map(|run| run.cells.len() as u64).sum::<u64>();
            }
            PeerBody::SetAcks(_) | PeerBody::AskPast | PeerBody::Past(_) => 0,
            PeerBody::AskCells(_) | PeerBody::HandedOver(_) => 0,
        },
        Command::Persist(_) | Command::EarlyDuplicates(_) | Command::LevelQuery(_) | Command::Propose(_) => 0,
    };
    COMMAND_BYTES + events as u64 * EVENT_BYTES
}

#[cfg(test)]
pub(super) mod tests {
    use firstseen_routing::{Answers, Decision, Epoch, FilterId, GroupReply, Reason};

    use super::*;

    const KEY: GroupKey = GroupKey { filter: FilterId(1), group: 0 };

    /// Creates a reply to a run of `events` events.
    pub(in crate::owner) fn reply(reply_to: u64, events: usize) -> Command {
        let answers = Answers::new(vec![Decision::Duplicate; events]).with_clock(Some(7));
        Command::Reply(GroupReply { reply_to, answers, spent: None })
    }

    fn places(commands: &[Command]) -> Vec<u64> {
        let place = |command: &Command| match command {
            Command::Reply(reply) => Some(reply.reply_to),
            _ => None,
        };
        commands.iter().filter_map(place).collect()
    }

    #[test]
    fn what_waits_is_counted_and_there_is_an_end_to_it() {
        let (mut held, mut commands) = (AwaitingDisk::default(), Vec::new());
        let mut places = 0;
        while !held.is_full() {
            held.push(KEY, 1, reply(places, 8192));
            places += 1;
        }
        assert!((10..100).contains(&places), "{places} answers of 8,192 events");
        held.release(0, &mut commands);
        assert!(held.is_full() && commands.is_empty());
        held.release(1, &mut commands);
        assert_eq!((held.is_empty(), held.bytes, commands.len() as u64), (true, 0, places));
    }

    #[test]
    fn lookups_leave_a_full_disk_behind_and_the_rest_stays_in_order() {
        let (mut held, mut commands) = (AwaitingDisk::default(), Vec::new());
        held.note_lookup(2);
        (1..=4).for_each(|place| held.push(KEY, place, reply(place, 1)));
        held.release_lookups(&mut commands);
        assert_eq!(places(&commands), [2]);
        held.release(3, &mut commands);
        assert_eq!(places(&commands), [2, 1, 3]);
        held.push(KEY, 2, reply(5, 1));
        held.release(3, &mut commands);
        assert_eq!(places(&commands), [2, 1, 3], "behind what waits for more");
    }

    #[test]
    fn what_is_given_up_is_unknown() {
        let (mut held, mut commands) = (AwaitingDisk::default(), Vec::new());
        let other = GroupKey { filter: FilterId(2), group: 0 };
        held.push(KEY, 9, reply(1, 2));
        held.push(other, 9, reply(2, 1));
        held.push(
            KEY,
            9,
            Command::Send {
                to: NodeId(2),
                message: PeerMessage { filter: FilterId(1), epoch: Epoch::FIRST, group: 0, body: PeerBody::AskPast },
            },
        );
        held.abandon(|key| key == KEY, &mut commands);
        let [Command::Reply(abandoned)] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!(abandoned.answers.decisions(), [Decision::Undecided(Reason::Unknown); 2]);
        assert_eq!((held.waiting.len(), held.bytes), (1, bytes_of(&reply(2, 1))), "others wait on");
        held.release(9, &mut commands);
        assert_eq!((places(&commands), held.bytes), (vec![1, 2], 0));
    }
}
