//! The roles of a caller, as its certificate gives them.
//!
//! Promises: with TLS, nothing is done for a caller without the role for it; without TLS everything is allowed (the
//! configuration asks for a listener that only this machine reaches, or for `insecure`). Must not know: requests.

use std::net::SocketAddr;
use std::sync::Arc;

use firstseen_wire::status::ErrorKind;
use firstseen_wire::tls::{self, PeerRoles};
use tonic::transport::CertificateDer;
use tonic::{Request, Status};

/// The caller of a request.
pub(crate) struct Caller {
    /// None where the listener asks for no certificates.
    certificates: Option<Arc<Vec<CertificateDer<'static>>>>,
    roles: PeerRoles,
}

impl Caller {
    /// The caller of `request`; `is_secure` says that the listener asks for certificates.
    pub(crate) fn of<T>(request: &Request<T>, is_secure: bool) -> Self {
        Self::showing(is_secure.then(|| request.peer_certs().unwrap_or_default()))
    }

    /// A caller that shows these certificates; none where the listener asks for none.
    pub(crate) fn showing(certificates: Option<Arc<Vec<CertificateDer<'static>>>>) -> Self {
        let everything = PeerRoles { node: true, client: true, admin: true };
        let roles = certificates.as_ref().map_or(everything, |certificates| tls::peer_roles(certificates));
        Self { certificates, roles }
    }

    /// The roles in the caller's certificate.
    pub(crate) fn roles(&self) -> PeerRoles {
        self.roles
    }

    /// The caller's name for the log: the names of its certificate, and where it calls from.
    pub(crate) fn name(&self, address: Option<SocketAddr>) -> String {
        let names = self.certificates.as_ref().map_or_else(Vec::new, |certificates| tls::dns_names(certificates));
        let names = if names.is_empty() { "nobody whom a certificate names".to_owned() } else { names.join(" ") };
        address.map_or_else(|| names.clone(), |address| format!("{names}, {address}"))
    }

    /// Only nodes.
    pub(crate) fn must_be_node(&self) -> Result<(), Status> {
        allow(self.roles.node, "a node's certificate (`node.firstseen`)")
    }

    /// Only the node of this name.
    pub(crate) fn must_be_named(&self, name: &str) -> Result<(), Status> {
        let is_named = self.certificates.as_ref().is_none_or(|certificates| tls::is_node_named(certificates, name));
        allow(is_named, &format!("the certificate of node `{name}` (`{name}.{}`)", tls::NODE_NAME))
    }

    /// Only operators.
    pub(crate) fn must_be_admin(&self) -> Result<(), Status> {
        allow(self.roles.admin, "an operator's certificate (`admin.firstseen`)")
    }

    /// Operators, and the node that lets this one join for them.
    pub(crate) fn must_be_admin_or_node(&self) -> Result<(), Status> {
        allow(self.roles.admin || self.roles.node, "an operator's certificate (`admin.firstseen`)")
    }

    /// Producers, operators, and nodes for them.
    pub(crate) fn must_be_client(&self) -> Result<(), Status> {
        let roles = self.roles;
        allow(roles.client || roles.admin || roles.node, "a producer's certificate (`client.firstseen`)")
    }
}

fn allow(allowed: bool, needed: &str) -> Result<(), Status> {
    if allowed { Ok(()) } else { Err(ErrorKind::Forbidden.status(format!("this needs {needed}"))) }
}
