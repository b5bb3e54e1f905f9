//! Tests the HTTP endpoint with TLS, with clients that present a certificate, a token, or neither.

use std::time::Duration;

use firstseen_wire::tls::TlsFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::common::certs::Authority;
use crate::common::tls_endpoints::{TlsEndpoints, connect};

const PATIENCE: Duration = Duration::from_secs(20);

/// Status and body of a reply.
type Reply = (u16, String);

/// Observes events of `clicks` on a connection that stays open.
async fn observe(client: &mut TlsStream<TcpStream>, token: Option<&str>, events: &str) -> Reply {
    let authorization = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!(
        "POST /v1/filters/clicks/observe HTTP/1.1\r\nHost: node.firstseen\r\n{authorization}Content-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n{events}",
        events.len()
    );
    client.write_all(request.as_bytes()).await.expect("it listens");
    timeout(PATIENCE, reply(client)).await.expect("a reply in time")
}

/// Reads one reply with a `Content-Length` header.
async fn reply(client: &mut TlsStream<TcpStream>) -> Reply {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.expect("a reply"));
    }
    let head = String::from_utf8(head).expect("a head of text").to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    client.read_exact(&mut body).await.expect("a body");
    (status, String::from_utf8(body).expect("a body of text"))
}

/// Tests that a client with a certificate of another authority, and a client without TLS, receive no reply.
async fn strangers_are_turned_away(endpoints: &TlsEndpoints) {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let files = Authority::new(elsewhere.path()).sign("crawler", &["client.firstseen", "crawler.client.firstseen"]);
    if let Ok(mut stream) = connect(endpoints.http(), &endpoints.own, Some(&files)).await {
        let _ = stream.write_all(b"GET /v1/filters HTTP/1.1\r\nHost: node.firstseen\r\n\r\n").await;
        assert!(stream.read_u8().await.is_err(), "the certificate of another authority");
    }
    let mut plain = TcpStream::connect(endpoints.http()).await.expect("a connection");
    plain.write_all(b"GET /v1/filters HTTP/1.1\r\nHost: node.firstseen\r\n\r\n").await.expect("it listens");
    let mut read = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut read)).await.expect("it is closed");
    assert!(!String::from_utf8_lossy(&read).contains("clicks"), "without TLS");
}

async fn connected(endpoints: &TlsEndpoints, own: Option<&TlsFiles>) -> TlsStream<TcpStream> {
    connect(endpoints.http(), &endpoints.own, own).await.expect("a handshake")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_or_a_token_gives_http_clients_their_rights_and_nothing_else_does() {
    let mut endpoints = TlsEndpoints::start().await;
    let token = endpoints.token.reveal().to_owned();

    // This client is identified by its certificate, without a token.
    let mut crawler = connected(&endpoints, Some(&endpoints.named("crawler"))).await;
    assert_eq!(observe(&mut crawler, None, "a").await, (200, r#"{"verdicts":["first_seen"]}"#.to_owned()));
    let mut other = connected(&endpoints, Some(&endpoints.named("other"))).await;
    let (status, problem) = observe(&mut other, None, "b").await;
    assert!(status == 403 && problem.contains("urn:firstseen:problem:forbidden"), "{status} {problem}");

    // This client presents a token with each request.
    let mut stranger = connected(&endpoints, None).await;
    assert_eq!(observe(&mut stranger, None, "a").await.0, 401);
    assert_eq!(observe(&mut stranger, Some("fst_guess"), "a").await.0, 401);
    let seen = (200, r#"{"verdicts":["duplicate"]}"#.to_owned());
    assert_eq!(observe(&mut stranger, Some(&token), "a").await, seen, "seen by the other connection");
    assert_eq!(observe(&mut stranger, None, "a").await.0, 401, "a token counts for its request");

    // Open connections lose the rights that are revoked.
    endpoints.remove_token().await;
    let (status, problem) = observe(&mut stranger, Some(&token), "c").await;
    assert!(status == 403 && problem.contains("taken back"), "{status} {problem}");
    assert_eq!(observe(&mut connected(&endpoints, None).await, Some(&token), "c").await.0, 401);
    endpoints.revoke("crawler").await;
    assert_eq!(observe(&mut crawler, None, "c").await.0, 403);
    strangers_are_turned_away(&endpoints).await;
}

/// A client whose only right had been revoked was told with status 401 that its token was unknown, revoked or expired,
/// or that it had to show a certificate. The operator then replaced credentials that were valid. The endpoint opened a
/// session only for principals with a right on some filter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_without_a_right_is_told_which_right_is_missing() {
    let mut endpoints = TlsEndpoints::start().await;
    let token = endpoints.token.reveal().to_owned();
    endpoints.revoke_observe("crawler").await;
    let named = endpoints.named("crawler");
    for (own, token) in [(None, Some(&*token)), (Some(&named), None)] {
        let mut client = connected(&endpoints, own).await;
        let (status, problem) = observe(&mut client, token, "a").await;
        assert_eq!(status, 403, "{problem}");
        assert!(problem.contains("`crawler` may not observe filter `clicks`"), "{problem}");
        assert!(problem.contains("firstseen access grant crawler --filter clicks --allow observe"), "{problem}");
    }
}
