//! The roles and the name of a caller. A caller receives its roles from its certificate, and its name from the
//! certificate or from a token. Without TLS, there are no certificates, and every caller receives all roles. The
//! configuration therefore allows connections without TLS only on loopback addresses, unless `insecure` is set.

use std::sync::Arc;

use firstseen_routing::ClusterMap;
use firstseen_wire::status::ErrorKind;
use firstseen_wire::tls::{self, PeerRoles};
use tonic::Status;
use tonic::transport::CertificateDer;

use crate::edges::Vouched;
use crate::tokens::{NamedByToken, ShownToken};

/// Maximum number of characters of a caller's name in log messages.
const NAME_LETTERS_MAX: usize = 200;

/// Role that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A node.
    Node,
    /// An operator.
    Operator,
    /// An operator, or the node that admits this node to the cluster for an operator.
    OperatorOrNode,
    /// A producer, an operator, or a node that acts for one of them.
    Producer,
    /// No role is required.
    Any,
}

/// The caller of a request.
pub(crate) struct Caller {
    /// Certificates of the caller. `None` means that the listener does not use certificates.
    certificates: Option<Arc<Vec<CertificateDer<'static>>>>,
    roles: PeerRoles,
    /// Principal that the certificate names.
    principal: Option<String>,
    /// Token that identifies the principal, if the certificate does not.
    token: Option<ShownToken>,
}

impl Caller {
    /// Creates a caller with these certificates. `None` means that the listener does not use certificates.
    pub(crate) fn showing(certificates: Option<Arc<Vec<CertificateDer<'static>>>>) -> Self {
        let everything = PeerRoles { node: true, client: true, admin: true };
        let roles = certificates.as_ref().map_or(everything, |certificates| tls::peer_roles(certificates));
        let principal = certificates.as_ref().and_then(|certificates| tls::principal(certificates));
        Self { certificates, roles, principal, token: None }
    }

    /// Returns whether a token may identify the caller. This is the case if identification is required and the
    /// certificate does not provide it.
    pub(crate) fn may_show_token(&self) -> bool {
        !self.is_unchecked() && !self.roles.node && !self.roles.admin && self.principal.is_none()
    }

    /// Returns this caller with the principal of a token.
    pub(crate) fn by_token(self, NamedByToken { principal, token }: NamedByToken) -> Self {
        Self { principal: Some(principal), token: Some(token), ..self }
    }

    /// Returns the token that identifies the caller.
    pub(crate) fn token(&self) -> Option<ShownToken> {
        self.token
    }

    /// Checks that the caller has presented an identity that the cluster knows.
    pub(crate) fn must_be_somebody(&self) -> Result<(), Status> {
        let shows_none = self.certificates.as_ref().is_some_and(|certificates| certificates.is_empty());
        let is_nobody = shows_none && self.roles == PeerRoles::default() && self.principal.is_none();
        allow(!is_nobody, "a certificate, or a token in the header `authorization`")
    }

    /// Creates a caller whose identity a simulated network vouches for. The caller has the same roles and principal as
    /// with a certificate.
    pub(crate) fn vouched_for(Vouched { roles, principal }: Vouched) -> Self {
        Self { certificates: Some(Arc::default()), roles, principal, token: None }
    }

    /// Returns the roles in the caller's certificate.
    pub(crate) fn roles(&self) -> PeerRoles {
        self.roles
    }

    /// Returns the caller's principal, if its certificate or its token names one.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// Returns whether callers do not have to identify themselves.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.certificates.is_none()
    }

    /// Returns whether the caller's certificate belongs to a node that is in the cluster map. If this node does not
    /// belong to a cluster yet, its map contains no nodes. In that case, the certificate of any node is accepted.
    pub(crate) fn is_member(&self, map: &ClusterMap) -> bool {
        self.roles.node && (map.nodes.is_empty() || map.nodes.values().any(|node| self.is_node_named(&node.name)))
    }

    /// Returns the name of the caller in log messages: its principal, or the names in its certificate.
    pub(crate) fn name(&self) -> String {
        let PeerRoles { node, client, admin } = self.roles;
        let name = match (&self.principal, &self.certificates) {
            (Some(principal), _) if !admin && !node => principal.clone(),
            (_, None) => "anybody".to_owned(),
            (_, Some(_)) => match self.dns_names().join(" ") {
                names if names.is_empty() => "caller without a name in its certificate".to_owned(),
                names if node || client || admin => names,
                // The name must be distinguishable from a principal with the same name.
                names => format!("no role: {names}"),
            },
        };
        name.chars().filter(|letter| !letter.is_control()).take(NAME_LETTERS_MAX).collect()
    }

    /// Checks that the caller has this role.
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
            Role::Any => Ok(()),
        }
    }

    /// Checks that the caller is the node with this name.
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
