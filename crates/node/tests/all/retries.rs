//! Tests of retries on real connections that lose replies. No event may be reported as a duplicate of itself.

use std::sync::Arc;

use crate::common::cluster::TestCluster;
use crate::common::proxy::ProxyConnector;
use crate::common::wait_for;
use firstseen_client::{
    AuditReport, Batch, Client, ConnectOptions, Event, Filter, FilterSecret, Reason, SubmissionName, Verdict,
};
use firstseen_filter::rates::{band, plain};
use firstseen_filter::{Digest, FilterSpec, Kind};
use firstseen_routing::{ClockSource, FilterPolicies, SlicedDefinition, WhenLost};

const SLICINGS: [&str; 2] = ["horizontal:6", "vertical:6"];

/// Returns a definition with so many cells that no false positive is expected (10^-5 in a whole run).
fn roomy(slicing: &str) -> SlicedDefinition {
    let window = "24h".parse().expect("a window");
    let spec = FilterSpec { capacity_events: Some(50_000), rate: 1e-9, ..FilterSpec::new(Kind::Timing, window) };
    SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
}

fn wall() -> FilterPolicies {
    FilterPolicies { clock: ClockSource::Wall, ..FilterPolicies::default() }
}

fn digests(filter: &Filter, count: u64) -> Vec<Digest> {
    (0..count).map(|event| filter.info().secret.digest(&event.to_le_bytes())).collect()
}

fn assert_all(what: &str, verdicts: &[Verdict], expected: Verdict) {
    let others: Vec<_> = verdicts.iter().enumerate().filter(|(_, verdict)| **verdict != expected).collect();
    let some = others.iter().take(5).collect::<Vec<_>>();
    assert!(others.is_empty(), "{what}: {} of {} are not {expected:?}: {some:?}", others.len(), verdicts.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_whose_replies_were_lost_get_the_first_verdict() {
    const CUTS: usize = 16;
    for slicing in SLICINGS {
        let cluster = TestCluster::start(3).await;
        cluster.create("clicks", &roomy(slicing), wall()).await;
        let proxies = ProxyConnector::that_loses_replies(8_000, CUTS);
        let options =
            ConnectOptions { connector: Some(Arc::new(proxies.clone())), batch_events_max: 128, ..cluster.options(0) };
        let client = Client::connect(options).await.expect("a client");
        let filter = client.filter("clicks").await.expect("a filter");
        let digests = digests(&filter, 16_000);
        let (before, after) = digests.split_at(8_000);
        // The cluster map changes while batches are in flight.
        let changes = async {
            for number in 0..5 {
                cluster.create(&format!("other-{number}"), &roomy("horizontal:3"), wall()).await;
            }
        };
        let version = client.map().version;
        let hash = |_: &FilterSecret| before.to_vec();
        let (verdicts, ()) = tokio::join!(filter.observe_batch(Batch::hashed(&hash)), changes);
        assert_all(slicing, &verdicts.expect("verdicts"), Verdict::FirstSeen);
        assert!(client.map().version > version, "the map has changed");
        assert_all(
            slicing,
            &filter.observe_batch(Batch::hashed(&|_| after.to_vec())).await.expect("verdicts"),
            Verdict::FirstSeen,
        );
        assert!(proxies.cuts() >= CUTS / 2, "{slicing}: only {} connections lost replies", proxies.cuts());
        println!("{slicing}: {} connections lost replies", proxies.cuts());
        assert_all(
            slicing,
            &filter.observe_batch(Batch::hashed(&|_| digests.to_vec())).await.expect("verdicts"),
            Verdict::Duplicate,
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_starts_anew_and_names_its_submissions_gets_the_first_verdicts() {
    for slicing in SLICINGS {
        let cluster = TestCluster::start(3).await;
        cluster.create("clicks", &roomy(slicing), wall()).await;
        // The idempotency key of an event is its offset in a partition. Every event occurs at two offsets.
        let names: Vec<SubmissionName> = (0..2000).map(|number| SubmissionName { source: 9, number }).collect();
        let (client, filter) = cluster.producer(0, "clicks").await;
        let events: Vec<Digest> = digests(&filter, 1000).repeat(2);
        let first = filter.observe_batch(Batch::hashed(&|_| events.to_vec()).names(&names)).await.expect("verdicts");
        assert_all(slicing, &first[..1000], Verdict::FirstSeen);
        assert_all(slicing, &first[1000..], Verdict::Duplicate);
        drop((client, filter));

        let (_client, filter) = cluster.producer(1, "clicks").await;
        let again = filter.observe_batch(Batch::hashed(&|_| events.to_vec()).names(&names)).await.expect("verdicts");
        let other = (0..names.len()).find(|number| again[*number] != first[*number]);
        assert_eq!(other.map(|number| (number, again[number])), None, "{slicing}: by name, of another producer");
        for number in [3u64, 1003] {
            let event = (number % 1000).to_le_bytes();
            let verdicts = filter
                .observe(Event::from(&event).named(SubmissionName { source: 9, number }))
                .await
                .expect("a verdict");
            assert_eq!(verdicts, first[number as usize], "{slicing}: one by one");
        }
        let other = SubmissionName { source: 10, number: 3 };
        let verdicts = filter.observe(Event::from(&3u64.to_le_bytes()).named(other)).await.expect("a verdict");
        assert_eq!(verdicts, Verdict::Duplicate, "{slicing}: another submission of the event");
    }
}

/// Tests producers that use the offsets of a topic as idempotency keys. In the test, the topic is deleted and created
/// again while nodes still remember the keys of the old topic (within the retry horizon). The new topic has the same
/// partitions and offsets, so its events have the same idempotency keys as other, earlier events.
///
/// A node must not take a new event for a retry of the earlier event with the same key, and repeat the earlier verdict.
/// If a new event were wrongly called a duplicate, the producer would drop it, and the event would be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_made_anew_loses_no_events_silently() {
    const EVENTS: u64 = 1000;
    for slicing in ["none", "horizontal:6", "vertical:6"] {
        let cluster = TestCluster::start(3).await;
        cluster.create("clicks", &roomy(slicing), wall()).await;
        let offsets = |source: u128| -> Vec<SubmissionName> {
            (0..2 * EVENTS).map(|number| SubmissionName { source, number }).collect()
        };
        let (_client, filter) = cluster.producer(0, "clicks").await;
        let all = digests(&filter, 3 * EVENTS);
        let (before, after) = all.split_at(EVENTS as usize);
        // Every event occurs at two offsets.
        let verdicts =
            filter.observe_batch(Batch::hashed(&|_| before.repeat(2)).names(&offsets(9))).await.expect("verdicts");
        assert_all(slicing, &verdicts[EVENTS as usize..], Verdict::Duplicate);

        let anew = filter.observe_batch(Batch::hashed(&|_| after.to_vec()).names(&offsets(9))).await.expect("verdicts");
        let lost = anew.iter().filter(|verdict| **verdict == Verdict::Duplicate).count();
        assert_eq!(lost, 0, "{slicing}: events called duplicates, and all are new");
        // If the event is decided by another owner than the one that knows the idempotency key, the event receives its
        // own verdict.
        let reused = Verdict::Undecided(Reason::NameReused);
        let reused_count = anew.iter().filter(|verdict| **verdict == reused).count() as u64;
        println!("{slicing}: {reused_count} of {} have that reason", anew.len());
        assert!(
            reused_count > if slicing == "none" { 2 * EVENTS - 3 } else { EVENTS / 8 },
            "{slicing}: {reused_count}"
        );
        // With different idempotency keys, all events are new unless they were decided above.
        let named =
            filter.observe_batch(Batch::hashed(&|_| after.to_vec()).names(&offsets(10))).await.expect("verdicts");
        for (event, (verdict, before)) in named.iter().zip(&anew).enumerate() {
            let expected = if *before == reused { Verdict::FirstSeen } else { Verdict::Duplicate };
            assert_eq!(*verdict, expected, "{slicing}: event {event}, which got {before:?}");
        }
        let again =
            filter.observe_batch(Batch::hashed(&|_| before.repeat(2)).names(&offsets(9))).await.expect("verdicts");
        let other = again.iter().zip(&verdicts).filter(|(again, first)| again != first).count();
        assert_eq!(other, 0, "{slicing}: the events of the names get the same verdicts");
    }
}

/// Stops the last node of `cluster`, and starts another node with its name. Returns when all other nodes know the new
/// node.
async fn restart_one(cluster: &mut TestCluster) {
    let node = cluster.nodes.pop().expect("a node");
    let (number, before) = {
        let map = node.node.meta().map();
        let map = map.borrow();
        let (number, record) = map.node_named("c").expect("node c");
        (number, record.incarnation)
    };
    cluster.nodes.push(node.restart().await);
    for node in &cluster.nodes {
        let map = node.node.meta().map();
        wait_for("the new start of c is known", || map.borrow().nodes[&number].incarnation > before).await;
        node.ready().await;
    }
}

/// Submits events with their idempotency keys in small calls, one after the other.
async fn submit_in_parts(filter: &Filter, names: &[SubmissionName], events: &[Digest]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (names, events) in names.chunks(50).zip(events.chunks(50)) {
        verdicts
            .extend(filter.observe_batch(Batch::hashed(&|_| events.to_vec()).names(names)).await.expect("verdicts"));
    }
    verdicts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_named_submission_is_a_duplicate_of_itself_though_its_owner_starts_anew() {
    for slicing in SLICINGS {
        let mut cluster = TestCluster::start(3).await;
        let policies = FilterPolicies { when_lost: WhenLost::FirstSeen, ..wall() };
        cluster.create("clicks", &roomy(slicing), policies).await;
        let names: Vec<SubmissionName> = (0..4000).map(|number| SubmissionName { source: 9, number }).collect();
        let (client, filter) = cluster.producer(0, "clicks").await;
        let events = digests(&filter, 4000);
        // The owner ends while submissions are in flight, so some replies are lost.
        let (before, during) = events.split_at(2000);
        let first =
            filter.observe_batch(Batch::hashed(&|_| before.to_vec()).names(&names[..2000])).await.expect("verdicts");
        assert_all(slicing, &first, Verdict::FirstSeen);
        let submitting = submit_in_parts(&filter, &names[2000..], during);
        let (verdicts, ()) = tokio::join!(submitting, restart_one(&mut cluster));
        assert!(!verdicts.contains(&Verdict::Duplicate), "{slicing}: while the owner started anew");
        drop((client, filter));

        let (_client, filter) = cluster.producer(1, "clicks").await;
        let again = filter.observe_batch(Batch::hashed(&|_| events.to_vec()).names(&names)).await.expect("verdicts");
        let count = |verdict| again.iter().filter(|got| **got == verdict).count();
        let (new, duplicates) = (count(Verdict::FirstSeen), count(Verdict::Duplicate));
        println!("{slicing}: {new} first-seen, {duplicates} duplicates, {} degraded", filter.status().degraded.events);
        assert_eq!(duplicates, 0, "{slicing}: duplicates of themselves");
        assert!(new > 3000, "{slicing}: only {new} definite answers");
        assert!(filter.status().degraded.events > 0, "{slicing}: slices of the owner are incomplete");
        // The new replay guard remembers the new replies.
        let third = filter.observe_batch(Batch::hashed(&|_| events.to_vec()).names(&names)).await.expect("verdicts");
        assert!(!third.contains(&Verdict::Duplicate), "{slicing}: duplicates of themselves");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_measures_the_rates_of_the_formulas() {
    const CELLS: u64 = 120_000;
    const HASHES: u32 = 4;
    const EVENTS: u64 = 30_000;
    let cluster = TestCluster::start(3).await;
    let window = "24h".parse().expect("a window");
    let spec = FilterSpec { cells: Some(CELLS), hashes: Some(HASHES), ..FilterSpec::new(Kind::Timing, window) };
    for slicing in ["vertical:6", "horizontal:6"] {
        let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
        cluster.create(slicing, &definition, wall()).await;
        let client =
            Client::connect(ConnectOptions { audit_rate: 0.25, ..cluster.options(2) }).await.expect("a client");
        let filter = client.filter(slicing).await.expect("a filter");
        let digests = digests(&filter, EVENTS);
        for _ in 0..2 {
            filter.observe_batch(Batch::hashed(&|_| digests.to_vec())).await.expect("verdicts");
        }
        let report = filter.audit().expect("an audit");
        println!("{slicing}: {report:?}");
        let sampled = band::binomial(0.25, EVENTS, 1.0 - 1e-6);
        assert!(sampled.contains(&report.false_positives.cases), "{slicing}: a quarter of the keys: {report:?}");
        assert_eq!((report.false_negatives.errors, report.unknown_keys), (0, 0), "{slicing}: {report:?}");
        assert!(report.false_negatives.cases > EVENTS / 5 && !report.has_ended, "{slicing}: {report:?}");
        let groups = f64::from(definition.slicing.groups());
        let delivered = EVENTS as f64 * 0.93;
        let rate = plain::stream_mean(CELLS as f64 / groups, HASHES, delivered / groups);
        let allowed = band::binomial(rate, report.false_positives.cases, 1.0 - 1e-6);
        assert!(allowed.contains(&report.false_positives.errors), "{slicing}: {allowed:?} allowed, {report:?}");
        assert!(report.false_positives.at_most() >= report.false_positives.rate(), "{slicing}: {report:?}");
        let promised = (report.promised_false_positives, report.promised_false_negatives);
        assert_eq!(promised, (None, Some(0.0)), "{slicing}: only the size was chosen");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_shows_measured_rates_beside_promised_ones() {
    const EVENTS: u64 = 30_000;
    const RATE: f64 = 0.02;
    let cluster = TestCluster::start(3).await;
    let window = "24h".parse().expect("a window");
    let spec = FilterSpec { capacity_events: Some(EVENTS), rate: RATE, ..FilterSpec::new(Kind::Timing, window) };
    let definition = SlicedDefinition::new(&spec, "vertical:6".parse().expect("a slicing")).expect("a definition");
    cluster.create("clicks", &definition, wall()).await;
    let client = Client::connect(ConnectOptions { audit_rate: 0.5, ..cluster.options(0) }).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let digests = digests(&filter, EVENTS);
    for _ in 0..2 {
        filter.observe_batch(Batch::hashed(&|_| digests.to_vec())).await.expect("verdicts");
    }
    let report = filter.audit().expect("an audit");
    assert_eq!((report.promised_false_positives, report.promised_false_negatives), (Some(RATE), Some(0.0)));
    // A filter that fills up reaches its target rate at the end. Before that, its error rate is lower.
    let (positives, negatives) = (report.false_positives, report.false_negatives);
    assert!(positives.errors > 0 && positives.at_most() < RATE, "{report:?}");
    assert!(negatives.errors == 0 && negatives.cases > EVENTS / 3 && negatives.at_most() < 1e-3, "{report:?}");

    let text = AuditReport::prometheus(&[(filter.info().name, report)]);
    let value = |name: &str, error: &str| -> f64 {
        let start = format!("firstseen_audit_{name}{{filter=\"clicks\",error=\"{error}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no {start} in\n{text}")).parse().expect("a number")
    };
    for (error, measured, promised) in [("false_positive", positives, RATE), ("false_negative", negatives, 0.0)] {
        let exported = ["errors_total", "cases_total", "rate", "rate_at_most", "rate_promised"];
        let figures = [measured.errors as f64, measured.cases as f64, measured.rate(), measured.at_most(), promised];
        assert_eq!(exported.map(|name| value(name, error)), figures, "{text}");
    }
}
