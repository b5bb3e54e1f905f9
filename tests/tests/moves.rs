//! Slices move to a node that has joined, and off one that leaves, while a producer goes on; nothing is forgotten.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firstseen_client::Verdict;
use firstseen_client::blocking::{Client, Filter};
use serde_json::Value;

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
    filter.observe_batch(&keys, &[]).expect("a call")
}

fn count(told: &[Verdict], wanted: Verdict) -> usize {
    told.iter().filter(|told| **told == wanted).count()
}

/// Batches of new keys, each asked twice, until it is stopped: how many batches, and the longest call.
fn produce(filter: &Filter, first_key: u64, is_over: &AtomicBool) -> (u64, Duration) {
    let (mut batches, mut longest) = (0, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let key = first_key + batches * BATCH_EVENTS;
        let begun = Instant::now();
        let told = ask(filter, key..key + BATCH_EVENTS);
        longest = longest.max(begun.elapsed());
        assert!(count(&told, Verdict::FirstSeen) as u64 >= BATCH_EVENTS - 2, "new keys are told so: {told:?}");
        let told = ask(filter, key..key + BATCH_EVENTS);
        assert_eq!(count(&told, Verdict::Duplicate) as u64, BATCH_EVENTS, "and are known then: {told:?}");
        batches += 1;
    }
    (batches, longest)
}

/// What a command of the cluster says as JSON.
fn moved(node: &OwnNode, command: &str) -> Value {
    let run = node.folder.run(&format!("cluster {command} --json --addr {}", node.address));
    assert_eq!(run.code, Some(0), "{}", run.err);
    // What moves takes the retry horizon of two seconds: nobody waits for it in silence.
    let is_told = run.err.contains("slices have arrived; one needs 2 s at least");
    assert_eq!(is_told, !command.contains("--plan"), "{command}: {}", run.err);
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
    let builder = firstseen_client::Client::builder().seeds([nodes[1].address.clone()]);
    let client = Client::build(builder).expect("a client");
    let filters = ["whole", "alone", "cut"].map(|name| client.filter(name).expect("the filter"));
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
