//! Checks that a message between members was really sent by the member that it names as its sender. If the cluster uses
//! certificates, a node cannot send messages under the name of another node. A node that has left the cluster is
//! rejected as soon as its removal has been committed.
//!
//! A node may receive valid messages from members that it does not know. For example, a new node does not know any
//! member yet, and a node that was offline for a long time may know only members that have left the cluster since. If
//! such a node rejected all unknown senders, it could never catch up. It therefore accepts messages from members with
//! numbers that it has never seen, if they present the certificate of any node.
//!
//! To limit the risk, this exception applies only to a node that has received no message from a known leader for as
//! long as a message may take. A node that is itself the leader rejects all messages of unknown members. Every node
//! rejects proposals of unknown members.

use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::NodeId;
use firstseen_wire::status::ErrorKind;
use firstseen_wire::tls;
use tonic::transport::CertificateDer;
use tonic::{Request, Status};

use crate::running::Running;

/// The sender of a message, according to its connection.
pub(crate) struct Sender {
    /// Certificates of the sender. `None` means that the listener does not use certificates.
    certificates: Option<Arc<Vec<CertificateDer<'static>>>>,
}

impl Sender {
    /// Returns the sender of `request`. `is_secure` says whether the listener uses certificates.
    pub(crate) fn of<T>(request: &Request<T>, is_secure: bool) -> Self {
        Self { certificates: is_secure.then(|| request.peer_certs().unwrap_or_default()) }
    }

    /// Accepts only member `node`, which this node must know.
    pub(crate) fn must_be(&self, running: &Running, node: NodeId) -> Result<(), Status> {
        let Some(name) = known_name(running, node)? else {
            let unknown = format!("node {node} is not a member that this node knows: let it join");
            return Err(ErrorKind::Forbidden.status(unknown));
        };
        self.must_be_named(&name)
    }

    /// Accepts only member `node`. If this node cannot know the member yet, it accepts any node.
    pub(crate) fn may_be(&self, running: &Running, node: NodeId, patience: Duration) -> Result<(), Status> {
        if known_name(running, node)?.is_some() {
            return self.must_be(running, node);
        }
        if running.leads() || running.heard.is_within(patience) { self.must_be(running, node) } else { Ok(()) }
    }

    /// Checks the sender like [`Self::may_be`], for a message of a leader.
    pub(crate) fn may_lead(&self, running: &Running, node: NodeId, patience: Duration) -> Result<(), Status> {
        self.may_be(running, node, patience)?;
        if known_name(running, node)?.is_some() {
            running.heard.now();
        }
        Ok(())
    }

    fn must_be_named(&self, name: &str) -> Result<(), Status> {
        let is_named = self.certificates.as_ref().is_none_or(|certificates| tls::is_node_named(certificates, name));
        if is_named {
            Ok(())
        } else {
            let wrong = format!("this needs the certificate of node `{name}` (`{name}.{}`)", tls::NODE_NAME);
            Err(ErrorKind::Forbidden.status(wrong))
        }
    }
}

/// Returns the name of member `node` from the map, or from openraft if the map does not contain the member yet.
fn known_name(running: &Running, node: NodeId) -> Result<Option<String>, Status> {
    let published = &running.network.published;
    if let Some(record) = published.newest().nodes.get(&node) {
        return Ok(Some(record.name.clone()));
    }
    let metrics = running.raft.metrics();
    let membership = Arc::clone(&metrics.borrow().membership_config);
    match membership.membership().get_node(&node.0) {
        // This includes a member that is about to leave. If it is the leader, the others must accept its messages to
        // agree on its removal.
        Some(member) => Ok(Some(member.name.clone())),
        None if published.has_left(node) => {
            let gone = format!("node {node} has left the cluster: stop it and remove its data");
            Err(ErrorKind::Forbidden.status(gone))
        }
        None => Ok(None),
    }
}
