//! Tests a node that fails and returns. Its slices do not answer at first, and later answer as incomplete.

use crate::common::cluster::create_at;
use crate::common::{Hashing, PATIENCE, RawStream, TestNode, three_nodes, three_nodes_with};
use firstseen_client::{Client, ConnectOptions, Filter, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::{Answers, ClockSource, Decision, FilterPolicies, NodeId, Reason, SlicedDefinition, WhenLost};
use firstseen_wire::proto::admin::ForgiveFilterRequest;
use firstseen_wire::proto::producer::{self, Batch, BatchReply};
use firstseen_wire::reply;

fn events(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|event| format!("event-{event}")).collect()
}

fn names(events: &[String]) -> Vec<&str> {
    events.iter().map(String::as_str).collect()
}

fn definition_of(slicing: &str) -> SlicedDefinition {
    let window = "1h".parse().expect("a window");
    let spec = FilterSpec { capacity_events: Some(10_000), ..FilterSpec::new(Kind::Timing, window) };
    SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
}

/// Returns policies with which the remaining slices decide, so that lost events are first-seen again.
fn forgetful() -> FilterPolicies {
    FilterPolicies { clock: ClockSource::Wall, when_lost: WhenLost::FirstSeen, ..FilterPolicies::default() }
}

/// Starts three nodes with a filter `clicks`. Every event has cells on several of them, and no node marks another as
/// down.
async fn three_nodes_that_share_events() -> [TestNode; 3] {
    let nodes = three_nodes_with(|config| config.timing.unreachable_after_ms = 3_600_000).await;
    nodes[0].create("clicks", "vertical:6").await;
    for node in &nodes {
        node.knows("clicks").await;
    }
    nodes
}

/// Returns the number that the cluster has assigned to the third node.
async fn number_of_c(node: &TestNode) -> NodeId {
    node.map().await.node_named("c").expect("node c").0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_for_a_node_that_is_gone_are_refused() {
    let [a, b, c] = three_nodes().await;
    a.create("clicks", "horizontal:6").await;
    let gone = number_of_c(&a).await;
    let hashing = Hashing::of(&a, "clicks").await;
    c.node.shutdown().await;
    let (mut stream, _) = RawStream::greeted(&a, 1).await;
    let events = events(0, 100);
    for (node, indexes, batch) in hashing.batches(1, &names(&events)) {
        let reply = if node == NodeId(2) { ask_again(&b, &mut stream, &batch).await } else { stream.ask(batch).await };
        let expected = if node == gone { producer::Reason::NotReady } else { producer::Reason::Unspecified };
        assert_eq!(reply.refused, i32::from(expected), "node {node}, {} events: {reply:?}", indexes.len());
    }
}

/// Sends a batch after this node knows the filter. Node b receives the cluster map with the filter a little later than
/// node a.
async fn ask_again(node: &TestNode, stream: &mut RawStream, batch: &Batch) -> BatchReply {
    node.knows("clicks").await;
    stream.ask(batch.clone()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn divided_events_that_need_a_node_that_is_gone_are_undecided_by_their_deadline() {
    const DEADLINE_MS: u32 = 400;
    let [a, _b, c] = three_nodes_that_share_events().await;
    let gone = number_of_c(&a).await;
    let hashing = Hashing::of(&a, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&a, 1).await;
    let before = events(0, 100);
    hashing.observe(&mut stream, 1, &names(&before)).await;
    c.node.shutdown().await;
    let mut undecided = 0;
    for (sequence, again) in [(100, events(0, 100)), (200, events(100, 200))] {
        let is_known = sequence == 100;
        for (node, indexes, batch) in hashing.batches(sequence, &names(&again)) {
            let asked = std::time::Instant::now();
            let reply = stream.ask(Batch { deadline_ms: DEADLINE_MS, ..batch }).await;
            let waited = asked.elapsed().as_millis();
            assert!(waited < u128::from(DEADLINE_MS) + PATIENCE.as_millis(), "an answer after {waited} ms");
            for decision in reply::decode(&reply, indexes.len()).expect("answers").answers.decisions() {
                match decision {
                    Decision::Undecided(
                        Reason::NotReady | Reason::Unknown | Reason::SlicesDown | Reason::Overloaded,
                    ) => undecided += 1,
                    // All cells of an earlier event are set, so only the last node of the event could find an empty
                    // cell.
                    Decision::FirstSeen => assert!(!is_known && node != gone, "event known, node {node}"),
                    Decision::Duplicate => assert!(is_known && node != gone, "event new, node {node}"),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert!(undecided > 20, "only {undecided} of 200 events needed node c");
}

/// Returns whether every verdict is definite or says that slices are down, and at least one verdict says so.
fn have_verdicts(verdicts: &[Verdict]) -> bool {
    let down = Verdict::Undecided(Reason::SlicesDown);
    let may_be = |verdict: &&Verdict| matches!(verdict, Verdict::FirstSeen | Verdict::Duplicate) || **verdict == down;
    verdicts.iter().filter(may_be).count() == verdicts.len() && verdicts.contains(&down)
}

/// Observes 300 new events.
async fn ask_anew(filter: &Filter, call: usize) -> Vec<Verdict> {
    let events = events(call * 300, call * 300 + 300);
    filter.observe_batch(&events).await.expect("verdicts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_delays_producers_once_and_operators_see_it() {
    const DEADLINE_MS: u64 = 2_500;
    for slicing in ["horizontal:6", "vertical:6"] {
        let [a, b, c] = three_nodes().await;
        a.create("clicks", slicing).await;
        let gone = number_of_c(&a).await;
        let client =
            ConnectOptions { deadline_ms: DEADLINE_MS, relay_after_ms: 50, ..ConnectOptions::from([a.node.addr()]) };
        let client = Client::connect(client).await.expect("a client");
        let filter = client.filter("clicks").await.expect("a filter");
        let before = ask_anew(&filter, 0).await;
        assert!(before.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{slicing}: {before:?}");
        let c = c.stop().await;
        for node in [&a, &b] {
            node.finds_unreachable(&[gone]).await;
        }
        a.finds_down(&[gone]).await;
        // The first call may wait for the node to return. Later calls do not.
        let mut calls_ms = Vec::new();
        for call in 1..=20 {
            let asked = std::time::Instant::now();
            let verdicts = ask_anew(&filter, call).await;
            calls_ms.push(asked.elapsed().as_millis() as u64);
            // If slices share events, the other nodes continue without the node: almost every new event has an empty
            // cell on one of them.
            match slicing {
                "horizontal:6" => assert!(have_verdicts(&verdicts), "call {call}: {verdicts:?}"),
                _ => {
                    let undecided = verdicts.iter().filter(|verdict| is_undecided(verdict)).count();
                    assert!(undecided < 15, "{slicing}, call {call}: {undecided} of 300");
                }
            }
        }
        assert!(calls_ms.iter().sum::<u64>() < 20 * DEADLINE_MS / 2, "{slicing}: {calls_ms:?}");

        let c = c.start().await;
        c.ready().await;
        for node in [&a, &b] {
            node.finds_unreachable(&[]).await;
        }
        let request = ForgiveFilterRequest { name: "clicks".to_owned(), ..ForgiveFilterRequest::default() };
        a.admin().forgive_filter(request).await.expect("forgiven");
        let after = ask_until_decided(&filter).await;
        // By now, some of these verdicts may be false positives.
        let first_seen = after.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count();
        assert!(first_seen > 290 && !after.iter().any(is_undecided), "{slicing}: {after:?}");
    }
}

/// Returns the verdicts after the nodes act on the new cluster map.
async fn ask_until_decided(filter: &Filter) -> Vec<Verdict> {
    let asking = async {
        for call in 100.. {
            let verdicts = ask_anew(filter, call).await;
            if !verdicts.iter().any(is_undecided) {
                return verdicts;
            }
        }
        Vec::new()
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it never works again")
}

fn is_undecided(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Undecided(_))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_node_is_left_only_the_first_calls_wait() {
    const DEADLINE_MS: u64 = 2_500;
    let [a, b, c] = three_nodes().await;
    a.create("clicks", "horizontal:6").await;
    let seeds = [a.node.addr(), b.node.addr(), c.node.addr()];
    let client = ConnectOptions { deadline_ms: DEADLINE_MS, relay_after_ms: 50, ..ConnectOptions::from(seeds) };
    let client = Client::connect(client).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    for node in [a, b, c] {
        node.node.shutdown().await;
    }
    let asked = std::time::Instant::now();
    for call in 0..20 {
        let verdicts = ask_anew(&filter, call).await;
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Undecided(_))), "{verdicts:?}");
    }
    let waited_ms = asked.elapsed().as_millis();
    assert!(waited_ms < u128::from(20 * DEADLINE_MS / 2), "{waited_ms} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn divided_events_are_undecided_while_a_node_is_gone_and_degraded_when_it_is_back() {
    let [a, b, c] = three_nodes().await;
    create_at(&a, "clicks", &definition_of("vertical:6"), forgetful()).await;
    for node in [&a, &b, &c] {
        node.knows("clicks").await;
    }
    let number = number_of_c(&a).await;
    let hashing = Hashing::of(&a, "clicks").await;
    let (mut stream, _) = RawStream::greeted(&a, 1).await;
    let before = events(0, 50);
    let decisions = hashing.observe(&mut stream, 1, &names(&before)).await;
    assert!(decisions.iter().all(|decision| *decision == Decision::FirstSeen), "{decisions:?}");

    let incarnation = hashing.map.nodes[&number].incarnation;
    let c = c.restart().await;
    c.ready().await;
    crate::common::wait_for("the new start of c is known", || {
        a.node.meta().map().borrow().nodes[&number].incarnation > incarnation
    })
    .await;
    for node in [&a, &b, &c] {
        node.ready().await;
    }
    // Events may be undecided until every node acts on the new cluster map. No verdict is ever wrong.
    let (mut sequence, began) = (100, std::time::Instant::now());
    let degraded = loop {
        // On a busy machine a node may be marked as down for a while. Its events then have other head nodes.
        let hashing = Hashing::of(&a, "clicks").await;
        let after = events(sequence as usize * 50, (sequence as usize + 1) * 50);
        let mut replies = Vec::new();
        for (_, indexes, batch) in hashing.batches(sequence, &names(&after)) {
            let reply = stream.ask(Batch { deadline_ms: 2_000, ..batch }).await;
            replies.push(reply::decode(&reply, indexes.len()).expect("answers").answers);
        }
        let may_be = |decision: &Decision| *decision != Decision::Duplicate;
        let is_right = replies.iter().all(|answers| answers.decisions().iter().all(may_be));
        assert!(is_right, "new events are no duplicates: {replies:?}");
        let is_first = |decision: &Decision| *decision == Decision::FirstSeen;
        if replies.iter().all(|answers| answers.decisions().iter().all(is_first)) {
            break replies.iter().any(Answers::is_degraded);
        }
        let is_honest = |decision: &Decision| match decision {
            Decision::Undecided(reason) => {
                matches!(reason, Reason::Unknown | Reason::NotReady | Reason::StaleMap | Reason::SlicesDown)
            }
            _ => true,
        };
        assert!(replies.iter().all(|answers| answers.decisions().iter().all(is_honest)), "{replies:?}");
        sequence += 10;
        assert!(began.elapsed() < PATIENCE, "it never works again: {replies:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(degraded, "the slices of c have lost what came before its new start");
}

/// Returns how many of 1,000 events that were recorded before the restart of a node are known afterwards.
async fn known_after_a_restart(kind: Kind, window: &str) -> usize {
    let [a, b, c] = three_nodes().await;
    let spec = FilterSpec {
        capacity_events: Some(20_000),
        rate: 1e-6,
        ..FilterSpec::new(kind, window.parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, "vertical:6".parse().expect("a slicing")).expect("a definition");
    let policies = FilterPolicies { when_lost: WhenLost::FirstSeen, ..FilterPolicies::default() };
    create_at(&a, "clicks", &definition, policies).await;
    for node in [&a, &b, &c] {
        node.knows("clicks").await;
    }
    let observe = async |from: usize| {
        let client = Client::connect(ConnectOptions { deadline_ms: 60_000, ..ConnectOptions::from([a.node.addr()]) })
            .await
            .expect("a client");
        let filter = client.filter("clicks").await.expect("a filter");
        filter
            .observe_batch(
                firstseen_client::Batch::from(&events(from, from + 1_000)).times_ms(&[1_790_000_000_000; 1_000]),
            )
            .await
            .expect("verdicts")
    };
    assert!(observe(0).await.iter().all(|verdict| *verdict == Verdict::FirstSeen));
    let c = c.stop().await.start().await;
    c.ready().await;
    for node in [&a, &b] {
        node.finds_unreachable(&[]).await;
    }
    let new = observe(5_000).await;
    assert!(new.iter().all(|verdict| *verdict == Verdict::FirstSeen), "with fewer cells few are false positives");
    let verdicts = observe(0).await;
    assert!(!verdicts.iter().any(is_undecided), "{verdicts:?}");
    verdicts.iter().filter(|verdict| **verdict == Verdict::Duplicate).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_remember_what_the_third_has_lost() {
    // An event loses a third of its 20 cells. Hardly any event keeps less than half of them.
    let known = known_after_a_restart(Kind::Bloom, "unbounded").await;
    assert!(known > 900, "only {known} are known");
    let known = known_after_a_restart(Kind::Timing, "1h").await;
    assert!(known > 900, "in a window only {known} are known");
}
