//! Kills one of three nodes, and starts it again later. While the node is down, the remaining nodes must soon decide
//! events again. They lack the slices of the killed node, so they make more errors, but the measured error rate must
//! agree with the rate that they report as expected.
//!
//! The restarted node has missed the events of the outage. The cluster map may list its slices as complete only when
//! these events have expired, and must do so soon after that.

use std::time::{Duration, Instant};

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

const WINDOW: Duration = Duration::from_secs(6);
/// Time for which another node may record events in the place of the killed node, in milliseconds. This is the default
/// of the configuration.
const LEASE_MS: u64 = 10_000;
/// Additional time for a busy machine, in milliseconds.
const BUSY_MS: u64 = 20_000;
/// Maximum time between the end of the window and the moment at which the restarted node is complete again. It is the
/// sum of the lateness, the clock skew, two ticks, a lease, and a reserve for a busy machine.
///
/// The lease is part of the sum because a lease limits how long another node may record events in the place of the
/// killed node. The window of the last such event therefore begins up to one lease later.
const REST_MAX: Duration = Duration::from_millis(1_000 + 1_000 + 200 + LEASE_MS + LEASE_MS / 64 + BUSY_MS);
/// Maximum interruption of service. One call waits until its deadline, and later calls need not wait.
const SERVICE_MAX: Duration = Duration::from_millis(DEADLINE_MS + BUSY_MS);
const BATCH_EVENTS: u64 = 500;
/// Number of batches before the node is killed, which fill a fifth of the filter.
const BATCHES_BEFORE: u64 = 60;
/// Number of new events that are submitted while the node is down.
const PROBES: u64 = 40_000;
/// Deadline of a call in milliseconds. One call in each outage waits this long for the node to return.
const DEADLINE_MS: u64 = 1_500;

/// Starts three nodes with the default configuration, and creates a filter with ten positions for each event.
fn cluster() -> [OwnNode; 3] {
    let nodes = ["a", "b", "c"].map(|name| OwnNode::start(name, ""));
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    let run = |flags: &str| nodes[0].folder.run(flags).code == Some(0);
    eventually("a cluster", || run(&format!("cluster form {form}")));
    let create = "filter create clicks --if-absent --slicing vertical:6 --clock wall --window 6s --lateness 1s \
                  --hashes 10 --capacity 150k --fpr 0.001 --answer safe";
    eventually("a filter", || run(&format!("{create} --cluster {}", nodes[0].address)));
    nodes
}

/// Producer that submits new keys.
struct Producer {
    _client: Client,
    filter: Filter,
    next_key: u64,
}

/// Number of each verdict on new keys.
#[derive(Default)]
struct Counts {
    first_seen: u64,
    duplicate: u64,
    undecided: u64,
    is_degraded: bool,
}

impl Producer {
    fn new(address: &str) -> Self {
        let options = ConnectOptions { deadline_ms: DEADLINE_MS, ..ConnectOptions::from([address.to_owned()]) };
        let client = Client::connect(options).wait().expect("a client");
        let filter = opened(&client, "clicks");
        Self { _client: client, filter, next_key: 0 }
    }

    /// Submits a batch of new keys.
    fn go_on(&mut self) -> Counts {
        let keys: Vec<[u8; 8]> = (self.next_key..self.next_key + BATCH_EVENTS).map(u64::to_le_bytes).collect();
        self.next_key += BATCH_EVENTS;
        let degraded_before = self.filter.status().degraded.events;
        let mut counts = Counts::default();
        for verdict in self.filter.observe_batch(&keys).wait().expect("a call") {
            match verdict {
                Verdict::FirstSeen => counts.first_seen += 1,
                Verdict::Duplicate => counts.duplicate += 1,
                Verdict::Undecided(_) => counts.undecided += 1,
            }
        }
        counts.is_degraded = self.filter.status().degraded.events > degraded_before;
        counts
    }
}

/// Returns whether all slices are complete according to the cluster map.
fn is_complete(node: &OwnNode) -> bool {
    let described = node.folder.run(&format!("filter describe clicks --json --cluster {}", node.address));
    let described: Value = serde_json::from_str(&described.out).unwrap_or_default();
    let slices = described["slices"].as_array().cloned().unwrap_or_default();
    !slices.is_empty() && slices.iter().all(|slice| slice["complete"] == true)
}

#[test]
fn one_of_three_nodes_is_killed_and_comes_back() {
    let mut nodes = cluster();
    let mut producer = Producer::new(&nodes[1].address);
    eventually("every slice answers", || producer.go_on().undecided == 0);
    for _ in 0..BATCHES_BEFORE {
        let counts = producer.go_on();
        assert!(counts.undecided == 0 && !counts.is_degraded, "nothing is missing");
    }
    // The killed node may also be the leader of the consensus group.
    nodes[0].kill();
    let killed = Instant::now();
    // An event has fewer than five remaining positions with a probability of 1 in 13, so nearly every batch of a
    // thousand events contains such an event.
    let is_hindered = |counts: &Counts| counts.undecided > 1;
    let undecided = std::iter::from_fn(|| Some(producer.go_on()).filter(is_hindered)).count();
    let service_again = killed.elapsed();
    let before = producer.filter.status().degraded;
    let (mut wrong, mut asked) = (0, 0);
    while asked < PROBES {
        let counts = producer.go_on();
        (wrong, asked) = (wrong + counts.duplicate, asked + BATCH_EVENTS - counts.undecided);
    }
    let after = producer.filter.status().degraded;
    let expected =
        (after.expected_false_positives - before.expected_false_positives) / (after.events - before.events) as f64;
    eprintln!(
        "service again after {service_again:?} ({undecided} batches with undecided events); expected rate {expected:.2e}, \
         measured {:.2e} ({wrong} of {asked})",
        wrong as f64 / asked as f64
    );
    assert!(service_again < SERVICE_MAX, "{service_again:?}\n{}\n{}", nodes[1].log(), nodes[2].log());
    let mean = expected * asked as f64;
    let allowed = 0.2 * mean + 4.0 * mean.sqrt() + 3.0;
    assert!((wrong as f64 - mean).abs() < allowed, "{wrong} of {asked} are wrong, not {mean:.0}");

    nodes[0].start_again();
    let returned = Instant::now();
    eventually("nothing is missing", || {
        let counts = producer.go_on();
        std::thread::sleep(Duration::from_millis(50));
        !counts.is_degraded && counts.undecided == 0 && is_complete(&nodes[1])
    });
    let complete_again = returned.elapsed();
    eprintln!("complete again after {complete_again:?}");
    assert!(complete_again >= WINDOW, "{complete_again:?}: it lacks what has not expired");
    assert!(complete_again < WINDOW + REST_MAX, "{complete_again:?}");
}
