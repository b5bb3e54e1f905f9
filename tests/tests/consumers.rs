//! Kills nodes, and consumers that share an input, again and again. Every event must be delivered at least once.
//!
//! The consumer in `examples/consumer.rs` makes an additional check after a restart: it first confirms the events that
//! are already in its output. With this check, every event must be delivered exactly once.
//!
//! A longer version of the test consists of four runs, each with 50 kills. The command for this version is
//! `FIRSTSEEN_KILLS=50 cargo test -p firstseen-tests --test all consumers -- --include-ignored`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::{Folder, Random};

/// Default number of consumers killed in a run.
const KILLS: u64 = 8;
const CONSUMERS: usize = 4;
/// Number of events in the input for each kill.
const EVENTS_A_KILL: usize = 600;
/// Time that each batch takes, so that all consumers have work to do.
const SLOW: &str = "--slow 15";
/// Maximum number of events that may be written and not confirmed, as in the example.
const BATCH_EVENTS: usize = 16;
/// Lease of a claim. It is longer than the restart of a consumer takes on a busy machine.
const LEASE: Duration = Duration::from_secs(20);
/// Number of times that a consumer may fail because the nodes of a busy machine do not answer in time.
const FAILURES_MAX: u32 = 3;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Settings with which a node starts fast, because the test restarts nodes often.
const TIMING: &str = "[timing]\nheartbeat_ms = 20\nelection_base_ms = 60\nelection_width_ms = 20\n";

fn events() -> usize {
    EVENTS_A_KILL * kills() as usize
}

fn kills() -> u64 {
    std::env::var("FIRSTSEEN_KILLS").map_or(KILLS, |text| text.parse().expect("a number"))
}

/// Cluster with a durable filter that allows claims, and an input.
struct Stage {
    nodes: Vec<OwnNode>,
    folder: Folder,
}

impl Stage {
    fn new(nodes: usize) -> Self {
        let nodes: Vec<OwnNode> = ["a", "b", "c"][..nodes].iter().map(|name| OwnNode::start(name, TIMING)).collect();
        let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
        let run = |command: &str| nodes[0].folder.run(command).code == Some(0);
        eventually("a cluster", || run(&format!("cluster form {form}")));
        let create = format!(
            "filter create clicks --if-absent --window 1h --clock wall --capacity 1M --fpr 1e-6 --durability durable \
             --slicing horizontal:{} --claims {}s --cluster {}",
            nodes.len(),
            LEASE.as_secs(),
            nodes[0].address
        );
        eventually("a filter", || run(&create));
        let events: String = (0..events()).map(|event| format!("event-{event}\n")).collect();
        Self { nodes, folder: Folder::with(events) }
    }

    fn addresses(&self) -> String {
        self.nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(",")
    }

    fn consumer(&self, addresses: &str, number: usize, flags: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consumer-under-test"));
        command.args([addresses, "clicks", "input", &format!("output-{number}")]).args(flags.split_whitespace());
        let log = File::options().create(true).append(true).open(self.folder.path(&format!("log-{number}")));
        let log = Stdio::from(log.expect("a file for its log"));
        command.current_dir(self.folder.path("")).stdout(Stdio::null()).stderr(log).spawn().expect("the example")
    }

    /// Returns the events that a consumer has written as complete lines.
    fn written(&self, number: usize) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path(&format!("output-{number}"))).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        text[..whole].lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }

    fn logs(&self) -> String {
        let log = |number| std::fs::read_to_string(self.folder.path(&format!("log-{number}"))).unwrap_or_default();
        (0..CONSUMERS).map(log).collect()
    }

    /// Returns how often each event was written by all consumers together.
    fn times(&self) -> BTreeMap<String, u64> {
        let mut times = BTreeMap::new();
        for event in (0..CONSUMERS).flat_map(|number| self.written(number)) {
            *times.entry(event).or_default() += 1;
        }
        times
    }

    /// Checks that every event was written. Returns the events that were written more than once.
    fn written_again(&self) -> BTreeSet<String> {
        let times = self.times();
        let never: Vec<usize> = (0..events()).filter(|event| !times.contains_key(&format!("event-{event}"))).collect();
        assert!(never.is_empty(), "{} events were lost: {:?}...", never.len(), &never[..never.len().min(9)]);
        assert_eq!(times.len(), events());
        times.into_iter().filter(|(_, times)| *times > 1).map(|(event, _)| event).collect()
    }
}

/// Runs a consumer, and kills and restarts it at random times while it writes. When the common budget of kills is used
/// up, the function waits until the consumer ends. Returns two values: the events for which a kill may have come
/// between the write and the confirmation, and the number of kills.
fn kill_repeatedly(
    stage: &Stage,
    addresses: &str,
    number: usize,
    flags: &str,
    kills: &AtomicU64,
) -> (BTreeSet<String>, u64) {
    let (mut open, mut killed, mut failed, mut rng) = (BTreeSet::new(), 0, 0, Random(number as u64));
    let left = || kills.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    loop {
        let before = stage.written(number).len();
        let mut consumer = stage.consumer(addresses, number, flags);
        let mut is_over = || consumer.try_wait().expect("its state").is_some();
        // The consumer is at work once it has written something. It is killed after a random delay, so at a different
        // point each time.
        eventually("a write, or the end", || stage.written(number).len() > before || is_over());
        std::thread::sleep(Duration::from_millis(rng.below(120)));
        if is_over() || !left() {
            let ended = consumer.wait().expect("its end");
            if ended.success() {
                return (open, killed);
            }
            // If no node answers in time, a consumer ends with an error and must be restarted.
            failed += 1;
            assert!(ended.code() == Some(1) && failed <= FAILURES_MAX, "{ended}: {}", stage.logs());
        } else {
            consumer.kill().expect("it was not waited for");
            consumer.wait().expect("its end");
            killed += 1;
        }
        open.extend(stage.written(number).into_iter().rev().take(BATCH_EVENTS));
    }
}

/// Runs consumers that are killed again and again. If `kills_nodes` is set, nodes are killed as well. Returns two sets
/// of events, which the caller compares:
///
/// - The first set contains the events that were written more than once.
/// - The second set contains the events that may be written more than once, because a consumer may have been killed
///   between the write and the confirmation.
fn run(flags: &str, kills_nodes: bool) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut stage = Stage::new(3);
    let (addresses, kills, ended) = (stage.addresses(), AtomicU64::new(kills()), AtomicBool::new(false));
    let mut nodes = std::mem::take(&mut stage.nodes);
    let stage = stage;
    let open = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|number| {
                let (stage, addresses, kills) = (&stage, &addresses, &kills);
                scope.spawn(move || kill_repeatedly(stage, addresses, number, flags, kills))
            })
            .collect();
        let crashes = scope.spawn(|| {
            let mut crashes = 0;
            while kills_nodes && !ended.load(Ordering::Relaxed) && kills.load(Ordering::Relaxed) > 0 {
                std::thread::sleep(Duration::from_millis(400 + 311 * crashes % 900));
                nodes[crashes as usize % 3].crash();
                crashes += 1;
                // A node that starts grants no claims for as long as a lease, so the other consumers continue in the
                // meantime.
                let is_over = || ended.load(Ordering::Relaxed) || kills.load(Ordering::Relaxed) == 0;
                (0..LEASE.as_millis() / 100).take_while(|_| !is_over()).for_each(|_| std::thread::sleep(POLL_INTERVAL));
            }
            crashes
        });
        let (mut open, mut killed) = (BTreeSet::new(), 0);
        for consumer in consumers {
            let (of_one, times) = consumer.join().expect("a consumer");
            open.extend(of_one);
            killed += times;
        }
        ended.store(true, Ordering::Relaxed);
        let crashes = crashes.join().expect("the crashes");
        assert_eq!(crashes > 0, kills_nodes);
        eprintln!("{flags}: {killed} consumers were killed at work, nodes crashed {crashes} times");
        assert!(killed > self::kills() / 2, "{killed} kills");
        open
    });
    let again = stage.written_again();
    eprintln!("{flags}: {} events written again of {} that may have been", again.len(), open.len());
    (again, open)
}

#[test]
#[ignore = "minutes"]
fn consumers_that_confirm_what_they_have_written_deliver_each_event_once() {
    let (again, _) = run(SLOW, false);
    assert_eq!(again, BTreeSet::new());
}

#[test]
fn consumers_that_confirm_what_they_have_written_deliver_each_event_once_though_nodes_crash() {
    let (again, _) = run(SLOW, true);
    assert_eq!(again, BTreeSet::new());
}

#[test]
fn consumers_that_forget_what_they_have_written_deliver_that_again_and_nothing_else() {
    let (again, open) = run("--forget-tail --slow 15", false);
    assert!(again.is_subset(&open), "{again:?}");
}

#[test]
#[ignore = "minutes"]
fn consumers_that_forget_what_they_have_written_deliver_that_again_and_nothing_else_though_nodes_crash() {
    let (again, open) = run("--forget-tail --slow 15", true);
    assert!(again.is_subset(&open), "{again:?}");
}

/// Stops a consumer between a write and its confirmation for longer than its lease, so that another consumer can claim
/// the same events. When the stopped consumer continues, its confirmations must fail, so that it learns that it no
/// longer holds the events.
#[test]
fn a_consumer_that_is_stopped_for_longer_than_its_lease_is_told_so() {
    let stage = Stage::new(1);
    let addresses = stage.addresses();
    let mut stopped = stage.consumer(&addresses, 0, "--slow 1000");
    eventually("a write", || !stage.written(0).is_empty());
    let process = Pid::from_raw(i32::try_from(stopped.id()).expect("a process id"));
    kill(process, Signal::SIGSTOP).expect("it runs");
    let mut other = stage.consumer(&addresses, 1, "");
    assert!(other.wait().expect("its end").success(), "{}", stage.logs());
    let open: BTreeSet<String> = stage.written(0).into_iter().rev().take(BATCH_EVENTS).collect();
    kill(process, Signal::SIGCONT).expect("it is there");
    assert!(stopped.wait().expect("its end").success(), "{}", stage.logs());
    let again = stage.written_again();
    assert_eq!(again, open, "what was written and not confirmed when it stopped");
    let log = stage.logs();
    assert_eq!(log.matches("the lease has ended (Recorded)").count(), open.len(), "{log}");
}

/// Stops a consumer for longer than its lease while no other consumer claims its events. When the consumer continues,
/// it must still be able to confirm the events, however late this is.
#[test]
fn a_consumer_that_is_stopped_and_missed_by_nobody_confirms() {
    let stage = Stage::new(1);
    stage.folder.write("input", (0..BATCH_EVENTS).map(|event| format!("event-{event}\n")).collect::<String>());
    let mut stopped = stage.consumer(&stage.addresses(), 0, "--slow 1000");
    eventually("a write", || !stage.written(0).is_empty());
    let process = Pid::from_raw(i32::try_from(stopped.id()).expect("a process id"));
    kill(process, Signal::SIGSTOP).expect("it runs");
    std::thread::sleep(LEASE + LEASE / 8);
    kill(process, Signal::SIGCONT).expect("it is there");
    assert!(stopped.wait().expect("its end").success(), "{}", stage.logs());
    assert_eq!((stage.written(0).len(), stage.logs()), (BATCH_EVENTS, String::new()));
}
