//! Tests three nodes with two copies of every slice, of which one node has a disk that neither fails nor answers.
//!
//! In the first scenario, the disk with the journal of node b begins to hang. Node b itself still runs and is
//! reachable, so the other two nodes continue to send it events. Node b cannot store these events, so they receive the
//! verdict `unknown` at their deadlines. This must not continue for as long as the disk hangs. Node b must therefore
//! stop serving the slices on that disk.
//!
//! When node b has stopped serving these slices, the copies on the other nodes decide the events, and node b reports
//! why it is not ready. When the disk works again, node b fetches the data that its copies lack, and becomes ready.
//!
//! In the second scenario, the disk of the node that leads the consensus group hangs. If the consensus log is on this
//! disk too, the node cannot even report the problem, because a report is a change of the log. Another node must then
//! become the leader, and the cluster must mark the node with the hanging disk as down.

use firstseen_client::{Client, ConnectOptions, Verdict};
use firstseen_routing::{Durability, NodeId};

use crate::common::disks::{
    ask_until_decided, asked_node, becomes_complete, cluster, create, create_filter, hasty, keys, observe, undecided,
};
use crate::common::{PATIENCE, TestNode, wait_for};

/// Starts a call with a long deadline while the disk hangs.
async fn waits(node: &TestNode) -> impl Future<Output = Vec<Verdict>> + use<> {
    let client = Client::connect(ConnectOptions { deadline_ms: 15_000, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    async move {
        let verdicts = observe(&filter, &keys(5_000)).await;
        drop(client);
        verdicts
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_copies_answer_for_a_node_whose_disk_hangs() {
    for slicing in ["horizontal:6", "vertical:3"] {
        let (cluster, disks) = cluster(false).await;
        create(&cluster, slicing, 1).await;
        let (_client, filter) = hasty(&cluster.nodes[0]).await;
        let before = keys(0);
        assert!(observe(&filter, &before).await.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{slicing}");

        disks[1].set_hung(true);
        let waiting = tokio::spawn(waits(&cluster.nodes[0]).await);
        let (during, calls) = ask_until_decided(&filter, 10_000).await;
        println!("{slicing}: {calls} calls had to wait for the disk");
        let answered = waiting.await.expect("a call");
        assert_eq!(
            undecided(&answered),
            0,
            "{slicing}: who waits is answered by other copies, long before the deadline"
        );
        assert!(calls > 0, "{slicing}: no reply comes before the record is on the disk");
        let b = &cluster.nodes[1];
        wait_for("b says why", || b.node.not_ready().is_some_and(|why| why.contains("the disk of the journal hangs")))
            .await;
        assert!(b.node.is_alive(), "its process goes on");
        for keys in [&before, &during] {
            let again = observe(&filter, keys).await;
            assert!(again.iter().all(|verdict| *verdict == Verdict::Duplicate), "{slicing}: {again:?}");
        }

        disks[1].set_hung(false);
        b.ready().await;
        for node in &cluster.nodes {
            becomes_complete(node).await;
        }
        // Node b has fetched the events that were recorded without it, so the other nodes may stop.
        let mut nodes = cluster.nodes.into_iter();
        let (a, b) = (nodes.next().expect("a"), nodes.next().expect("b"));
        let (_client, filter) = hasty(&b).await;
        for keys in [&before, &during] {
            let again = observe(&filter, keys).await;
            assert_eq!(again.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count(), 0, "{slicing}");
        }
        let (_, calls) = ask_until_decided(&filter, 900_000).await;
        println!("{slicing}: {calls} calls until all is well again");
        drop(a);
    }
}

/// Tests the only copy of a slice. No other node answers, and no event is lost, because nothing is recorded without the
/// slice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_copy_goes_on_as_it_was_when_the_disk_answers() {
    let (cluster, disks) = cluster(false).await;
    create(&cluster, "horizontal:6", 0).await;
    let (_client, filter) = hasty(&cluster.nodes[0]).await;
    let before = keys(0);
    assert!(observe(&filter, &before).await.iter().all(|verdict| *verdict == Verdict::FirstSeen));
    disks[1].set_hung(true);
    assert!(undecided(&observe(&filter, &keys(1_000)).await) > 0);
    let b = &cluster.nodes[1];
    wait_for("b says why", || b.node.not_ready().is_some_and(|why| why.contains("the disk of the journal hangs")))
        .await;
    disks[1].set_hung(false);
    b.ready().await;
    for node in &cluster.nodes {
        becomes_complete(node).await;
    }
    let (_, calls) = ask_until_decided(&filter, 10_000).await;
    println!("{calls} calls until all is well again");
    let again = observe(&filter, &before).await;
    assert!(again.iter().all(|verdict| *verdict == Verdict::Duplicate), "nothing is forgotten: {again:?}");
}

/// Tests that the node answers for known events from memory, as if the disk had been full from the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_and_is_full_after_that_keeps_no_only_copy_silent() {
    let (cluster, disks) = cluster(false).await;
    create(&cluster, "none", 0).await;
    let (_client, filter) = hasty(&cluster.nodes[0]).await;
    let before = keys(0);
    assert_eq!(undecided(&observe(&filter, &before).await), 0);
    let full = asked_node(&cluster).await;
    let node = &cluster.nodes[full];
    disks[full].set_hung(true);
    observe(&filter, &keys(5_000)).await;
    disks[full].set_room_bytes(Some(0));
    // The events exceed the size of a segment.
    for call in 0..30 {
        observe(&filter, &keys(10_000 + 1_000 * call)).await;
        if node.node.not_ready().is_some_and(|why| why.contains("hangs")) {
            break;
        }
    }
    wait_for("it says why", || node.node.not_ready().is_some_and(|why| why.contains("the disk of the journal hangs")))
        .await;
    disks[full].set_hung(false);
    let known = async { while filter.test(&before[0]).await.expect("a call") != Verdict::Duplicate {} };
    tokio::time::timeout(PATIENCE, known).await.expect("known events have no answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_leads_where_both_disks_of_the_leader_hang() {
    let (cluster, disks) = cluster(true).await;
    create(&cluster, "vertical:3", 1).await;
    create_filter(&cluster, "views", Durability::Memory, ("vertical:3", 1)).await;
    let number = cluster.nodes[0].status().await.leader;
    let leads = number as usize - 1;
    let (leader, other) = (&cluster.nodes[leads], &cluster.nodes[(leads + 1) % 3]);
    let (client, filter) = hasty(other).await;
    let views = client.filter("views").await.expect("a filter");
    let before = keys(0);
    for filter in [&filter, &views] {
        assert!(observe(filter, &before).await.iter().all(|verdict| *verdict == Verdict::FirstSeen));
    }

    disks[leads].set_hung(true);
    let (during, calls) = ask_until_decided(&filter, 10_000).await;
    println!("{calls} calls had to wait");
    for node in cluster.nodes.iter().filter(|node| node.node.addr() != leader.node.addr()) {
        node.finds_down(&[NodeId(number)]).await;
        assert!(![0, number].contains(&node.status().await.leader), "another leads");
    }
    wait_for("it says why", || {
        leader.node.not_ready().is_some_and(|why| why.contains("disk of the data folder hangs"))
    })
    .await;
    assert!(leader.node.is_alive(), "its process goes on");
    leader.metric_becomes("firstseen_data_disk_hung", 1.0).await;
    let (views_during, _) = ask_until_decided(&views, 10_000).await;
    for (filter, keys) in [(&filter, &before), (&filter, &during), (&views, &before), (&views, &views_during)] {
        let again = observe(filter, keys).await;
        assert!(again.iter().all(|verdict| *verdict == Verdict::Duplicate), "{again:?}");
    }

    disks[leads].set_hung(false);
    leader.ready().await;
    for node in &cluster.nodes {
        becomes_complete(node).await;
    }
    let (_client, filter) = hasty(leader).await;
    for keys in [&before, &during] {
        let again = observe(&filter, keys).await;
        assert_eq!(again.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count(), 0);
    }
}
