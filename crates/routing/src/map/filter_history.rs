//! Chain of filters that replaced each other under one name. Each alteration of a filter creates a new filter and
//! closes the previous one. The chain is part of the cluster map, so all nodes with the same version of the map know
//! the same chain.

use std::collections::BTreeSet;

use firstseen_filter::UnitNumber;
use serde::{Deserialize, Serialize};

use crate::ids::{FilterId, NodeId};
use crate::verdict::Reason;

/// Position of a filter in the chain of filters under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterHistory {
    /// First filter of the chain. `None` means that this filter is the first.
    pub origin: Option<FilterId>,
    /// Predecessor of the filter, which may no longer exist.
    pub former: Option<FilterId>,
    /// State of the filter's closing, or `None` if the filter is open. A filter is closed when a successor replaces it.
    /// From that moment on, new events are recorded only in the successor.
    pub closed: Option<Closed>,
}

/// State of a closed filter, which was replaced by a successor. No new events are recorded in a closed filter. Its
/// earlier events are still valid until they leave the window, so the closed filter is asked about each event before
/// the successor is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Filter that has replaced this one.
    pub successor: FilterId,
    /// Nodes that may still have events in flight that were sent before the filter was closed. Such an event may still
    /// be recorded in this filter. While the set is not empty, no node may therefore reply that an event is not in the
    /// filter.
    pub awaited: BTreeSet<NodeId>,
    /// Greatest unit in which an event was recorded, according to the reports of the nodes so far.
    pub newest_unit: UnitNumber,
    /// Nodes by whose clocks all recorded events expired at least one retry horizon ago.
    pub passed: BTreeSet<NodeId>,
}

impl Closed {
    /// Returns whether no event from before the closing is in flight any more.
    pub fn has_ended(&self) -> bool {
        self.awaited.is_empty()
    }
}

impl FilterHistory {
    /// Returns the reply for an event that a closed filter does not know. Returns `None` if the filter is open.
    ///
    /// As long as events are in flight, the unknown event may still be recorded in this filter. The reply is then
    /// [`Reason::NotReady`], which makes the client retry the request. As soon as no event is in flight, the reply is
    /// [`Reason::Altered`], which makes the client ask the successor.
    pub(crate) fn absent(&self) -> Option<Reason> {
        let closed = self.closed.as_ref()?;
        Some(if closed.has_ended() { Reason::Altered } else { Reason::NotReady })
    }
}

/// Progress of a closed group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whether no event from before the closing is in flight any more.
    pub has_ended: bool,
    /// Latest unit in which an event was recorded on this node.
    pub newest_unit: UnitNumber,
    /// Unit that the group's clock shows. `None` means that this node does not judge events.
    pub present_unit: Option<UnitNumber>,
}

impl Ending {
    /// Combines the progress of two groups.
    pub fn and(self, other: Self) -> Self {
        Self {
            has_ended: self.has_ended && other.has_ended,
            newest_unit: self.newest_unit.max(other.newest_unit),
            present_unit: [self.present_unit, other.present_unit].into_iter().flatten().min(),
        }
    }
}
