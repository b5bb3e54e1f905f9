//! How often what happened at the door.
//!
//! Must not know: who reads the counts.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_resp::{COMMANDS, Replies};

/// What has happened since the door was opened.
#[derive(Debug)]
pub struct DoorCounts {
    by_command: Vec<AtomicU64>,
    pub(crate) refused: AtomicU64,
    pub(crate) undecided: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) turned_away: AtomicU64,
}

/// How often a command was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandCount {
    /// The command, in small letters.
    pub command: &'static str,
    /// How often.
    pub count: u64,
}

impl DoorCounts {
    pub(crate) fn new() -> Self {
        let by_command = COMMANDS.iter().map(|_| AtomicU64::new(0)).collect();
        let zero = || AtomicU64::new(0);
        Self { by_command, refused: zero(), undecided: zero(), open: zero(), turned_away: zero() }
    }

    /// A command is answered with an error.
    pub(crate) fn refuse(&self, replies: &mut Replies, error: impl Display) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        replies.error(error);
    }

    /// A command was understood.
    pub(crate) fn count(&self, name: &[u8]) {
        let place = COMMANDS.iter().position(|spec| spec.name().as_bytes().eq_ignore_ascii_case(name));
        if let Some(count) = place.and_then(|place| self.by_command.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The commands that came at least once.
    pub fn commands(&self) -> impl Iterator<Item = CommandCount> + '_ {
        let counts = COMMANDS.iter().zip(&self.by_command);
        let counts = counts.map(|(spec, count)| (spec.name(), count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).map(|(command, count)| CommandCount { command, count })
    }

    /// Commands that were answered with an error, but for events that were undecided.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Events that were undecided.
    pub fn undecided(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections for which there was no room.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }
}
