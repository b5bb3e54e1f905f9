//! Tests a vertically sliced filter that has lost eight of its forty slices. Some positions of an event can then no
//! longer be tested. The filter can still answer lookups if a threshold says how many of the remaining positions must
//! be set for a duplicate. For every threshold, the measured error rates must match the formula of Koloniari et al.
//! 2011, section 3.2.

use firstseen_client::{Batch, Client, ConnectOptions, Filter, Verdict};
use firstseen_filter::rates::band;
use firstseen_filter::rates::failures::{self, Rule};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::{FilterPolicies, NodeId, SlicedDefinition, Thresholds};
use firstseen_wire::proto::admin::InspectFilterRequest;

use crate::common::TestNode;
use crate::common::cluster::TestCluster;

const SLICES: u32 = 40;
const HASHES: u32 = 8;
const CELLS: u64 = 96_000;
/// Number of keys that sets half of the cells.
const KEYS: u64 = CELLS * 69 / 100 / HASHES as u64;
const CONFIDENCE: f64 = 0.999;

fn definition() -> SlicedDefinition {
    let spec = FilterSpec {
        cells: Some(CELLS),
        hashes: Some(HASHES),
        ..FilterSpec::new(Kind::Bloom, "unbounded".parse().expect("a window"))
    };
    SlicedDefinition::new(&spec, format!("vertical:{SLICES}").parse().expect("a slicing")).expect("a definition")
}

fn keys(range: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    range.map(u64::to_le_bytes).collect()
}

/// Returns how many of these keys are reported as duplicates, and how many are undecided.
async fn looked_up(filter: &Filter, range: std::ops::Range<u64>) -> (u64, u64) {
    let digests: Vec<_> = keys(range).iter().map(|key| filter.info().secret.digest(key)).collect();
    let verdicts = filter.test_batch(Batch::hashed(&|_| digests.to_vec())).await.expect("verdicts");
    let count = |is_it: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is_it(verdict)).count() as u64;
    (count(|verdict| *verdict == Verdict::Duplicate), count(|verdict| matches!(verdict, Verdict::Undecided(_))))
}

/// Returns the mean share of set cells over the slices of this node.
async fn fill(node: &TestNode, name: &str) -> f64 {
    let request = InspectFilterRequest { name: name.to_owned() };
    let slices = node.admin().inspect_filter(request).await.expect("slices").into_inner().slices;
    slices.iter().filter_map(|slice| slice.fill).sum::<f64>() / slices.len() as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_of_forty_slices_of_five_nodes_are_gone() {
    let mut cluster = TestCluster::start_to_lose_one(5).await;
    let mut filters = Vec::new();
    for set_min in 0..=HASHES {
        let thresholds = Thresholds { min_live: 1, set_min };
        let name = format!("x{set_min}");
        cluster.create(&name, &definition(), FilterPolicies { thresholds, ..FilterPolicies::default() }).await;
        // The deadline is short so that undecided events do not delay the test.
        let client =
            Client::connect(ConnectOptions { deadline_ms: 3_000, ..cluster.options(0) }).await.expect("a client");
        let filter = client.filter(&name).await.expect("a filter");
        for from in (0..KEYS).step_by(4_000) {
            filter.observe_batch(&keys(from..(from + 4_000).min(KEYS))).await.expect("verdicts");
        }
        filters.push((set_min, client, filter));
    }
    let mut fills = 0.0;
    for node in &cluster.nodes {
        fills += fill(node, "x0").await;
    }
    let fill = fills / cluster.nodes.len() as f64;
    let gone = cluster.nodes.pop().expect("node e").stop().await;
    cluster.nodes[0].finds_down(&[NodeId(5)]).await;
    let down = 8.0 / f64::from(SLICES);
    for (set_min, _client, filter) in &filters {
        let expected = failures::x_of_k(down, fill, HASHES, *set_min, Rule::Strict);
        let (wrong, undecided) = looked_up(filter, KEYS..3 * KEYS).await;
        let allowed = band::binomial(expected.false_positives, 2 * KEYS, CONFIDENCE);
        assert!(allowed.contains(&wrong), "x = {set_min}: {wrong} false positives, not {allowed:?}, at fill {fill}");
        let (found, missing) = looked_up(filter, 0..KEYS).await;
        let missed = KEYS - found - missing;
        let allowed = band::binomial(expected.false_negatives, KEYS, CONFIDENCE);
        assert!(allowed.contains(&missed), "x = {set_min}: {missed} false negatives, not {allowed:?}");
        // All eight positions of an event are on lost slices with a probability of one in 390,000.
        assert!(undecided + missing < 4, "x = {set_min}: {undecided} and {missing} are undecided");
        let degraded = filter.status().degraded;
        println!("x = {set_min}: {wrong} of {} new ones wrong, {missed} of {KEYS} missed, {degraded:?}", 2 * KEYS);
    }
    drop(gone);
}
