//! With certificates, nothing is done for a caller without the role for it.

mod common;

use std::fs;
use std::path::Path;

use common::TestNode;
use firstseen_node::TlsSettings;
use firstseen_wire::net::{self, Connector, TcpConnector};
use firstseen_wire::proto::meta::RaftMessage;
use firstseen_wire::proto::{admin, peer, producer};
use firstseen_wire::tls::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::Code;
use tonic::transport::Channel;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(folder: &Path) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    fs::write(folder.join("ca.pem"), authority.pem()).expect("a file");
    authority
}

fn sign(folder: &Path, authority: &Authority, file: &str, names: &[&str]) -> TlsFiles {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let key = KeyPair::generate().expect("a key");
    let cert = CertificateParams::new(names).expect("names").signed_by(&key, authority).expect("a certificate");
    let path = |suffix: &str| folder.join(format!("{file}{suffix}"));
    let files = TlsFiles { ca: folder.join("ca.pem"), cert: path(".pem"), key: path(".key") };
    fs::write(&files.cert, cert.pem()).expect("a file");
    fs::write(&files.key, key.serialize_pem()).expect("a file");
    files
}

fn channel(node: &TestNode, files: &TlsFiles) -> Channel {
    let tls = Some(files.client().expect("a certificate"));
    TcpConnector { tls }.channel(node.node.addr(), None).expect("an address")
}

/// What a caller is told by the four services: admin, producer, peer, meta.
async fn codes(channel: Channel) -> [Code; 4] {
    let admin = net::admin_client(channel.clone()).identify(admin::IdentifyRequest {}).await;
    let describe = producer::DescribeFilterRequest { name: "none".to_owned() };
    let producer = net::producer_client(channel.clone()).describe_filter(describe).await;
    let peer = net::peer_client(channel.clone()).link(tokio_stream::empty::<peer::LinkFrame>()).await;
    let meta = net::meta_client(channel).vote(RaftMessage::default()).await;
    let code = |status: Option<tonic::Status>| status.map_or(Code::Ok, |status| status.code());
    [code(admin.err()), code(producer.err()), code(peer.err()), code(meta.err())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_service_asks_for_its_role() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let ca = authority(folder);
    let own = sign(folder, &ca, "node", &["node.firstseen", "a.node.firstseen"]);
    let node = TestNode::start_with("a", |config| {
        config.tls = Some(TlsSettings { ca: own.ca.clone(), cert: own.cert.clone(), key: own.key.clone() });
    })
    .await;
    let init = net::admin_client(channel(&node, &own)).init(admin::InitRequest {}).await;
    init.expect("a node may act for an operator");
    let client = sign(folder, &ca, "client", &["client.firstseen"]);
    let operator = sign(folder, &ca, "admin", &["admin.firstseen"]);
    let nobody = sign(folder, &ca, "nobody", &["nobody.firstseen"]);
    use Code::{InvalidArgument as Malformed, NotFound, Ok, PermissionDenied as Denied};
    assert_eq!(codes(channel(&node, &client)).await, [Denied, NotFound, Denied, Denied]);
    assert_eq!(codes(channel(&node, &operator)).await, [Ok, NotFound, Denied, Denied]);
    assert_eq!(codes(channel(&node, &nobody)).await, [Denied; 4]);
    assert_eq!(codes(channel(&node, &own)).await, [Ok, NotFound, Malformed, Malformed]);
}
