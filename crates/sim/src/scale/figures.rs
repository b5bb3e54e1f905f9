//! The figures of one cluster.
//!
//! Promises: figures for an event are sums over events, divided by the number of different events. Must not know: how
//! figures were counted, how they are shown.

use serde::Serialize;

/// What a cluster costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// How the filter is cut.
    pub slicing: String,
    /// Positions of an event.
    pub hashes: u32,
    /// Events that the filter does not know.
    pub new: Flow,
    /// Events that it knows.
    pub known: Flow,
    /// The cluster itself.
    pub cluster: ClusterFigures,
}

/// What events cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// How often an event was sent by its producer: once, where nothing is refused.
    pub sent_per_event: f64,
    /// Visits of nodes: one where an event is tested, and one where it is set, also where that is the same node.
    pub visits_per_event: f64,
    /// Messages between nodes.
    pub messages_per_event: f64,
    /// Bytes of these messages, without those of HTTP/2.
    pub bytes_per_event: f64,
    /// Visits of one node for a thousand events of all producers, on average.
    pub node_visits_per_1000_events: f64,
    /// The work of the node that tests and sets most, as a multiple of the mean.
    pub busiest_node: Option<f64>,
    /// Ordered pairs of nodes between which events went.
    pub links: usize,
    /// Messages of one link for a thousand events, on average over links that carry events.
    pub link_messages_per_1000_events: Option<f64>,
    /// The same for bytes.
    pub link_bytes_per_1000_events: Option<f64>,
    /// The bytes of the link that carries most, as a multiple of the mean of those that carry events.
    pub busiest_link: Option<f64>,
}

impl Flow {
    /// Visits for each message; those of an event at its head, which need none, are among them.
    pub fn visits_per_message(&self) -> f64 {
        self.visits_per_event / self.messages_per_event
    }
}

/// What a cluster costs whether or not there are events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClusterFigures {
    /// Connections between nodes that were opened.
    pub connections: usize,
    /// Bytes on connections between nodes, HTTP/2 and agreement included, for each node and second, while there are no
    /// events.
    pub at_rest_bytes_per_s: f64,
    /// Bytes of the map as a message.
    pub map_bytes: usize,
    /// What one change of the map costs: another filter, with one slice.
    pub change: Change,
}

/// What one change of the map costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Bytes on connections between nodes, HTTP/2 and agreement included.
    pub bytes: f64,
    /// Bytes that one producer gets.
    pub bytes_to_a_producer: f64,
    /// From the request until all nodes act on it, as an operator sees it, in milliseconds.
    pub ms: u64,
}
