//! Tests requests that any gRPC tool can send to a node: health checks and reflection.

use std::time::Duration;

use crate::common::{PATIENCE, TestNode};
use firstseen_node::Limits;
use tonic::{Code, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest as Asked;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse as Answer;

fn whole_node() -> HealthCheckRequest {
    HealthCheckRequest::default()
}

/// Waits until the watched health status is `status`.
async fn becomes(watched: &mut Streaming<HealthCheckResponse>, status: ServingStatus) {
    let waiting = async {
        loop {
            let health = watched.message().await.expect("no status").expect("it is watched");
            if health.status() == status {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("it was never {status:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_follows_readiness() {
    let node = TestNode::start("a", Limits { drain_max_ms: 1000, ..Limits::default() }).await;
    let mut health = HealthClient::new(node.channel());
    let before = health.check(whole_node()).await.expect("an answer").into_inner();
    assert_eq!(before.status(), ServingStatus::NotServing, "it belongs to no cluster");
    let mut watched = health.watch(whole_node()).await.expect("watched").into_inner();
    becomes(&mut watched, ServingStatus::NotServing).await;
    node.init().await;
    becomes(&mut watched, ServingStatus::Serving).await;
    assert_eq!(health.check(whole_node()).await.expect("an answer").into_inner().status(), ServingStatus::Serving);
    let unknown = HealthCheckRequest { service: "no.such.Service".to_owned() };
    assert_eq!(health.check(unknown).await.expect_err("there is none").code(), Code::NotFound);
    let stopping = tokio::spawn(node.node.shutdown());
    becomes(&mut watched, ServingStatus::NotServing).await;
    tokio::time::timeout(Duration::from_secs(30), stopping).await.expect("it stops").expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_describes_every_service() {
    let node = TestNode::start("a", Limits::default()).await;
    let ask = async |asked: Asked| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
        let mut reflection = ServerReflectionClient::new(node.channel());
        let reply = reflection.server_reflection_info(tokio_stream::iter([request])).await.expect("a stream");
        let reply = tokio::time::timeout(PATIENCE, reply.into_inner().message()).await.expect("in time")?;
        Ok::<_, Status>(reply.and_then(|reply| reply.message_response).expect("an answer"))
    };
    let Ok(Answer::ListServicesResponse(list)) = ask(Asked::ListServices(String::new())).await else {
        panic!("no list")
    };
    let services: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for (package, service) in [("producer", "Producer"), ("peer", "Peer"), ("meta", "Meta"), ("admin", "Admin")] {
        let name = format!("firstseen.{package}.v1.{service}");
        assert!(services.contains(&name), "no {name} among {services:?}");
        let Ok(Answer::FileDescriptorResponse(files)) = ask(Asked::FileContainingSymbol(name.clone())).await else {
            panic!("{name} is not described")
        };
        let file: Vec<u8> = files.file_descriptor_proto.concat();
        assert!(file.windows(service.len()).any(|part| part == service.as_bytes()), "{name} is not in its file");
    }
    let unknown = ask(Asked::FileContainingSymbol("firstseen.none.v1.None".to_owned())).await;
    assert_eq!(unknown.expect_err("there is none").code(), Code::NotFound);
}
