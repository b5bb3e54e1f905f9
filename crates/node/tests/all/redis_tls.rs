//! Tests the Redis endpoint with TLS, with clients that present a certificate, a token, or neither.

use std::fs;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::common::certs::Authority;
use crate::common::tls_endpoints::{TlsEndpoints, connect};

const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a line, and returns the first line of the reply.
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

/// Tests that the endpoint rejects a client with a certificate of another authority, and a client without TLS.
async fn strangers_are_turned_away(endpoints: &TlsEndpoints) {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let foreign = Authority::new(elsewhere.path());
    let files = foreign.sign("crawler", &["client.firstseen", "crawler.client.firstseen"]);
    let shaken = connect(endpoints.redis(), &endpoints.own, Some(&files)).await;
    let is_closed = match shaken {
        Err(_) => true,
        Ok(mut stream) => {
            let _ = stream.write_all(b"PING\r\n").await;
            stream.read_u8().await.is_err()
        }
    };
    assert!(is_closed, "another authority's");
    let mut plain = TcpStream::connect(endpoints.redis()).await.expect("a connection");
    plain.write_all(b"*1\r\n$4\r\nPING\r\n").await.expect("it listens");
    let mut heard = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut heard)).await.expect("it is closed");
    assert!(!heard.windows(4).any(|bytes| bytes == b"PONG"), "without TLS");
}

/// Tests a change of the certificate authority. A client with a certificate of the previous authority must identify
/// itself in another way.
async fn a_certificate_that_is_accepted_no_more_is_none(endpoints: &TlsEndpoints, client: &mut TlsStream<TcpStream>) {
    let TlsEndpoints { node, own, .. } = endpoints;
    let folder = tempfile::tempdir().expect("a folder");
    let next = Authority::new(folder.path()).node("a");
    let both = [&own.ca, &next.ca].map(|ca| fs::read_to_string(ca).expect("an authority")).concat();
    fs::write(&own.ca, both).expect("a file");
    for (from, to) in [(&next.cert, &own.cert), (&next.key, &own.key)] {
        fs::copy(from, to).expect("a file");
    }
    let taking_over = async {
        while connect(endpoints.redis(), &next, None).await.is_err() {
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
async fn a_certificate_or_a_token_opens_the_endpoint_and_nothing_else_does() {
    let mut endpoints = TlsEndpoints::start().await;
    let token = endpoints.token.reveal().to_owned();
    // This client is identified by its certificate, without `AUTH`.
    let mut crawler =
        connect(endpoints.redis(), &endpoints.own, Some(&endpoints.named("crawler"))).await.expect("a handshake");
    assert_eq!(ask(&mut crawler, "BF.ADD clicks a").await, ":1");
    let mut other =
        connect(endpoints.redis(), &endpoints.own, Some(&endpoints.named("other"))).await.expect("a handshake");
    let refused = ask(&mut other, "BF.ADD clicks b").await;
    assert!(refused.starts_with("-NOPERM") && refused.contains("`other` may not observe"), "{refused}");
    // This client is identified by a token, and is rejected before it presents the token.
    let mut stranger = connect(endpoints.redis(), &endpoints.own, None).await.expect("a handshake");
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, "-NOAUTH Authentication required.");
    assert!(ask(&mut stranger, "AUTH crawler guess").await.starts_with("-WRONGPASS"));
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, "-NOAUTH Authentication required.");
    assert_eq!(ask(&mut stranger, &format!("AUTH crawler {token}")).await, "+OK");
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, ":0", "seen by the other connection");
    assert_eq!(ask(&mut stranger, "RESET").await, "+RESET");
    assert_eq!(ask(&mut stranger, "BF.ADD clicks a").await, "-NOAUTH Authentication required.");
    // An open connection loses access when its token or its right is revoked.
    assert_eq!(ask(&mut stranger, &format!("AUTH {token}")).await, "+OK");
    endpoints.remove_token().await;
    assert!(ask(&mut stranger, "BF.ADD clicks c").await.contains("taken back"));
    endpoints.revoke("crawler").await;
    assert!(ask(&mut crawler, "BF.ADD clicks c").await.starts_with("-NOPERM"));
    strangers_are_turned_away(&endpoints).await;
    a_certificate_that_is_accepted_no_more_is_none(&endpoints, &mut other).await;
}

/// `AUTH` with a valid token was refused as a wrong password if the principal had no right left. It is accepted, and
/// the commands that follow say which right is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_without_a_right_is_told_which_right_is_missing() {
    let mut endpoints = TlsEndpoints::start().await;
    let token = endpoints.token.reveal().to_owned();
    endpoints.revoke_observe("crawler").await;
    let mut by_token = connect(endpoints.redis(), &endpoints.own, None).await.expect("a handshake");
    assert_eq!(ask(&mut by_token, &format!("AUTH crawler {token}")).await, "+OK");
    let named = endpoints.named("crawler");
    let by_certificate = connect(endpoints.redis(), &endpoints.own, Some(&named)).await.expect("a handshake");
    for mut client in [by_token, by_certificate] {
        let refused = ask(&mut client, "BF.ADD clicks a").await;
        assert!(refused.starts_with("-NOPERM") && refused.contains("`crawler` may not observe"), "{refused}");
        assert_eq!(ask(&mut client, "FS.LIST").await, "*0", "it learns of no filter");
    }
}
