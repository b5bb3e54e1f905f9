//! Tests of consumers that claim, deliver and confirm events over real sockets, for all head nodes and all slicings.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::common::cluster::{TestCluster, create_at};
use crate::common::{PATIENCE, TestNode};
use firstseen_client::{
    CallError, Claim, Claiming, Client, Confirming, ConnectOptions, Event, Filter, Lost, Reason, Verdict,
};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::{AnswerWhen, ClockSource, FilterPolicies, SlicedDefinition};

const LEASE_MAX: Duration = Duration::from_secs(30);
/// Duration of a lease that is longer than a busy machine needs to claim as many events as there is room for.
const SHORT: Duration = Duration::from_secs(5);
const EVENTS: u32 = 400;

fn policies() -> FilterPolicies {
    FilterPolicies {
        clock: ClockSource::Wall,
        answer: AnswerWhen::Early,
        claim_lease_max_ms: NonZeroU32::new(LEASE_MAX.as_millis() as u32),
        ..FilterPolicies::default()
    }
}

fn definition(slicing: &str) -> SlicedDefinition {
    let spec =
        FilterSpec { capacity_events: Some(100_000), ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window")) };
    SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
}

fn claimed(claiming: Claiming) -> Claim {
    match claiming {
        Claiming::Claimed(claim) => claim,
        other => panic!("{other:?} is no claim"),
    }
}

/// Claims events until none of them is claimed by another consumer or undecided any more.
async fn claim_all(filter: &Filter, events: &[[u8; 4]]) -> Vec<Claiming> {
    filter.claim_batch(events, LEASE_MAX).await.expect("answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_held_by_one_and_recorded_by_its_confirm() {
    let cluster = TestCluster::start(3).await;
    for (name, slicing, copies) in
        [("one", "none", 0), ("h", "horizontal:3", 1), ("v", "vertical:3", 0), ("vc", "vertical:3", 1)]
    {
        cluster.create(name, &definition(slicing), FilterPolicies { copies, ..policies() }).await;
        let ((_one, first), (_other, second)) = (cluster.producer(0, name).await, cluster.producer(1, name).await);
        let claim = claimed(first.claim(b"click", LEASE_MAX).await.expect("an answer"));
        match second.claim(b"click", LEASE_MAX).await.expect("an answer") {
            Claiming::InProgress(wait) => assert!(wait <= LEASE_MAX, "{name}: {wait:?}"),
            other => panic!("{name}: {other:?}"),
        }
        let held = Verdict::Undecided(Reason::Claimed);
        assert_eq!(second.observe(b"click").await, Ok(held), "{name}");
        assert_eq!(second.test(b"click").await, Ok(held), "{name}");
        let delivery = claim.deliver();
        let fence = delivery.fence;
        let left = delivery.left();
        assert!(left <= LEASE_MAX - LEASE_MAX / 100 && left > Duration::ZERO, "{name}: {left:?}");
        assert_eq!(delivery.confirm().await, Ok(Confirming::Confirmed), "{name}");
        assert_eq!(second.observe(b"click").await, Ok(Verdict::Duplicate), "{name}");
        assert!(matches!(second.claim(b"click", LEASE_MAX).await, Ok(Claiming::Duplicate)), "{name}");
        let again = first.confirm_batch(&[b"click"], &[fence]).await;
        assert_eq!(again, Ok(vec![Confirming::LeaseLost(Lost::Recorded)]), "{name}: after a delivery this means done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_let_go_or_over_is_granted_again_with_a_greater_fence() {
    let cluster = TestCluster::start(3).await;
    cluster.create("clicks", &definition("vertical:3"), policies()).await;
    let (_client, filter) = cluster.producer(0, "clicks").await;
    let claim = claimed(filter.claim(b"a", LEASE_MAX).await.expect("an answer"));
    let first = claim.fence;
    assert_eq!(claim.release().await, Ok(true));
    assert_eq!(filter.release_batch(&[b"a"], &[first]).await, Ok(vec![false]), "it is held no more");
    let claim = claimed(filter.claim(b"a", LEASE_MAX).await.expect("an answer"));
    assert!(claim.fence > first);
    // Dropping the claim sends a release to the head node, which may still be on its way.
    drop(claim);
    let again = async {
        loop {
            if let Claiming::Claimed(claim) = filter.claim(b"a", LEASE_MAX).await.expect("an answer") {
                break claim;
            }
        }
    };
    let claim = tokio::time::timeout(PATIENCE, again).await.expect("a claim that was dropped is let go");
    let (client, last) = cluster.producer(0, "clicks").await;
    drop(claimed(last.claim(b"c", LEASE_MAX).await.expect("an answer")));
    assert!(client.flush(PATIENCE).await, "a program that ends waits for the word");
    drop((client, last));
    claimed(filter.claim(b"c", LEASE_MAX).await.expect("an answer"));

    let short = claimed(filter.claim(b"b", Duration::from_millis(1)).await.expect("an answer"));
    let late = short.deliver();
    let waiting = async {
        loop {
            match filter.claim(b"b", LEASE_MAX).await.expect("an answer") {
                Claiming::Claimed(claim) => break claim,
                Claiming::InProgress(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let other = tokio::time::timeout(PATIENCE, waiting).await.expect("leases end");
    assert!(other.fence > late.fence);
    assert_eq!(late.confirm().await, Ok(Confirming::LeaseLost(Lost::NotHeld)));
    // In a filter that needs no times, events may still have times.
    let timed = claimed(filter.claim(Event::from(b"d").at(1), LEASE_MAX).await.expect("an answer"));
    let fences = [claim, timed, other].map(|claim| claim.deliver().fence);
    assert_eq!(filter.confirm_batch(&[b"a", b"d", b"b"], &fences).await, Ok(vec![Confirming::Confirmed; 3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_consumers_of_one_input_each_event_is_one_s() {
    let cluster = TestCluster::start(3).await;
    for slicing in ["horizontal:3", "vertical:3"] {
        let name = slicing.replace(':', "-");
        cluster.create(&name, &definition(slicing), policies()).await;
        let consumers = (0..4).map(|consumer| {
            let cluster = &cluster;
            let name = name.clone();
            async move {
                let (_client, filter) = cluster.producer(consumer, &name).await;
                let events: Vec<[u8; 4]> = (0..EVENTS).map(u32::to_le_bytes).collect();
                let claimed = claim_all(&filter, &events).await;
                let mut own = Vec::new();
                let mut fences = Vec::new();
                for (event, claiming) in events.iter().zip(claimed) {
                    match claiming {
                        Claiming::Claimed(claim) => {
                            own.push(event);
                            fences.push(claim.deliver().fence);
                        }
                        Claiming::InProgress(_) | Claiming::Duplicate => {}
                        Claiming::Undecided(reason) => panic!("undecided: {reason:?}"),
                    }
                }
                let confirmed = filter.confirm_batch(&own, &fences).await.expect("answers");
                assert_eq!(confirmed, vec![Confirming::Confirmed; own.len()]);
                own.len()
            }
        });
        let counts = futures_join(consumers).await;
        assert_eq!(counts.iter().sum::<usize>(), EVENTS as usize, "{slicing}: {counts:?}");
        let (_client, filter) = cluster.producer(0, &name).await;
        let events: Vec<[u8; 4]> = (0..EVENTS).map(u32::to_le_bytes).collect();
        let verdicts = filter.observe_batch(&events).await.expect("verdicts");
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate), "{slicing}");
    }
}

/// Runs all futures concurrently.
async fn futures_join<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_starts_anew_grants_nothing_until_its_leases_are_over() {
    let node = TestNode::start_with("a", |_| {}).await;
    node.init().await;
    let lease_max = Duration::from_secs(1);
    let short = FilterPolicies { claim_lease_max_ms: NonZeroU32::new(lease_max.as_millis() as u32), ..policies() };
    let durable = FilterPolicies { durability: firstseen_routing::Durability::Durable, ..short };
    create_at(&node, "clicks", &definition("none"), durable).await;
    node.knows("clicks").await;
    let fence = {
        let client = Client::connect(ConnectOptions::from([node.node.addr()])).await.expect("a client");
        let filter = client.filter("clicks").await.expect("a filter");
        let delivery = claimed(filter.claim(b"a", lease_max).await.expect("an answer")).deliver();
        let confirmed = claimed(filter.claim(b"b", lease_max).await.expect("an answer")).deliver();
        assert_eq!(confirmed.confirm().await, Ok(Confirming::Confirmed));
        delivery.fence
    };
    let node = node.restart().await;
    node.knows("clicks").await;
    let client = Client::connect(ConnectOptions::from([node.node.addr()])).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    assert!(matches!(filter.claim(b"b", lease_max).await, Ok(Claiming::Duplicate)), "what was confirmed is known");
    // A consumer that delivered an event before the head node failed can still confirm it.
    assert_eq!(filter.confirm_batch(&[b"a"], &[fence]).await, Ok(vec![Confirming::Confirmed]));
    let waiting = async {
        loop {
            match filter.claim(b"c", lease_max).await.expect("an answer") {
                Claiming::Claimed(claim) => break claim,
                Claiming::InProgress(wait) => assert!(wait <= lease_max + lease_max / 50, "{wait:?}"),
                Claiming::Undecided(_) => {}
                Claiming::Duplicate => panic!("it was never recorded"),
            }
        }
    };
    let claim = tokio::time::timeout(PATIENCE, waiting).await.expect("leases of former processes end");
    assert!(claim.fence > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_and_filters_that_cannot_be_are_refused_by_name() {
    let node = TestNode::start_with("a", |_| {}).await;
    node.init().await;
    create_at(&node, "plain", &definition("none"), FilterPolicies { claim_lease_max_ms: None, ..policies() }).await;
    create_at(&node, "clicks", &definition("none"), policies()).await;
    let client = Client::connect(ConnectOptions::from([node.node.addr()])).await.expect("a client");
    let (plain, clicks) =
        (client.filter("plain").await.expect("plain"), client.filter("clicks").await.expect("clicks"));
    assert!(matches!(plain.claim(b"a", LEASE_MAX).await, Err(CallError::NoClaims { .. })));
    for lease in [Duration::ZERO, LEASE_MAX + Duration::from_millis(1)] {
        assert!(matches!(clicks.claim(b"a", lease).await, Err(CallError::Lease { most_ms: 30_000, .. })), "{lease:?}");
    }
    let metrics = node.node.metrics().await;
    assert!(metrics.contains("firstseen_claims_open{filter=\"clicks\"} 0"), "{metrics}");
    assert!(!metrics.contains("firstseen_claims_open{filter=\"plain\"}"));
}

/// Claims events without confirming them until there is no more room. Returns the number of granted claims, and the
/// number of claimed events.
async fn claim_until_full(filter: &Filter, first: u32) -> (u32, u32) {
    let (mut granted, mut asked) = (0, 0);
    loop {
        let events: Vec<[u8; 4]> = (0..100).map(|event| (first + asked + event).to_le_bytes()).collect();
        asked += 100;
        let mut is_full = false;
        for claiming in filter.claim_batch(&events, SHORT).await.expect("answers") {
            match claiming {
                // The event remains claimed until the lease ends.
                Claiming::Claimed(claim) => {
                    drop(claim.deliver());
                    granted += 1;
                }
                Claiming::Undecided(Reason::Full | Reason::Overloaded) => is_full = true,
                other => panic!("{other:?}"),
            }
        }
        if is_full {
            return (granted, asked);
        }
        assert!(asked < 100_000, "there is room for ever");
    }
}

/// Tests that the claims of failed consumers take room only until their leases end.
#[tokio::test(flavor = "multi_thread")]
async fn claims_whose_leases_are_over_take_no_room() {
    let cluster = TestCluster::start(3).await;
    for (name, slicing) in [("one", "none"), ("h", "horizontal:3"), ("v", "vertical:3")] {
        let spec = FilterSpec {
            capacity_events: Some(2_000),
            ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
        };
        let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
        let claim_lease_max_ms = NonZeroU32::new(SHORT.as_millis() as u32);
        cluster.create(name, &definition, FilterPolicies { claim_lease_max_ms, ..policies() }).await;
        let (_client, filter) = cluster.producer(0, name).await;
        let (granted, asked) = claim_until_full(&filter, 0).await;
        assert!((500..6_000).contains(&granted), "{name}: {granted} of {asked} were granted");
        // No consumer returns for these events. If it took a long time to claim them, their leases end one after the
        // other.
        let (started, mut next, mut freed) = (Instant::now(), asked, 0);
        while freed <= granted / 2 {
            let (again, more) = claim_until_full(&filter, next).await;
            (next, freed) = (next + more, freed + again);
            assert!(started.elapsed() < PATIENCE, "{name}: {freed} of {granted} once leases were over");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
