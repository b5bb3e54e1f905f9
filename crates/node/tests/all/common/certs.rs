//! A certificate authority for tests, and certificates in files.

use std::fs;
use std::path::{Path, PathBuf};

use firstseen_node::TlsSettings;
use firstseen_wire::net::{Channel, Connector, TcpConnector};
use firstseen_wire::tls::{ClientTls, TlsFiles};
use firstseen_wire::token::Token;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::TestNode;

/// A certificate authority, and the folder of its certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        fs::write(folder.join("ca.pem"), issuer.pem()).expect("a file");
        Self { issuer, folder: folder.to_owned() }
    }

    /// Signs a certificate with these names.
    pub fn sign(&self, file: &str, names: &[&str]) -> TlsFiles {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("names");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        let path = |suffix: &str| self.folder.join(format!("{file}{suffix}"));
        let files = TlsFiles { ca: self.folder.join("ca.pem"), cert: path(".pem"), key: path(".key") };
        fs::write(&files.cert, cert.pem()).expect("a file");
        fs::write(&files.key, key.serialize_pem()).expect("a file");
        files
    }

    /// Signs the certificate of the node with this name.
    pub fn node(&self, name: &str) -> TlsFiles {
        self.sign(name, &["node.firstseen", &format!("{name}.node.firstseen")])
    }
}

/// Returns the TLS settings of a node with this certificate.
pub fn settings(files: &TlsFiles) -> TlsSettings {
    TlsSettings { ca: files.ca.clone(), cert: files.cert.clone(), key: files.key.clone(), crl: None, tokens: false }
}

/// Returns a channel to `node` that trusts the authority and presents no certificate.
pub fn channel_without(node: &TestNode, authority: &Authority, token: Option<&Token>) -> Channel {
    let tls = Some(ClientTls::trusting(&authority.folder.join("ca.pem")).expect("an authority"));
    TcpConnector { tls, token: token.cloned() }.channel(node.node.addr(), None).expect("an address")
}

/// Returns a channel to `node` that presents the certificate in `files`.
pub fn channel(node: &TestNode, files: &TlsFiles) -> Channel {
    let tls = Some(files.client().expect("a certificate"));
    TcpConnector { tls, token: None }.channel(node.node.addr(), None).expect("an address")
}
