//! Kills a node again and again while a producer submits events. After each crash, the test submits earlier events
//! again and counts those that the filter has forgotten. How many of the answered events a crash may lose depends on
//! the durability mode of the filter.
//!
//! The long run is `FIRSTSEEN_CRASHES=1000 cargo test -p firstseen-tests --test all crash_loop`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

/// Default number of restarts.
const CRASHES: u64 = 12;
const BATCH_EVENTS: u64 = 64;
/// Deadline of a call in milliseconds. A restarting node must be available within this time.
const DEADLINE_MS: u64 = 5_000;
/// Maximum time between a reply and the moment at which the producer has noted it, on a busy machine.
const NOTED_WITHIN: Duration = Duration::from_millis(1_000);

/// Settings with which a node starts fast, because the test restarts it often.
const TIMING: &str = "[timing]\nheartbeat_ms = 20\nelection_base_ms = 60\nelection_width_ms = 20\n";

/// Returns how often a test kills a node.
pub(crate) fn crashes() -> u64 {
    std::env::var("FIRSTSEEN_CRASHES").map_or(CRASHES, |text| text.parse().expect("a number"))
}

/// Call whose verdict on a key was first-seen.
#[derive(Clone, Copy)]
struct Answered {
    key: u64,
    began: Instant,
    ended: Instant,
}

/// Producer that submits new keys, and keys that have already been answered.
pub(crate) struct Producer {
    _client: Client,
    filter: Filter,
    next_key: u64,
    answered: Vec<Answered>,
    /// Keys that were first-seen a second time, with the time of the second verdict.
    forgotten: Vec<(Answered, Instant)>,
    undecided: BTreeMap<String, u64>,
}

impl Producer {
    /// Returns a producer whose first new key is `first_key`.
    pub(crate) fn new(client: Client, filter: Filter, first_key: u64) -> Self {
        Self {
            _client: client,
            filter,
            next_key: first_key,
            answered: Vec::new(),
            forgotten: Vec::new(),
            undecided: BTreeMap::new(),
        }
    }

    /// Returns the number of keys that were first-seen.
    pub(crate) fn answered(&self) -> usize {
        self.answered.len()
    }

    /// Returns how often a key was first-seen a second time.
    pub(crate) fn forgotten(&self) -> usize {
        self.forgotten.len()
    }

    /// Returns the keys that were first-seen.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.answered.iter().map(|answered| answered.key)
    }

    /// Submits keys of any producer, and returns the verdicts.
    pub(crate) fn verdicts(&self, keys: &[u64]) -> Vec<Verdict> {
        let verdicts = keys.chunks(BATCH_EVENTS as usize).map(|keys| {
            let events: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
            self.filter.observe_batch(&events).wait().expect("a call")
        });
        verdicts.flatten().collect()
    }

    fn submit(&mut self, keys: &[u64], are_old: usize) {
        let events: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let began = Instant::now();
        let verdicts = match self.filter.observe_batch(&events).wait() {
            Ok(verdicts) => verdicts,
            Err(error) => panic!("a call is refused: {error}"),
        };
        let ended = Instant::now();
        for (index, (key, verdict)) in keys.iter().zip(&verdicts).enumerate() {
            match verdict {
                Verdict::FirstSeen if index < are_old => {
                    let answered =
                        self.answered.iter_mut().find(|answered| answered.key == *key).expect("it has a reply");
                    self.forgotten.push((*answered, ended));
                    // From now on the key is remembered again.
                    *answered = Answered { key: *key, began, ended };
                }
                Verdict::FirstSeen | Verdict::Duplicate => {}
                Verdict::Undecided(reason) => *self.undecided.entry(format!("{reason:?}")).or_default() += 1,
            }
            if index >= are_old && *verdict == Verdict::FirstSeen {
                self.answered.push(Answered { key: *key, began, ended });
            }
        }
    }

    /// Submits a batch that contains new keys and keys that have been answered.
    pub(crate) fn go_on(&mut self) {
        let step = (self.answered.len() as u64 / (BATCH_EVENTS / 2)).max(1);
        let old = (0..BATCH_EVENTS / 2).filter_map(|index| self.answered.get((index * step) as usize));
        let mut keys: Vec<u64> = old.map(|answered| answered.key).collect();
        let are_old = keys.len();
        keys.extend(self.next_key..self.next_key + BATCH_EVENTS / 2);
        self.next_key += BATCH_EVENTS / 2;
        self.submit(&keys, are_old);
    }

    /// Submits every key that has been answered.
    pub(crate) fn submit_all(&mut self) {
        let keys: Vec<u64> = self.answered.iter().map(|answered| answered.key).collect();
        keys.chunks(BATCH_EVENTS as usize).for_each(|keys| self.submit(keys, keys.len()));
    }
}

/// Starts a node with a filter, and its producer.
fn start(durability: &str) -> (OwnNode, Producer) {
    let node = OwnNode::start("a", TIMING);
    let made = |flags: &str| node.folder.run(&format!("{flags} --cluster {}", node.address)).code == Some(0);
    eventually("a cluster", || node.folder.run(&format!("cluster init --addr {}", node.address)).code == Some(0));
    let create = format!("filter create clicks --if-absent --durability {durability} --capacity 4M --clock wall");
    eventually("a filter", || made(&create));
    let options = ConnectOptions { deadline_ms: DEADLINE_MS, ..ConnectOptions::from([node.address.clone()]) };
    let client = Client::connect(options).wait().expect("a client");
    let filter = opened(&client, "clicks");
    (node, Producer::new(client, filter, 0))
}

/// Waits until a node answers.
pub(crate) fn answers(node: &OwnNode) {
    let status = format!("cluster status --addr {}", node.address);
    eventually("a node that answers", || node.folder.run(&status).code == Some(0));
}

/// Kills a node again and again. Returns the times of the kills, and the producer.
fn run(durability: &str) -> (Vec<Instant>, Producer) {
    let (mut node, mut producer) = start(durability);
    let (ended, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let producing = std::thread::spawn({
        let (ended, answered) = (ended.clone(), answered.clone());
        move || {
            while !ended.load(Ordering::Relaxed) {
                producer.go_on();
                answered.store(producer.answered.len(), Ordering::Relaxed);
            }
            producer
        }
    });
    let mut killed = Vec::new();
    for crash in 0..crashes() {
        answers(&node);
        // In every other round the node has answered since its start, even on a slow machine.
        let before = answered.load(Ordering::Relaxed);
        eventually("a reply", || crash % 2 == 1 || answered.load(Ordering::Relaxed) > before);
        // The delay differs in each round. Some delays are longer than the interval after which data is saved.
        let long_ms = if crash % 10 == 5 { 1_500 } else { 0 };
        std::thread::sleep(Duration::from_millis(20 + crash * 37 % 200 + long_ms));
        killed.push(Instant::now());
        node.crash();
    }
    ended.store(true, Ordering::Relaxed);
    let mut producer = producing.join().expect("a producer");
    producer.submit_all();
    eprintln!(
        "{durability}: {} crashes, {} keys answered, {} forgotten, undecided {:?}",
        killed.len(),
        producer.answered.len(),
        producer.forgotten.len(),
        producer.undecided
    );
    (killed, producer)
}

#[test]
fn a_node_that_is_stopped_by_a_signal_writes_records_that_were_not_due_yet() {
    let (mut node, mut producer) = start("1h");
    (0..20).for_each(|_| producer.go_on());
    let answered = producer.answered.len();
    assert!(answered > 500, "{answered} keys");
    node.restart();
    answers(&node);
    producer.submit_all();
    assert_eq!(producer.forgotten.len(), 0, "of {answered}");
}

#[test]
fn crash_loop_of_a_durable_filter_forgets_nothing() {
    let (_, producer) = run("durable");
    assert!(producer.answered.len() as u64 > 10 * crashes(), "{} keys", producer.answered.len());
    assert_eq!(producer.forgotten.len(), 0);
}

#[test]
fn crash_loop_with_an_interval_forgets_no_more_than_that() {
    let (killed, producer) = run("200ms");
    assert!(producer.answered.len() as u64 > 10 * crashes(), "{} keys", producer.answered.len());
    for (answered, forgotten) in &producer.forgotten {
        let between = killed.iter().filter(|killed| (answered.began..*forgotten).contains(*killed));
        let after = between.map(|killed| killed.saturating_duration_since(answered.ended)).min();
        let after = after.expect("it was killed in between");
        assert!(after <= Duration::from_millis(200) + NOTED_WITHIN, "answered {after:?} before a crash");
    }
}
