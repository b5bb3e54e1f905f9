//! Tests of filters that keep a copy of each slice on a second node. The test first kills one node, and no event may be
//! forgotten, because the copies remain. The killed node then returns with empty memory and fetches its data from the
//! other nodes. To check that the fetched data are complete, the test kills another node: the events that both of them
//! held must still be known.

use std::time::Instant;

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

const KEYS: u64 = 20_000;
const BATCH_EVENTS: u64 = 1_000;
/// Deadline of a call that waits for a node which has just been killed, in milliseconds.
const DEADLINE_MS: u64 = 4_000;

fn cluster() -> [OwnNode; 3] {
    let nodes = ["a", "b", "c"].map(|name| OwnNode::start(name, ""));
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    let run = |flags: &str| nodes[0].folder.run(flags).code == Some(0);
    eventually("a cluster", || run(&format!("cluster form {form}")));
    for (name, slicing) in [("whole", "horizontal:6"), ("cut", "vertical:6")] {
        let create = format!(
            "filter create {name} --if-absent --slicing {slicing} --window 1h --clock wall --capacity 1M --fpr 0.0001 --copies 1"
        );
        eventually("a filter", || run(&format!("{create} --cluster {}", nodes[0].address)));
    }
    nodes
}

/// Returns the verdicts on these keys.
fn ask(filter: &Filter, keys: std::ops::Range<u64>) -> Vec<Verdict> {
    let batches = keys.clone().step_by(BATCH_EVENTS as usize).map(|first| first..(first + BATCH_EVENTS).min(keys.end));
    batches
        .flat_map(|batch| {
            let keys: Vec<[u8; 8]> = batch.map(u64::to_le_bytes).collect();
            filter.observe_batch(&keys).wait().expect("a call")
        })
        .collect()
}

fn count(verdicts: &[Verdict], of: impl Fn(&Verdict) -> bool) -> u64 {
    verdicts.iter().filter(|verdict| of(verdict)).count() as u64
}

fn is_undecided(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Undecided(_))
}

/// Returns the number of complete copies of both filters, and the number of all copies, according to the cluster map.
fn copies(node: &OwnNode) -> (usize, usize) {
    let of = |name: &str| {
        let described = node.folder.run(&format!("filter describe {name} --json --cluster {}", node.address));
        let described: Value = serde_json::from_str(&described.out).unwrap_or_default();
        let slices = described["slices"].as_array().cloned().unwrap_or_default();
        (slices.iter().filter(|slice| slice["complete"] == true).count(), slices.len())
    };
    let (whole, cut) = (of("whole"), of("cut"));
    (whole.0 + cut.0, whole.1 + cut.1)
}

#[test]
fn events_on_two_nodes_survive_the_loss_of_either() {
    let mut nodes = cluster();
    let client = |node: &OwnNode| {
        let options = ConnectOptions { deadline_ms: DEADLINE_MS, ..ConnectOptions::from([node.address.clone()]) };
        Client::connect(options).wait().expect("a client")
    };
    let client = client(&nodes[2]);
    let filters = ["whole", "cut"].map(|name| opened(&client, name));
    for filter in &filters {
        eventually("every slice answers", || count(&ask(filter, KEYS..KEYS + 100), is_undecided) == 0);
        assert!(count(&ask(filter, 0..KEYS), |verdict| *verdict == Verdict::FirstSeen) > KEYS - 20);
    }
    let mut next_key = 10 * KEYS;
    for lost in [0, 1] {
        nodes[lost].kill();
        let killed = Instant::now();
        for filter in &filters {
            eventually("the others go on", || {
                next_key += 100;
                count(&ask(filter, next_key..next_key + 100), is_undecided) == 0
            });
        }
        eprintln!("service again after {:?}", killed.elapsed());
        for filter in &filters {
            let degraded_before = filter.status().degraded.events;
            let verdicts = ask(filter, 0..KEYS);
            assert_eq!(count(&verdicts, |verdict| *verdict == Verdict::Duplicate), KEYS, "nothing is forgotten");
            next_key += KEYS;
            let verdicts = ask(filter, next_key..next_key + KEYS);
            assert!(count(&verdicts, |verdict| *verdict == Verdict::FirstSeen) > KEYS - 20, "nor made up");
            assert_eq!(filter.status().degraded.events, degraded_before, "nothing is missing");
        }
        nodes[lost].start_again();
        let returned = Instant::now();
        // The copies are complete long before a window has passed.
        eventually("all copies are complete", || copies(&nodes[2]) == (24, 24));
        eprintln!("copies complete after {:?}", returned.elapsed());
    }
}
