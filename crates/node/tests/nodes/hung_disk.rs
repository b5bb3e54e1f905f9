//! A disk that neither fails nor answers: one of three nodes with two copies of every slice hangs in a sync of its journal.
//!
//! The sequence: events are recorded; the disk of b hangs, and b is up and in reach of all; producers go on. Until b gives up
//! what it keeps there, whatever b answers is unknown, and without that it would be for as long as the disk hangs. Then the
//! other copies answer; b says why it is not ready; and when its disk answers again, b fetches what it lacks and is ready.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use firstseen_client::{Client, Filter, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_journal::{Disk, DiskFile, MemoryDisk};
use firstseen_routing::{ClockSource, Durability, FilterPolicies, SlicedDefinition};

use crate::common::cluster::{TestCluster, create_at};
use crate::common::{PATIENCE, TestNode, wait_for};

/// Syncs wait while it is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set_closed(&self, is_closed: bool) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_while(closed, |is_closed| *is_closed));
    }
}

/// A disk whose syncs pass a gate.
struct GatedDisk(MemoryDisk, Gate);

struct GatedFile(Box<dyn DiskFile>, Gate);

impl Disk for GatedDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn len_bytes(&self, name: &str) -> io::Result<u64> {
        self.0.len_bytes(name)
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.0.read(name, bytes_max)
    }

    fn create(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(GatedFile(self.0.create(name, start, len_bytes)?, self.1.clone())))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.0.sync(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
}

impl DiskFile for GatedFile {
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset_bytes, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.pass();
        self.0.sync()
    }
}

/// Nodes a, b and c, and the gate of b's disk.
async fn cluster() -> (TestCluster, Gate) {
    let gate = Gate::default();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let gate = if name == "b" { gate.clone() } else { Gate::default() };
        let disk = Arc::new(GatedDisk(MemoryDisk::default(), gate));
        nodes.push(TestNode::start_changed(name, |_| {}, |edges| edges.journal = disk).await);
    }
    nodes[0].init().await;
    nodes[0].join(&nodes[1]).await;
    nodes[0].join(&nodes[2]).await;
    (TestCluster { nodes }, gate)
}

async fn create(cluster: &TestCluster, slicing: &str, copies: u32) {
    let spec = FilterSpec {
        capacity_events: Some(50_000),
        rate: 1e-9,
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
    let (clock, durability) = (ClockSource::Wall, Durability::Durable);
    let policies = FilterPolicies { clock, durability, copies, ..FilterPolicies::default() };
    create_at(&cluster.nodes[0], "clicks", &definition, policies).await;
    for node in &cluster.nodes {
        node.knows("clicks").await;
        becomes_complete(node).await;
    }
}

/// Waits until all copies of all slices are complete, as `node` knows it.
async fn becomes_complete(node: &TestNode) {
    let waiting = async {
        loop {
            let map = node.map().await;
            let (_, record) = map.filter_named("clicks").expect("the filter");
            if record.all_copies().all(|(_, copy)| map.is_complete_copy(copy)) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("its slices are never complete");
}

/// A client that does not wait for long: what is not answered within a second is unknown.
async fn hasty(node: &TestNode) -> (Client, Filter) {
    let client = Client::builder().seeds([node.node.addr()]).deadline_ms(1_000).connect().await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    (client, filter)
}

fn keys(from: u32) -> Vec<[u8; 4]> {
    (from..from + 300).map(u32::to_le_bytes).collect()
}

async fn told(filter: &Filter, keys: &[[u8; 4]]) -> Vec<Verdict> {
    filter.observe_batch(keys, &[]).await.expect("verdicts")
}

fn undecided(told: &[Verdict]) -> usize {
    told.iter().filter(|verdict| matches!(verdict, Verdict::Undecided(_))).count()
}

/// Asks about new events until all of a call are decided; the last of them, and how many calls were not.
async fn ask_until_decided(filter: &Filter, first: u32) -> (Vec<[u8; 4]>, u32) {
    let asking = async {
        for call in 0.. {
            let keys = keys(first + 1_000 * call);
            let told = told(filter, &keys).await;
            if undecided(&told) == 0 {
                assert!(told.iter().all(|verdict| *verdict == Verdict::FirstSeen), "new events are new");
                return (keys, call);
            }
        }
        unreachable!("it asks for ever")
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("what the node that hangs answers is unknown for ever")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_copies_answer_for_a_node_whose_disk_hangs() {
    for slicing in ["horizontal:6", "vertical:3"] {
        let (cluster, gate) = cluster().await;
        create(&cluster, slicing, 1).await;
        let (_client, filter) = hasty(&cluster.nodes[0]).await;
        let before = keys(0);
        assert!(told(&filter, &before).await.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{slicing}");

        gate.set_closed(true);
        let (during, calls) = ask_until_decided(&filter, 10_000).await;
        println!("{slicing}: {calls} calls had to wait for the disk");
        assert!(calls > 0, "{slicing}: nothing is told before it is on the disk");
        let b = &cluster.nodes[1];
        wait_for("b says why", || b.node.not_ready().is_some_and(|why| why.contains("the disk of the journal hangs")))
            .await;
        assert!(b.node.is_alive(), "its process goes on");
        for keys in [&before, &during] {
            let again = told(&filter, keys).await;
            assert!(again.iter().all(|verdict| *verdict == Verdict::Duplicate), "{slicing}: {again:?}");
        }

        gate.set_closed(false);
        b.ready().await;
        for node in &cluster.nodes {
            becomes_complete(node).await;
        }
        // What was recorded without b, it has fetched: the others may go.
        let mut nodes = cluster.nodes.into_iter();
        let (a, b) = (nodes.next().expect("a"), nodes.next().expect("b"));
        let (_client, filter) = hasty(&b).await;
        for keys in [&before, &during] {
            let again = told(&filter, keys).await;
            assert_eq!(again.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count(), 0, "{slicing}");
        }
        let (_, calls) = ask_until_decided(&filter, 900_000).await;
        println!("{slicing}: {calls} calls until all is well again");
        drop(a);
    }
}

/// No copy: nobody else answers, and nothing is lost, as nothing is recorded without the slice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_copy_goes_on_as_it_was_when_the_disk_answers() {
    let (cluster, gate) = cluster().await;
    create(&cluster, "horizontal:6", 0).await;
    let (_client, filter) = hasty(&cluster.nodes[0]).await;
    let before = keys(0);
    assert!(told(&filter, &before).await.iter().all(|verdict| *verdict == Verdict::FirstSeen));
    gate.set_closed(true);
    assert!(undecided(&told(&filter, &keys(1_000)).await) > 0);
    let b = &cluster.nodes[1];
    wait_for("b says why", || b.node.not_ready().is_some_and(|why| why.contains("the disk of the journal hangs")))
        .await;
    gate.set_closed(false);
    b.ready().await;
    for node in &cluster.nodes {
        becomes_complete(node).await;
    }
    let (_, calls) = ask_until_decided(&filter, 10_000).await;
    println!("{calls} calls until all is well again");
    let again = told(&filter, &before).await;
    assert!(again.iter().all(|verdict| *verdict == Verdict::Duplicate), "nothing is forgotten: {again:?}");
}
