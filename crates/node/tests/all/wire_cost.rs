//! Measures how many bytes a client and three nodes exchange, and checks that messages are not much larger than
//! necessary. The number of bits that an event needs can be computed from the definition of the filter. The measured
//! size may exceed this number only by a small allowance. The key of an event must never be sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::cluster::TestCluster;
use crate::common::proxy::ProxyConnector;
use firstseen_client::{Batch, Client, ConnectOptions, Verdict};
use firstseen_filter::{CellDefinition, FilterSpec, Kind, Layout, TimingCells};
use firstseen_routing::{FilterPolicies, SlicedDefinition};
use firstseen_wire::proto::producer::{ObserveReply, ObserveRequest, observe_reply, observe_request};
use prost::Message;

const EVENTS: usize = 24 * 1024;
const BATCH_EVENTS: u32 = 1024;
const START_MS: u64 = 1_600_000_000_000;
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns the gRPC messages of one direction of a connection by HTTP/2 stream, without their prefix of five bytes.
fn messages(bytes: &[u8]) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut rest = bytes.strip_prefix(HTTP2_PREFACE).unwrap_or(bytes);
    let mut data: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    // An HTTP/2 frame has a length (24 bits), a type, flags, a stream id (31 bits), and a payload. The last frame may
    // be incomplete.
    while let Some((head, body)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        let Some((payload, next)) = body.split_at_checked(length) else { break };
        if head[3] == 0 {
            assert_eq!(head[4] & 0x8, 0, "nobody pads");
            data.entry(stream).or_default().extend_from_slice(payload);
        }
        rest = next;
    }
    data.into_iter().map(|(stream, data)| (stream, split(&data))).collect()
}

/// Splits the bytes into gRPC messages. Each message has a compression byte, its length (32 bits), and its content.
fn split(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some((head, body)) = data.split_at_checked(5) {
        assert_eq!(head[0], 0, "nobody compresses");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((message, next)) = body.split_at_checked(length) else { break };
        messages.push(message.to_vec());
        data = next;
    }
    messages
}

/// Batches with the sizes of their messages.
#[derive(Default)]
struct Cost {
    /// Numbers of events and bytes of each request.
    requests: Vec<(usize, usize)>,
    /// Numbers of events and bytes of each reply.
    replies: Vec<(usize, usize)>,
    all_sent: Vec<u8>,
}

impl Cost {
    fn of(proxies: &ProxyConnector) -> Self {
        let mut cost = Self::default();
        proxies.for_each(|passed| {
            let requests = messages(&passed.to_node);
            let mut replies = messages(&passed.to_client);
            for (stream, requests) in requests {
                // A stream of the Observe call begins with a hello message. Streams of other calls carry other
                // messages.
                let hello = requests.first().and_then(|first| ObserveRequest::decode(&first[..]).ok());
                if !matches!(hello.and_then(|hello| hello.message), Some(observe_request::Message::Hello(_))) {
                    continue;
                }
                cost.requests.extend(requests.iter().filter_map(|bytes| batch_of(bytes)));
                cost.replies
                    .extend(replies.remove(&stream).unwrap_or_default().iter().filter_map(|bytes| reply_of(bytes)));
            }
            cost.all_sent.extend_from_slice(&passed.to_node);
        });
        cost
    }
}

fn batch_of(bytes: &[u8]) -> Option<(usize, usize)> {
    match ObserveRequest::decode(bytes).expect("a request").message {
        Some(observe_request::Message::Batch(batch)) => Some((batch.events as usize, bytes.len() + 5)),
        _ => None,
    }
}

fn reply_of(bytes: &[u8]) -> Option<(usize, usize)> {
    match ObserveReply::decode(bytes).expect("a reply").message {
        Some(observe_reply::Message::Reply(reply)) => Some((reply.events as usize, bytes.len() + 5)),
        _ => None,
    }
}

fn log2_ceil(count: u64) -> u32 {
    count.next_power_of_two().ilog2()
}

/// Returns the number of bits that are needed to send one event. The result depends on the layout of the filter. In a
/// blocked layout, an event is sent as the number of its block and its offsets within this block. In all other layouts,
/// an event is sent as a list of positions, each of which can be any cell of the slice group.
fn plan_bits(definition: &SlicedDefinition) -> u32 {
    let CellDefinition::Timing(TimingCells { geometry, .. }) = &definition.group.cells else {
        panic!("{definition:?}")
    };
    let hashes = geometry.hashes();
    match geometry.layout() {
        Layout::Blocked { .. } => log2_ceil(geometry.blocks()) + hashes * log2_ceil(geometry.block_cells()),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => hashes * log2_ceil(geometry.cells()),
    }
}

/// Sends every event twice, and checks how many bytes were sent. `step_ms` is the time between two events.
async fn check(slicing: &str, layout: Option<Layout>, step_ms: u64, reply_bytes_an_event: f64) {
    let cluster = TestCluster::start(3).await;
    let spec = FilterSpec {
        capacity_events: Some(4 * EVENTS as u64),
        rate: 0.001,
        layout,
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
    cluster.create("clicks", &definition, FilterPolicies::default()).await;
    let proxies = ProxyConnector::that_listens();
    let options = ConnectOptions {
        connector: Some(Arc::new(proxies.clone())),
        batch_events_max: BATCH_EVENTS,
        ..cluster.options(0)
    };
    let client = Client::connect(options).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");

    let name = |event: usize| format!("customer-{event:08}-paid");
    let events: Vec<String> = (0..EVENTS).chain(0..EVENTS).map(name).collect();
    let times_ms: Vec<u64> = (0..events.len() as u64).map(|event| START_MS + event * step_ms).collect();
    let verdicts = filter.observe_batch(Batch::from(&events).times_ms(&times_ms)).await.expect("verdicts");
    let duplicates = verdicts.iter().filter(|verdict| **verdict == Verdict::Duplicate).count();
    assert!((EVENTS..EVENTS + EVENTS / 100).contains(&duplicates), "{duplicates} duplicates");

    let cost = Cost::of(&proxies);
    let bits = f64::from(plan_bits(&definition));
    let moves = if step_ms > 0 { 1.0 } else { 0.0 };
    for (events, bytes) in &cost.requests {
        let events = *events as f64;
        let allowed = events * bits / 8.0 * 1.05 + 64.0 + events * moves;
        assert!(*bytes as f64 <= allowed, "{slicing}: {bytes} bytes for {events} events, {allowed} allowed");
    }
    let sum = |batches: &[(usize, usize)]| batches.iter().fold((0, 0), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1));
    let ((sent_events, sent_bytes), (told_events, told_bytes)) = (sum(&cost.requests), sum(&cost.replies));
    assert_eq!((sent_events, told_events), (events.len(), events.len()), "nothing was sent twice or went past");
    let full: Vec<_> = cost.replies.iter().copied().filter(|(events, _)| *events == BATCH_EVENTS as usize).collect();
    assert!(full.len() >= 10, "{slicing}: only {} of {} batches are full", full.len(), cost.replies.len());
    let (full_events, full_bytes) = sum(&full);
    println!(
        "{slicing}, {layout:?}: {:.3} bytes an event of {bits} bits, {:.3} bytes an answer ({:.3} in full batches)",
        sent_bytes as f64 / sent_events as f64,
        told_bytes as f64 / told_events as f64,
        full_bytes as f64 / full_events as f64
    );
    assert!(full_bytes as f64 <= reply_bytes_an_event * full_events as f64, "{slicing}: {full_bytes} bytes of answers");

    for part in ["customer", "-paid", "00000"] {
        let found = cost.all_sent.windows(part.len()).any(|bytes| bytes == part.as_bytes());
        assert!(!found, "{slicing}: {part:?} of an event was sent");
    }
    let digests = events.iter().step_by(977).map(|event| filter.info().secret.digest(event.as_bytes()));
    for half in digests.flat_map(|digest| [digest.lo.to_le_bytes(), digest.hi.to_le_bytes()]) {
        assert!(!cost.all_sent.windows(8).any(|bytes| bytes == half), "{slicing}: half of a digest was sent");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn horizontal() {
    check("horizontal:6", Some(Layout::Classic), 0, 0.2).await;
    check("horizontal:6", None, 0, 0.2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vertical() {
    check("vertical:6", None, 0, 0.5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_times_that_move() {
    // A tick of the window is 28 s, so the window moves every 100 events.
    check("horizontal:6", Some(Layout::Classic), 10, 0.2).await;
    check("vertical:6", None, 10, 0.5).await;
}
