//! The door for Redis clients with TLS: who shows a certificate, a token, or neither.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use firstseen_door::DoorSettings;
use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::SlicedDefinition;
use firstseen_wire::net;
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::proto::admin::{self, NewToken, Rights, Verb};
use firstseen_wire::tls::TlsFiles;
use firstseen_wire::token::{TOKEN_RANDOM_BYTES, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::common::certs::{Authority, channel, settings};
use crate::common::{TestNode, request_to_create};

const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis client that speaks TLS, with a certificate or without.
async fn connect(node: &TestNode, ca: &TlsFiles, own: Option<&TlsFiles>) -> io::Result<TlsStream<TcpStream>> {
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
    let stream = TcpStream::connect(node.node.redis_addr().expect("a door")).await?;
    let name = ServerName::try_from("node.firstseen").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The first line of the reply to a line.
async fn ask(client: &mut TlsStream<TcpStream>, line: &str) -> String {
    client.write_all(format!("{line}\r\n").as_bytes()).await.expect("it listens");
    let mut heard = Vec::new();
    let hearing = async {
        while !heard.ends_with(b"\n") {
            heard.push(client.read_u8().await.expect("a reply"));
        }
    };
    timeout(PATIENCE, hearing).await.expect("a reply in time");
    String::from_utf8_lossy(&heard).trim_end().to_owned()
}

/// Who shows the certificate of another authority, or does not speak TLS, is not heard.
async fn strangers_are_turned_away(node: &TestNode, own: &TlsFiles) {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let foreign = Authority::new(elsewhere.path());
    let files = foreign.sign("crawler", &["client.firstseen", "crawler.client.firstseen"]);
    let shaken = connect(node, own, Some(&files)).await;
    let is_closed = match shaken {
        Err(_) => true,
        Ok(mut stream) => {
            let _ = stream.write_all(b"PING\r\n").await;
            stream.read_u8().await.is_err()
        }
    };
    assert!(is_closed, "another authority's");
    let mut plain = TcpStream::connect(node.node.redis_addr().expect("a door")).await.expect("a connection");
    plain.write_all(b"*1\r\n$4\r\nPING\r\n").await.expect("it listens");
    let mut heard = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut heard)).await.expect("it is closed");
    assert!(!heard.windows(4).any(|bytes| bytes == b"PONG"), "without TLS");
}

/// The authority is another one now: whoever shows the certificate of the former one has to say who it is.
async fn a_certificate_that_is_accepted_no_more_is_none(
    node: &TestNode,
    own: &TlsFiles,
    client: &mut TlsStream<TcpStream>,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let next = Authority::new(folder.path()).node("a");
    let both = [&own.ca, &next.ca].map(|ca| fs::read_to_string(ca).expect("an authority")).concat();
    fs::write(&own.ca, both).expect("a file");
    for (from, to) in [(&next.cert, &own.cert), (&next.key, &own.key)] {
        fs::copy(from, to).expect("a file");
    }
    let taking_over = async {
        while connect(node, &next, None).await.is_err() {
            node.node.look_at_certificates();
        }
    };
    timeout(PATIENCE, taking_over).await.expect("it shows the new certificate");
    fs::copy(&next.ca, &own.ca).expect("a file");
    assert!(ask(client, "BF.ADD clicks z").await.starts_with("-NOPERM"), "it is somebody so far");
    let ending = async {
        loop {
            node.node.look_at_certificates();
            if ask(client, "BF.ADD clicks z").await.starts_with("-NOAUTH") {
                return;
            }
        }
    };
    timeout(PATIENCE, ending).await.expect("it is cut off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_or_a_token_opens_the_door_and_nothing_else_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = authority.node("a");
    let mut tls = settings(&own);
    tls.tokens = true;
    let node = TestNode::start_with("a", |config| {
        config.tls = Some(tls);
        config.redis = Some(DoorSettings { tls: true, ..DoorSettings::at(([127, 0, 0, 1], 0).into()) });
    })
    .await;
    let operator = channel(&node, &authority.sign("admin", &["admin.firstseen"]));
    let mut admin = net::admin_client(operator);
    admin.init(admin::InitRequest {}).await.expect("a cluster");
    let definition = {
        let spec =
            FilterSpec { capacity_events: Some(1_000), ..FilterSpec::new(Kind::Timing, "1h".parse().expect("W")) };
        SlicedDefinition::new(&spec, "none".parse().expect("a slicing")).expect("a definition")
    };
    admin.create_filter(request_to_create("clicks", &definition)).await.expect("a filter");
    let mut change = async |change: Change| {
        let request = admin::ChangeAccessRequest { change: Some(change), ..Default::default() };
        admin.change_access(request).await.expect("a change");
    };
    for (principal, verb, filters) in
        [("crawler", Verb::Observe, "clicks"), ("other", Verb::Observe, "none"), ("keeper", Verb::Security, "")]
    {
        let grants = vec![admin::Grant { verb: verb.into(), filters: filters.to_owned() }];
        change(Change::Grant(Rights { principal: principal.to_owned(), grants })).await;
    }
    let token = Token::new([5; TOKEN_RANDOM_BYTES]);
    let (id, digest) = (token.id().number(), token.digest().to_vec().into());
    change(Change::AddToken(NewToken { principal: "crawler".to_owned(), id, digest, expires_s: 0 })).await;
    change(Change::Enable(true)).await;
    let named = |name: &str| authority.sign(name, &["client.firstseen", &format!("{name}.client.firstseen")]);

    // By its certificate, without AUTH.
    let mut crawler = connect(&node, &own, Some(&named("crawler"))).await.expect("a handshake");
    assert_eq!(ask(&mut crawler, "BF.ADD clicks a").await, ":1");
    let mut other = connect(&node, &own, Some(&named("other"))).await.expect("a handshake");
    let refused = ask(&mut other, "BF.ADD clicks b").await;
    assert!(refused.starts_with("-NOPERM") && refused.contains("`other` may not observe"), "{refused}");
    // By a token, and not before.
    let mut stranger = connect(&node, &own, None).await.expect("a handshake");
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, "-NOAUTH Authentication required.");
    assert!(ask(&mut stranger, "AUTH crawler guess").await.starts_with("-WRONGPASS"));
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, "-NOAUTH Authentication required.");
    assert_eq!(ask(&mut stranger, &format!("AUTH crawler {}", token.reveal())).await, "+OK");
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, ":0", "seen by the other connection");
    assert_eq!(ask(&mut stranger, "RESET").await, "+RESET");
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, "-NOAUTH Authentication required.");
    // What is open ends with its token, and with its right.
    assert_eq!(ask(&mut stranger, &format!("AUTH {}", token.reveal())).await, "+OK");
    change(Change::RemoveToken(id)).await;
    assert!(ask(&mut stranger, "BF.ADD clicks c").await.contains("taken back"));
    change(Change::Revoke(Rights { principal: "crawler".to_owned(), grants: Vec::new() })).await;
    assert!(ask(&mut crawler, "BF.ADD clicks c").await.starts_with("-NOPERM"));
    strangers_are_turned_away(&node, &own).await;
    a_certificate_that_is_accepted_no_more_is_none(&node, &own, &mut other).await;
}
