//! Tests of the answers that callers receive while no failure occurs. The verdicts must be right and in the order of
//! the events, and the keys of events must never leave the client.

use crate::common::{self, FakeCluster, Fate, SECRET, definition};
use firstseen_client::{
    Batch, CallError, Client, ConnectError, ConnectOptions, Digest, Event, FilterError, FilterSecret, Reason,
    SubmissionName, Verdict, Wait,
};
use firstseen_routing::{ClockSource, Operation};

#[tokio::test]
async fn first_is_told_from_again_and_tests_record_nothing() {
    let cluster = FakeCluster::start(2).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:4"), ClockSource::Wall);
    let filter = common::connect(&cluster).await.filter("clicks").await;
    // The client was dropped, so calls on its filters fail.
    assert_eq!(filter.expect("a filter").observe(b"a").await, Err(CallError::Closed));

    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    assert_eq!(filter.test(b"a").await, Ok(Verdict::FirstSeen));
    assert_eq!(filter.observe(b"a").await, Ok(Verdict::FirstSeen));
    assert_eq!(filter.observe(b"a").await, Ok(Verdict::Duplicate));
    assert_eq!(filter.test(b"a").await, Ok(Verdict::Duplicate));
    let name = SubmissionName { source: 3, number: 4 };
    assert_eq!(filter.observe(Event::from(b"b").named(name)).await, Ok(Verdict::FirstSeen));
    let arrivals = cluster.arrivals();
    assert_eq!(arrivals.last().map(|last| last.runs[0].names.clone()), Some(vec![name]));
    assert_eq!(arrivals.iter().filter(|arrival| arrival.operation == Operation::Lookup).count(), 2);
}

#[tokio::test]
async fn many_events_are_answered_in_order_whatever_their_groups_and_nodes() {
    for slicing in ["none", "horizontal:8", "vertical:6", "horizontal-vertical:3x4", "vertical-horizontal:3x2"] {
        let cluster = FakeCluster::start(3).await;
        cluster.add_filter("clicks", definition("1h", slicing), ClockSource::Wall);
        // Answers arrive out of order: later batches are answered before earlier batches.
        cluster.judge(|arrival, _| Fate::AnswerAfter(7 - arrival.sequence % 7));
        let client = Client::connect(ConnectOptions { batch_events_max: 256, ..common::options(&cluster) })
            .await
            .expect("a client");
        let filter = client.filter("clicks").await.expect("a filter");
        let events: Vec<Digest> = (0..10_000u64).map(|number| digest(number % 7_000)).collect();
        let verdicts = filter.observe_batch(Batch::hashed(&|_| events.to_vec())).await.expect("verdicts");
        // The second of two equal events is in a later batch. Nodes process batches in order, so the second event is
        // the duplicate.
        for (number, verdict) in verdicts.iter().enumerate() {
            let expected = if number < 7_000 { Verdict::FirstSeen } else { Verdict::Duplicate };
            assert_eq!(*verdict, expected, "{slicing}: event {number}");
        }
        let arrivals = cluster.arrivals();
        assert_eq!(arrivals.iter().map(|arrival| arrival.events()).sum::<usize>(), 10_000, "{slicing}");
        let map = cluster.map();
        for arrival in &arrivals {
            let filter = &map.filters[&arrival.filter];
            let prober = firstseen_routing::Prober::new(&filter.definition).expect("a prober");
            for run in &arrival.runs {
                for event in 0..run.probes.len() {
                    let owner = filter.owners[prober.head_slice(run.group, &run.probes, event) as usize];
                    assert_eq!(owner.node, arrival.node, "{slicing}: an event at a node that is not its head");
                }
            }
        }
    }
}

fn digest(number: u64) -> Digest {
    FilterSecret::from_material(&SECRET).digest(&number.to_le_bytes())
}

#[tokio::test]
async fn calls_that_come_while_a_batch_is_in_flight_travel_together() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    cluster.judge(|_, _| Fate::AnswerAfter(20));
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    let calls = (0..100u32).map(|number| {
        let filter = filter.clone();
        tokio::spawn(async move { filter.observe(&number.to_le_bytes()).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.expect("no panic"), Ok(Verdict::FirstSeen));
    }
    let arrivals = cluster.arrivals();
    assert!(arrivals.len() <= 10, "{} batches for 100 events at once", arrivals.len());
}

#[tokio::test]
async fn the_bytes_of_an_event_never_travel() {
    let cluster = FakeCluster::start(2).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:4"), ClockSource::Wall);
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    let events: Vec<Vec<u8>> = (0..500u32).map(|number| format!("user-{number:08}-clicked").into_bytes()).collect();
    filter.observe_batch(&events).await.expect("verdicts");
    let digests: Vec<Digest> = events.iter().map(|event| filter.info().secret.digest(event)).collect();
    let messages: Vec<u8> = cluster.arrivals().iter().flat_map(|arrival| arrival.bytes.clone()).collect();
    assert!(messages.len() > 500);
    let contains = |part: &[u8]| messages.windows(part.len()).any(|window| window == part);
    assert!(!contains(b"clicked") && !contains(b"user-"), "event bytes were sent");
    for digest in digests.iter().take(50) {
        assert!(!contains(&digest.lo.to_le_bytes()) && !contains(&digest.hi.to_le_bytes()), "a digest was sent");
    }
    assert!(!contains(&SECRET));
}

#[tokio::test]
async fn times_travel_with_the_clock_and_the_future_is_refused_here() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Event);
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");
    assert!(filter.info().needs_times);
    let refused = filter.observe(b"a").await.expect_err("no time");
    assert!(refused.to_string().contains("`clicks`") && refused.to_string().contains("Event::at"), "{refused}");
    let refused =
        filter.observe_batch(Batch::hashed(&|_| vec![digest(1); 2]).times_ms(&[5])).await.expect_err("one time");
    assert_eq!(refused, CallError::Lengths { events: 2, what: "times", found: 1 });

    let day_ms = 86_400_000;
    let start_ms = 1_000 * day_ms;
    let times_ms = [start_ms, start_ms + 60_000, start_ms - 30_000, 2_000 * day_ms, start_ms, start_ms + 1];
    let digests: Vec<Digest> = (0..4).map(digest).collect();
    // The last two times belong to events that follow later. They are there to confirm a time that is ahead.
    let verdicts =
        filter.observe_batch(Batch::hashed(&|_| digests.to_vec()).times_ms(&times_ms)).await.expect("verdicts");
    assert_eq!(verdicts[..3], [Verdict::FirstSeen; 3]);
    assert_eq!(verdicts[3], Verdict::Undecided(Reason::Future));
    // A lookup does not move the clock.
    assert_eq!(filter.test(Event::from(b"later").at(2_000 * day_ms)).await, Ok(Verdict::FirstSeen));
    let arrivals = cluster.arrivals();
    let ticks: Vec<_> = arrivals.iter().flat_map(|arrival| arrival.runs[0].times.ticks.clone()).collect();
    assert_eq!(ticks.len(), 4);
    assert!(ticks[3].unit > ticks[3].clock_unit && ticks[3].clock_unit == ticks[2].clock_unit);
    assert!(ticks[1].clock_unit > ticks[0].clock_unit && ticks[2].clock_unit == ticks[1].clock_unit);
    assert!(ticks[2].unit < ticks[0].unit && ticks[1].unit == ticks[1].clock_unit);

    // The clock of an owner is ahead. The client's clock follows it, so a time that was in the future is now the
    // present.
    cluster.set_clock_ms(2_000 * day_ms);
    assert_eq!(filter.observe(Event::from(b"x").at(times_ms[1])).await, Ok(Verdict::FirstSeen));
    assert_eq!(filter.observe(Event::from(b"y").at(2_000 * day_ms)).await, Ok(Verdict::FirstSeen));
    // This time is far in the future, and no other event confirms it.
    let refused = filter.observe(Event::from(b"z").at(1_000_000 * day_ms)).await;
    assert_eq!(refused, Ok(Verdict::Undecided(Reason::Future)));
}

#[tokio::test]
async fn what_is_missing_is_named_with_what_to_do() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    let client = common::connect(&cluster).await;
    let error = client.filter("clix").await.expect_err("no such filter");
    assert!(matches!(&error, FilterError::NotFound { there, .. } if there == &["clicks"]), "{error}");
    assert!(error.to_string().contains("firstseen filter create clix"), "{error}");
    let filter = client.filter("clicks").await.expect("a filter");
    let refused = filter.count(b"a").await.expect_err("no frequencies");
    assert_eq!(refused, CallError::Verdicts { filter: "clicks".to_owned() });

    let nowhere = Client::connect(ConnectOptions { deadline_ms: 200, ..ConnectOptions::from(["127.0.0.1:1"]) }).await;
    let error = nowhere.err().expect("nobody there");
    assert!(error.to_string().contains("127.0.0.1:1: "), "{error}");
    let unnamed = Client::connect(Vec::<String>::new()).await;
    assert!(matches!(unnamed.err(), Some(ConnectError::NoSeed)));
}

#[tokio::test]
async fn the_audit_measures_what_was_told() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:2"), ClockSource::Event);
    let client =
        Client::connect(ConnectOptions { audit_rate: 1.0, ..common::options(&cluster) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let digests: Vec<Digest> = (0..2_000u64).map(|number| digest(number % 1_000)).collect();
    filter.observe_batch(Batch::hashed(&|_| digests.to_vec()).times_ms(&vec![1 << 40; 2_000])).await.expect("verdicts");
    let report = filter.audit().expect("a report");
    assert_eq!((report.false_positives.cases, report.false_positives.errors), (1_000, 0));
    assert_eq!((report.false_negatives.cases, report.false_negatives.errors), (1_000, 0));
    assert!(report.false_positives.at_most() < 0.004 && !report.has_ended && !report.is_impossible);
}

#[test]
fn the_blocking_client_needs_no_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime for the nodes");
    let cluster = runtime.block_on(FakeCluster::start(1));
    cluster.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    let client = Client::connect(common::options(&cluster)).wait().expect("a client");
    let filter = client.filter("clicks").wait().expect("a filter");
    assert_eq!(filter.observe(b"a").wait(), Ok(Verdict::FirstSeen));
    assert_eq!(filter.observe_batch(&[b"a", b"b"]).wait(), Ok(vec![Verdict::Duplicate, Verdict::FirstSeen]));
    assert_eq!(filter.test(b"b").wait(), Ok(Verdict::Duplicate));
}

#[tokio::test]
async fn a_filter_asked_for_twice_is_one_and_a_new_one_is_found() {
    let cluster = FakeCluster::start(1).await;
    let client = common::connect(&cluster).await;
    let later = cluster.clone();
    let adding = tokio::spawn(async move {
        tokio::task::yield_now().await;
        later.add_filter("clicks", definition("1h", "none"), ClockSource::Wall);
    });
    let filter = client.filter("clicks").await.expect("created a moment later");
    adding.await.expect("no panic");
    let again = client.filter("clicks").await.expect("the same");
    assert_eq!(filter.info().id, again.info().id);
    assert_eq!(filter.observe(b"a").await, Ok(Verdict::FirstSeen));
    assert_eq!(again.observe(b"a").await, Ok(Verdict::Duplicate));
}

#[tokio::test]
async fn what_was_told_first_seen_is_answered_here() {
    let cluster = FakeCluster::start(1).await;
    for (name, clock) in [("wall", ClockSource::Wall), ("event", ClockSource::Event)] {
        cluster.add_filter(name, definition("1h", "none"), clock);
        let client = Client::connect(ConnectOptions { local_bytes_max: 1 << 20, ..common::options(&cluster) })
            .await
            .expect("a client");
        let filter = client.filter(name).await.expect("a filter");
        let times = if clock == ClockSource::Event { vec![1_000_000; 3] } else { Vec::new() };
        let ask = async |events: [&str; 3]| {
            filter.observe_batch(Batch::from(&events).times_ms(&times)).await.expect("verdicts")
        };
        let (first, again) = (Verdict::FirstSeen, Verdict::Duplicate);
        assert_eq!(ask(["a", "b", "c"]).await, [first; 3]);
        let before = cluster.arrivals().len();
        assert_eq!(ask(["c", "b", "a"]).await, [again; 3]);
        assert_eq!((cluster.arrivals().len(), filter.status().local_hits), (before, 3), "{name}: nobody was asked");
        assert_eq!(ask(["c", "d", "a"]).await, [again, first, again]);
        assert_eq!(cluster.arrivals().last().map(common::Arrival::events), Some(1));
        // If the caller sets an idempotency key, the node is asked, and it returns the reply that it remembers.
        let name = SubmissionName { source: 1, number: 1 };
        let before = cluster.arrivals().len();
        let named = Event::from(b"a").named(name);
        let named = if clock == ClockSource::Event { named.at(1_000_000) } else { named };
        filter.observe(named).await.expect("a verdict");
        assert_eq!(cluster.arrivals().len(), before + 1);
        if clock == ClockSource::Event {
            // An hour and a half later, the window has passed.
            assert_ne!(filter.observe(Event::from(b"z").at(1_000_000 + 5_400_000)).await, Ok(again));
            let before = cluster.arrivals().len();
            let _ = filter.observe(Event::from(b"a").at(1_000_000 + 5_400_000)).await;
            assert_eq!(cluster.arrivals().len(), before + 1, "its window is over, so nodes are asked");
        }
    }
}
