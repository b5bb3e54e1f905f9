//! The way from this node's own client to this node: batches for it do not pass through the machine's network.
//!
//! Promises: a stream that is opened so is served like any other, with its credit. Must not know: what is on it.

use std::sync::Arc;

use firstseen_wire::net::{Channel, ConnectError, Connector, Examination, ObserveHere};
use firstseen_wire::proto::producer::ObserveRequest;
use tokio::sync::mpsc;

use crate::streams::{self, StreamContext};

/// Opens channels as the node does, and streams to the node itself without any.
pub(crate) struct Home {
    /// Where others reach the node.
    pub(crate) address: String,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) streams: Arc<StreamContext>,
}

impl Connector for Home {
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
