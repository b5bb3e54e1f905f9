//! Tests of a full disk that holds the journal and the consensus log.
//!
//! In earlier versions, a full disk could end a node in the following way:
//!
//! - The disk of the node was full, so the node rejected events of durable filters, as intended.
//! - Meanwhile, the cluster map continued to change, and the consensus database stored each change on the same disk.
//! - After about fifteen changes, the consensus database found no room on the disk. The consensus failed, and the node
//!   ended.
//!
//! To prevent this, disk space is now reserved for the consensus database, and the journal does not use it. Changes of
//! the cluster map that can wait are rejected with an error that names the node with the full disk. If another program
//! fills the reserved space too, the node waits until there is room again.
//!
//! In earlier versions, one full disk stopped a filter even if the filter had several copies of each slice. The reason
//! was that a head node waits until an event is stored in all copies. The copy on the full disk never confirmed an
//! event, so every event received the verdict `unknown` at its deadline. Now, the other nodes continue without the copy
//! on the full disk, unless it is the last copy.

use std::sync::Arc;

use firstseen_client::{Client, ConnectOptions, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_journal::{Disk, MemoryDisk};
use firstseen_meta::{Change, Command, MetaStorage, RESERVE_FILE};
use firstseen_routing::{ClockSource, Durability, FilterPolicies, Incarnation, NodeId, Reason, SlicedDefinition};
use firstseen_wire::proto::admin::ForgiveFilterRequest;
use tonic::{Code, Status};

use crate::common::cluster::create_at;
use crate::common::disks::{
    SlowDisk, ask_until_decided, asked_node, becomes_complete, cluster, create, create_filter, hasty, keys, observe,
    undecided,
};
use crate::common::{PATIENCE, TestNode, request_to_create, wait_for};

/// Disk space that no test uses up, in bytes.
const ROOMY_BYTES: u64 = 64 << 20;
/// Number of changes of the cluster map that is larger than the number that the consensus used to survive.
const CHANGES: usize = 40;

fn definition() -> SlicedDefinition {
    let window = "1h".parse().expect("a window");
    let spec = FilterSpec { capacity_events: Some(20_000), rate: 1e-6, ..FilterSpec::new(Kind::Timing, window) };
    SlicedDefinition::new(&spec, "none".parse().expect("a slicing")).expect("a definition")
}

/// Starts a node whose folders are both on one disk.
async fn on_a_small_disk(name: &str) -> (MemoryDisk, TestNode) {
    let disk = MemoryDisk::default();
    let node = TestNode::start_changed(
        name,
        |_| {},
        |edges| {
            edges.storage = MetaStorage::Memory(disk.clone());
            edges.journal = Arc::new(disk.beside());
        },
    )
    .await;
    wait_for("room that is kept back", || has_reserve(&disk)).await;
    (disk, node)
}

fn has_reserve(disk: &MemoryDisk) -> bool {
    disk.names().is_ok_and(|names| names.iter().any(|name| name == RESERVE_FILE))
}

/// Makes a change of the cluster map that a cluster may need and that takes little space.
async fn change(node: &TestNode) -> Result<(), Status> {
    let request = ForgiveFilterRequest { name: "clicks".to_owned(), ..ForgiveFilterRequest::default() };
    node.admin().forgive_filter(request).await.map(drop)
}

/// Changes the cluster map until the node reports that space is short.
async fn change_until_short(changed: &TestNode, short: &TestNode) {
    let is_short = || short.node.not_ready().is_some_and(|why| why.contains("nearly full"));
    let changing = async {
        while !is_short() {
            change(changed).await.expect("it is changed");
        }
    };
    tokio::time::timeout(PATIENCE, changing).await.expect("it never finds its disk full");
}

async fn refused(node: &TestNode, named: &str) {
    let refused = node.admin().create_filter(request_to_create("views", &definition())).await;
    let refused = refused.expect_err("it can wait");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    for words in [&format!("disk of node `{named}` is nearly full"), "make room", "nothing has changed"] {
        assert!(refused.message().contains(words), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_no_node() {
    let (disk, node) = on_a_small_disk("a").await;
    node.init().await;
    let policies =
        FilterPolicies { clock: ClockSource::Wall, durability: Durability::Durable, ..FilterPolicies::default() };
    create_at(&node, "clicks", &definition(), policies).await;
    node.knows("clicks").await;
    let client = Client::connect(ConnectOptions { deadline_ms: 2_000, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    assert_eq!(filter.observe(b"before").await.expect("a call"), Verdict::FirstSeen);
    disk.set_room_bytes(Some(0));
    change_until_short(&node, &node).await;
    for _ in 0..CHANGES {
        change(&node).await.expect("a cluster must be able to change");
    }
    refused(&node, "a").await;
    assert_eq!(filter.observe(b"meanwhile").await.expect("a call"), Verdict::Undecided(Reason::Overloaded));
    assert_eq!(filter.test(b"before").await.expect("a call"), Verdict::Duplicate);
    node.metric_becomes("firstseen_data_disk_short", 1.0).await;
    // Another program uses the reserved space that was released, so changes of the cluster map wait.
    disk.set_room_bytes(Some(0));
    let (mut admin, forgiven) =
        (node.admin(), ForgiveFilterRequest { name: "clicks".to_owned(), ..Default::default() });
    let waiting = tokio::spawn(async move {
        for _ in 0..CHANGES {
            // A request that was not answered in time is sent again.
            while admin.forgive_filter(forgiven.clone()).await.is_err() {}
        }
    });
    assert!(node.node.is_alive());
    assert_eq!(filter.test(b"before").await.expect("a call"), Verdict::Duplicate);
    disk.set_room_bytes(Some(ROOMY_BYTES));
    node.ready().await;
    assert!(has_reserve(&disk), "room is kept back again");
    tokio::time::timeout(PATIENCE, waiting).await.expect("they never end").expect("they are done");
    assert_eq!(filter.observe(b"meanwhile").await.expect("a call"), Verdict::FirstSeen);
    node.create("views", "none").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_is_nearly_full_is_named_by_the_leader() {
    let (_, leader) = on_a_small_disk("a").await;
    leader.init().await;
    let (disk, follower) = on_a_small_disk("b").await;
    leader.join(&follower).await;
    create_at(&leader, "clicks", &definition(), FilterPolicies::default()).await;
    disk.set_room_bytes(Some(0));
    change_until_short(&leader, &follower).await;
    // The leader learns this with the next reply of the follower. One filter may be created before.
    change(&leader).await.expect("it is changed");
    refused(&leader, "b").await;
    refused(&follower, "b").await;
    disk.set_room_bytes(Some(ROOMY_BYTES));
    follower.ready().await;
    change(&leader).await.expect("it is changed");
    leader.create("views", "none").await;
}

/// Fills the disks of these nodes, until the nodes report it.
async fn fill(nodes: &[&TestNode], disks: &[&SlowDisk]) {
    disks.iter().for_each(|disk| disk.set_room_bytes(Some(0)));
    for node in nodes {
        change_until_short(nodes[0], node).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_have_room_answer_without_one_that_has_none() {
    for slicing in ["none", "horizontal:6", "vertical:3"] {
        let (cluster, disks) = cluster(true).await;
        create(&cluster, slicing, 1).await;
        let (_client, filter) = hasty(&cluster.nodes[0]).await;
        let before = keys(0);
        assert_eq!(observe(&filter, &before).await, [Verdict::FirstSeen; 300], "{slicing}");
        // The node that is asked rejects events, so it writes nothing that would find the disk full.
        let full = asked_node(&cluster).await;
        let b = &cluster.nodes[full];
        fill(&[b], &[&disks[full]]).await;

        let (during, calls) = ask_until_decided(&filter, 10_000).await;
        println!("{slicing}: {calls} calls had to wait for the disk");
        let says_why = || b.node.not_ready().is_some_and(|why| why.contains("is full") || why.contains("nearly full"));
        wait_for("it says why", says_why).await;
        for keys in [&before, &during] {
            assert_eq!(observe(&filter, keys).await, [Verdict::Duplicate; 300], "{slicing}");
        }

        disks[full].set_room_bytes(Some(ROOMY_BYTES));
        b.ready().await;
        for node in &cluster.nodes {
            becomes_complete(node).await;
        }
        let (_client, filter) = hasty(b).await;
        for keys in [&before, &during] {
            assert_eq!(observe(&filter, keys).await, [Verdict::Duplicate; 300], "{slicing}");
        }
    }
}

/// Tests that one copy of each slice stays when all disks are full. This copy answers for known events, and records no
/// new events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_copies_are_without_room_the_last_one_stays() {
    let (cluster, disks) = cluster(true).await;
    create(&cluster, "horizontal:6", 1).await;
    let (_client, filter) = hasty(&cluster.nodes[0]).await;
    let before = keys(0);
    assert_eq!(observe(&filter, &before).await, [Verdict::FirstSeen; 300]);
    let nodes: Vec<&TestNode> = cluster.nodes.iter().collect();
    fill(&nodes, &disks.iter().collect::<Vec<_>>()).await;
    let looking_up = async {
        loop {
            let mut known = Vec::new();
            for key in &before[..30] {
                known.push(filter.test(key).await.expect("a verdict"));
            }
            assert!(!known.contains(&Verdict::FirstSeen), "nothing is forgotten");
            if undecided(&known) == 0 && undecided(&observe(&filter, &keys(10_000)).await) == 300 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking_up).await.expect("known events have no answer");
    let map = cluster.nodes[0].map().await;
    for record in map.filters.values() {
        for slice in 0..record.owners.len() as u32 {
            assert!(map.is_complete(record, slice), "slice {slice} has a copy that has everything");
        }
    }
    disks.iter().for_each(|disk| disk.set_room_bytes(Some(ROOMY_BYTES)));
    for node in &cluster.nodes {
        node.ready().await;
        becomes_complete(node).await;
    }
    ask_until_decided(&filter, 20_000).await;
    assert_eq!(observe(&filter, &before).await, [Verdict::Duplicate; 300], "nothing is lost");
}

/// Waits until a node has another start than `incarnation`.
async fn starts_anew(seen_by: &TestNode, node: NodeId, incarnation: Incarnation) {
    let waiting = async { while seen_by.map().await.nodes[&node].incarnation == incarnation {} };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it never counts as started anew");
}

/// Regression test for a copy of a slice that stayed unused after its disk had been full. The node with the full disk
/// asked the cluster to continue without this copy, but there was no majority that could agree. By the time a majority
/// agreed, the disk had room again. In earlier versions, the cluster then never used the copy again.
///
/// The copy must now fetch the events that it lacks and become complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_was_spared_late_comes_back() {
    let (cluster, _disks) = cluster(false).await;
    create(&cluster, "none", 1).await;
    let map = cluster.nodes[0].map().await;
    let (filter, record) = map.filter_named("clicks").expect("the filter");
    let node = record.owners[0].node;
    let incarnation = map.nodes[&node].incarnation;
    let change = Change::SlicesSpared { filter, group: 0, node, incarnation };
    cluster.nodes[0].node.meta().propose(Command::new([77; 16], change)).await.expect("it is agreed on");
    starts_anew(&cluster.nodes[0], node, incarnation).await;
    for node in &cluster.nodes {
        becomes_complete(node).await;
    }
}

/// Tests that a copy can fetch cells from the last copy although the disk of the last copy is still full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_at_one_of_two_full_copies_is_enough() {
    let (cluster, disks) = cluster(true).await;
    create(&cluster, "none", 1).await;
    let (_client, filter) = hasty(&cluster.nodes[0]).await;
    let before = keys(0);
    assert_eq!(observe(&filter, &before).await, [Verdict::FirstSeen; 300]);
    let map = cluster.nodes[0].map().await;
    let (_, record) = map.filter_named("clicks").expect("the filter");
    let holders: Vec<NodeId> = record.all_copies().map(|(_, copy)| copy.node).collect();
    let index = |node: &NodeId| node.0 as usize - 1;
    let (nodes, full): (Vec<_>, Vec<_>) =
        holders.iter().map(|node| (&cluster.nodes[index(node)], &disks[index(node)])).unzip();
    fill(&nodes, &full).await;
    let spared = async {
        loop {
            let map = cluster.nodes[0].map().await;
            let (_, record) = map.filter_named("clicks").expect("the filter");
            if let Some((_, copy)) = record.all_copies().find(|(_, copy)| map.is_gone(copy)) {
                return copy.node;
            }
        }
    };
    let spared = tokio::time::timeout(PATIENCE, spared).await.expect("none of them is spared");
    disks[index(&spared)].set_room_bytes(Some(ROOMY_BYTES));
    ask_until_decided(&filter, 20_000).await;
    assert_eq!(observe(&filter, &before).await, [Verdict::Duplicate; 300], "nothing is lost");
}

/// Tests that replies are at most one interval ahead of the disk. On a full disk there are no replies to new events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_an_interval_a_full_disk_stops_replies_to_new_events() {
    let (cluster, disks) = cluster(false).await;
    let durability = Durability::Interval { interval_ms: 1_000 };
    create_filter(&cluster, "clicks", durability, ("vertical:3", 0)).await;
    let (_client, filter) = hasty(&cluster.nodes[0]).await;
    let before = keys(0);
    assert_eq!(observe(&filter, &before).await, [Verdict::FirstSeen; 300]);
    let b = &cluster.nodes[1];
    disks[1].set_room_bytes(Some(0));
    let filling = async {
        let mut call = 0;
        while b.metric("firstseen_journal_disk_full").await < 1.0 {
            call += 1;
            let many: Vec<_> = (0..2_000u32).map(|key| (10_000 + 2_000 * call + key).to_le_bytes()).collect();
            observe(&filter, &many).await;
        }
    };
    tokio::time::timeout(PATIENCE, filling).await.expect("it never finds its disk full");
    for call in 0..3 {
        // All events except about one in three hundred have cells on node b, because the positions of an event are
        // spread over the entire filter.
        let verdicts = observe(&filter, &keys(1_000_000 + 1_000 * call)).await;
        assert!(undecided(&verdicts) > 285, "{} of 300 are undecided", undecided(&verdicts));
    }
    disks[1].set_room_bytes(Some(ROOMY_BYTES));
    b.metric_becomes("firstseen_journal_disk_full", 0.0).await;
    assert_eq!(observe(&filter, &before).await, [Verdict::Duplicate; 300]);
}
