//! Tests that no event is forgotten while slices move between nodes. The slices move first to a node that has joined
//! the cluster, and then away from a node that is about to leave it. Meanwhile, producers continue to send events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

const KEYS: u64 = 20_000;
const BATCH_EVENTS: u64 = 100;

fn create(node: &OwnNode, flags: &str) {
    let create = format!("filter create {flags} --if-absent --clock wall --capacity 1M --fpr 0.0001 --window 1h");
    let create = format!("{create} --retry-horizon 2s --cluster {}", node.address);
    eventually("a filter", || node.folder.run(&create).code == Some(0));
}

fn ask(filter: &Filter, keys: std::ops::Range<u64>) -> Vec<Verdict> {
    let keys: Vec<[u8; 8]> = keys.map(u64::to_le_bytes).collect();
    filter.observe_batch(&keys).wait().expect("a call")
}

fn count(verdicts: &[Verdict], wanted: Verdict) -> usize {
    verdicts.iter().filter(|verdict| **verdict == wanted).count()
}

/// Submits batches of new keys, each batch twice, until `is_over` is set. Returns the number of batches and the
/// duration of the longest call.
///
/// The caller must expect some undecided replies. On a slow machine, the cluster map may change twice while a single
/// event is being recorded, and such an event cannot be decided.
fn produce(filter: &Filter, first_key: u64, is_over: &AtomicBool) -> (u64, Duration) {
    let (mut batches, mut longest, mut undecided) = (0, Duration::ZERO, 0);
    let is_decided = |verdict: &Verdict| !matches!(verdict, Verdict::Undecided(_));
    while !is_over.load(Ordering::Relaxed) {
        let key = first_key + batches * BATCH_EVENTS;
        let begun = Instant::now();
        let verdicts = ask(filter, key..key + BATCH_EVENTS);
        longest = longest.max(begun.elapsed());
        assert!(count(&verdicts, Verdict::Duplicate) <= 2, "new keys are called first-seen: {verdicts:?}");
        let again = ask(filter, key..key + BATCH_EVENTS);
        let known = verdicts.iter().zip(&again).filter(|(first, _)| is_decided(first));
        assert!(known.clone().all(|(_, again)| *again != Verdict::FirstSeen), "and are known then: {again:?}");
        undecided += verdicts.iter().chain(&again).filter(|verdict| !is_decided(verdict)).count() as u64;
        batches += 1;
    }
    assert!(undecided * 20 < 2 * batches * BATCH_EVENTS, "{undecided} undecided in {batches} batches");
    (batches, longest)
}

/// Runs a cluster command, and returns its JSON output.
fn moved(node: &OwnNode, command: &str) -> Value {
    let run = node.folder.run(&format!("cluster {command} --json --addr {}", node.address));
    assert_eq!(run.code, Some(0), "{}", run.err);
    // A move takes at least the retry horizon of two seconds, and the command reports that while it waits.
    let is_reported = run.err.contains("slices have arrived; one needs 2 s at least");
    assert_eq!(is_reported, !command.contains("--plan"), "{command}: {}", run.err);
    serde_json::from_str(&run.out).expect("one document")
}

fn slices(node: &OwnNode) -> Vec<(String, u64)> {
    let status = node.folder.run(&format!("cluster status --json --addr {}", node.address));
    let status: Value = serde_json::from_str(&status.out).expect("one document");
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let slices = |node: &Value| Some((node["name"].as_str()?.to_owned(), node["slices"].as_u64()?));
    nodes.iter().filter_map(slices).collect()
}

#[test]
fn slices_follow_nodes_that_come_and_go() {
    let nodes = ["a", "b", "c"].map(|name| OwnNode::start(name, ""));
    let form = |nodes: &[&OwnNode]| {
        let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
        eventually("a cluster", || nodes[0].folder.run(&format!("cluster form {form}")).code == Some(0));
    };
    form(&[&nodes[0], &nodes[1]]);
    create(&nodes[0], "whole --slicing horizontal:6 --copies 1");
    create(&nodes[0], "alone --slicing horizontal:6");
    create(&nodes[0], "cut --slicing vertical:6");
    let options = ConnectOptions::from([nodes[1].address.clone()]);
    let client = Client::connect(options).wait().expect("a client");
    let filters = ["whole", "alone", "cut"].map(|name| opened(&client, name));
    for filter in &filters {
        eventually("every slice answers", || count(&ask(filter, KEYS..KEYS + 100), Verdict::Duplicate) == 100);
        for first in (0..KEYS).step_by(1000) {
            assert!(count(&ask(filter, first..first + 1000), Verdict::FirstSeen) > 990);
        }
    }
    form(&[&nodes[0], &nodes[1], &nodes[2]]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let producers: Vec<_> =
            filters.iter().map(|filter| scope.spawn(|| produce(filter, 10 * KEYS, &is_over))).collect();
        let planned = moved(&nodes[0], "rebalance --plan");
        assert_eq!((planned["moves"].as_array().map(Vec::len), &planned["done"]), (Some(8), &Value::Bool(false)));
        assert_eq!(slices(&nodes[0])[2].1, 0, "a plan moves nothing");
        let begun = Instant::now();
        let done = moved(&nodes[0], "rebalance");
        eprintln!("rebalanced in {:?}", begun.elapsed());
        assert_eq!((&done["moves"], &done["done"]), (&planned["moves"], &Value::Bool(true)));
        let of_node = |name: &str, slices: u64| (name.to_owned(), slices);
        assert_eq!(slices(&nodes[0]), [of_node("a", 8), of_node("b", 8), of_node("c", 8)]);
        moved(&nodes[1], "drain a");
        assert_eq!(slices(&nodes[1]), [of_node("a", 0), of_node("b", 12), of_node("c", 12)]);
        is_over.store(true, Ordering::Relaxed);
        for producer in producers {
            let (batches, longest) = producer.join().expect("nothing is forgotten");
            eprintln!("{batches} batches, the longest call {longest:?}");
            assert!(batches > 20);
        }
    });
    let leave = nodes[1].folder.run(&format!("cluster leave a --addr {}", nodes[1].address));
    assert_eq!(leave.code, Some(0), "{}", leave.err);
    for filter in &filters {
        for first in (0..KEYS).step_by(1000) {
            assert_eq!(count(&ask(filter, first..first + 1000), Verdict::Duplicate), 1000, "nothing is forgotten");
        }
    }
}
