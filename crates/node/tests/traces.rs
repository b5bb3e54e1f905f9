//! Tests that the trace context of a producer reaches every node that takes part in deciding the producer's batch.
//! Such a test needs a process of its own, because it installs a recorder of spans, and a process can have only one
//! such recorder.

#[path = "all/common/mod.rs"]
mod common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use common::PATIENCE;
use common::cluster::TestCluster;
use firstseen_client::{Client, ConnectOptions, Filter, TraceParent, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::{ClockSource, FilterPolicies, SlicedDefinition};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A span of a node that carries a trace context.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    span: &'static str,
    traceparent: String,
    /// Name of the node that sent the message. The name is empty if the message does not come from another node.
    from: String,
}

static SHOWN: Mutex<BTreeSet<Shown>> = Mutex::new(BTreeSet::new());
static SPANS: AtomicU64 = AtomicU64::new(1);

/// A recorder that keeps the spans of nodes with a trace context.
struct Recorder;

impl Visit for Shown {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "traceparent" {
            self.traceparent = value.to_owned();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "from" {
            self.from = format!("{value:?}");
        }
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("firstseen_node")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut shown = Shown { span: span.metadata().name(), ..Shown::default() };
        span.record(&mut shown);
        if !shown.traceparent.is_empty() {
            SHOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(shown);
        }
        Id::from_u64(SPANS.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Returns the spans with the context `traceparent`.
fn shown(traceparent: &str) -> Vec<Shown> {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    shown.iter().filter(|shown| shown.traceparent == traceparent).cloned().collect()
}

/// Returns the nodes that sent messages to other nodes within a trace.
fn asking(traceparent: &str) -> BTreeSet<String> {
    shown(traceparent).into_iter().filter(|shown| shown.span == "peer_test").map(|shown| shown.from).collect()
}

fn definition() -> SlicedDefinition {
    let window = "24h".parse().expect("a window");
    let spec = FilterSpec { capacity_events: Some(50_000), rate: 1e-9, ..FilterSpec::new(Kind::Timing, window) };
    SlicedDefinition::new(&spec, "vertical:6".parse().expect("a slicing")).expect("a definition")
}

thread_local! {
    /// The trace context that a tracing library would keep for the calling task.
    static CURRENT: Cell<Option<TraceParent>> = const { Cell::new(None) };
}

/// Makes calls within `trace`.
async fn observe(filter: &Filter, trace: Option<TraceParent>, events: &[String]) -> Vec<Verdict> {
    // The client reads the context when the call is made, before it waits for anything.
    CURRENT.set(trace);
    filter.observe_batch(events).await.expect("verdicts")
}

fn events() -> Vec<String> {
    (0..200).map(|event| format!("event-{event}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_goes_through_all_nodes() {
    tracing::subscriber::set_global_default(Recorder).expect("the only one of this process");
    let cluster = TestCluster::start(3).await;
    let policies = FilterPolicies { clock: ClockSource::Wall, ..FilterPolicies::default() };
    cluster.create("clicks", &definition(), policies).await;
    let client =
        Client::connect(ConnectOptions { traceparent: Some(Arc::new(|| CURRENT.get())), ..cluster.options(0) })
            .await
            .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let [many, one] = [0xabc, 0xdef].map(|trace_id| TraceParent::new(trace_id, 7, true).expect("numbers above 0"));

    assert_eq!(observe(&filter, Some(many), &events()).await, [Verdict::FirstSeen; 200]);
    // A new event ends at the first node that finds an empty cell, and a duplicate of an in-flight event ends at its
    // head node. Other duplicates visit all their slices. Each node is the head of some events, and sends messages
    // about them to the other nodes.
    let traceparent = "00-00000000000000000000000000000abc-0000000000000007-01";
    let all_nodes_pass_it_on = async {
        while asking(traceparent).len() < 3 {
            assert_eq!(observe(&filter, Some(many), &events()).await, [Verdict::Duplicate; 200]);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, all_nodes_pass_it_on).await;
    assert!(in_time.is_ok(), "nodes that pass it on: {:?}", asking(traceparent));
    for span in ["batch", "owner_batch"] {
        assert!(shown(traceparent).iter().any(|shown| shown.span == span), "{span} does not show it");
    }

    CURRENT.set(Some(one));
    assert_eq!(filter.observe(b"another").await.expect("a verdict"), Verdict::FirstSeen);
    let spans = shown(&one.to_string());
    assert!(spans.iter().any(|shown| shown.span == "owner_batch"), "a call of one event is traced too: {spans:?}");

    let before = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).len();
    assert_eq!(observe(&filter, None, &events()).await, [Verdict::Duplicate; 200]);
    assert_eq!(SHOWN.lock().unwrap_or_else(PoisonError::into_inner).len(), before, "nothing is made up");
}
