//! A node whose Redis and HTTP endpoints use TLS, in a cluster with access control.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use firstseen_filter::{FilterSpec, Kind};
use firstseen_http_endpoint::HttpEndpointSettings;
use firstseen_redis_endpoint::RedisEndpointSettings;
use firstseen_routing::SlicedDefinition;
use firstseen_wire::net::{self, Channel};
use firstseen_wire::proto::admin::admin_client::AdminClient;
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::proto::admin::{self, NewToken, Rights, Verb};
use firstseen_wire::tls::TlsFiles;
use firstseen_wire::token::{TOKEN_RANDOM_BYTES, Token};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::certs::{Authority, channel, settings};
use super::{TestNode, request_to_create};

/// A node with a Redis endpoint, an HTTP endpoint, and a filter `clicks`. The principal `crawler` may observe events of
/// this filter, and can identify itself with its certificate or with `token`. The principal `other` has no right on any
/// existing filter.
pub struct TlsEndpoints {
    pub node: TestNode,
    /// Certificate of the node.
    pub own: TlsFiles,
    /// A token of `crawler`.
    pub token: Token,
    authority: Authority,
    admin: AdminClient<Channel>,
    _folder: tempfile::TempDir,
}

impl TlsEndpoints {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path());
        let own = authority.node("a");
        let mut tls = settings(&own);
        tls.tokens = true;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let node = TestNode::start_with("a", |config| {
            config.tls = Some(tls);
            config.redis = Some(RedisEndpointSettings { tls: true, ..RedisEndpointSettings::at(any_port) });
            config.http_api = Some(HttpEndpointSettings { tls: true, ..HttpEndpointSettings::at(any_port) });
        })
        .await;
        let admin = net::admin_client(channel(&node, &authority.sign("admin", &["admin.firstseen"])));
        let token = Token::new([5; TOKEN_RANDOM_BYTES]);
        let mut endpoints = Self { node, own, token, authority, admin, _folder: folder };
        endpoints.form().await;
        endpoints
    }

    async fn form(&mut self) {
        self.admin.init(admin::InitRequest {}).await.expect("a cluster");
        let spec =
            FilterSpec { capacity_events: Some(1_000), ..FilterSpec::new(Kind::Timing, "1h".parse().expect("W")) };
        let definition = SlicedDefinition::new(&spec, "none".parse().expect("a slicing")).expect("a definition");
        self.admin.create_filter(request_to_create("clicks", &definition)).await.expect("a filter");
        for (principal, verb, filters) in
            [("crawler", Verb::Observe, "clicks"), ("other", Verb::Observe, "none"), ("keeper", Verb::Security, "")]
        {
            let grants = vec![admin::Grant { verb: verb.into(), filters: filters.to_owned() }];
            self.change(Change::Grant(Rights { principal: principal.to_owned(), grants })).await;
        }
        let (id, digest) = (self.token.id().number(), self.token.digest().to_vec().into());
        self.change(Change::AddToken(NewToken { principal: "crawler".to_owned(), id, digest, expires_s: 0 })).await;
        self.change(Change::Enable(true)).await;
    }

    async fn change(&mut self, change: Change) {
        let request = admin::ChangeAccessRequest { change: Some(change), ..Default::default() };
        self.admin.change_access(request).await.expect("a change");
    }

    pub async fn remove_token(&mut self) {
        self.change(Change::RemoveToken(self.token.id().number())).await;
    }

    /// Revokes the right to observe `clicks` from a principal. The cluster still knows the principal and its tokens.
    pub async fn revoke_observe(&mut self, principal: &str) {
        let grants = vec![admin::Grant { verb: Verb::Observe.into(), filters: "clicks".to_owned() }];
        self.change(Change::Revoke(Rights { principal: principal.to_owned(), grants })).await;
    }

    /// Removes a principal with its rights and tokens.
    pub async fn revoke(&mut self, principal: &str) {
        self.change(Change::Revoke(Rights { principal: principal.to_owned(), grants: Vec::new() })).await;
    }

    /// Signs a client certificate with the name of a principal.
    pub fn named(&self, name: &str) -> TlsFiles {
        self.authority.sign(name, &["client.firstseen", &format!("{name}.client.firstseen")])
    }

    pub fn redis(&self) -> SocketAddr {
        self.node.node.redis_addr().expect("an endpoint")
    }

    pub fn http(&self) -> SocketAddr {
        self.node.node.http_api_addr().expect("an endpoint")
    }
}

/// Connects to an endpoint with TLS. The connection is accepted only if the certificate of the endpoint was issued by
/// the certificate authority in `ca`. If `own` is given, the client presents this certificate to the endpoint.
pub async fn connect(endpoint: SocketAddr, ca: &TlsFiles, own: Option<&TlsFiles>) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&ca.ca).expect("an authority")).expect("its certificate");
    let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(&own.cert).expect("a certificate")];
            let key = PrivateKeyDer::from_pem_file(&own.key).expect("its key");
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    };
    let stream = TcpStream::connect(endpoint).await?;
    let name = ServerName::try_from("node.firstseen").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
