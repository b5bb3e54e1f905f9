//! Tests that clients with unsuitable settings receive an error at once, and that the error contains the reason.

use std::net::TcpListener;

use crate::common::TestNode;
use crate::common::certs::{Authority, settings};
use firstseen_client::{Client, ConnectError, ConnectOptions, Mismatch, SeedMismatch, TlsFiles};
use firstseen_node::Limits;

/// Deadline in milliseconds. A client that waits this long receives another error, and the test fails.
const LONG_MS: u64 = 60_000;

async fn refusal(seeds: &[&str], files: Option<&TlsFiles>, deadline_ms: u64) -> ConnectError {
    let mut options = ConnectOptions { deadline_ms, ..ConnectOptions::from(seeds.iter().copied()) };
    if let Some(files) = files {
        options.tls = Some(files.clone());
    }
    Client::connect(options).await.err().unwrap_or_else(|| panic!("{seeds:?} cannot be reached like that"))
}

fn mismatches(error: ConnectError) -> Vec<(String, Mismatch)> {
    let ConnectError::Settings(seeds) = error else { panic!("another error: {error}") };
    seeds.into_iter().map(|SeedMismatch { address, mismatch }| (address, mismatch)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_work_are_an_error_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let files = authority.sign("client", &["client.firstseen"]);
    let certificate = authority.node("a");
    let secure = TestNode::start_with("a", |config| config.tls = Some(settings(&certificate))).await;
    let plain = TestNode::start("b", Limits::default()).await;
    let other_folder = tempfile::tempdir().expect("a folder");
    let strange = Authority::new(other_folder.path()).sign("client", &["client.firstseen"]);

    let (tls, open) = (secure.node.addr().to_owned(), plain.node.addr().to_owned());
    let error = refusal(&[&tls], None, LONG_MS).await;
    assert_eq!(
        error.to_string(),
        format!("{tls} speaks TLS: give the certificate of its authority, and one of your own or a token")
    );
    assert_eq!(mismatches(error), [(tls.clone(), Mismatch::SpeaksTls)]);
    let error = refusal(&[&open], Some(&files), LONG_MS).await;
    assert_eq!(mismatches(error), [(open.clone(), Mismatch::SpeaksPlain)]);
    let error = refusal(&[&tls], Some(&strange), LONG_MS).await;
    assert_eq!(mismatches(error), [(tls.clone(), Mismatch::UnknownAuthority)]);
    let error = refusal(&[&open, &open], Some(&files), LONG_MS).await;
    assert_eq!(mismatches(error).len(), 2, "each seed is named");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_for_health_and_metrics_is_recognised() {
    let node = TestNode::start("a", Limits::default()).await;
    let address = node.node.http_addr().expect("http").to_string();
    let error = refusal(&[&address], None, LONG_MS).await;
    assert!(error.to_string().contains("health and metrics"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let files = Authority::new(folder.path()).sign("client", &["client.firstseen"]);
    mismatches(refusal(&[&address], Some(&files), LONG_MS).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_seed_that_may_still_answer_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = Authority::new(folder.path()).node("a");
    let secure = TestNode::start_with("a", |config| config.tls = Some(settings(&certificate))).await;
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string();
    let error = refusal(&[secure.node.addr(), &nobody], None, 300).await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("speaks TLS") && message.contains(&nobody), "{message}");

    let plain = TestNode::start("b", Limits::default()).await;
    plain.init().await;
    let seeds = [secure.node.addr(), plain.node.addr()];
    Client::connect(ConnectOptions::from(seeds)).await.expect("the second one answers");
}
