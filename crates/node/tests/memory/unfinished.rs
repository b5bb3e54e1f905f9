//! Tests that messages that never end take no more memory than the node is configured to allow.
//!
//! A client opens one connection and makes 64 calls of an operator. Each call sends a message of 4 MiB without its last
//! byte, so the message never ends and the node must keep it in memory. The test has two cases. In the first case, 4
//! MiB is more than the node allows for a message of this call. In the second case, each message alone is allowed, but
//! all messages together exceed `inflight_bytes_max`.
//!
//! In both cases, the memory of the node must stay below a limit that does not depend on the number of connections and
//! streams. The node must still reply to other callers. If a message is not complete within its time limit, the node
//! abandons the message, even if the client is still sending bytes.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{PATIENCE, TestNode, unfinished};
use crate::{ALONE, resident_bytes};
use firstseen_wire::limits::MESSAGE_BYTES_MAX;
use firstseen_wire::net::producer_client;
use firstseen_wire::proto::producer::DescribeFilterRequest;
use tokio::task::JoinSet;
use tonic::Code;

const SMALL: &str = "/firstseen.admin.v1.Admin/Status";
const GREAT: &str = "/firstseen.admin.v1.Admin/WriteCells";
/// Number of calls on one connection.
const CALLS: usize = 64;
/// Interval at which the test checks whether the calls have sent their bytes.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum growth of the process in addition to the messages, in bytes. It covers the buffers at both ends of all
/// connections.
const OVERHEAD_BYTES_MAX: u64 = 32 << 20;

/// Opens `connections` connections and starts [`CALLS`] unfinished calls on each of them. Waits until each call has
/// either received a reply or sent all its bytes. Returns the calls without a reply, the replies to the other calls,
/// and the memory that the process uses now.
async fn flood(node: &TestNode, path: &'static str, connections: usize) -> (JoinSet<(usize, Code)>, Vec<Code>, u64) {
    let (mut calls, mut are_sent) = (JoinSet::new(), Vec::new());
    for _ in 0..connections {
        let channel = node.channel();
        for _ in 0..CALLS {
            let (channel, is_sent, number) = (channel.clone(), Arc::<AtomicBool>::default(), are_sent.len());
            are_sent.push(is_sent.clone());
            let bytes = (MESSAGE_BYTES_MAX as u32, MESSAGE_BYTES_MAX - 1);
            calls.spawn(async move { (number, unfinished::call(channel, path, bytes, is_sent).await) });
        }
    }
    let mut answered = BTreeMap::new();
    let is_settled = |number: &usize, answered: &BTreeMap<usize, Code>| {
        answered.contains_key(number) || are_sent[*number].load(Ordering::Relaxed)
    };
    let settling = async {
        while !(0..are_sent.len()).all(|number| is_settled(&number, &answered)) {
            if let Ok(Some(call)) = tokio::time::timeout(LOOK, calls.join_next()).await {
                let (number, code) = call.expect("no panic");
                answered.insert(number, code);
            }
        }
    };
    in_time("calls are answered or sent", settling).await;
    (calls, answered.into_values().collect(), resident_bytes())
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_messages_are_bounded() {
    let _alone = ALONE.lock().await;
    let node = TestNode::start_with("a", |_| {}).await;
    node.init().await;
    let before = resident_bytes();
    let (mut calls, mut codes, after) = flood(&node, SMALL, 1).await;
    let grown = after.saturating_sub(before);
    println!("{} bytes, {} MiB more with {CALLS} unfinished messages to a small call", before, grown >> 20);
    assert!(grown < OVERHEAD_BYTES_MAX, "grown by {} MiB", grown >> 20);
    // A call may have sent all its bytes a moment before its reply arrives.
    let rest = async {
        while let Some(call) = calls.join_next().await {
            codes.push(call.expect("no panic").1);
        }
    };
    in_time("small calls are answered", rest).await;
    // On a busy machine, some messages are not examined before their time limit ends.
    let is_ended = |code: &Code| matches!(code, Code::InvalidArgument | Code::Unavailable);
    assert!(codes.len() == CALLS && codes.iter().all(is_ended), "{codes:?}");
    assert!(codes.contains(&Code::InvalidArgument), "a small call does not take that much");

    // A message that begins and is not complete in time ends its call.
    let call = unfinished::call(node.channel(), SMALL, (100, 10), Arc::default());
    assert_eq!(in_time("a message that never comes", call).await, Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_share_one_budget() {
    let _alone = ALONE.lock().await;
    let budget_bytes = 128 << 20;
    let node = TestNode::start_with("a", |config| config.limits.inflight_bytes_max = budget_bytes).await;
    node.init().await;
    let before = resident_bytes();
    let (mut calls, mut codes, after) = flood(&node, GREAT, 4).await;
    let grown = after.saturating_sub(before);
    println!(
        "{} MiB more with {} unfinished messages to a call that takes them",
        grown >> 20,
        codes.len() + calls.len()
    );
    assert!(grown < budget_bytes + OVERHEAD_BYTES_MAX, "grown by {} MiB", grown >> 20);
    // A quarter of the budget is reserved for nodes.
    let held_max = (budget_bytes - budget_bytes / 4) as usize / MESSAGE_BYTES_MAX;
    while calls.len() > held_max {
        let call = in_time("a message that is too much", calls.join_next()).await;
        codes.push(call.expect("there are more").expect("no panic").1);
    }
    assert!(codes.iter().all(|code| *code == Code::ResourceExhausted), "{codes:?}");
    assert!(!calls.is_empty(), "what there is room for is taken");
    // Other callers receive replies.
    node.status().await;
    let request = DescribeFilterRequest { name: "none".to_owned() };
    let described = producer_client(node.channel()).describe_filter(request).await;
    assert_eq!(described.expect_err("there is none").code(), Code::NotFound);
    // When the calls end, their bytes are available again.
    drop(calls);
    node.metric_becomes("firstseen_inflight_bytes", 0.0).await;
}
