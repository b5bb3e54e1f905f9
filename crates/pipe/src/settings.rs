//! How a pipe works, and how it ends. This module makes no decisions.

use std::time::Duration;

/// What happens to events about which the filter cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndecidedAction {
    /// They are written to the output.
    Pass,
    /// They are written to the topic of dead letters.
    Aside,
}

/// How a pipe works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum number of messages in a batch.
    pub batch_events: usize,
    /// Size of a batch in bytes at which it is delivered. A batch exceeds it by at most one message.
    pub batch_bytes: usize,
    /// Maximum time that the first message of a batch waits for further ones.
    pub linger: Duration,
    /// What happens to undecided events.
    pub undecided: UndecidedAction,
    /// Whether duplicates are written to the output, with a header.
    pub is_shadow: bool,
    /// Whether there is a topic for duplicates.
    pub has_duplicates: bool,
    /// Whether there is a topic for dead letters.
    pub has_dead_letters: bool,
    /// Whether the pipe stops at the end that the input had at the start.
    pub until_end: bool,
    /// Returns the time of day in milliseconds since 1970.
    pub present_ms: fn() -> u64,
}

/// How a pipe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It reached the end that the input had at the start.
    AtEnd,
    /// The caller stopped it.
    Stopped,
}
