//! Counters of the Redis endpoint.
//!
//! This module does not depend on who reads the counters.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_backend::ConnectionCounts;
use firstseen_resp::{COMMANDS, COMMANDS_MAX, CommandSpec, Replies};

/// Counters since the endpoint was started.
#[derive(Debug)]
pub struct RedisEndpointCounts {
    /// Number of executions of each command, indexed by the number of the command.
    by_command: [AtomicU64; COMMANDS_MAX],
    pub(crate) refused: AtomicU64,
    pub(crate) undecided: AtomicU64,
    connections: Arc<ConnectionCounts>,
    pub(crate) confirms_waiting: AtomicU64,
    pub(crate) unconfirmed: AtomicU64,
}

/// Number of times that a command was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandCount {
    /// Name of the command, in lower case.
    pub command: &'static str,
    /// Number of executions.
    pub count: u64,
}

impl RedisEndpointCounts {
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

    /// Replies to a command with an error, and counts the error.
    pub(crate) fn refuse(&self, replies: &mut Replies, error: impl Display) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        replies.error(error);
    }

    /// Counts a command that was parsed successfully.
    pub(crate) fn count(&self, spec: &CommandSpec) {
        if let Some(count) = self.by_command.get(spec.number()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the commands that were received at least once.
    pub fn commands(&self) -> impl Iterator<Item = CommandCount> + '_ {
        let count_of =
            |spec: &CommandSpec| self.by_command.get(spec.number()).map_or(0, |count| count.load(Ordering::Relaxed));
        let counts = COMMANDS.iter().map(move |spec| (spec.name(), count_of(spec)));
        counts.filter(|(_, count)| *count > 0).map(|(command, count)| CommandCount { command, count })
    }

    /// Returns the number of commands that got an error. Errors because of undecided events are not included.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of undecided events.
    pub fn undecided(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> u64 {
        self.connections.open()
    }

    /// Returns the number of connections that were rejected because the limit was reached.
    pub fn rejected_connections(&self) -> u64 {
        self.connections.rejected_connections()
    }

    /// Returns the number of claims that the endpoint has yet to confirm.
    pub fn confirms_waiting(&self) -> u64 {
        self.confirms_waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of claims that the endpoint could not confirm, or could not queue for lack of memory. Their
    /// events are not recorded.
    pub fn unconfirmed(&self) -> u64 {
        self.unconfirmed.load(Ordering::Relaxed)
    }
}
