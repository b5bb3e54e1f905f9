//! Tests of trees whose leaves decide events alone while they are cut off (`CutOff::Local`), on real nodes at three
//! sites. A leaf must do so while its site is cut off, for as long as that lasts, and at no other time.

use crate::common::PATIENCE;
use crate::common::cluster::TestCluster;
use crate::tree::{SITES, definition, give_site, observe, producer, tree, wall};
use firstseen_client::{Client, ConnectOptions, Filter, Verdict};
use firstseen_filter::Kind;
use firstseen_routing::{CutOff, NodeId, Reason, TreeMode, TreeSpec};

/// Deadline of calls that find slices down, in milliseconds.
const DEADLINE_MS: u64 = 5_000;
/// Duration of a lease in these tests, in milliseconds.
const LEASE_MS: u64 = 4_000;
/// Filter without a tree. Its slices show whether the node that owns them has a lease.
const WITHOUT_TREE: &str = "views";

/// Starts a cluster with a tree whose root spans all sites, so that a third of the events belongs to each site.
async fn cluster() -> TestCluster {
    let cluster = TestCluster::start_with(3, |config| {
        give_site(config);
        config.timing.lease_ms = LEASE_MS;
    })
    .await;
    let tree = TreeSpec { cut_off: CutOff::Local, ..tree(TreeMode::Dense, 0) };
    let definition = definition(Kind::Timing, "1h", "horizontal:3");
    cluster.create_tree("clicks", &definition, wall(), &tree).await;
    cluster.create(WITHOUT_TREE, &definition, wall()).await;
    cluster
}

/// Returns a producer at a site whose calls do not wait long for slices that are down.
async fn impatient(cluster: &TestCluster, site: usize, filter: &str) -> (Client, Filter) {
    let options = ConnectOptions { site: Some(SITES[site].into()), deadline_ms: DEADLINE_MS, ..cluster.options(site) };
    let client = Client::connect(options).await.expect("a client");
    let filter = client.filter(filter).await.expect("a filter");
    (client, filter)
}

/// Waits until the slices at the producer's site record nothing more because the lease of their node has ended.
async fn lease_ends(without_tree: &Filter) {
    let waiting = async {
        // Events that are known are duplicates also without a lease.
        let mut from = 0;
        while count(&observe(without_tree, from, from + 30).await, Verdict::Undecided(Reason::CutOff)) == 0 {
            from += 30;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the lease never ends");
}

fn count(verdicts: &[Verdict], wanted: Verdict) -> usize {
    verdicts.iter().filter(|verdict| **verdict == wanted).count()
}

/// Node b restarted and was reachable again, but its slices of the root lacked events. Oslo called a third of the
/// events of Athens first-seen, and new events of these slices were first-seen at both sites.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_has_restarted_is_not_out_of_reach() {
    let mut cluster = cluster().await;
    let (_athens, at_athens) = impatient(&cluster, 0, "clicks").await;
    assert_eq!(observe(&at_athens, 0, 100).await, [Verdict::FirstSeen; 100]);
    let ioannina = cluster.nodes.remove(1).restart().await;
    ioannina.ready().await;
    ioannina.knows("clicks").await;
    cluster.nodes.insert(1, ioannina);
    for node in &cluster.nodes {
        node.finds_unreachable(&[]).await;
        node.finds_down(&[]).await;
    }
    let (_oslo, at_oslo) = impatient(&cluster, 2, "clicks").await;
    let again = observe(&at_oslo, 0, 100).await;
    assert_eq!(count(&again, Verdict::FirstSeen), 0, "delivered twice: {again:?}");
    let undecided = count(&again, Verdict::Undecided(Reason::SlicesDown));
    assert!((10..60).contains(&undecided), "the events of the slices at b: {again:?}");
    assert_eq!(undecided + count(&again, Verdict::Duplicate), 100, "{again:?}");
    // The events of other slices are first-seen at one site only.
    let new = observe(&at_oslo, 100, 200).await;
    assert_eq!(count(&observe(&at_athens, 100, 200).await, Verdict::FirstSeen), 0, "{new:?}");
    assert_eq!([at_oslo.status().degraded.events, at_athens.status().degraded.events], [0, 0]);
}

/// After the lease of the node had ended, the root's slices at the site that was cut off replied `CutOff`. The leaf
/// left their events undecided, a third of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_cut_off_decides_alone_after_its_lease() {
    let mut cluster = cluster().await;
    let (_athens, at_athens) = producer(&cluster, 0, "clicks").await;
    assert_eq!(observe(&at_athens, 0, 100).await, [Verdict::FirstSeen; 100]);
    let (_beside, without_tree) = impatient(&cluster, 0, WITHOUT_TREE).await;
    let oslo = cluster.nodes.pop().expect("node c");
    let ioannina = cluster.nodes.pop().expect("node b");
    tokio::join!(oslo.stop(), ioannina.stop());
    cluster.nodes[0].finds_unreachable(&[NodeId(2), NodeId(3)]).await;
    // The root's slices at Athens decide their events themselves until the lease ends.
    let first = observe(&at_athens, 100, 200).await;
    assert_eq!(count(&first, Verdict::FirstSeen), 100, "{first:?}");
    let alone = at_athens.status().degraded.events;
    assert!(alone > 0, "a leaf that is cut off marks what it decides alone");
    lease_ends(&without_tree).await;
    let later = observe(&at_athens, 200, 300).await;
    assert_eq!(count(&later, Verdict::FirstSeen), 100, "undecided after the lease: {later:?}");
    assert_eq!(at_athens.status().degraded.events, alone + 100, "all of them alone");
    assert_eq!(observe(&at_athens, 0, 300).await, [Verdict::Duplicate; 300]);
}
