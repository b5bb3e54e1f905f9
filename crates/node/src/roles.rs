//! The roles of a caller, as its certificate gives them, and its name, which a token can give as well.
//!
//! Promises: without TLS a caller has every role (the configuration asks for a listener that only this machine reaches, or for
//! `insecure`). Must not know: requests, what callers were granted.

use std::sync::Arc;

use firstseen_routing::ClusterMap;
use firstseen_wire::status::ErrorKind;
use firstseen_wire::tls::{self, PeerRoles};
use tonic::Status;
use tonic::transport::CertificateDer;

use crate::edges::Vouched;
use crate::tokens::{NamedByToken, ShownToken};

/// Letters of a caller's name in logs.
const NAME_LETTERS_MAX: usize = 200;

/// The role that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A node.
    Node,
    /// An operator.
    Operator,
    /// An operator, or the node that lets this one join for them.
    OperatorOrNode,
    /// A producer, an operator, or a node for them.
    Producer,
    /// None.
    Anybody,
}

/// The caller of a request.
pub(crate) struct Caller {
    /// None where the listener asks for no certificates.
    certificates: Option<Arc<Vec<CertificateDer<'static>>>>,
    roles: PeerRoles,
    /// The principal that its certificate names.
    principal: Option<String>,
    /// The token that names the principal, where its certificate does not.
    token: Option<ShownToken>,
}

impl Caller {
    /// A caller that shows these certificates; none where the listener asks for none.
    pub(crate) fn showing(certificates: Option<Arc<Vec<CertificateDer<'static>>>>) -> Self {
        let everything = PeerRoles { node: true, client: true, admin: true };
        let roles = certificates.as_ref().map_or(everything, |certificates| tls::peer_roles(certificates));
        let principal = certificates.as_ref().and_then(|certificates| tls::principal(certificates));
        Self { certificates, roles, principal, token: None }
    }

    /// Whether a token says who it is: its certificate does not, and it is asked.
    pub(crate) fn may_show_token(&self) -> bool {
        !self.is_unchecked() && !self.roles.node && !self.roles.admin && self.principal.is_none()
    }

    /// The same caller, which a token names.
    pub(crate) fn by_token(self, NamedByToken { principal, token }: NamedByToken) -> Self {
        Self { principal: Some(principal), token: Some(token), ..self }
    }

    /// The token that says who it is.
    pub(crate) fn token(&self) -> Option<ShownToken> {
        self.token
    }

    /// Only callers that show something of which the cluster knows.
    pub(crate) fn must_be_somebody(&self) -> Result<(), Status> {
        let shows_none = self.certificates.as_ref().is_some_and(|certificates| certificates.is_empty());
        let is_nobody = shows_none && self.roles == PeerRoles::default() && self.principal.is_none();
        allow(!is_nobody, "a certificate, or a token in the header `authorization`")
    }

    /// A caller for whom the network vouches, as if it had shown a certificate with these roles and this name.
    pub(crate) fn vouched_for(Vouched { roles, principal }: Vouched) -> Self {
        Self { certificates: Some(Arc::default()), roles, principal, token: None }
    }

    /// The roles in the caller's certificate.
    pub(crate) fn roles(&self) -> PeerRoles {
        self.roles
    }

    /// The one principal that its certificate names, where it names one.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// Whether nobody asks who it is.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.certificates.is_none()
    }

    /// Whether its certificate is that of a node which the map has; true of any node's while this node belongs to no cluster.
    pub(crate) fn is_member(&self, map: &ClusterMap) -> bool {
        self.roles.node && (map.nodes.is_empty() || map.nodes.values().any(|node| self.is_node_named(&node.name)))
    }

    /// What it is called in logs: its principal, or the names of its certificate.
    pub(crate) fn name(&self) -> String {
        let PeerRoles { node, client, admin } = self.roles;
        let name = match (&self.principal, &self.certificates) {
            (Some(principal), _) if !admin && !node => principal.clone(),
            (_, None) => "anybody".to_owned(),
            (_, Some(_)) => match self.dns_names().join(" ") {
                names if names.is_empty() => "nobody whom a certificate names".to_owned(),
                names if node || client || admin => names,
                // It must not look like the principal of that name.
                names => format!("no role: {names}"),
            },
        };
        name.chars().filter(|letter| !letter.is_control()).take(NAME_LETTERS_MAX).collect()
    }

    /// Only callers with this role.
    pub(crate) fn must(&self, role: Role) -> Result<(), Status> {
        let PeerRoles { node, client, admin } = self.roles;
        match role {
            Role::Node => allow(node, "a node's certificate (`node.firstseen`)"),
            Role::Operator => allow(admin, "an operator's certificate (`admin.firstseen`)"),
            Role::OperatorOrNode => allow(admin || node, "an operator's certificate (`admin.firstseen`)"),
            Role::Producer => {
                let is_producer = client || self.principal.is_some();
                allow(is_producer || admin || node, "a producer's certificate (`client.firstseen`) or a token")
            }
            Role::Anybody => Ok(()),
        }
    }

    /// Only the node of this name.
    pub(crate) fn must_be_named(&self, name: &str) -> Result<(), Status> {
        allow(self.is_node_named(name), &format!("the certificate of node `{name}` (`{name}.{}`)", tls::NODE_NAME))
    }

    fn is_node_named(&self, name: &str) -> bool {
        self.certificates.as_ref().is_none_or(|certificates| tls::is_node_named(certificates, name))
    }

    fn dns_names(&self) -> Vec<String> {
        self.certificates.as_ref().map_or_else(Vec::new, |certificates| tls::dns_names(certificates))
    }
}

fn allow(allowed: bool, needed: &str) -> Result<(), Status> {
    if allowed { Ok(()) } else { Err(ErrorKind::Forbidden.status(format!("this needs {needed}"))) }
}
