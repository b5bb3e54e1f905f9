//! Connects the internal client of a node to the node itself. Other parts of the same process use this client to submit
//! events.
//!
//! If the internal client sends a batch to its own node, the batch does not pass through the network. In all other
//! respects, the node treats the internal client like any other producer, and applies the same limits to its batches in
//! flight.

use std::sync::Arc;

use firstseen_wire::net::{Channel, ConnectError, Connector, Examination, ObserveHere};
use firstseen_wire::proto::producer::ObserveRequest;
use tokio::sync::mpsc;

use crate::streams::{self, StreamContext};

/// A connector that opens network channels to other nodes, and direct streams to this node.
pub(crate) struct LocalConnector {
    /// Address under which other nodes and clients reach this node.
    pub(crate) address: String,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) streams: Arc<StreamContext>,
}

impl Connector for LocalConnector {
    fn channel(&self, address: &str, node_name: Option<&str>) -> Result<Channel, ConnectError> {
        self.connector.channel(address, node_name)
    }

    fn observe_here(&self, address: &str, requests: mpsc::Receiver<ObserveRequest>) -> Option<ObserveHere> {
        (address == self.address).then(|| streams::open_own(&self.streams, requests))
    }

    fn examine<'a>(&'a self, address: &'a str, node_name: Option<&'a str>) -> Examination<'a> {
        self.connector.examine(address, node_name)
    }
}
