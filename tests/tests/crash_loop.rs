//! A node that is killed again and again while a producer submits: what was told is remembered, as the filter's
//! durability says.
//!
//! `FIRSTSEEN_CRASHES=1000 cargo test -p firstseen-tests --test all crash_loop` is the long run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use firstseen_client::Verdict;
use firstseen_client::blocking::{Client, Filter};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

/// Restarts where the environment says nothing else.
const CRASHES: u64 = 12;
const BATCH_EVENTS: u64 = 64;
/// A call that waits for so long for a node that is being started again has failed.
const DEADLINE_MS: u64 = 5_000;
/// Between the moment in which a verdict is told and the one in which the producer notes it, on a busy machine.
const NOTED_WITHIN: Duration = Duration::from_millis(1_000);

/// A node that is started often is soon there.
const TIMING: &str = "[timing]\nheartbeat_ms = 20\nelection_base_ms = 60\nelection_width_ms = 20\n";

fn crashes() -> u64 {
    std::env::var("FIRSTSEEN_CRASHES").map_or(CRASHES, |text| text.parse().expect("a number"))
}

/// The call that has told a key.
#[derive(Clone, Copy)]
struct Told {
    key: u64,
    began: Instant,
    ended: Instant,
}

/// Submits new keys and keys that were told before.
struct Producer {
    _client: Client,
    filter: Filter,
    next_key: u64,
    told: Vec<Told>,
    /// Keys that were told, and first-seen again later, with the time of that.
    forgotten: Vec<(Told, Instant)>,
    undecided: BTreeMap<String, u64>,
}

impl Producer {
    fn submit(&mut self, keys: &[u64], are_old: usize) {
        let events: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let began = Instant::now();
        let verdicts = match self.filter.observe_batch(&events, &[]) {
            Ok(verdicts) => verdicts,
            Err(error) => panic!("a call is refused: {error}"),
        };
        let ended = Instant::now();
        for (index, (key, verdict)) in keys.iter().zip(&verdicts).enumerate() {
            match verdict {
                Verdict::FirstSeen if index < are_old => {
                    let told = self.told.iter_mut().find(|told| told.key == *key).expect("it was told");
                    self.forgotten.push((*told, ended));
                    // It is remembered again from now on.
                    *told = Told { key: *key, began, ended };
                }
                Verdict::FirstSeen | Verdict::Duplicate => {}
                Verdict::Undecided(reason) => *self.undecided.entry(format!("{reason:?}")).or_default() += 1,
            }
            if index >= are_old && *verdict == Verdict::FirstSeen {
                self.told.push(Told { key: *key, began, ended });
            }
        }
    }

    /// A batch of new keys and some that were told.
    fn go_on(&mut self) {
        let step = (self.told.len() as u64 / (BATCH_EVENTS / 2)).max(1);
        let old = (0..BATCH_EVENTS / 2).filter_map(|index| self.told.get((index * step) as usize));
        let mut keys: Vec<u64> = old.map(|told| told.key).collect();
        let are_old = keys.len();
        keys.extend(self.next_key..self.next_key + BATCH_EVENTS / 2);
        self.next_key += BATCH_EVENTS / 2;
        self.submit(&keys, are_old);
    }

    /// Asks for everything that was told.
    fn look_at_all(&mut self) {
        let keys: Vec<u64> = self.told.iter().map(|told| told.key).collect();
        keys.chunks(BATCH_EVENTS as usize).for_each(|keys| self.submit(keys, keys.len()));
    }
}

/// A node with a filter, and its producer.
fn start(durability: &str) -> (OwnNode, Producer) {
    let node = OwnNode::start("a", TIMING);
    let made = |flags: &str| node.folder.run(&format!("{flags} --cluster {}", node.address)).code == Some(0);
    eventually("a cluster", || node.folder.run(&format!("cluster init --addr {}", node.address)).code == Some(0));
    let create = format!("filter create clicks --if-absent --durability {durability} --capacity 4M --clock wall");
    eventually("a filter", || made(&create));
    let builder = firstseen_client::Client::builder().seeds([node.address.clone()]).deadline_ms(DEADLINE_MS);
    let client = Client::build(builder).expect("a client");
    let filter = client.filter("clicks").expect("a filter");
    let (told, forgotten, undecided) = (Vec::new(), Vec::new(), BTreeMap::new());
    let producer = Producer { _client: client, filter, next_key: 0, told, forgotten, undecided };
    (node, producer)
}

/// Waits until a node answers.
fn answers(node: &OwnNode) {
    let status = format!("cluster status --addr {}", node.address);
    eventually("a node that answers", || node.folder.run(&status).code == Some(0));
}

/// Kills a node over and over; when it was killed, and what its producer has seen.
fn run(durability: &str) -> (Vec<Instant>, Producer) {
    let (mut node, mut producer) = start(durability);
    let (ended, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let producing = std::thread::spawn({
        let (ended, told) = (ended.clone(), told.clone());
        move || {
            while !ended.load(Ordering::Relaxed) {
                producer.go_on();
                told.store(producer.told.len(), Ordering::Relaxed);
            }
            producer
        }
    });
    let mut killed = Vec::new();
    for crash in 0..crashes() {
        answers(&node);
        // Every other time the node has replied since it started, also on a slow machine.
        let before = told.load(Ordering::Relaxed);
        eventually("a reply", || crash % 2 == 1 || told.load(Ordering::Relaxed) > before);
        // At other points of the work each time, and now and then long after what an interval may cost.
        let long_ms = if crash % 10 == 5 { 1_500 } else { 0 };
        std::thread::sleep(Duration::from_millis(20 + crash * 37 % 200 + long_ms));
        killed.push(Instant::now());
        node.crash();
    }
    ended.store(true, Ordering::Relaxed);
    let mut producer = producing.join().expect("a producer");
    producer.look_at_all();
    eprintln!(
        "{durability}: {} crashes, {} keys told, {} forgotten, undecided {:?}",
        killed.len(),
        producer.told.len(),
        producer.forgotten.len(),
        producer.undecided
    );
    (killed, producer)
}

#[test]
fn a_node_that_is_stopped_in_order_writes_what_was_not_due_yet() {
    let (mut node, mut producer) = start("1h");
    (0..20).for_each(|_| producer.go_on());
    let told = producer.told.len();
    assert!(told > 500, "{told} keys");
    node.restart();
    answers(&node);
    producer.look_at_all();
    assert_eq!(producer.forgotten.len(), 0, "of {told}");
}

#[test]
fn crash_loop_of_a_durable_filter_forgets_nothing() {
    let (_, producer) = run("durable");
    assert!(producer.told.len() as u64 > 10 * crashes(), "{} keys", producer.told.len());
    assert_eq!(producer.forgotten.len(), 0);
}

#[test]
fn crash_loop_with_an_interval_forgets_no_more_than_that() {
    let (killed, producer) = run("200ms");
    assert!(producer.told.len() as u64 > 10 * crashes(), "{} keys", producer.told.len());
    for (told, forgotten) in &producer.forgotten {
        let between = killed.iter().filter(|killed| (told.began..*forgotten).contains(*killed));
        let after = between.map(|killed| killed.saturating_duration_since(told.ended)).min();
        let after = after.expect("it was killed in between");
        assert!(after <= Duration::from_millis(200) + NOTED_WITHIN, "told {after:?} before a crash");
    }
}
