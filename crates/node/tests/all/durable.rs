//! Tests of filters with a journal: restarts, full or failing disks, and damaged journals.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstseen_client::{Client, ConnectOptions, Filter, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_journal::MemoryDisk;
use firstseen_node::{NodeError, repair};
use firstseen_routing::{ClockSource, Durability, FilterPolicies, Reason, SlicedDefinition};
use firstseen_wire::proto::admin::ForgiveFilterRequest;

use crate::common::cluster::{TestCluster, create_at};
use crate::common::{PATIENCE, TestNode, wait_for};

fn definition(slicing: &str) -> SlicedDefinition {
    let spec = FilterSpec {
        capacity_events: Some(20_000),
        rate: 1e-6,
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
}

fn durable() -> FilterPolicies {
    FilterPolicies { clock: ClockSource::Wall, durability: Durability::Durable, ..FilterPolicies::default() }
}

fn keys(from: u32, to: u32) -> Vec<[u8; 4]> {
    (from..to).map(u32::to_le_bytes).collect()
}

/// Returns how many of these keys are first-seen. All of them must have a verdict.
async fn first_seen(filter: &Filter, from: u32, to: u32) -> usize {
    let verdicts = filter.observe_batch(&keys(from, to)).await.expect("a call");
    let undecided: BTreeSet<String> = verdicts.iter().filter_map(reason).map(|reason| format!("{reason:?}")).collect();
    assert_eq!(undecided, BTreeSet::new());
    verdicts.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count()
}

fn reason(verdict: &Verdict) -> Option<Reason> {
    match verdict {
        Verdict::Undecided(reason) => Some(*reason),
        _ => None,
    }
}

async fn client(node: &TestNode) -> Client {
    Client::connect(ConnectOptions { deadline_ms: 60_000, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client")
}

/// Returns the version of the cluster map, if all slices of `clicks` are complete in it.
async fn complete_version(node: &TestNode) -> Option<u64> {
    let map = node.map().await;
    let (_, record) = map.filter_named("clicks").expect("the filter");
    let is_complete = (0..record.owners.len() as u32).all(|slice| map.is_complete(record, slice));
    is_complete.then_some(map.version)
}

/// Waits until all slices are complete, and returns the version of that cluster map.
async fn becomes_complete(node: &TestNode) -> u64 {
    let waiting = async {
        loop {
            if let Some(version) = complete_version(node).await {
                return version;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("its slices are never complete")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_started_again_one_by_one_forget_nothing() {
    for slicing in ["horizontal:6", "vertical:6"] {
        // No node is marked as down while it starts, however busy the machine is.
        let cluster = TestCluster::start_with(3, |config| config.timing.unreachable_after_ms = 60_000).await;
        cluster.create("clicks", &definition(slicing), durable()).await;
        let (_client, filter) = cluster.producer(0, "clicks").await;
        assert_eq!(first_seen(&filter, 0, 3000).await, 3000);
        let mut nodes = cluster.nodes;
        for round in 0..3 {
            let node = nodes.remove(0).restart().await;
            node.ready().await;
            // Other nodes may not have the cluster map with the new start yet. In their map, the previous process is
            // still complete.
            let version = becomes_complete(&node).await;
            nodes.push(node);
            for node in &nodes {
                node.ready().await;
                // A node with an older cluster map marks its replies as degraded.
                node.acts_on(version).await;
            }
            let client = client(&nodes[round % 3]).await;
            let filter = client.filter("clicks").await.expect("a filter");
            assert_eq!(first_seen(&filter, 0, 3000).await, 0, "{slicing}, round {round}: forgotten");
            assert_eq!(
                filter.status().degraded.events,
                0,
                "{slicing}, round {round}: degraded, by nodes that all act on it"
            );
        }
    }
}

/// Starts a node with a filter on a disk that the test controls, and a client with a short deadline.
async fn on_a_disk_that_fails() -> (MemoryDisk, TestNode, Client) {
    let disk = MemoryDisk::default();
    let node = TestNode::start_changed("a", |_| {}, |edges| edges.journal = Arc::new(disk.clone())).await;
    node.init().await;
    create_at(&node, "clicks", &definition("none"), durable()).await;
    node.knows("clicks").await;
    let client = Client::connect(ConnectOptions { deadline_ms: 300, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client");
    (disk, node, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_events_and_answers_lookups() {
    let (disk, node, client) = on_a_disk_that_fails().await;
    let filter = client.filter("clicks").await.expect("a filter");
    assert_eq!(first_seen(&filter, 0, 500).await, 500);
    disk.set_room_bytes(Some(0));
    // The first events may have been recorded, because they were accepted before the disk was known to be full.
    let verdicts = filter.observe_batch(&keys(500, 510)).await.expect("a call");
    assert!(verdicts.iter().all(|verdict| reason(verdict).is_some()), "{verdicts:?}");
    wait_for("a disk that is full", || node.node.not_ready().is_some_and(|why| why.contains("disk"))).await;
    // From now on no operation waits for the disk, so calls need no short deadline.
    let patient = Client::connect(ConnectOptions::from([node.node.addr()])).await.expect("a client");
    let filter = patient.filter("clicks").await.expect("a filter");
    let verdicts = filter.observe_batch(&keys(600, 610)).await.expect("a call");
    let overloaded = [Some(Reason::Overloaded); 10];
    assert_eq!(verdicts.iter().map(reason).collect::<Vec<_>>(), overloaded);
    for (key, expected) in [(7u32, Verdict::Duplicate), (99_999, Verdict::FirstSeen)] {
        assert_eq!(filter.test(&key.to_le_bytes()).await.expect("a call"), expected);
    }
    node.metric_becomes("firstseen_journal_disk_full", 1.0).await;
    disk.set_room_bytes(None);
    node.ready().await;
    assert_eq!(first_seen(&filter, 600, 700).await, 100, "what was refused was not recorded");
    assert_eq!(first_seen(&filter, 0, 500).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_does_not_sync_ends_the_node() {
    let (disk, node, client) = on_a_disk_that_fails().await;
    let filter = client.filter("clicks").await.expect("a filter");
    assert_eq!(first_seen(&filter, 0, 10).await, 10);
    disk.fail_syncs(true);
    let verdicts = filter.observe_batch(&keys(10, 20)).await.expect("a call");
    assert!(verdicts.iter().all(|verdict| reason(verdict).is_some()), "{verdicts:?}");
    let failure = tokio::time::timeout(PATIENCE, node.node.failure()).await.expect("it never ends");
    assert!(matches!(failure, NodeError::Journal(_)), "{failure}");
}

/// Returns the journal file that contains the records of a small filter.
fn journal_of(data_dir: &Path) -> PathBuf {
    let files = fs::read_dir(data_dir.join("journal")).expect("a journal");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_journal_is_reported_and_repaired() {
    let node = TestNode::start("a", firstseen_node::Limits::default()).await;
    node.init().await;
    create_at(&node, "clicks", &definition("none"), durable()).await;
    node.knows("clicks").await;
    node.create("views", "none").await;
    let client = client(&node).await;
    let filter = client.filter("clicks").await.expect("a filter");
    for from in (0..2000).step_by(100) {
        assert_eq!(first_seen(&filter, from, from + 100).await, 100);
    }
    let stopped = node.stop().await;
    let mut file = fs::OpenOptions::new().read(true).write(true).open(journal_of(stopped.data_dir())).expect("a file");
    file.seek(SeekFrom::Start(6000)).expect("it is longer");
    let mut byte = [0];
    file.read_exact(&mut byte).expect("a byte");
    file.seek(SeekFrom::Start(6000)).expect("it is longer");
    file.write_all(&[byte[0] ^ 4]).expect("written");
    drop(file);
    let node = stopped.start().await;
    wait_for("damage", || node.node.not_ready().is_some_and(|why| why.contains("damaged at byte"))).await;
    let why = node.node.not_ready().expect("it is not ready");
    assert!(why.contains("firstseen node repair"), "{why}");
    let views = self::client(&node).await.filter("views").await.expect("a filter that keeps no journal");
    drop(views);
    let data_dir = node.data_dir().to_owned();
    assert!(repair(&data_dir).expect_err("it runs").to_string().contains("running"));
    let stopped = node.stop().await;
    let repaired = repair(&data_dir).expect("it can be repaired");
    assert!(repaired.records > 15 && repaired.lost_bytes > 0, "{repaired:?}");
    assert!(repair(&data_dir).expect_err("once").to_string().contains("earlier repair"));
    let node = stopped.start().await;
    node.ready().await;
    assert!(complete_version(&node).await.is_none(), "something is missing");
    let client = self::client(&node).await;
    let filter = client.filter("clicks").await.expect("a filter");
    let hasty = Client::connect(ConnectOptions { deadline_ms: 500, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client");
    let verdicts = hasty.filter("clicks").await.expect("a filter").observe_batch(&keys(0, 2000)).await;
    let verdicts = verdicts.expect("a call");
    assert!(verdicts.iter().all(|verdict| reason(verdict) == Some(Reason::SlicesDown)), "what is missing is not known");
    let request = ForgiveFilterRequest { name: "clicks".to_owned(), ..ForgiveFilterRequest::default() };
    node.admin().forgive_filter(request).await.expect("forgiven");
    becomes_complete(&node).await;
    let forgotten = first_seen(&filter, 0, 2000).await;
    assert!((1..=200).contains(&forgotten), "{forgotten} of 2,000 were in the record that was damaged");
}
