//! The measured figures of one cluster. Figures per event are sums over events, divided by the number of different
//! events.

use serde::Serialize;

/// The costs of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Number of nodes in the cluster.
    pub nodes: usize,
    /// Slicing of the filter.
    pub slicing: String,
    /// Number of positions of an event.
    pub hashes: u32,
    /// Costs of events that the filter does not know.
    pub new: Flow,
    /// Costs of events that the filter knows.
    pub known: Flow,
    /// Costs of the cluster itself.
    pub cluster: ClusterFigures,
}

/// The costs of events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// Average number of times that a producer sent an event. It is 1 if no event is rejected.
    pub sent_per_event: f64,
    /// Visits of nodes per event. Testing an event and setting it count as separate visits, even on the same node.
    pub visits_per_event: f64,
    /// Messages between nodes per event.
    pub messages_per_event: f64,
    /// Bytes of these messages per event, without HTTP/2.
    pub bytes_per_event: f64,
    /// Average visits of one node per thousand events of all producers.
    pub node_visits_per_1000_events: f64,
    /// The work of the node that tests and sets most, as a multiple of the mean.
    pub busiest_node: Option<f64>,
    /// Number of ordered pairs of nodes between which events were sent.
    pub links: usize,
    /// Average messages of one link per thousand events, over the links that carry events.
    pub link_messages_per_1000_events: Option<f64>,
    /// Average bytes of one link per thousand events, over the links that carry events.
    pub link_bytes_per_1000_events: Option<f64>,
    /// The bytes of the link that carries most, as a multiple of the mean of the links that carry events.
    pub busiest_link: Option<f64>,
}

impl Flow {
    /// Returns the visits per message. Visits of an event at its head are included, although they need no message.
    pub fn visits_per_message(&self) -> f64 {
        self.visits_per_event / self.messages_per_event
    }
}

/// The costs of a cluster that do not depend on events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClusterFigures {
    /// Number of connections between nodes that were opened.
    pub connections: usize,
    /// Bytes per node and second on connections between nodes while there are no events, including HTTP/2 and
    /// consensus.
    pub at_rest_bytes_per_s: f64,
    /// Size of the map as a message, in bytes.
    pub map_bytes: usize,
    /// Costs of one change of the map, by which another filter with one slice is created.
    pub change: Change,
}

/// The costs of one change of the map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Bytes on connections between nodes, including HTTP/2 and consensus.
    pub bytes: f64,
    /// Bytes that one producer receives.
    pub bytes_to_a_producer: f64,
    /// Time in milliseconds from the request until all nodes act on the change, as an operator sees it.
    pub ms: u64,
}
