//! What producers asked and were told, in simulated time.
//!
//! Promises: plain data; the same run gives the same history, byte by byte. Must not know: how answers came about.

use std::fmt;

use firstseen_routing::{Decision, SubmissionName};

/// One call of a producer, from its start to its return.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The number of the call in its history.
    pub id: usize,
    /// Who called.
    pub producer: u32,
    /// The event that was asked about.
    pub event: u64,
    /// When the event occurred, in milliseconds since 1970.
    pub time_ms: u64,
    /// Whether it was only looked up.
    pub is_lookup: bool,
    /// The name that the caller gave to the submission.
    pub name: Option<SubmissionName>,
    /// When the call began, in simulated microseconds.
    pub began_us: u64,
    /// When it returned; none if it never did.
    pub returned_us: Option<u64>,
    /// What was told; none if the call never returned.
    pub told: Option<Decision>,
}

impl Call {
    /// Whether the event may have been recorded by this call.
    pub fn may_have_recorded(&self) -> bool {
        if self.is_lookup {
            return false;
        }
        match self.told {
            None | Some(Decision::FirstSeen) => true,
            Some(Decision::Undecided(reason)) => reason.may_have_recorded(),
            Some(Decision::Duplicate) => false,
        }
    }

    /// Whether this call was told that the event was new, and recorded it.
    pub fn won(&self) -> bool {
        !self.is_lookup && self.told == Some(Decision::FirstSeen)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, producer, event, time_ms, is_lookup, name, began_us, returned_us, told } = self;
        write!(f, "call {id}: producer {producer} event {event} at {time_ms} ms, {began_us}..{returned_us:?} us")?;
        if *is_lookup {
            write!(f, ", lookup")?;
        }
        if let Some(name) = name {
            write!(f, ", named {}:{}", name.source, name.number)?;
        }
        write!(f, ": {told:?}")
    }
}

/// All calls of a run, and what the checker must know of the filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// In the order in which they began.
    pub calls: Vec<Call>,
    /// The window that is promised, in milliseconds.
    pub window_ms: u64,
    /// The window with everything that rounding may add.
    pub window_at_most_ms: u64,
}

impl History {
    /// Starts a call and returns its number.
    pub fn begin(&mut self, call: Call) -> usize {
        let id = self.calls.len();
        self.calls.push(Call { id, ..call });
        id
    }

    /// Ends a call.
    pub fn end(&mut self, id: usize, returned_us: u64, told: Decision) {
        if let Some(call) = self.calls.get_mut(id) {
            (call.returned_us, call.told) = (Some(returned_us), Some(told));
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.iter().try_for_each(|call| writeln!(f, "{call}"))
    }
}
