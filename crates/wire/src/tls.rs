//! Mutual TLS with certificates from files, and the rights that a peer's certificate gives.
//!
//! A peer must have a certificate that the cluster's authority has signed, or the handshake fails. The certificate also
//! contains the names of the peer's roles, so a peer cannot obtain a role by a claim of its own.
//!
//! | name (subject alternative, DNS) | may |
//! |---|---|
//! | `node.firstseen` and `<name>.node.firstseen` | act as the node with this name |
//! | `client.firstseen` | act as a producer |
//! | `<name>.client.firstseen` | act as a producer, and do what the principal with this name was granted |
//! | `admin.firstseen` | act as an operator |

pub use crate::dial::ClientTls;
pub use crate::handshake::{ServerFiles, ServerTls, TlsStream};
pub use crate::names::{
    ADMIN_NAME, CLIENT_NAME, NODE_NAME, PeerRoles, dns_names, is_node_named, peer_roles, principal, serial, subject,
};
pub use crate::tls_error::TlsError;
pub use crate::tls_files::TlsFiles;
pub use tonic::transport::CertificateDer;
