//! Tests of events with individual times to live, compared with an exact model that counts in the units of the filter.

use std::collections::HashMap;

use firstseen_client::{Batch, CallError, Client, Filter, FilterError, FilterSecret, Ttl, Verdict};
use firstseen_filter::{FilterSpec, Kind, Unit};
use firstseen_node::Limits;
use firstseen_routing::{Reason, SlicedDefinition};
use firstseen_wire::proto::{admin, producer};

use crate::common::{TestNode, request_to_create};

const WINDOW_MS: u64 = 3_600_000;
const KEYS: u64 = 60;
const STEPS: u64 = 2_000;
const FUTURE: Verdict = Verdict::Undecided(Reason::Future);
const TRIES: u32 = 1_000;
const OPEN_TRIES: u32 = 10;
/// Time of the first event. It is so long ago that no event is ahead of the node's clock.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// Pseudorandom numbers that depend on a seed (SplitMix64, Steele 2014).
struct TestRng(u64);

impl TestRng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// An exact model of how long events with a time to live are remembered, in units of the filter.
struct Model {
    unit_ms: u64,
    span_units: u64,
    /// For each key, the unit in which it expires.
    expiry: HashMap<u64, u64>,
}

impl Model {
    fn observe(&mut self, key: u64, now_ms: u64, ttl_ms: Option<u64>) -> Verdict {
        let now = now_ms / self.unit_ms;
        if self.expiry.get(&key).is_some_and(|expiry| *expiry > now) {
            return Verdict::Duplicate;
        }
        let units = ttl_ms.map_or(self.span_units, |ttl_ms| ttl_ms.div_ceil(self.unit_ms) + 1);
        self.expiry.insert(key, now + units);
        Verdict::FirstSeen
    }
}

fn defined(change: impl FnOnce(&mut FilterSpec)) -> SlicedDefinition {
    let mut spec = FilterSpec {
        capacity_events: Some(100_000),
        rate: 1e-8,
        lateness_ms: Some(0),
        ..FilterSpec::new(Kind::Cuckoo, "1h".parse().expect("a window"))
    };
    change(&mut spec);
    SlicedDefinition::new(&spec, "horizontal:2".parse().expect("a slicing")).expect("a definition")
}

async fn made(node: &TestNode, name: &str, change: impl FnOnce(&mut FilterSpec)) -> (Client, Filter) {
    let definition = defined(change);
    let (clock, durability) = (producer::ClockSource::Event.into(), producer::Durability::Durable.into());
    let request = admin::CreateFilterRequest { clock, durability, ..request_to_create(name, &definition) };
    node.admin().create_filter(request).await.expect("a filter");
    opened(node, name).await
}

/// Connects a separate producer, and opens the filter with it.
async fn opened(node: &TestNode, name: &str) -> (Client, Filter) {
    let client = Client::connect([node.node.addr()]).await.expect("the node answers");
    // On a busy machine, a node that has just started is not ready at once. Each attempt waits for it.
    for _ in 0..OPEN_TRIES {
        match client.filter(name).await {
            Ok(filter) => return (client, filter),
            Err(FilterError::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("filter {name} is not there after {OPEN_TRIES} tries");
}

async fn observe(filter: &Filter, key: u64, now_ms: u64, ttl_ms: Option<u64>) -> Verdict {
    let hash = |secret: &FilterSecret| vec![secret.digest(&key.to_le_bytes())];
    let times_ms = [now_ms];
    let mut batch = Batch::hashed(&hash).times_ms(&times_ms);
    if let Some(ttl_ms) = ttl_ms {
        batch = batch.ttl(Ttl { now_ms, ttl_ms });
    }
    filter.observe_batch(batch).await.expect("a call")[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_is_remembered_for_its_own_life_and_for_the_window_without_one() {
    let seed = 7;
    println!("seed {seed}");
    let mut node = TestNode::start("a", Limits::default()).await;
    node.init().await;
    // If events may be late, nodes compute the times to live.
    for (kind, lateness_ms) in [(Kind::Cuckoo, 0), (Kind::Timing, 0), (Kind::Timing, 120_000)] {
        let name = format!("{kind}-{lateness_ms}");
        let change = |spec: &mut FilterSpec| (spec.kind, spec.lateness_ms) = (kind, Some(lateness_ms));
        let (mut producer, mut filter) = made(&node, &name, change).await;
        let group = filter.info().definition.group.clone();
        let Unit::Milliseconds(unit_ms) = group.unit else { panic!("a window of time") };
        let mut model = Model { unit_ms, span_units: group.rule.span_units, expiry: HashMap::new() };
        let longest_ms = (model.span_units - 1) * unit_ms;
        let (mut rng, mut now_ms, mut lives) = (TestRng(seed), BEGIN_MS, 0);
        for step in 0..STEPS {
            now_ms += rng.below(WINDOW_MS / 40);
            if step % 500 == 499 {
                // A restarted producer knows only the clock that the cluster reports.
                drop(producer);
                if step % 1_500 == 1_499 {
                    node = node.restart().await;
                }
                (producer, filter) = opened(&node, &name).await;
            }
            let key = rng.below(KEYS);
            let ttl_ms = (rng.below(4) > 0).then(|| 1 + rng.below(longest_ms));
            lives += u64::from(ttl_ms.is_some());
            let expected = model.observe(key, now_ms, ttl_ms);
            // In a replay, only a producer advances the clock. The connection of the previous producer may not be
            // closed yet.
            let mut found = FUTURE;
            for _ in 0..TRIES {
                if found == FUTURE {
                    found = observe(&filter, key, now_ms, ttl_ms).await;
                }
            }
            assert_eq!(found, expected, "{name}, seed {seed}, step {step}: key {key} at {now_ms}, for {ttl_ms:?}");
        }
        assert!(lives > STEPS / 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_promised_is_refused() {
    let node = TestNode::start("a", Limits::default()).await;
    node.init().await;
    let reason = |filter: &Filter, ttl_ms| match filter.takes_ttl(ttl_ms) {
        Err(CallError::Ttl { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let (_cuckoo, cuckoo) = made(&node, "cuckoo", |_| {}).await;
    cuckoo.takes_ttl(600_000).expect("a life below the window");
    assert!(reason(&cuckoo, WINDOW_MS * 2).contains("longer window"));
    assert!(reason(&cuckoo, 0).contains("at least 1 ms"));
    let (_generations, generations) =
        made(&node, "generations", |spec| (spec.kind, spec.rate) = (Kind::Generations, 0.01)).await;
    assert!(reason(&generations, 600_000).contains("timing or cuckoo"));
    let ttl = Ttl { now_ms: BEGIN_MS, ttl_ms: 1_000 };
    let refused = generations.observe_batch(Batch::from(&["key"]).ttl(ttl)).await;
    assert!(matches!(refused, Err(CallError::Ttl { .. })));
}

/// Alters a filter with the request that the command `firstseen filter alter` sends, and waits for the reply of the
/// node.
///
/// The node replaces the filter with a successor, which has the new definition. The predecessor still knows the earlier
/// events. A producer that has opened the filter before the alteration therefore asks both filters about each event.
async fn alter(node: &TestNode, filter: &Filter, change: impl FnOnce(&mut FilterSpec)) {
    let request = admin::AlterFilterRequest {
        command_id: vec![7; 16].into(),
        name: filter.info().name.to_owned(),
        filter_id: filter.info().id.0,
        definition_json: firstseen_wire::map::definition_json(&defined(change)),
        ..Default::default()
    };
    node.admin().alter_filter(request).await.expect("an alteration");
}

/// Repeats an observation until it is decided, and returns the verdict.
async fn decided(filter: &Filter, key: u64, now_ms: u64, ttl_ms: Option<u64>) -> Verdict {
    for _ in 0..TRIES {
        let verdict = observe(filter, key, now_ms, ttl_ms).await;
        if !matches!(verdict, Verdict::Undecided(Reason::NotReady | Reason::StaleMap | Reason::Altered)) {
            return verdict;
        }
    }
    panic!("no verdict after {TRIES} tries");
}

/// Returns the time after the given number of seconds.
fn second(seconds: u64) -> u64 {
    BEGIN_MS + 1_000 * seconds
}

/// Regression test for two errors that occurred while the window of a filter was being altered. During an alteration, a
/// successor has the new window, and its predecessor with the old window is still queried. Both errors concern keys
/// with a time to live of their own.
///
/// The first error occurred when a window of 1 h was altered to 48 h. The client expressed the time to live of a key by
/// sending the key with an earlier time, which it computed for the window of 48 h. It then sent the same time to the
/// predecessor. In the predecessor's window of 1 h, this time was too old, so even a known key was left undecided
/// (`Late`).
///
/// The second error occurred when a window of 2 min was altered. A key with a time to live of 5 s was then remembered
/// for 125 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_is_as_long_while_the_filter_is_altered() {
    let node = TestNode::start("a", Limits::default()).await;
    node.init().await;
    // After `over_s` seconds, the times to live of 5 s and 60 s have ended. An event may be remembered for up to two
    // additional ticks of the filter.
    for (name, before, after, over_s) in
        [("longer", "1h", "48h", 8_000), ("equal", "2m", "2m", 70), ("shorter", "48h", "1h", 8_000)]
    {
        let window = |spec: &mut FilterSpec, window: &str| spec.window = window.parse().expect("a window");
        let (_producer, filter) = made(&node, name, |spec| window(spec, before)).await;
        let ttl_ms = Some(5_000);
        assert_eq!(decided(&filter, 1, second(0), ttl_ms).await, Verdict::FirstSeen, "{name}");
        assert_eq!(decided(&filter, 2, second(0), Some(60_000)).await, Verdict::FirstSeen, "{name}");
        alter(&node, &filter, |spec| {
            window(spec, after);
            spec.rate = 1e-7;
        })
        .await;
        for (key, at_s, ttl_ms, expected) in [
            (1, 1, ttl_ms, Verdict::Duplicate),
            (3, 1, ttl_ms, Verdict::FirstSeen),
            (3, 2, ttl_ms, Verdict::Duplicate),
            (1, over_s, ttl_ms, Verdict::FirstSeen),
            (2, over_s, None, Verdict::FirstSeen),
            (3, 2 * over_s, ttl_ms, Verdict::FirstSeen),
        ] {
            let verdict = decided(&filter, key, second(at_s), ttl_ms).await;
            assert_eq!(verdict, expected, "{name}: key {key} at {at_s} s");
        }
        if name == "longer" {
            assert_eq!(decided(&filter, 9, second(20_000), Some(24 * WINDOW_MS)).await, Verdict::FirstSeen);
            assert_eq!(decided(&filter, 9, second(20_001), Some(24 * WINDOW_MS)).await, Verdict::Duplicate);
        }
    }
}
