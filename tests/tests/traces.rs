//! Checks the traces that an OpenTelemetry collector receives. A trace must contain the span of the producer, and below
//! it the spans of all nodes that its batch has reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firstseen_client::{Client, ConnectOptions, Filter, TraceParent, Verdict};
use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Runtime;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;

/// Time for which events are submitted until all of them are decided.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Received span: its sender, its name, its trace, and its parent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReceivedSpan {
    service: String,
    node: String,
    span: String,
    trace: Vec<u8>,
    parent: Vec<u8>,
}

/// Fake collector, which keeps the spans that it receives.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<BTreeSet<ReceivedSpan>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for spans in request.into_inner().resource_spans {
            let attributes = attributes(spans.resource);
            let of = |key: &str| attributes.get(key).cloned().unwrap_or_default();
            for span in spans.scope_spans.into_iter().flat_map(|spans| spans.spans) {
                let (service, node) = (of("service.name"), of("service.instance.id"));
                let come =
                    ReceivedSpan { service, node, span: span.name, trace: span.trace_id, parent: span.parent_span_id };
                self.0.lock().expect("no panic").insert(come);
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attributes(resource: Option<Resource>) -> BTreeMap<String, String> {
    let text = |value: Option<Value>| if let Some(Value::StringValue(text)) = value { Some(text) } else { None };
    let attributes = resource.map(|resource| resource.attributes).unwrap_or_default();
    attributes.into_iter().filter_map(|pair| Some((pair.key, text(pair.value?.value)?))).collect()
}

impl Collector {
    fn spans(&self) -> BTreeSet<ReceivedSpan> {
        self.0.lock().expect("no panic").clone()
    }
}

/// Starts a cluster of three nodes that send their spans to `collector`.
fn nodes(collector: &str) -> Vec<OwnNode> {
    let settings = format!("[traces]\notlp = \"{collector}\"\n");
    let nodes: Vec<OwnNode> = ["a", "b", "c"].map(|name| OwnNode::start(name, &settings)).into();
    let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
    let form = format!("cluster form {}", addresses.join(" "));
    eventually("a cluster", || nodes[0].folder.run(&form).code == Some(0));
    nodes
}

/// Submits new events until the nodes know them completely, and returns these events. Each attempt submits new events
/// twice. It succeeds if all second verdicts are duplicates and if no slice of the filter was left out.
///
/// The filter uses safe answers, which means that a node replies only when an event is completely recorded. If the
/// caller submits the returned events again, the nodes can therefore reply at once.
async fn duplicates(filter: &Filter) -> Vec<String> {
    let deadline = Instant::now() + TIMEOUT;
    for attempt in 0.. {
        assert!(Instant::now() < deadline, "the nodes do not decide");
        let events: Vec<String> = (0..300).map(|event| format!("event-{attempt}-{event}")).collect();
        let degraded = filter.status().degraded.events;
        filter.observe_batch(&events).await.expect("verdicts");
        let verdicts = filter.observe_batch(&events).await.expect("verdicts");
        // Nodes that have just started may not be ready, or may continue without a node that they have not reached yet.
        let are_known = verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate);
        if are_known && filter.status().degraded.events == degraded {
            return events;
        }
    }
    unreachable!("a deadline ends it")
}

#[test]
fn one_trace_has_the_client_its_entry_the_owner_and_the_peers() {
    let runtime = Runtime::new().expect("tokio");
    let (collector, port) = (Collector::default(), free_ports(1));
    let service = TraceServiceServer::new(collector.clone());
    let address = ([127, 0, 0, 1], port).into();
    runtime.spawn(Server::builder().add_service(service).serve(address));
    let url = format!("http://127.0.0.1:{port}");
    let mut nodes = nodes(&url);
    let create = format!(
        "filter create clicks --window 1h --clock wall --capacity 30k --slicing vertical:3 --answer safe --cluster {}",
        nodes[0].address
    );
    eventually("a filter", || nodes[0].folder.run(&create).code == Some(0));

    let (trace, parent) = runtime.block_on(async {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(&url).build().expect("an exporter");
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
        let mut span = provider.tracer("producer").start("observe");
        let context = span.span_context().clone();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
        let trace_id = number(&context.trace_id().to_bytes());
        let current = TraceParent::new(trace_id, number(&context.span_id().to_bytes()) as u64, true).expect("a span");
        let seeds = || [nodes[0].address.clone()];
        let client = Client::connect(ConnectOptions {
            traceparent: Some(Arc::new(move || Some(current))),
            ..ConnectOptions::from(seeds())
        })
        .await
        .expect("a client");
        let filter = client.filter("clicks").await.expect("a filter");
        let events = duplicates(&filter).await;
        span.end();
        provider.shutdown().expect("the collector takes it");
        let untraced = Client::connect(seeds()).await.expect("a client");
        let other = untraced.filter("clicks").await.expect("a filter");
        other.observe_batch(&events).await.expect("verdicts");
        (context.trace_id().to_bytes().to_vec(), context.span_id().to_bytes().to_vec())
    });
    // A node that stops sends its remaining spans.
    nodes.iter_mut().for_each(OwnNode::stop);
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == trace), "batches of others have no spans: {spans:?}");
    let of = |name: &'static str| spans.iter().filter(move |come| come.span == name);
    assert_eq!(of("observe").count(), 1, "the client");
    for name in ["batch", "owner_batch", "peer_test"] {
        assert!(of(name).all(|come| come.parent == parent && come.service == "firstseen"), "{spans:?}");
        let at: BTreeSet<&str> = of(name).map(|come| come.node.as_str()).collect();
        assert_eq!(at, BTreeSet::from(["a", "b", "c"]), "{name}");
    }
}

#[test]
fn an_address_that_is_none_is_a_mistake_of_the_configuration() {
    let node = OwnNode::start("a", "");
    let ran = node.folder.run("node --config node.toml --set traces.otlp=localhost:4317 --check-config");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("give http://HOST:PORT"), "{}", ran.err);
}
