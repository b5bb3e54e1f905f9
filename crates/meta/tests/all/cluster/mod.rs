//! Tests the guarantees of a cluster through joins, crashes and restarts. Three nodes run in one process with real
//! connections.

mod node;

use std::sync::Arc;

use firstseen_filter::{FilterSpec, Kind};
use firstseen_meta::{AskedBy, Change, Command, CommandId, MetaError, NewFilter, Outcome, Refusal, leave};
use firstseen_routing::{ClusterMap, FilterPolicies, Incarnation, NodeId, SecretMaterial, SlicedDefinition};

use node::{Node, eventually};

fn command(id: u8, change: Change) -> Command {
    Command::new([id; 16], change)
}

fn filter(name: &str) -> Change {
    let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Bloom, "unbounded".parse().unwrap()) };
    let definition = SlicedDefinition::new(&spec, "horizontal:3".parse().unwrap()).unwrap();
    let (policies, secret) = (FilterPolicies::default(), SecretMaterial([9; 32]));
    Change::CreateFilter(NewFilter { name: name.into(), definition, policies, secret, if_absent: false, tree: None })
}

/// Starts a cluster of three nodes that all vote.
async fn three() -> Vec<Node> {
    let nodes = vec![Node::start("a").await, Node::start("b").await, Node::start("c").await];
    nodes[0].meta.init().await.unwrap();
    assert_eq!(join(&nodes[0], [1; 16], &nodes[1]).await, Ok(2));
    // The request goes to a node that is not the leader.
    assert_eq!(join(&nodes[1], [2; 16], &nodes[2]).await, Ok(3));
    for node in &nodes {
        settled(node, 3).await;
    }
    nodes
}

async fn join(through: &Node, id: CommandId, candidate: &Node) -> Result<u64, String> {
    let joined = firstseen_meta::join(&through.meta, AskedBy::default(), id, candidate.address.clone()).await;
    joined.map(|node| node.0).map_err(|error| error.to_string())
}

/// Returns the map of `node` once it contains exactly `voters` nodes, all of which have started and vote.
async fn settled(node: &Node, voters: usize) -> Arc<ClusterMap> {
    let ready = |map: &Arc<ClusterMap>| {
        map.nodes.len() == voters && map.nodes.values().all(|node| node.voter && node.incarnation.0 > 0)
    };
    let mut map = node.meta.map();
    eventually("all vote", async { map.wait_for(ready).await.unwrap() }).await;
    map.borrow().clone()
}

fn leader_of(nodes: &[Node]) -> Option<usize> {
    let leader = nodes.iter().find_map(|node| node.meta.status().leader)?;
    nodes.iter().position(|node| node.meta.identity().is_some_and(|identity| identity.node == leader))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_agree_through_any_of_them() {
    let nodes = three().await;
    let leader = leader_of(&nodes).unwrap();
    let follower = (leader + 1) % 3;
    let made = nodes[follower].meta.propose(command(10, filter("clicks"))).await.unwrap();
    let Outcome::FilterCreated { filter: number, existed: false } = made else { panic!("{made:?}") };
    let shown = nodes[follower].meta.map().borrow().clone();
    assert!(shown.filters.contains_key(&number), "who asked sees it at once");
    let mut owners: Vec<u64> = shown.filters[&number].owners.iter().map(|owner| owner.node.0).collect();
    owners.sort_unstable();
    assert_eq!(owners, [1, 2, 3]);
    // The same command id through another member gives the same answer.
    let again = nodes[leader].meta.propose(command(10, filter("clicks"))).await.unwrap();
    assert_eq!(again, made);
    let refused = nodes[follower].meta.propose(command(11, filter("clicks"))).await.unwrap_err();
    assert!(matches!(&refused, MetaError::Refused(Refusal::FilterExists { .. })), "{refused}");
    let long = command(12, filter(&"x".repeat(100 << 10)));
    let refused = nodes[follower].meta.propose(long).await.unwrap_err();
    assert!(matches!(&refused, MetaError::Refused(Refusal::TooLarge { .. })), "{refused}");
    for node in &nodes {
        let mut map = node.meta.map();
        let same = eventually("the same map", async { map.wait_for(|map| **map == *shown).await.map(drop) }).await;
        same.unwrap();
        assert_eq!(node.meta.secret(number), Some(SecretMaterial([9; 32])));
        assert!(node.meta.is_alive());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_leader_is_replaced() {
    let mut nodes = three().await;
    let lost = nodes.remove(leader_of(&nodes).unwrap());
    let term = lost.meta.status().term;
    lost.stop().await;
    let made = nodes[0].meta.propose(command(20, filter("clicks"))).await.unwrap();
    assert!(matches!(made, Outcome::FilterCreated { existed: false, .. }), "{made:?}");
    assert!(nodes[0].meta.status().term > term);
    nodes[1].meta.propose(command(21, Change::DropFilter { name: "clicks".into() })).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_lose_nothing_and_count() {
    let mut nodes = three().await;
    nodes[0].meta.propose(command(30, filter("clicks"))).await.unwrap();
    let before = settled(&nodes[2], 3).await;
    let node = nodes.remove(2);
    let (identity, kept) = (node.meta.identity(), node.keep());
    let was = before.nodes[&NodeId(3)].incarnation;
    node.stop().await;
    let node = Node::resume(kept).await;
    assert_eq!(node.meta.identity(), identity);
    let mut incarnation = node.meta.incarnation();
    eventually("it has started", async { incarnation.wait_for(Option::is_some).await.unwrap() }).await;
    let now = *incarnation.borrow();
    assert!(now.unwrap() > was, "{now:?} after {was:?}");
    nodes.push(node);
    // All nodes stop at the same time.
    let mut kept = Vec::new();
    for node in nodes {
        kept.push(node.keep());
        node.stop().await;
    }
    let mut nodes = Vec::new();
    for kept in kept {
        nodes.push(Node::resume(kept).await);
    }
    for node in &nodes {
        let mut incarnation = node.meta.incarnation();
        eventually("it has started", async { incarnation.wait_for(Option::is_some).await.map(drop) }).await.unwrap();
        let map = node.meta.map().borrow().clone();
        assert!(map.filter_named("clicks").is_some());
        assert!(!map.is_complete(map.filter_named("clicks").unwrap().1, 0), "cells were in memory");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_over_once_however_often_that_is_asked() {
    let node = Node::start("a").await;
    node.meta.init().await.unwrap();
    let started_after = async |before: Incarnation| {
        let mut incarnation = node.meta.incarnation();
        let is_later = |start: &Option<Incarnation>| start.is_some_and(|start| start > before);
        eventually("it has started", async { incarnation.wait_for(is_later).await.unwrap() }).await;
        let start = *incarnation.borrow();
        start.unwrap()
    };
    let first = started_after(Incarnation(0)).await;
    node.meta.mark_restarted(first);
    node.meta.mark_restarted(first);
    let second = started_after(first).await;
    // The request comes too late, because the node already counts as restarted.
    node.meta.mark_restarted(first);
    node.meta.propose(command(70, filter("clicks"))).await.unwrap();
    node.meta.mark_restarted(second);
    let third = started_after(second).await;
    node.meta.propose(command(71, Change::DropFilter { name: "clicks".into() })).await.unwrap();
    assert_eq!((second.0, third.0), (first.0 + 1, first.0 + 2));
    assert_eq!(node.meta.map().borrow().nodes[&NodeId(1)].incarnation, third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_is_repeated_is_one_node() {
    let nodes = three().await;
    assert_eq!(join(&nodes[1], [2; 16], &nodes[2]).await, Ok(3), "under the same id");
    assert_eq!(join(&nodes[1], [3; 16], &nodes[2]).await, Ok(3), "under another, it is a member already");
    assert_eq!(settled(&nodes[0], 3).await.nodes.len(), 3);
    let stranger = Node::start("d").await;
    stranger.meta.init().await.unwrap();
    let refused = join(&nodes[0], [4; 16], &stranger).await.unwrap_err();
    assert!(refused.contains("another cluster"), "{refused}");
    let refused = nodes[0].meta.init().await.unwrap_err().to_string();
    assert!(refused.contains("is already node"), "{refused}");
    let nobody = firstseen_meta::join(&nodes[0].meta, AskedBy::default(), [5; 16], "127.0.0.1:1".into())
        .await
        .unwrap_err()
        .to_string();
    assert!(nobody.contains("does not answer"), "{nobody}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_leave_for_good() {
    let mut nodes = three().await;
    nodes[0].meta.propose(command(40, filter("clicks"))).await.unwrap();
    let refused = leave(&nodes[0].meta, AskedBy::default(), [41; 16], NodeId(3)).await.unwrap_err().to_string();
    assert!(refused.contains("owns slices of clicks"), "{refused}");
    nodes[0].meta.propose(command(42, Change::DropFilter { name: "clicks".into() })).await.unwrap();
    // The leader itself leaves, at the request of another node.
    let leader = leader_of(&nodes).unwrap();
    let gone = nodes.remove(leader);
    let number = gone.meta.identity().unwrap().node;
    leave(&nodes[0].meta, AskedBy::default(), [43; 16], number).await.unwrap();
    for node in &nodes {
        settled(node, 2).await;
    }
    gone.stop().await;
    nodes[1].meta.propose(command(44, filter("clicks"))).await.unwrap();
    let newcomer = Node::start("d").await;
    assert_eq!(join(&nodes[0], [45; 16], &newcomer).await, Ok(4), "numbers are never given twice");
    settled(&newcomer, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_leaves_at_its_own_word() {
    for count in [2, 3] {
        let mut nodes = three().await;
        if count == 2 {
            let other = (leader_of(&nodes).unwrap() + 1) % 3;
            let other = nodes.remove(other);
            leave(&nodes[0].meta, AskedBy::default(), [51; 16], other.meta.identity().unwrap().node).await.unwrap();
            other.stop().await;
            settled(&nodes[0], 2).await;
        }
        let gone = nodes.remove(leader_of(&nodes).unwrap());
        let number = gone.meta.identity().unwrap().node;
        leave(&gone.meta, AskedBy::default(), [52; 16], number).await.unwrap();
        for node in &nodes {
            settled(node, count - 1).await;
        }
        nodes[0].meta.propose(command(53, filter("clicks"))).await.unwrap();
        gone.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_versions_in_order() {
    let nodes = three().await;
    let mut watchers = Vec::new();
    for node in &nodes {
        let mut map = node.meta.map();
        watchers.push(tokio::spawn(async move {
            let mut versions = vec![map.borrow_and_update().version];
            while map.borrow().filter_named("last").is_none() {
                map.changed().await.unwrap();
                versions.push(map.borrow_and_update().version);
            }
            versions
        }));
    }
    for number in 0..20u8 {
        nodes[usize::from(number) % 3]
            .meta
            .propose(command(100 + number, filter(&format!("f{number}"))))
            .await
            .unwrap();
    }
    nodes[0].meta.propose(command(150, filter("last"))).await.unwrap();
    for watcher in watchers {
        let versions = eventually("the last version", watcher).await.unwrap();
        assert!(versions.is_sorted_by(|earlier, later| earlier < later), "{versions:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_brings_a_newcomer_up_to_date() {
    let first = Node::start_with("a", |timing| timing.snapshot_entries = 20).await;
    first.meta.init().await.unwrap();
    for round in 0..60u8 {
        let change = if round % 2 == 0 { filter("clicks") } else { Change::DropFilter { name: "clicks".into() } };
        first.meta.propose(command(round, change)).await.unwrap();
    }
    first.meta.propose(command(200, filter("kept"))).await.unwrap();
    let second = Node::start("b").await;
    assert_eq!(join(&first, [201; 16], &second).await, Ok(2));
    let map = settled(&second, 2).await;
    let (number, _) = map.filter_named("kept").unwrap();
    assert_eq!(second.meta.secret(number), Some(SecretMaterial([9; 32])));
    // Commands from before the snapshot are remembered after it.
    let again = second.meta.propose(command(200, filter("kept"))).await.unwrap();
    assert_eq!(again, Outcome::FilterCreated { filter: number, existed: false });
}
