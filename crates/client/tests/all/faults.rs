//! Tests of the verdicts and errors that callers receive when something fails: lost replies, outdated cluster maps, and
//! nodes that stall or cannot be reached.

use std::time::Duration;

use crate::common::{self, Arrival, FakeCluster, Fate, TIMEOUT, by_sequence, definition, eventually};
use firstseen_client::{
    Batch, Client, ConnectOptions, Digest, Filter, FilterError, FilterSecret, MissingSlices, Reason, Verdict,
};
use firstseen_routing::{ClockSource, ClusterMap, Epoch, Incarnation, NodeId, Prober, SliceCopy, SliceOwner};
use tokio::time::{Instant, timeout};

fn digests(from: u64, to: u64) -> Vec<Digest> {
    let secret = FilterSecret::from_material(&common::SECRET);
    (from..to).map(|number| secret.digest(&number.to_le_bytes())).collect()
}

#[tokio::test]
async fn a_batch_whose_reply_is_lost_is_sent_again_as_the_same_submission() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:4"), ClockSource::Wall);
    cluster.judge(|_, before| if before % 2 == 0 { Fate::LoseReply } else { Fate::Answer });
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    for round in 0..5 {
        let verdicts =
            filter.observe_batch(Batch::hashed(&|_| digests(round * 100, round * 100 + 100))).await.expect("verdicts");
        // The attempt whose reply was lost recorded the events. The node remembers the idempotency key and repeats its
        // reply.
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "round {round}: {verdicts:?}");
    }
    let arrivals = cluster.arrivals();
    let sorted = by_sequence(&arrivals);
    assert!(sorted.len() >= 5 && arrivals.len() > sorted.len());
    for (sequence, tries) in sorted {
        assert!(tries.iter().all(|again| again.runs == tries[0].runs), "batch {sequence} has changed");
        assert!(
            tries.windows(2).all(|pair| pair[0].stream < pair[1].stream),
            "batch {sequence} sent twice on a stream"
        );
    }
}

#[tokio::test]
async fn a_node_that_does_not_describe_a_filter_is_not_waited_for_alone() {
    let cluster = FakeCluster::start(3).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:4"), ClockSource::Wall);
    // The client receives its cluster map from this node.
    cluster.ignore_descriptions(NodeId(1));
    let client = common::connect(&cluster).await;
    let filter = timeout(TIMEOUT / 4, client.filter("clicks")).await.expect("before the deadline").expect("a filter");
    let verdicts = filter.observe_batch(Batch::hashed(&|_| digests(0, 100))).await.expect("verdicts");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{verdicts:?}");
    let missing = timeout(TIMEOUT / 4, client.filter("clacks")).await.expect("before the deadline");
    assert!(matches!(missing, Err(FilterError::NotFound { .. })), "{missing:?}");
}

#[tokio::test]
async fn an_old_map_is_replaced_and_runs_follow_their_owners() {
    let cluster = FakeCluster::start(2).await;
    let id = cluster.add_filter("clicks", definition("1h", "horizontal:4"), ClockSource::Wall);
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    assert_eq!(filter.observe_batch(Batch::hashed(&|_| digests(0, 100))).await.map(|verdicts| verdicts.len()), Ok(100));
    // Slice 2 moves from node 1 to node 2. The client does not know this yet when node 1 refuses the batch.
    let before = cluster.map().version;
    cluster.judge(move |arrival, _| {
        let has_moved = arrival.node == NodeId(1) && arrival.runs.iter().any(|run| run.group == 2);
        if has_moved { Fate::Refuse(Reason::StaleMap) } else { Fate::Answer }
    });
    let calls = tokio::spawn({
        let filter = filter.clone();
        async move { filter.observe_batch(Batch::hashed(&|_| digests(100, 200))).await }
    });
    let refused = cluster.clone();
    eventually("a refusal", || {
        refused.arrivals().iter().any(|arrival| arrival.runs.iter().any(|run| run.group == 2) && arrival.sequence > 2)
    })
    .await;
    cluster.change(|map| {
        let filter = map.filters.get_mut(&id).expect("the filter");
        filter.owners[2].node = NodeId(2);
        filter.epoch.rise();
    });
    let verdicts = calls.await.expect("no panic").expect("verdicts");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{verdicts:?}");
    assert!(client.map().version > before);
    // The run of slice group 2 arrived at node 2 under the sequence number that node 1 had refused.
    let arrivals = cluster.arrivals();
    let of_moved = |node: u64| {
        let mut there = arrivals.iter().filter(|arrival| arrival.node == NodeId(node));
        there.find_map(|arrival| {
            let run = arrival.runs.iter().find(|run| run.group == 2)?;
            (arrival.sequence > 2).then(|| (arrival.sequence, run.probes.clone()))
        })
    };
    assert!(of_moved(1).is_some());
    assert_eq!(of_moved(1), of_moved(2));
}

#[tokio::test]
async fn credits_are_never_exceeded() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    cluster.add_filter("views", definition("1h", "none"), ClockSource::Wall);
    cluster.set_credits(3);
    cluster.judge(|_, _| Fate::AnswerAfter(3));
    let client =
        Client::connect(ConnectOptions { batch_events_max: 10, ..common::options(&cluster) }).await.expect("a client");
    let clicks = client.filter("clicks").await.expect("clicks");
    let views = client.filter("views").await.expect("views");
    let events = digests(0, 500);
    let hash = |_: &FilterSecret| events.clone();
    let (some, others) =
        tokio::join!(clicks.observe_batch(Batch::hashed(&hash)), views.observe_batch(Batch::hashed(&hash)));
    assert_eq!((some.map(|all| all.len()), others.map(|all| all.len())), (Ok(500), Ok(500)));
    assert!((2..=3).contains(&cluster.unanswered_max()), "{} at once", cluster.unanswered_max());
}

#[tokio::test]
async fn one_reachable_node_is_enough() {
    let cluster = FakeCluster::start(2).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:4"), ClockSource::Wall);
    // Node 2 is unreachable for this client, as behind a firewall.
    cluster.change(|map| map.nodes.get_mut(&NodeId(2)).expect("node 2").address = "127.0.0.1:1".to_owned());
    let client =
        Client::connect(ConnectOptions { relay_after_ms: 50, ..common::options(&cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let verdicts = filter.observe_batch(Batch::hashed(&|_| digests(0, 1_000))).await.expect("verdicts");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen));
    let arrivals = cluster.arrivals();
    assert!(arrivals.iter().all(|arrival| arrival.node == NodeId(1)));
    assert!(arrivals.iter().any(|arrival| arrival.runs.iter().any(|run| run.group % 2 == 1)), "relayed");
}

#[tokio::test]
async fn without_an_answer_by_the_deadline_nothing_is_known() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    let client =
        Client::connect(ConnectOptions { deadline_ms: 1_000, ..common::options(&cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    cluster.judge(|_, _| Fate::Ignore);
    let started = Instant::now();
    assert_eq!(filter.observe(b"a").await, Ok(Verdict::Undecided(Reason::Unknown)));
    assert!(started.elapsed() >= Duration::from_millis(1_000));
    // A batch that was refused in every attempt was not recorded. The deadline is long enough for several attempts on a
    // busy machine.
    let client =
        Client::connect(ConnectOptions { deadline_ms: 3_000, ..common::options(&cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    for (reason, tries) in [(Reason::NotReady, 3..100), (Reason::Overloaded, 3..4), (Reason::Invalid, 1..2)] {
        let before = cluster.arrivals().len();
        cluster.judge(move |_, _| Fate::Refuse(reason));
        assert_eq!(filter.observe(b"b").await, Ok(Verdict::Undecided(reason)));
        let count = cluster.arrivals().len() - before;
        assert!(tries.contains(&count), "{count} tries after {reason:?}");
    }
    cluster.judge(|_, _| Fate::Answer);
    assert_eq!(filter.observe(b"b").await, Ok(Verdict::FirstSeen));
}

#[tokio::test]
async fn slices_that_are_down_are_waited_for_once() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    let client =
        Client::connect(ConnectOptions { deadline_ms: 2_000, ..common::options(&cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    cluster.judge(|_, _| Fate::Refuse(Reason::SlicesDown));
    let mut tries = Vec::new();
    for event in [b"a", b"b", b"c"] {
        let before = cluster.arrivals().len();
        assert_eq!(filter.observe(event).await, Ok(Verdict::Undecided(Reason::SlicesDown)));
        tries.push(cluster.arrivals().len() - before);
    }
    assert!(tries[0] > 2 && tries[2] == 1, "{tries:?}");
    cluster.judge(|_, _| Fate::Answer);
    assert_eq!(filter.observe(b"c").await, Ok(Verdict::FirstSeen));
}

/// Checks that the client does not wait for slices that have lost their cells for good. In this test, the node of the
/// slices has restarted without its data. Because the node is already up again, no further wait can bring the cells
/// back.
#[tokio::test]
async fn slices_that_have_lost_something_are_not_waited_for() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    cluster.add_filter("brief", definition("50ms", "none"), ClockSource::Wall);
    cluster.change(|map| map.nodes.values_mut().for_each(|node| node.incarnation = Incarnation(2)));
    let client =
        Client::connect(ConnectOptions { deadline_ms: 1_000, ..common::options(&cluster) }).await.expect("a client");
    cluster.judge(|_, _| Fate::Refuse(Reason::SlicesDown));
    for (name, is_retried) in [("clicks", false), ("brief", true)] {
        let filter = client.filter(name).await.expect("a filter");
        let before = cluster.arrivals().len();
        assert_eq!(filter.observe(b"a").await, Ok(Verdict::Undecided(Reason::SlicesDown)));
        assert_eq!(cluster.arrivals().len() - before > 1, is_retried, "{name}");
    }
}

/// Returns an event whose batch goes to `node`.
async fn event_of(cluster: &FakeCluster, filter: &Filter, node: u64) -> [u8; 4] {
    cluster.judge(|_, _| Fate::Answer);
    for number in 0u32.. {
        let event = number.to_le_bytes();
        filter.observe(&event).await.expect("a call");
        if cluster.arrivals().last().is_some_and(|arrival| arrival.node == NodeId(node)) {
            return event;
        }
    }
    unreachable!("every node has a slice")
}

/// Checks that an event waits only for its own slices, and is not delayed when other slices are missing.
#[tokio::test]
async fn an_event_waits_for_its_own_slices() {
    let cluster = FakeCluster::start(3).await;
    let lost = |map: &mut ClusterMap, node: u64| map.nodes.get_mut(&NodeId(node)).expect("a node").incarnation.0 = 2;
    let down = |map: &mut ClusterMap, node: u64| map.nodes.get_mut(&NodeId(node)).expect("a node").is_down = true;
    cluster.add_filter("clicks", definition("1h", "horizontal:3"), ClockSource::Wall);
    let mut events = Vec::new();
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    for node in 1..=3 {
        events.push(event_of(&cluster, &filter, node).await);
    }
    cluster.judge(|_, _| Fate::Refuse(Reason::SlicesDown));
    cluster.change(|map| lost(map, 1));
    for (event, is_waited_for) in [(0, false), (1, true)] {
        assert_eq!(is_retried(&cluster, &events[event]).await, is_waited_for, "slice {event}, one is lost");
    }
    cluster.change(|map| down(map, 2));
    for (event, is_waited_for) in [(0, false), (1, true), (2, true)] {
        assert_eq!(is_retried(&cluster, &events[event]).await, is_waited_for, "slice {event}, one is down, too");
    }
    let client = common::connect(&cluster).await;
    let missing = client.filter("clicks").await.expect("a filter").status().missing;
    assert_eq!(missing, MissingSlices { down: 1, lost: 1 });
}

/// Checks a batch in which only some events wait in vain. Those events are answered at once as not recorded, and the
/// other events keep waiting.
///
/// The batch was once sent again as a whole. If a node could decide the answered events by then, it recorded them. The
/// next submission of such an event was a duplicate, although no caller had got the event as first-seen.
#[tokio::test]
async fn events_of_one_batch_wait_apart() {
    let cluster = FakeCluster::start(3).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:6"), ClockSource::Wall);
    cluster.change(|map| {
        map.nodes.get_mut(&NodeId(3)).expect("a node").is_down = true;
        let record = map.filters.values_mut().next().expect("a filter");
        // The first node has slices 0 and 3. Slice 3 has another copy on a node that may come back.
        for slice in [0, 3] {
            record.owners[slice].complete_since = Incarnation(0);
        }
        let owner = SliceOwner { node: NodeId(3), ..SliceOwner::default() };
        record.copies.push(SliceCopy { slice: 3, owner, replaces: None, since_epoch: Epoch::default() });
    });
    let client =
        Client::connect(ConnectOptions { deadline_ms: 1_000, ..common::options(&cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    cluster.judge(|_, _| Fate::Refuse(Reason::SlicesDown));
    let prober = Prober::new(filter.info().definition).expect("a prober");
    let of = |slice: u32| digests(0, 100).into_iter().find(|digest| prober.group(*digest) == slice).expect("an event");
    let (vain, waiting) = (of(0), of(3));
    let both = filter.observe_batch(Batch::hashed(&|_| vec![vain, waiting])).await.expect("verdicts");
    assert_eq!(both, [Verdict::Undecided(Reason::SlicesDown); 2]);
    let tries: Vec<usize> = cluster.arrivals().iter().map(|arrival| arrival.events()).collect();
    assert!(tries.len() > 1 && tries[0] == 2, "the event whose slice may come back is tried again: {tries:?}");
    assert!(tries[1..].iter().all(|events| *events == 1), "an event that was answered is not sent again: {tries:?}");
    // Each event is sent by a call of its own, before the outage has lasted so long that calls no longer wait.
    let client =
        Client::connect(ConnectOptions { incarnation: Some(43), deadline_ms: 60_000, ..common::options(&cluster) })
            .await
            .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let waits = tokio::spawn({
        let filter = filter.clone();
        async move { filter.observe_batch(Batch::hashed(&|_| vec![waiting])).await }
    });
    let got = filter.observe_batch(Batch::hashed(&|_| vec![vain])).await.expect("a verdict");
    assert_eq!(got, [Verdict::Undecided(Reason::SlicesDown)]);
    assert!(!waits.is_finished(), "its slice may come back");
    waits.abort();
}

/// Returns whether a new producer retries an event whose slices are down, according to the nodes.
async fn is_retried(cluster: &FakeCluster, event: &[u8]) -> bool {
    let client =
        Client::connect(ConnectOptions { deadline_ms: 300, ..common::options(cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let before = cluster.arrivals().len();
    assert_eq!(filter.observe(event).await, Ok(Verdict::Undecided(Reason::SlicesDown)));
    cluster.arrivals().len() - before > 1
}

#[tokio::test]
async fn a_dropped_call_takes_nothing_from_others() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    cluster.judge(|_, _| Fate::AnswerAfter(10));
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    let mut kept = Vec::new();
    for number in 0..200u32 {
        let filter = filter.clone();
        let call = async move { filter.observe(&number.to_le_bytes()).await };
        if number % 2 == 0 {
            kept.push(tokio::spawn(call));
        } else {
            // The call is dropped after a moment, at whatever point it has reached.
            let _ = timeout(Duration::from_micros(u64::from(number) * 10), call).await;
        }
    }
    for call in kept {
        assert_eq!(call.await.expect("no panic"), Ok(Verdict::FirstSeen));
    }
    eventually("all batches", || {
        let arrivals = cluster.arrivals();
        let events: usize = arrivals.iter().map(|arrival| arrival.events()).sum();
        (100..=200).contains(&events)
    })
    .await;
    assert!(by_sequence(&cluster.arrivals()).values().all(|tries| tries.len() == 1));
}

#[tokio::test]
async fn what_stalls_does_not_hold_up_other_filters_and_nodes() {
    let cluster = FakeCluster::start(2).await;
    let stalled = cluster.add_filter("stalled", definition("1h", "horizontal:2"), ClockSource::Wall);
    cluster.add_filter("lively", definition("1h", "horizontal:2"), ClockSource::Wall);
    cluster.judge(
        move |arrival, _| {
            if arrival.filter == stalled && arrival.node == NodeId(1) { Fate::Ignore } else { Fate::Answer }
        },
    );
    let client =
        Client::connect(ConnectOptions { batch_events_max: 16, deadline_ms: 600_000, ..common::options(&cluster) })
            .await
            .expect("a client");
    let (slow, lively) =
        (client.filter("stalled").await.expect("a filter"), client.filter("lively").await.expect("one"));
    let stuck = tokio::spawn({
        let slow = slow.clone();
        async move { slow.observe_batch(Batch::hashed(&|_| digests(0, 5_000))).await }
    });
    eventually("the stalled filter to have used its share", || {
        cluster.arrivals().iter().filter(|arrival| arrival.filter == stalled && arrival.node == NodeId(1)).count() >= 16
    })
    .await;
    let quick = timeout(TIMEOUT, lively.observe_batch(Batch::hashed(&|_| digests(0, 2_000)))).await;
    assert_eq!(quick.expect("not held up").map(|verdicts| verdicts.len()), Ok(2_000));
    assert!(!stuck.is_finished());
    stuck.abort();
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    cluster.judge(|_, _| Fate::Ignore);
    let options = ConnectOptions {
        queued_events_max: 100,
        batch_events_max: 10,
        deadline_ms: 2_000,
        ..common::options(&cluster)
    };
    let client = Client::connect(options).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let calls: Vec<_> = (0..500u32)
        .map(|number| {
            let filter = filter.clone();
            tokio::spawn(async move { filter.observe(&number.to_le_bytes()).await })
        })
        .collect();
    let (mut unknown, mut overloaded) = (0, 0);
    for call in calls {
        match call.await.expect("no panic") {
            Ok(Verdict::Undecided(Reason::Unknown)) => unknown += 1,
            Ok(Verdict::Undecided(Reason::Overloaded)) => overloaded += 1,
            other => panic!("{other:?}"),
        }
    }
    let sent: usize = cluster.arrivals().iter().map(|arrival| arrival.events()).sum();
    assert_eq!(unknown + overloaded, 500);
    // Space that becomes free at the deadline can be taken by a call whose own deadline is a moment later.
    assert!(sent <= 200 && overloaded >= 300, "{sent} sent, {unknown} unknown, {overloaded} overloaded");
}

#[tokio::test]
async fn a_node_that_comes_back_is_found_again() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    cluster.judge(|_, before| if before < 8 { Fate::LoseReply } else { Fate::Answer });
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    assert_eq!(filter.observe(b"a").await, Ok(Verdict::FirstSeen));
    assert_eq!(cluster.arrivals().len(), 9);
    assert!(by_sequence(&cluster.arrivals()).len() == 1);
}

#[tokio::test]
async fn a_run_that_must_be_divided_is_recorded_once_or_unknown() {
    for fate in [Fate::Refuse(Reason::StaleMap), Fate::LoseReply] {
        let cluster = FakeCluster::start(2).await;
        let id = cluster.add_filter("clicks", definition("1h", "vertical:4"), ClockSource::Wall);
        let client = common::connect(&cluster).await;
        let filter = client.filter("clicks").await.expect("a filter");
        // Node 1 owns slices 0 and 2, and is about to lose slice 2. The events that it receives for both slices then
        // have two owners.
        let prober = Prober::new(filter.info().definition).expect("a prober");
        let has_slice_2 = move |arrival: &Arrival| {
            let run = &arrival.runs[0];
            arrival.node == NodeId(1)
                && (0..run.probes.len()).any(|event| prober.head_slice(0, &run.probes, event) == 2)
        };
        cluster.judge(move |arrival, _| if has_slice_2(arrival) { fate } else { Fate::Answer });
        let call = tokio::spawn(async move { filter.observe_batch(Batch::hashed(&|_| digests(0, 300))).await });
        eventually("a first try", || cluster.arrivals().iter().any(has_slice_2)).await;
        cluster.change(|map| {
            let filter = map.filters.get_mut(&id).expect("the filter");
            filter.owners[2].node = NodeId(2);
            filter.epoch.rise();
        });
        let verdicts = call.await.expect("no panic").expect("verdicts");
        let count = |verdict: Verdict| verdicts.iter().filter(|got| **got == verdict).count();
        let (new, unknown) = (count(Verdict::FirstSeen), count(Verdict::Undecided(Reason::Unknown)));
        assert_eq!((new + unknown, cluster.recorded()), (300, 300), "{fate:?}");
        // If the batch was refused, nothing was recorded, so both parts are new. If the reply was lost, the events were
        // recorded, and no node can tell any more which submission came first.
        assert_eq!(unknown > 0, fate == Fate::LoseReply, "{fate:?}: {unknown} unknown");
    }
}

#[tokio::test]
async fn a_node_that_can_be_reached_again_is_asked_directly() {
    let cluster = FakeCluster::start(2).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:2"), ClockSource::Wall);
    let address = cluster.map().nodes[&NodeId(2)].address.clone();
    let set_address = |to: &str| {
        cluster.change(|map| map.nodes.get_mut(&NodeId(2)).expect("node 2").address = to.to_owned());
    };
    set_address("127.0.0.1:1");
    let client =
        Client::connect(ConnectOptions { relay_after_ms: 20, ..common::options(&cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    assert!(filter.observe_batch(Batch::hashed(&|_| digests(0, 50))).await.is_ok());
    assert!(cluster.arrivals().iter().all(|arrival| arrival.node == NodeId(1)));
    set_address(&address);
    let deadline = Instant::now() + TIMEOUT;
    let mut number = 50;
    while !cluster.arrivals().iter().any(|arrival| arrival.node == NodeId(2)) {
        assert!(Instant::now() < deadline, "never asked directly");
        assert!(filter.observe_batch(Batch::hashed(&|_| digests(number, number + 10))).await.is_ok());
        number += 10;
    }
}

#[tokio::test]
async fn when_the_client_is_dropped_everybody_is_answered() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    cluster.judge(|_, _| Fate::Ignore);
    let client =
        Client::connect(ConnectOptions { batch_events_max: 4, deadline_ms: 600_000, ..common::options(&cluster) })
            .await
            .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let many = tokio::spawn({
        let filter = filter.clone();
        async move { filter.observe_batch(Batch::hashed(&|_| digests(0, 1_000))).await }
    });
    let one = tokio::spawn(async move { filter.observe(b"a").await });
    eventually("batches on their way", || cluster.arrivals().len() >= 2).await;
    drop(client);
    let verdicts = timeout(TIMEOUT, many).await.expect("answered").expect("no panic").expect("verdicts");
    let undecided = |verdict: &Verdict| matches!(verdict, Verdict::Undecided(Reason::Unknown | Reason::NotReady));
    assert!(verdicts.len() == 1_000 && verdicts.iter().all(undecided));
    assert!(verdicts.contains(&Verdict::Undecided(Reason::NotReady)));
    assert!(timeout(TIMEOUT, one).await.is_ok());
}
