//! Counts what happens at the door.
//!
//! This module must not depend on who reads the counts.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_backend::ConnectionCounts;
use firstseen_resp::{COMMANDS, COMMANDS_MAX, CommandSpec, Replies};

/// The counts since the door was opened.
#[derive(Debug)]
pub struct DoorCounts {
    /// By the number of the command.
    by_command: [AtomicU64; COMMANDS_MAX],
    pub(crate) refused: AtomicU64,
    pub(crate) undecided: AtomicU64,
    connections: Arc<ConnectionCounts>,
    pub(crate) confirms_waiting: AtomicU64,
    pub(crate) unconfirmed: AtomicU64,
}

/// How often a command was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandCount {
    /// The command, in lower case.
    pub command: &'static str,
    /// How often.
    pub count: u64,
}

impl DoorCounts {
    pub(crate) fn new() -> Self {
        Self {
            by_command: std::array::from_fn(|_| AtomicU64::default()),
            refused: AtomicU64::default(),
            undecided: AtomicU64::default(),
            connections: Arc::default(),
            confirms_waiting: AtomicU64::default(),
            unconfirmed: AtomicU64::default(),
        }
    }

    pub(crate) fn connections(&self) -> Arc<ConnectionCounts> {
        self.connections.clone()
    }

    /// Replies to a command with an error, and counts it.
    pub(crate) fn refuse(&self, replies: &mut Replies, error: impl Display) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        replies.error(error);
    }

    /// Counts a command that was understood.
    pub(crate) fn count(&self, spec: &CommandSpec) {
        if let Some(count) = self.by_command.get(spec.number()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the commands that came at least once.
    pub fn commands(&self) -> impl Iterator<Item = CommandCount> + '_ {
        let count_of =
            |spec: &CommandSpec| self.by_command.get(spec.number()).map_or(0, |count| count.load(Ordering::Relaxed));
        let counts = COMMANDS.iter().map(move |spec| (spec.name(), count_of(spec)));
        counts.filter(|(_, count)| *count > 0).map(|(command, count)| CommandCount { command, count })
    }

    /// Commands that got an error, except those with undecided events.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Events that were undecided.
    pub fn undecided(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.connections.open()
    }

    /// Connections for which there was no room.
    pub fn turned_away(&self) -> u64 {
        self.connections.turned_away()
    }

    /// Claims that the door has still to confirm.
    pub fn confirms_waiting(&self) -> u64 {
        self.confirms_waiting.load(Ordering::Relaxed)
    }

    /// Claims that the door could not confirm, or for which it had no room. Their events are not recorded.
    pub fn unconfirmed(&self) -> u64 {
        self.unconfirmed.load(Ordering::Relaxed)
    }
}
