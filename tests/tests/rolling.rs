//! Stops and restarts nodes one after the other, while their slices are only in memory.
//!
//! There are three nodes, and each slice is on two of them (`--copies 1`). The slices are so large that it takes a
//! moment to fetch them. The tests cover these cases:
//!
//! - A node receives SIGTERM and is restarted. `/readyz` is polled until the node is ready, and then the next node
//!   follows, as with an orchestrator. If a node reported that it is ready before it has fetched its copies, the other
//!   copy could be stopped too. Then no copy would be complete, and every event would be undecided until its window has
//!   passed.
//! - Node b receives SIGTERM and is restarted. Node a receives SIGTERM at once, before b is ready. Node a must continue
//!   until b has fetched what only a has.
//! - Node b receives SIGTERM, node a receives SIGTERM while b is down, and then b is restarted. Node a must continue
//!   until b has fetched what only a has.
//! - `cluster safe-to-stop` reports what would be lost, while another copy is down or being fetched, or if there is no
//!   other copy.

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Ran;

const KEYS: u64 = 20_000;
const BATCH_EVENTS: u64 = 1_000;
/// Deadline of a call that waits for a node which has just been stopped, in milliseconds.
const DEADLINE_MS: u64 = 4_000;

/// Node that serves its readiness at the address `health`.
struct Served {
    node: OwnNode,
    health: String,
}

impl Served {
    fn start(name: &str, limits: &str) -> Self {
        let health = format!("127.0.0.1:{}", free_ports(1));
        Self { node: OwnNode::start(name, &format!("http_listen = \"{health}\"\n{limits}")), health }
    }

    fn run(&self, flags: &str) -> Ran {
        self.node.folder.run(flags)
    }

    /// Returns the reason in `/readyz` why the node is not ready, or `None` if it is ready.
    fn not_ready(&self) -> Option<String> {
        let asked = self.run(&format!("node health --addr {}", self.health));
        (asked.code != Some(0)).then_some(asked.err)
    }
}

/// Starts nodes a, b and c, and creates a filter whose slices are on two nodes each.
fn cluster() -> [Served; 3] {
    cluster_with("")
}

fn cluster_with(limits: &str) -> [Served; 3] {
    let nodes = ["a", "b", "c"].map(|name| Served::start(name, limits));
    let form = nodes.iter().map(|served| served.node.address.as_str()).collect::<Vec<_>>().join(" ");
    eventually("a cluster", || nodes[0].run(&format!("cluster form {form}")).code == Some(0));
    let create =
        "filter create clicks --if-absent --slicing horizontal:3 --window 1h --clock wall --memory 192MiB --copies 1";
    eventually("a filter", || nodes[0].run(&format!("{create} --cluster {}", nodes[0].node.address)).code == Some(0));
    nodes
}

fn filter(nodes: &[Served]) -> (Client, Filter) {
    let seeds = nodes.iter().map(|served| served.node.address.clone());
    let client = Client::connect(ConnectOptions { deadline_ms: DEADLINE_MS, ..ConnectOptions::from(seeds) }).wait();
    let client = client.expect("a client");
    let filter = opened(&client, "clicks");
    (client, filter)
}

/// Returns how many of these keys get the verdict `wanted`.
fn count(filter: &Filter, keys: std::ops::Range<u64>, wanted: Verdict) -> u64 {
    let batches = keys.clone().step_by(BATCH_EVENTS as usize).map(|first| first..(first + BATCH_EVENTS).min(keys.end));
    let observe = |batch: std::ops::Range<u64>| {
        let keys: Vec<[u8; 8]> = batch.map(u64::to_le_bytes).collect();
        filter.observe_batch(&keys).wait().expect("a call")
    };
    batches.flat_map(observe).filter(|verdict| *verdict == wanted).count() as u64
}

/// Returns the state of each copy of each slice, according to the cluster map.
fn slices(served: &Served) -> Vec<Value> {
    let described = served.run(&format!("filter describe clicks --json --cluster {}", served.node.address));
    let described: Value = serde_json::from_str(&described.out).unwrap_or_default();
    described["slices"].as_array().cloned().unwrap_or_default()
}

/// Returns the number of complete copies, and the number of all copies, according to the cluster map.
fn copies(served: &Served) -> (usize, usize) {
    let slices = slices(served);
    (slices.iter().filter(|slice| slice["complete"] == true).count(), slices.len())
}

#[test]
fn a_rolling_restart_that_waits_until_nodes_are_ready_loses_nothing() {
    let mut nodes = cluster();
    let (_client, filter) = filter(&nodes);
    eventually("every slice answers", || count(&filter, KEYS..KEYS + 100, Verdict::Duplicate) == 100);
    eventually("all are recorded", || count(&filter, 0..KEYS, Verdict::Duplicate) == KEYS);
    for index in [1, 0, 2] {
        nodes[index].node.restart();
        let mut said = String::new();
        eventually("it is ready", || {
            let not_ready = nodes[index].not_ready();
            if let Some(why) = not_ready.iter().find(|why| why.contains("fetching")) {
                said.clone_from(why);
            }
            not_ready.is_none()
        });
        eprintln!("meanwhile: {said}");
        assert_eq!(copies(&nodes[index]), (6, 6), "it is ready once it has what it can get");
    }
    eventually("every slice answers", || count(&filter, KEYS..KEYS + 100, Verdict::Duplicate) == 100);
    assert_eq!(count(&filter, 0..KEYS, Verdict::Duplicate), KEYS, "nothing is forgotten");
}

#[test]
fn a_node_with_the_only_copy_stops_when_another_has_fetched_it() {
    // Node b has time to fetch its copies, even on a slow machine. A stopping node does not wait longer than this.
    let mut nodes = cluster_with("[limits]\ndrain_max_ms = 60000\n");
    let (_client, filter) = filter(&nodes);
    eventually("every slice answers", || count(&filter, KEYS..KEYS + 100, Verdict::Duplicate) == 100);
    eventually("all are recorded", || count(&filter, 0..KEYS, Verdict::Duplicate) == KEYS);
    nodes[1].node.restart();
    // The other nodes know that b has restarted with empty copies.
    eventually("it fetches", || {
        let is_known = |node: &Served| copies(node).0 < 6 || nodes[1].not_ready().is_none();
        nodes[1].not_ready().is_none_or(|why| why.contains("fetching")) && is_known(&nodes[0]) && is_known(&nodes[2])
    });
    nodes[0].node.restart();
    eventually("all copies are complete", || copies(&nodes[2]) == (6, 6));
    eventually("every slice answers", || count(&filter, KEYS..KEYS + 100, Verdict::Duplicate) == 100);
    assert_eq!(count(&filter, 0..KEYS, Verdict::Duplicate), KEYS, "nothing is forgotten");
    let log = nodes[0].node.log();
    assert!(!log.contains("is lost with this process"), "{log}");
    // Now the last two copies of a slice are both down, so the second node reports what is lost with it.
    nodes[0].node.kill();
    eventually("a is down", || {
        nodes[1].run(&format!("cluster status --addr {}", nodes[1].node.address)).out.contains("down")
    });
    nodes[1].node.stop();
    let log = nodes[1].node.log();
    for word in ["is lost with this process", "clicks", "slices", "down, or out of reach"] {
        assert!(log.contains(word), "{word} is not in {log}");
    }
}

#[test]
fn a_node_with_the_only_copy_waits_for_a_node_that_is_being_started_again() {
    // Node b has time to start, even on a slow machine. A stopping node waits for another node that is down for a
    // quarter of this limit.
    let mut nodes = cluster_with("[limits]\ndrain_max_ms = 120000\n");
    let (_client, filter) = filter(&nodes);
    eventually("every slice answers", || count(&filter, KEYS..KEYS + 100, Verdict::Duplicate) == 100);
    eventually("all are recorded", || count(&filter, 0..KEYS, Verdict::Duplicate) == KEYS);
    let [a, b, c] = &mut nodes;
    b.node.stop();
    let (at, health) = (a.node.address.clone(), a.health.clone());
    let unsafe_now = c.run(&format!("cluster safe-to-stop a --addr {at}"));
    assert!(unsafe_now.code == Some(1) && unsafe_now.out.contains("filter clicks"), "at once: {unsafe_now:?}");
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| a.node.restart());
        eventually("a waits", || c.run(&format!("node health --addr {health}")).code != Some(0));
        b.node.start_again();
        stopping.join().expect("a ends and starts");
    });
    eventually("all copies are complete", || copies(c) == (6, 6));
    eventually("every slice answers", || count(&filter, KEYS..KEYS + 100, Verdict::Duplicate) == 100);
    assert_eq!(count(&filter, 0..KEYS, Verdict::Duplicate), KEYS, "nothing is forgotten");
    let log = a.node.log();
    assert!(
        log.contains("waiting until other nodes have fetched") && !log.contains("is lost with this process"),
        "{log}"
    );
}

#[test]
fn each_obstacle_to_stopping_a_node_is_printed_with_a_remedy() {
    let mut nodes = cluster();
    let at = nodes[2].node.address.clone();
    let safe = |nodes: &[Served], flags: &str| nodes[2].run(&format!("cluster safe-to-stop {flags} --addr {at}"));
    eventually("nothing stands against it", || safe(&nodes, "a").code == Some(0));
    assert!(safe(&nodes, "a").out.contains("a can be stopped"));
    safe(&nodes, "nobody").fails(2, &["no node `nobody`", "a, b, c"]);

    let wrong = |ran: &Ran, words: &[&str]| {
        assert!(ran.code == Some(1) && words.iter().all(|word| ran.out.contains(word)), "{words:?}: {ran:?}");
    };
    nodes[1].node.kill();
    eventually("b is not there", || safe(&nodes, "a").code == Some(1));
    wrong(&safe(&nodes, "a"), &["must not be stopped", "filter clicks, slices", "start b first", "voters"]);
    wrong(&safe(&nodes, "a --accept-loss"), &["1 of 3 voters are up without it, and 2 are a majority"]);
    let document: Value = serde_json::from_str(&safe(&nodes, "a --json").out).expect("JSON");
    assert!(document["safe"] == false && document["reasons"][0]["loss"] == true, "{document}");

    nodes[1].node.start_again();
    let waited = safe(&nodes, "a --wait").ok();
    assert!(waited.out.contains("can be stopped"), "{waited:?}");
    // Node b may still be fetching a copy of the slice that a does not have.
    let slices = slices(&nodes[2]);
    let of_a: Vec<&Value> = slices.iter().filter(|slice| slice["node"] == "a").map(|slice| &slice["slice"]).collect();
    let is_lacking = |slice: &&Value| of_a.contains(&&slice["slice"]) && slice["complete"] != true;
    let lacking: Vec<&Value> = slices.iter().filter(is_lacking).collect();
    assert!(of_a.len() == 2 && lacking.is_empty(), "it has waited for the copies of what a has: {lacking:?}");

    let alone = "filter create alone --slicing horizontal:3 --window 1h --clock wall --capacity 1k --copies 0";
    nodes[2].run(&format!("{alone} --cluster {at}")).ok();
    let words = ["filter alone, slices", "no other node has copies", "cluster drain a", "--accept-loss"];
    wrong(&safe(&nodes, "a"), &words);
    wrong(&safe(&nodes, "a --wait"), &words);
    assert!(safe(&nodes, "a --accept-loss").ok().out.contains("this is accepted:\nfilter alone"));
}
