//! Filters that have followed one another under one name: each alteration makes a new one, and closes the one before.
//!
//! Promises: plain data, the same on every node at the same version. Must not know: how it is agreed on, what cells hold.

use std::collections::BTreeSet;

use firstseen_filter::UnitNumber;
use serde::{Deserialize, Serialize};

use crate::ids::{FilterId, NodeId};
use crate::verdict::Reason;

/// The place of a filter among those before and after it under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The first filter of the line; none where this is the first.
    pub origin: Option<FilterId>,
    /// The filter before, whether it is still there or not.
    pub former: Option<FilterId>,
    /// Set where the filter is closed: nothing is recorded in it any more, as another has followed.
    pub closed: Option<Closed>,
}

/// A filter in which nothing is recorded any more: it is asked before its successor, for as long as its events count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The filter that has followed.
    pub successor: FilterId,
    /// Nodes that may still have events in flight that began before it was closed. Until there are none, no reply says
    /// that an event is not here.
    pub awaited: BTreeSet<NodeId>,
    /// The greatest unit in which an event was recorded, as far as nodes have reported.
    pub newest_unit: UnitNumber,
    /// Nodes by whose clocks all recorded events have expired, a retry horizon ago.
    pub passed: BTreeSet<NodeId>,
}

impl Closed {
    /// Whether no event is in flight any more that began before the filter was closed.
    pub fn has_ended(&self) -> bool {
        self.awaited.is_empty()
    }
}

impl Line {
    /// The reply for an event that is not here, where nothing is recorded any more: to ask again, as long as an event
    /// in flight may still be recorded here; then, to ask the filter that has followed.
    pub(crate) fn absent(&self) -> Option<Reason> {
        let closed = self.closed.as_ref()?;
        Some(if closed.has_ended() { Reason::Altered } else { Reason::NotReady })
    }
}

/// How far a closed group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// No event is in flight any more that began before the group was closed.
    pub has_ended: bool,
    /// No event was recorded here in a later unit than this.
    pub newest_unit: UnitNumber,
    /// The unit that the group's clock shows; none where no events are judged here.
    pub present_unit: Option<UnitNumber>,
}

impl Ending {
    /// The state of both groups together.
    pub fn and(self, other: Self) -> Self {
        Self {
            has_ended: self.has_ended && other.has_ended,
            newest_unit: self.newest_unit.max(other.newest_unit),
            present_unit: [self.present_unit, other.present_unit].into_iter().flatten().min(),
        }
    }
}
