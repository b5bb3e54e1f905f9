//! Helpers for tests with full or hanging disks, and for the verdicts that producers receive in the meantime.

use std::sync::Arc;

use firstseen_client::{Client, ConnectOptions, Filter, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_journal::{Disk, MemoryDisk};
use firstseen_meta::{MetaStorage, RESERVE_FILE};
use firstseen_routing::{AnswerWhen, ClockSource, Durability, FilterPolicies, SlicedDefinition};

use super::cluster::{TestCluster, create_at};
use super::{PATIENCE, TestNode, wait_for};

/// Size of a journal segment in bytes. A segment reserves its space when it begins, so small segments show early that a
/// disk is full.
const SEGMENT_BYTES: u32 = 256 << 10;

/// The disk of a node. When the test ends, operations that wait for the disk are released.
pub struct SlowDisk(MemoryDisk);

impl SlowDisk {
    /// Sets whether syncs hang.
    pub fn set_hung(&self, is_hung: bool) {
        self.0.hold_syncs(is_hung);
    }

    /// Sets how many bytes of space are left.
    pub fn set_room_bytes(&self, room_bytes: Option<u64>) {
        self.0.set_room_bytes(room_bytes);
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.set_hung(false);
    }
}

/// Starts nodes a, b and c. Their disks hold only the journals, or also the consensus logs.
pub async fn cluster(holds_agreement: bool) -> (TestCluster, Vec<SlowDisk>) {
    let (mut nodes, mut disks) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c"] {
        let disk = MemoryDisk::that_may_hang();
        disks.push(SlowDisk(disk.clone()));
        let storage = disk.beside();
        let change_edges = |edges: &mut firstseen_node::Edges| {
            if holds_agreement {
                edges.storage = MetaStorage::Memory(storage.clone());
            }
            edges.journal = Arc::new(disk);
            edges.journal_segment_bytes = SEGMENT_BYTES;
            // No checkpoint may free space on a disk that a test has filled.
            edges.owner_limits.checkpoint_after_bytes = Some(u64::MAX);
        };
        nodes.push(TestNode::start_changed(name, |_| {}, change_edges).await);
        if holds_agreement {
            let has_reserve = || storage.names().is_ok_and(|names| names.iter().any(|name| name == RESERVE_FILE));
            wait_for("room that is kept back", has_reserve).await;
        }
    }
    nodes[0].init().await;
    nodes[0].join(&nodes[1]).await;
    nodes[0].join(&nodes[2]).await;
    (TestCluster { nodes }, disks)
}

/// Creates a durable filter `clicks` that is complete on all nodes.
pub async fn create(cluster: &TestCluster, slicing: &str, copies: u32) {
    create_filter(cluster, "clicks", Durability::Durable, (slicing, copies)).await;
}

/// Creates a filter that is complete on all nodes.
pub async fn create_filter(cluster: &TestCluster, name: &str, durability: Durability, (slicing, copies): (&str, u32)) {
    let spec = FilterSpec {
        capacity_events: Some(50_000),
        rate: 1e-9,
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
    let policies = FilterPolicies {
        answer: AnswerWhen::Safe,
        clock: ClockSource::Wall,
        durability,
        copies,
        ..FilterPolicies::default()
    };
    create_at(&cluster.nodes[0], name, &definition, policies).await;
    for node in &cluster.nodes {
        node.knows(name).await;
        becomes_complete(node).await;
    }
}

/// Waits until all copies of all slices are complete in the cluster map of `node`.
pub async fn becomes_complete(node: &TestNode) {
    let waiting = async {
        loop {
            let map = node.map().await;
            let mut copies = map.filters.values().flat_map(|record| record.all_copies());
            if copies.all(|(_, copy)| map.is_complete_copy(copy)) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("its slices are never complete");
}

/// Connects a client with a deadline of one second, after which an event is unknown.
pub async fn hasty(node: &TestNode) -> (Client, Filter) {
    let client = Client::connect(ConnectOptions { deadline_ms: 1_000, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    (client, filter)
}

/// Returns the index of the node that is asked for slice 0.
pub async fn asked_node(cluster: &TestCluster) -> usize {
    let map = cluster.nodes[0].map().await;
    let (_, record) = map.filter_named("clicks").expect("the filter");
    record.owners[0].node.0 as usize - 1
}

/// Returns three hundred keys.
pub fn keys(from: u32) -> Vec<[u8; 4]> {
    (from..from + 300).map(u32::to_le_bytes).collect()
}

/// Returns the verdicts on these events.
pub async fn observe(filter: &Filter, keys: &[[u8; 4]]) -> Vec<Verdict> {
    filter.observe_batch(keys).await.expect("verdicts")
}

/// Returns how many of the verdicts are undecided.
pub fn undecided(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Undecided(_))).count()
}

/// Sends new events until all events of a call are decided. Returns the events of that call, and the number of earlier
/// calls.
pub async fn ask_until_decided(filter: &Filter, first: u32) -> (Vec<[u8; 4]>, u32) {
    let asking = async {
        for call in 0.. {
            let keys = keys(first + 1_000 * call);
            let verdicts = observe(filter, &keys).await;
            if undecided(&verdicts) == 0 {
                assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "new events are new");
                return (keys, call);
            }
        }
        unreachable!("it asks for ever")
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("what the node that hangs answers is unknown for ever")
}
