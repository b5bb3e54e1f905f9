//! Tests of a filter tree over three sites on real nodes. Each site has a leaf, and the root covers all sites.

use crate::common::cluster::TestCluster;
use firstseen_client::{Batch, Client, ConnectOptions, Digest, Filter, FilterError, SubmissionName, Verdict};
use firstseen_filter::{FilterSpec, Kind, Layout};
use firstseen_node::NodeConfig;
use firstseen_routing::{
    Answer, ClockSource, CutOff, FilterPolicies, NodeId, PlaceSpec, SlicedDefinition, SlicedFilter, TreeMode, TreeSpec,
    WhenLost,
};

pub(crate) const SITES: [&str; 3] = ["athens", "ioannina", "oslo"];

async fn cluster() -> TestCluster {
    TestCluster::start_with(3, give_site).await
}

/// Starts a cluster whose nodes are never marked as down, however slow the machine is.
async fn steady_cluster() -> TestCluster {
    TestCluster::start_with(3, |config| {
        give_site(config);
        config.timing.unreachable_after_ms = 60_000;
    })
    .await
}

pub(crate) fn give_site(config: &mut NodeConfig) {
    let site = SITES[["a", "b", "c"].iter().position(|name| *name == config.name).expect("a node")];
    config.site = site.to_owned();
}

pub(crate) fn definition(kind: Kind, window: &str, slicing: &str) -> SlicedDefinition {
    let spec = FilterSpec {
        capacity_events: Some(20_000),
        rate: 1e-9,
        layout: Some(Layout::Classic),
        ..FilterSpec::new(kind, window.parse().expect("a window"))
    };
    SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
}

/// Returns a tree with a leaf at every site.
pub(crate) fn tree(mode: TreeMode, fold: u8) -> TreeSpec {
    let sites: Vec<String> = SITES.map(str::to_owned).to_vec();
    let leaf = |site: &String| PlaceSpec {
        name: site.clone(),
        parent: Some("root".to_owned()),
        fold,
        slicing: None,
        sites: vec![site.clone()],
    };
    let mut places: Vec<PlaceSpec> = sites.iter().map(leaf).collect();
    places.push(PlaceSpec { name: "root".to_owned(), parent: None, fold: 0, slicing: None, sites });
    TreeSpec { mode, cut_off: CutOff::Undecided, top_down: 0, places }
}

pub(crate) fn wall() -> FilterPolicies {
    FilterPolicies { clock: ClockSource::Wall, ..FilterPolicies::default() }
}

/// Returns policies with which events that a restarted root has lost are first-seen again.
fn forgetful() -> FilterPolicies {
    // Replies are remembered for longer than a test takes on a busy machine. Events whose replies were forgotten would
    // be undecided.
    FilterPolicies { when_lost: WhenLost::FirstSeen, retry_horizon_ms: 600_000, ..wall() }
}

pub(crate) async fn producer(cluster: &TestCluster, site: usize, filter: &str) -> (Client, Filter) {
    let client = Client::connect(ConnectOptions { site: Some(SITES[site].into()), ..cluster.options(site) })
        .await
        .expect("a client");
    let filter = client.filter(filter).await.expect("a filter");
    (client, filter)
}

fn events(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|event| format!("event-{event}")).collect()
}

pub(crate) async fn observe(filter: &Filter, from: usize, to: usize) -> Vec<Verdict> {
    filter.observe_batch(&events(from, to)).await.expect("verdicts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_one_site_is_a_duplicate_at_all() {
    for (number, (slicing, mode)) in
        [("vertical:3", TreeMode::Dense), ("horizontal:3", TreeMode::Dense), ("none", TreeMode::Sparse)]
            .iter()
            .enumerate()
    {
        let cluster = cluster().await;
        let name = format!("clicks-{number}");
        let definition = definition(Kind::Timing, "1h", slicing);
        cluster.create_tree(&name, &definition, wall(), &tree(*mode, 1)).await;
        let (_athens, at_athens) = producer(&cluster, 0, &name).await;
        let (_oslo, at_oslo) = producer(&cluster, 2, &name).await;
        let all = |verdicts: Vec<Verdict>, wanted| verdicts.iter().all(|verdict| *verdict == wanted);
        assert!(all(observe(&at_athens, 0, 1000).await, Verdict::FirstSeen), "{slicing}");
        assert!(all(observe(&at_athens, 0, 1000).await, Verdict::Duplicate), "{slicing}");
        assert!(all(observe(&at_oslo, 0, 1000).await, Verdict::Duplicate), "{slicing}");
        assert!(all(observe(&at_oslo, 0, 1000).await, Verdict::Duplicate), "{slicing}");
        assert!(all(observe(&at_oslo, 1000, 1100).await, Verdict::FirstSeen), "{slicing}");
        // Events of Athens are found at its leaf. Oslo finds them at the root, but in a dense tree only the first time.
        assert_eq!(at_athens.status().level_hits[..2], [0, 1000], "{slicing}");
        let oslo = if *mode == TreeMode::Dense { [1000, 1000] } else { [2000, 0] };
        assert_eq!(at_oslo.status().level_hits[..2], oslo, "{slicing}, {mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_are_those_of_one_filter_event_by_event() {
    let cluster = cluster().await;
    let spec = FilterSpec {
        cells: Some(6_000),
        hashes: Some(4),
        layout: Some(Layout::Classic),
        ..FilterSpec::new(Kind::Bloom, "unbounded".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, "vertical:3".parse().expect("a slicing")).expect("a definition");
    for mode in [TreeMode::Sparse, TreeMode::Dense] {
        let name = format!("{mode:?}");
        cluster.create_tree(&name, &definition, wall(), &tree(mode, 0)).await;
        let mut filters = Vec::new();
        for site in 0..3 {
            filters.push(producer(&cluster, site, &name).await);
        }
        let mut one = SlicedFilter::build(&definition).expect("a filter");
        let mut counts = [0, 0];
        for event in 0..1_200usize {
            let key = format!("key-{}", event * 7919 % 1_000);
            let (_, filter) = &filters[event * 31 % 7 % 3];
            let verdict = filter.observe(key.as_bytes()).await.expect("a verdict");
            let mut answer = [Answer::default()];
            one.observe_batch(&[crate::common::cluster::secret().digest(key.as_bytes())], &[0], &mut answer);
            let expected = if answer[0] == Answer::FirstSeen { Verdict::FirstSeen } else { Verdict::Duplicate };
            assert_eq!(verdict, expected, "{mode:?}, event {event}");
            counts[usize::from(verdict == Verdict::Duplicate)] += 1;
        }
        // The log has 200 repeated keys, and some of the other verdicts are false positives.
        assert!(counts[0] > 500 && counts[1] > 210, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_producers_at_all_sites_one_wins() {
    const EVENTS: usize = 3_000;
    let cluster = cluster().await;
    cluster
        .create_tree("clicks", &definition(Kind::Timing, "1h", "vertical:3"), wall(), &tree(TreeMode::Dense, 1))
        .await;
    let mut producers = Vec::new();
    for number in 0..12 {
        producers.push(producer(&cluster, number % 3, "clicks").await);
    }
    let submits = producers.iter().map(|(_, filter)| {
        let filter = filter.clone();
        tokio::spawn(async move {
            let mut verdicts = Vec::new();
            for from in (0..EVENTS).step_by(250) {
                verdicts.extend(observe(&filter, from, from + 250).await);
            }
            verdicts
        })
    });
    let mut winners = vec![0; EVENTS];
    for submitted in submits.collect::<Vec<_>>() {
        for (event, verdict) in submitted.await.expect("definite answers").into_iter().enumerate() {
            assert!(!matches!(verdict, Verdict::Undecided(_)), "event {event}: {verdict:?}");
            winners[event] += u32::from(verdict == Verdict::FirstSeen);
        }
    }
    let wrong: Vec<_> = winners.iter().enumerate().filter(|(_, winners)| **winners != 1).take(10).collect();
    assert!(wrong.is_empty(), "events with another number of winners than one: {wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_root_a_leaf_answers_what_it_knows() {
    let cluster = cluster().await;
    // The root is only at Oslo.
    let mut tree = tree(TreeMode::Dense, 0);
    tree.places.iter_mut().filter(|place| place.parent.is_none()).for_each(|root| root.sites = vec!["oslo".to_owned()]);
    cluster.create_tree("clicks", &definition(Kind::Timing, "1h", "none"), forgetful(), &tree).await;
    let client =
        Client::connect(ConnectOptions { site: Some("athens".into()), deadline_ms: 500, ..cluster.options(0) })
            .await
            .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    observe(&filter, 0, 100).await;
    let patient =
        Client::connect(ConnectOptions { site: Some("athens".into()), deadline_ms: 30_000, ..cluster.options(0) })
            .await
            .expect("a client");
    let patient = (patient.filter("clicks").await.expect("a filter"), patient);
    let mut nodes = cluster.nodes;
    let oslo = nodes.pop().expect("node c").stop().await;
    // Concurrent calls are combined into batches. A known event must not wait for the other events of its batch.
    let mut calls = tokio::task::JoinSet::new();
    for event in (80..100).chain(1000..1020) {
        let filter = patient.0.clone();
        calls.spawn(async move { (event, filter.observe(format!("event-{event}").as_bytes()).await) });
    }
    for place in 0..20 {
        let (event, verdict) = calls.join_next().await.expect("forty calls").expect("no panic");
        assert_eq!((event < 100, verdict), (true, Ok(Verdict::Duplicate)), "event {event} returned as number {place}");
    }
    drop(calls);
    nodes[0].finds_unreachable(&[NodeId(3)]).await;
    let verdicts = observe(&filter, 0, 200).await;
    assert!(verdicts[..100].iter().all(|verdict| *verdict == Verdict::Duplicate), "{verdicts:?}");
    assert!(verdicts[100..].iter().all(|verdict| matches!(verdict, Verdict::Undecided(_))), "{verdicts:?}");
    let oslo = oslo.start().await;
    oslo.ready().await;
    nodes[0].finds_unreachable(&[]).await;
    let filter =
        Client::connect(ConnectOptions { site: Some("athens".into()), ..options(&nodes[0]) }).await.expect("a client");
    let filter = (filter.filter("clicks").await.expect("a filter"), filter);
    let verdicts = observe(&filter.0, 100, 200).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{verdicts:?}");
}

fn options(node: &crate::common::TestNode) -> ConnectOptions {
    ConnectOptions { deadline_ms: 60_000, ..ConnectOptions::from([node.node.addr()]) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn climbs_are_counted_by_where_they_come_from() {
    let cluster = cluster().await;
    // The root is only at Oslo.
    let mut tree = tree(TreeMode::Sparse, 0);
    tree.places.iter_mut().filter(|place| place.parent.is_none()).for_each(|root| root.sites = vec!["oslo".to_owned()]);
    cluster.create_tree("clicks", &definition(Kind::Timing, "1h", "none"), wall(), &tree).await;
    let (_ioannina, at_ioannina) = producer(&cluster, 1, "clicks").await;
    observe(&at_ioannina, 0, 100).await;
    let client =
        Client::connect(ConnectOptions { site: Some("athens".into()), deadline_ms: 500, ..cluster.options(0) })
            .await
            .expect("a client");
    let at_athens = client.filter("clicks").await.expect("a filter");
    // The events are 100 of Ioannina, 200 new ones, and 50 of the latter again.
    observe(&at_athens, 0, 300).await;
    observe(&at_athens, 250, 300).await;
    let mut nodes = cluster.nodes;
    let text = nodes[0].node.metrics().await;
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let leaf = "filter=\"clicks@athens\"";
    assert_eq!(value(&format!("firstseen_filter_events_total{{{leaf}}}")), 350.0);
    assert_eq!(value(&format!("firstseen_filter_decisions_total{{{leaf},decision=\"duplicate\"")), 150.0);
    assert_eq!(value(&format!("firstseen_climb_events_total{{{leaf}}}")), 300.0);
    let climbs = value(&format!("firstseen_climbs_total{{{leaf}}}"));
    assert!((1.0..=300.0).contains(&climbs), "{climbs}");
    assert_eq!(value(&format!("firstseen_climb_latency_seconds_count{{{leaf}}}")), climbs);
    let counted = |text: &str, decision: &str| {
        let start = format!("firstseen_climb_decisions_total{{{leaf},decision=\"{decision}\"");
        let lines = text.lines().filter(|line| line.starts_with(&start));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    assert_eq!(["first_seen", "duplicate", "undecided"].map(|it| counted(&text, it)), [200.0, 100.0, 0.0]);
    assert_eq!(value("firstseen_peer_unreachable{peer=\"c\"}"), 0.0);

    // Without the root, events are decided as soon as the root is known to be unreachable.
    let _oslo = nodes.pop().expect("node c").stop().await;
    nodes[0].finds_unreachable(&[NodeId(3)]).await;
    observe(&at_athens, 1000, 1010).await;
    let text = nodes[0].node.metrics().await;
    assert!(text.contains("firstseen_peer_unreachable{peer=\"c\"} 1\n"), "{text}");
    assert!(text.contains("firstseen_peer_unreachable{peer=\"b\"} 0\n"), "{text}");
    let down = format!("firstseen_climb_decisions_total{{{leaf},decision=\"undecided\",reason=\"slices_down\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&down)).expect("a series");
    assert!(line.parse::<f64>().is_ok_and(|undecided| undecided >= 10.0), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_trees_are_refused_with_the_fault() {
    let cluster = cluster().await;
    let refusal = async |change: fn(&mut TreeSpec)| {
        let mut tree = tree(TreeMode::Dense, 0);
        change(&mut tree);
        cluster.refuses_tree("clicks", &definition(Kind::Timing, "1h", "none"), &tree).await
    };
    let verdicts = [
        (refusal(|tree| tree.places[0].parent = Some("nowhere".to_owned())).await, "no place of the tree"),
        (refusal(|tree| tree.places[0].parent = None).await, "two roots"),
        (refusal(|tree| drop(tree.places.remove(0))).await, "site `athens` has no leaf"),
        (refusal(|tree| tree.places[0].parent = Some("athens".to_owned())).await, "is its own ancestor"),
        (refusal(|tree| tree.places[3].parent = Some("athens".to_owned())).await, "is its own ancestor"),
        (refusal(|tree| tree.places.clear()).await, "has no places"),
        (refusal(|tree| tree.places[0].sites = vec!["rome".to_owned()]).await, "site `rome`, which has no nodes"),
        (refusal(|tree| tree.places[0].slicing = Some("horizontal:2".parse().expect("one"))).await, "as many groups"),
    ];
    for (refusal, expected) in verdicts {
        assert!(refusal.contains(expected), "{expected}: {refusal}");
    }
    cluster.create_tree("clicks", &definition(Kind::Timing, "1h", "none"), wall(), &tree(TreeMode::Dense, 0)).await;
    let client =
        Client::connect(ConnectOptions { site: Some("rome".into()), ..cluster.options(0) }).await.expect("a client");
    match client.filter("clicks").await {
        Err(FilterError::NoPlace { there, .. }) => assert_eq!(there, ["root", "athens", "ioannina", "oslo"]),
        other => panic!("{:?}", other.map(|_| "a filter")),
    }
    // The levels of a tree are created and dropped together with its root.
    let mut admin = cluster.nodes[0].admin();
    let drop_of = |name: &str| firstseen_wire::proto::admin::DropFilterRequest {
        command_id: Vec::new().into(),
        name: name.to_owned(),
    };
    let refused = admin.drop_filter(drop_of("clicks@oslo")).await.expect_err("a level").message().to_owned();
    assert!(refused.contains("is a level of the tree `clicks`"), "{refused}");
    admin.drop_filter(drop_of("clicks")).await.expect("dropped");
    assert!(cluster.nodes[0].map().await.filters.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_that_may_decide_alone_brings_events_up_when_the_root_is_back() {
    let cluster = cluster().await;
    let mut tree = TreeSpec { cut_off: CutOff::Local, ..tree(TreeMode::Dense, 0) };
    tree.places.iter_mut().filter(|place| place.parent.is_none()).for_each(|root| root.sites = vec!["oslo".to_owned()]);
    cluster.create_tree("clicks", &definition(Kind::Timing, "1h", "none"), forgetful(), &tree).await;
    let (_athens, at_athens) = producer(&cluster, 0, "clicks").await;
    let (_ioannina, at_ioannina) = producer(&cluster, 1, "clicks").await;
    let mut nodes = cluster.nodes;
    let oslo = nodes.pop().expect("node c").stop().await;
    for node in &nodes {
        node.finds_unreachable(&[NodeId(3)]).await;
    }
    let verdicts = observe(&at_athens, 0, 100).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{verdicts:?}");
    assert_eq!(at_athens.status().degraded.events, 100, "other sites may reply the same");
    let verdicts = observe(&at_athens, 0, 100).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate), "{verdicts:?}");
    let verdicts = observe(&at_ioannina, 50, 100).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "first-seen at both: {verdicts:?}");
    let oslo = oslo.start().await;
    oslo.ready().await;
    // Events that a leaf decided alone eventually reach the root. Afterwards all sites know them.
    let client =
        Client::connect(ConnectOptions { site: Some("oslo".into()), ..options(&oslo) }).await.expect("a client");
    let at_oslo = client.filter("clicks").await.expect("a filter");
    for event in 0..100 {
        let event = format!("event-{event}");
        let known = async { while at_oslo.test(event.as_bytes()).await != Ok(Verdict::Duplicate) {} };
        tokio::time::timeout(crate::common::PATIENCE, known).await.expect("brought up");
    }
    nodes[0].metric_becomes("firstseen_filter_journal_events{filter=\"clicks@athens\"}", 0.0).await;
    nodes[1].metric_becomes("firstseen_filter_journal_events{filter=\"clicks@ioannina\"}", 0.0).await;
    let first_seen = async |node: usize, site: &str| {
        nodes[node].metric(&format!("firstseen_filter_double_deliveries_total{{filter=\"clicks@{site}\"}}")).await
    };
    assert_eq!(first_seen(0, "athens").await + first_seen(1, "ioannina").await, 50.0, "first-seen at both");
}

/// Returns the idempotency keys for the submissions of `events(from, to)`.
fn names(from: usize, to: usize) -> Vec<SubmissionName> {
    (from..to).map(|number| SubmissionName { source: 9, number: number as u64 }).collect()
}

/// Submits events with their idempotency keys in small calls, one after the other.
async fn observe_named(filter: &Filter, from: usize, to: usize) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for from in (from..to).step_by(50) {
        let digests: Vec<Digest> =
            events(from, from + 50).iter().map(|event| filter.info().secret.digest(event.as_bytes())).collect();
        verdicts.extend(
            filter
                .observe_batch(Batch::hashed(&|_| digests.to_vec()).names(&names(from, from + 50)))
                .await
                .expect("verdicts"),
        );
    }
    verdicts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_starts_anew_in_mid_climb_makes_nothing_a_duplicate_of_itself() {
    const EVENTS: usize = 3_000;
    for slicing in ["vertical:3", "horizontal:3"] {
        let mut cluster = steady_cluster().await;
        let definition = definition(Kind::Timing, "1h", slicing);
        cluster.create_tree("clicks", &definition, forgetful(), &tree(TreeMode::Dense, 1)).await;
        let (_client, filter) = producer(&cluster, 0, "clicks").await;
        let before = observe_named(&filter, 0, 500).await;
        assert!(before.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{slicing}: {before:?}");
        // This node has a part of the root and the leaf of another site. It stops while the root is being queried, and
        // returns.
        let oslo = cluster.nodes.pop().expect("node c");
        let (verdicts, oslo) = tokio::join!(observe_named(&filter, 500, EVENTS), oslo.restart());
        oslo.ready().await;
        cluster.nodes.push(oslo);
        assert!(!verdicts.contains(&Verdict::Duplicate), "{slicing}: a duplicate of itself");
        // Another process submits all events again.
        let (_other, again) = producer(&cluster, 0, "clicks").await;
        let again = observe_named(&again, 0, EVENTS).await;
        let undecided = again.iter().filter(|verdict| matches!(verdict, Verdict::Undecided(_))).count();
        println!("{slicing}: {undecided} undecided of {EVENTS} that were made again");
        assert!(!again.contains(&Verdict::Duplicate), "{slicing}: a duplicate of itself");
        assert!(undecided < EVENTS / 2, "{slicing}: only {} are definite", EVENTS - undecided);
        for (event, (first, again)) in before.iter().chain(&verdicts).zip(&again).enumerate() {
            assert!(*first != Verdict::FirstSeen || first == again, "{slicing}, event {event}: {again:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_comes_back_learns_from_the_root_what_it_knew() {
    let mut cluster = cluster().await;
    // The root is only at Oslo.
    let mut tree = tree(TreeMode::Dense, 0);
    tree.places.iter_mut().filter(|place| place.parent.is_none()).for_each(|root| root.sites = vec!["oslo".to_owned()]);
    cluster.create_tree("clicks", &definition(Kind::Timing, "1h", "none"), wall(), &tree).await;
    let (client, filter) = producer(&cluster, 1, "clicks").await;
    assert!(observe(&filter, 0, 500).await.iter().all(|verdict| *verdict == Verdict::FirstSeen));
    drop((client, filter));
    let ioannina = cluster.nodes.remove(1).restart().await;
    ioannina.ready().await;
    ioannina.knows("clicks").await;
    cluster.nodes.insert(1, ioannina);
    let (_client, filter) = producer(&cluster, 1, "clicks").await;
    let verdicts = observe(&filter, 0, 500).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate), "{verdicts:?}");
    let verdicts = observe(&filter, 0, 500).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate), "{verdicts:?}");
    // The events are found first at the root and then at the leaf. No verdict depends on the lost cells of the leaf.
    assert_eq!(filter.status().level_hits[..2], [500, 500]);
    assert_eq!(filter.status().degraded.events, 0);
    let (_other, elsewhere) = producer(&cluster, 0, "clicks").await;
    assert!(observe(&elsewhere, 0, 500).await.iter().all(|verdict| *verdict == Verdict::Duplicate));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn climbs_keep_to_what_the_level_above_takes() {
    let cluster = TestCluster::start_with(3, |config| {
        let site = SITES[["a", "b", "c"].iter().position(|name| *name == config.name).expect("a node")];
        config.site = site.to_owned();
        // This limit is lower than the number of events that a leaf sends to the root at once.
        config.limits.batch_events_max = if site == "oslo" { 100 } else { config.limits.batch_events_max };
    })
    .await;
    let mut tree = tree(TreeMode::Dense, 0);
    tree.places.iter_mut().filter(|place| place.parent.is_none()).for_each(|root| root.sites = vec!["oslo".to_owned()]);
    cluster.create_tree("clicks", &definition(Kind::Timing, "1h", "none"), wall(), &tree).await;
    let (_athens, at_athens) = producer(&cluster, 0, "clicks").await;
    let verdicts = observe(&at_athens, 0, 3_000).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{verdicts:?}");
    let (_oslo, at_oslo) = producer(&cluster, 2, "clicks").await;
    let verdicts = observe(&at_oslo, 0, 3_000).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate), "{verdicts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_first_brings_up_the_events_that_it_decided_alone() {
    let cluster = cluster().await;
    let mut tree = TreeSpec { cut_off: CutOff::Local, ..tree(TreeMode::Dense, 0) };
    tree.places.iter_mut().filter(|place| place.parent.is_none()).for_each(|root| root.sites = vec!["oslo".to_owned()]);
    cluster.create_tree("clicks", &definition(Kind::Timing, "1h", "none"), forgetful(), &tree).await;
    let (_athens, at_athens) = producer(&cluster, 0, "clicks").await;
    let mut nodes = cluster.nodes;
    let oslo = nodes.pop().expect("node c").stop().await;
    nodes[0].finds_unreachable(&[NodeId(3)]).await;
    let verdicts = observe(&at_athens, 0, 50).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "{verdicts:?}");
    let stopping = tokio::spawn(nodes.remove(0).node.shutdown());
    let oslo = oslo.start().await;
    oslo.ready().await;
    stopping.await.expect("no panic");
    let client =
        Client::connect(ConnectOptions { site: Some("oslo".into()), ..options(&oslo) }).await.expect("a client");
    let verdicts = observe(&client.filter("clicks").await.expect("a filter"), 0, 50).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate), "{verdicts:?}");
}
