//! The names in certificates, and what a peer's certificate lets it do.
//!
//! Promises: roles are names in the certificate that the authority has signed, nothing that a peer says of itself. Must not know:
//! which role a request needs, how certificates are verified.

use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use tonic::transport::CertificateDer;
use webpki::EndEntityCert;

/// The name in every node's certificate.
pub const NODE_NAME: &str = "node.firstseen";
/// The name in a producer's certificate.
pub const CLIENT_NAME: &str = "client.firstseen";
/// The name in an operator's certificate.
pub const ADMIN_NAME: &str = "admin.firstseen";

/// The name that the certificate of the node of this name has, or that of any node of the cluster.
pub(crate) fn peer_name(node_name: Option<&str>) -> String {
    node_name.map_or_else(|| NODE_NAME.to_owned(), |name| format!("{name}.{NODE_NAME}"))
}

/// What a peer may do, as the names in its certificate say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerRoles {
    /// It is a node of the cluster.
    pub node: bool,
    /// It may produce.
    pub client: bool,
    /// It may administer.
    pub admin: bool,
}

/// The roles of a peer with these certificates (its own first), which the handshake has verified.
pub fn peer_roles(certs: &[CertificateDer<'_>]) -> PeerRoles {
    PeerRoles {
        node: is_valid_for(certs, NODE_NAME),
        client: is_valid_for(certs, CLIENT_NAME),
        admin: is_valid_for(certs, ADMIN_NAME),
    }
}

/// Whether a peer with these certificates is the node of this name.
pub fn is_node_named(certs: &[CertificateDer<'_>], node_name: &str) -> bool {
    is_valid_for(certs, NODE_NAME) && is_valid_for(certs, &format!("{node_name}.{NODE_NAME}"))
}

/// The number of the first certificate in a PEM file, by which its authority revokes it.
pub fn serial(pem: &[u8]) -> Option<Vec<u8>> {
    let own = CertificateDer::from_pem_slice(pem).ok()?;
    Some(EndEntityCert::try_from(&own).ok()?.serial().to_vec())
}

/// The holder of the first certificate in a PEM file, in DER.
pub fn subject(pem: &[u8]) -> Option<Vec<u8>> {
    let own = CertificateDer::from_pem_slice(pem).ok()?;
    Some(EndEntityCert::try_from(&own).ok()?.subject().to_vec())
}

/// The names in the certificate of a peer.
pub fn dns_names(certs: &[CertificateDer<'_>]) -> Vec<String> {
    let own = certs.first().and_then(|own| EndEntityCert::try_from(own).ok());
    own.map_or_else(Vec::new, |own| own.valid_dns_names().map(str::to_owned).collect())
}

/// The one principal that the certificate of a peer names, in small letters; none where it names none or several.
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
