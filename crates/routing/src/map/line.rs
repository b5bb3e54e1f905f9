//! Filters that have followed one another under one name: each alteration makes a new one, and closes the one before.
//!
//! Promises: plain data, the same on every node at the same version. Must not know: how it is agreed on, what cells hold.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{FilterId, NodeId};
use crate::verdict::Reason;

/// What a filter has to do with those before and after it under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The first of the line; none where it is that itself.
    pub origin: Option<FilterId>,
    /// The one before it, whether it is still there or not.
    pub former: Option<FilterId>,
    /// Nothing is recorded here any more, as another has followed.
    pub closed: Option<Closed>,
}

/// A filter in which nothing is recorded any more: it is asked before its successor, for as long as what it has matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The filter that has followed.
    pub successor: FilterId,
    /// Nodes that may still have events in flight that began before it was closed. Until there are none, nobody is told
    /// that an event is not here.
    pub awaited: BTreeSet<NodeId>,
    /// The greatest unit in which something was recorded, as far as nodes have said.
    pub newest_unit: u64,
    /// Nodes by whose clocks all that was recorded has expired, a retry horizon ago.
    pub passed: BTreeSet<NodeId>,
}

impl Closed {
    /// Whether no event is in flight any more that began before the filter was closed.
    pub fn has_ended(&self) -> bool {
        self.awaited.is_empty()
    }
}

impl Line {
    /// What is told of an event that is not here, where nothing is recorded any more: first that it is to be asked again, as
    /// long as somebody may still be about to record it; then that the filter that has followed is to be asked.
    pub(crate) fn absent(&self) -> Option<Reason> {
        let closed = self.closed.as_ref()?;
        Some(if closed.has_ended() { Reason::Altered } else { Reason::NotReady })
    }
}

/// How far a group has come that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Nothing is in flight any more that began before it was closed.
    pub has_ended: bool,
    /// Nothing was recorded here in a later unit than this.
    pub newest_unit: u64,
    /// The unit that its clock shows.
    pub present_unit: u64,
}

impl Ending {
    /// That of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            has_ended: self.has_ended && other.has_ended,
            newest_unit: self.newest_unit.max(other.newest_unit),
            present_unit: self.present_unit.min(other.present_unit),
        }
    }
}
