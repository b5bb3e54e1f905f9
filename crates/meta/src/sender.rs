//! Senders: whether a message comes from the member that it names.
//!
//! Promises: a node that has left is not heard once the others agree without it, and with certificates no node is heard
//! as another member. Must not know: what messages ask.
//!
//! A node that is behind may not know a member yet that the others have agreed on: one that has just been adopted knows
//! nobody, and one that was away for long may know only members that have left since. Such a node would never catch up
//! if it heard only members that it knows. So it hears numbers that it has never seen, from any node's certificate,
//! while no member that it knows has led it for as long as a message may take; never where it leads itself, and never
//! for a proposal.

use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::NodeId;
use firstseen_wire::status::ErrorKind;
use firstseen_wire::tls;
use tonic::transport::CertificateDer;
use tonic::{Request, Status};

use crate::running::Running;

/// The sender of a message, as its connection shows.
pub(crate) struct Sender {
    /// None where the listener asks for no certificates.
    certificates: Option<Arc<Vec<CertificateDer<'static>>>>,
}

impl Sender {
    /// The sender of `request`; `is_secure` says that the listener asks for certificates.
    pub(crate) fn of<T>(request: &Request<T>, is_secure: bool) -> Self {
        Self { certificates: is_secure.then(|| request.peer_certs().unwrap_or_default()) }
    }

    /// Refuses all but member `node`, whom this node knows.
    pub(crate) fn must_be(&self, running: &Running, node: NodeId) -> Result<(), Status> {
        let Some(name) = known_name(running, node)? else {
            let unknown = format!("node {node} is not a member that this node knows: let it join");
            return Err(ErrorKind::Forbidden.status(unknown));
        };
        self.must_be_named(&name)
    }

    /// Refuses all but member `node`, or one that this node cannot know yet.
    pub(crate) fn may_be(&self, running: &Running, node: NodeId, patience: Duration) -> Result<(), Status> {
        if known_name(running, node)?.is_some() {
            return self.must_be(running, node);
        }
        if running.leads() || running.heard.is_within(patience) { self.must_be(running, node) } else { Ok(()) }
    }

    /// The same as [`Self::may_be`], for a message of a leader.
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

/// The name of member `node`, by the map, or by openraft while the map is not here yet.
fn known_name(running: &Running, node: NodeId) -> Result<Option<String>, Status> {
    let published = &running.network.published;
    if let Some(record) = published.newest().nodes.get(&node) {
        return Ok(Some(record.name.clone()));
    }
    let metrics = running.raft.metrics();
    let membership = Arc::clone(&metrics.borrow().membership_config);
    match membership.membership().get_node(&node.0) {
        // This holds also for a member that is about to leave: where it leads, it has to bring the others to agree on
        // that.
        Some(member) => Ok(Some(member.name.clone())),
        None if published.has_left(node) => {
            let gone = format!("node {node} has left the cluster: stop it and remove its data");
            Err(ErrorKind::Forbidden.status(gone))
        }
        None => Ok(None),
    }
}
