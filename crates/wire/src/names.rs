//! Names in certificates, and the roles that they give to a peer.
//!
//! A peer has a role only if its certificate contains the name of that role. The cluster's authority has signed the
//! certificate, so a peer cannot obtain a role by a claim of its own.

use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use tonic::transport::CertificateDer;
use webpki::EndEntityCert;

/// DNS name in the certificate of every node.
pub const NODE_NAME: &str = "node.firstseen";
/// DNS name in the certificate of a producer.
pub const CLIENT_NAME: &str = "client.firstseen";
/// DNS name in the certificate of an operator.
pub const ADMIN_NAME: &str = "admin.firstseen";

/// Returns the DNS name that a peer's certificate must contain: the name of the given node, or the name that all nodes
/// share.
pub(crate) fn peer_name(node_name: Option<&str>) -> String {
    node_name.map_or_else(|| NODE_NAME.to_owned(), |name| format!("{name}.{NODE_NAME}"))
}

/// Roles of a peer, according to the names in its certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerRoles {
    /// Whether the peer is a node of the cluster.
    pub node: bool,
    /// Whether the peer may act as a producer.
    pub client: bool,
    /// Whether the peer may act as an operator.
    pub admin: bool,
}

/// Returns the roles of a peer with these certificates, the peer's own certificate first. The handshake has already
/// verified them.
pub fn peer_roles(certs: &[CertificateDer<'_>]) -> PeerRoles {
    PeerRoles {
        node: is_valid_for(certs, NODE_NAME),
        client: is_valid_for(certs, CLIENT_NAME),
        admin: is_valid_for(certs, ADMIN_NAME),
    }
}

/// Returns whether a peer with these certificates is the node of this name.
pub fn is_node_named(certs: &[CertificateDer<'_>], node_name: &str) -> bool {
    is_valid_for(certs, NODE_NAME) && is_valid_for(certs, &format!("{node_name}.{NODE_NAME}"))
}

/// Returns the serial number of the first certificate in a PEM file. The authority uses this number to revoke the
/// certificate.
pub fn serial(pem: &[u8]) -> Option<Vec<u8>> {
    let own = CertificateDer::from_pem_slice(pem).ok()?;
    Some(EndEntityCert::try_from(&own).ok()?.serial().to_vec())
}

/// Returns the subject of the first certificate in a PEM file, in DER format.
pub fn subject(pem: &[u8]) -> Option<Vec<u8>> {
    let own = CertificateDer::from_pem_slice(pem).ok()?;
    Some(EndEntityCert::try_from(&own).ok()?.subject().to_vec())
}

/// Returns the DNS names in the certificate of a peer.
pub fn dns_names(certs: &[CertificateDer<'_>]) -> Vec<String> {
    let own = certs.first().and_then(|own| EndEntityCert::try_from(own).ok());
    own.map_or_else(Vec::new, |own| own.valid_dns_names().map(str::to_owned).collect())
}

/// Returns the principal that the certificate of a peer names, in lower case. Returns `None` if the certificate names
/// no principal or several.
pub fn principal(certs: &[CertificateDer<'_>]) -> Option<String> {
    let mut labels = dns_names(certs).into_iter().filter_map(|name| {
        let label = name.to_ascii_lowercase().strip_suffix(CLIENT_NAME)?.strip_suffix('.')?.to_owned();
        (!label.contains(['.', '*'])).then_some(label)
    });
    labels.next().filter(|_| labels.next().is_none())
}

fn is_valid_for(certs: &[CertificateDer<'_>], name: &str) -> bool {
    let (Some(own), Ok(name)) = (certs.first(), ServerName::try_from(name)) else { return false };
    EndEntityCert::try_from(own).is_ok_and(|cert| cert.verify_is_valid_for_subject_name(&name).is_ok())
}
