//! Mutual TLS: certificates from files, and what a peer's certificate lets it do.
//!
//! Promises: no peer without a certificate of the cluster's authority gets past the handshake; roles are names in the
//! certificate that the authority has signed, nothing that a peer says of itself. Must not know: which role a request
//! needs.
//!
//! | name (subject alternative, DNS) | may |
//! |---|---|
//! | `node.firstseen` and `<name>.node.firstseen` | be that node |
//! | `client.firstseen` | produce |
//! | `<name>.client.firstseen` | produce; do what the principal of this name was granted |
//! | `admin.firstseen` | administer |

pub use crate::dial::ClientTls;
pub use crate::handshake::{ServerFiles, ServerTls, TlsStream};
pub use crate::names::{
    ADMIN_NAME, CLIENT_NAME, NODE_NAME, PeerRoles, dns_names, is_node_named, peer_roles, principal, serial, subject,
};
pub use crate::tls_error::TlsError;
pub use crate::tls_files::TlsFiles;
pub use tonic::transport::CertificateDer;
