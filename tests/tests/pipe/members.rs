//! Tests groups whose members come and go, and members that the group has given up.

use nix::sys::signal::Signal;

use crate::local_cluster::{eventually, eventually_eq};
use crate::run::Random;

use super::broker::Kafka;
use super::case::Case;
use super::judge::Faults;
use super::process::Pipe;
use super::workload::{Shape, Workload};

const PARTITIONS: u32 = 4;
const SHAPE: Shape = Shape { partitions: PARTITIONS, records: 20_000, keys: 2_000, epochs: 1 };
/// Records that are written before each look at the group.
const CHUNK: u64 = 100;
/// Records that the group must process between two changes of its members.
const BETWEEN_CHANGES: u64 = 500;
/// Number of records that may wait in the input. With small batches the pipes deliver a few hundred a second, and at the end
/// they must deliver all of them.
const WAITING_MAX: u64 = 5_000;

struct Member {
    pipe: Pipe,
    /// Number of its folder of checkpoints.
    folder: u32,
}

/// Group under load.
struct Load {
    case: Case,
    workload: Workload,
    members: Vec<Member>,
    seed: u64,
    /// Number of records that were written.
    written: u64,
}

impl Load {
    fn new(kafka: &Kafka, seed: u64) -> Self {
        let case = Case::new(kafka, PARTITIONS).with("--batch 50");
        Self { case, workload: Workload::new(seed, SHAPE), members: Vec::new(), seed, written: 0 }
    }

    /// Starts a member. It may find checkpoints of an earlier member, which had other partitions.
    fn join(&mut self) {
        let is_free = |folder: &u32| self.members.iter().all(|member| member.folder != *folder);
        let folder = (0..).find(is_free).expect("a folder");
        let pipe = self.case.start_with(&["--state", &format!("state-{folder}")], &[]);
        self.members.push(Member { pipe, folder });
    }

    /// Writes records unless many wait, and checks that no member has ended on its own.
    fn write(&mut self) {
        if self.written < self.case.processed() + WAITING_MAX {
            let records = self.workload.next(CHUNK);
            self.written += records.len() as u64;
            self.case.write(&records);
        }
        for Member { pipe, .. } in &mut self.members {
            assert!(pipe.is_running(), "a member ended: {}", pipe.errors());
        }
    }

    /// Writes records until `members` members own all partitions and the group has processed a good deal since then.
    fn run_with(&mut self, members: usize) {
        let wanted = ("Stable".to_owned(), members, u64::from(PARTITIONS));
        eventually_eq("state, members and partitions of the group", wanted, || {
            self.write();
            let group = self.case.client.group(&self.case.group);
            (group.state, group.owned.len(), group.owned.iter().sum())
        });
        let enough = self.case.processed() + BETWEEN_CHANGES;
        eventually("progress", || {
            self.write();
            self.case.processed() >= enough
        });
    }

    /// Ends all members, drains the input, and judges the output.
    fn end(mut self) {
        let mut log = String::new();
        for member in std::mem::take(&mut self.members) {
            log.push_str(&member.pipe.end().stopped().err);
        }
        log.push_str(&self.case.drain().err);
        let faults = self.case.judge();
        let again = "cargo test -p firstseen-tests --features kafka --test all pipe::members -- --include-ignored";
        assert!(faults.is_empty(), "seed {}: {faults}\n{log}\nagain: {again}", self.seed);
    }
}

/// Lets a second pipe join and leave, by an orderly end or by a kill.
fn change_members(kafka: &Kafka, seed: u64, changes: u32) {
    let random = &mut Random(seed);
    let mut load = Load::new(kafka, seed);
    load.join();
    load.run_with(1);
    for change in 0..changes {
        if load.members.len() == 1 {
            load.join();
            load.run_with(2);
            continue;
        }
        let leaving = load.members.remove(usize::try_from(random.below(2)).expect("a small number")).pipe;
        if random.below(2) == 0 {
            leaving.end().stopped();
        } else {
            assert!(leaving.kill().is_killed(), "change {change}");
        }
        load.run_with(1);
    }
    load.end();
}

#[test]
fn members_come_and_go() {
    let Some(kafka) = Kafka::shared() else { return };
    change_members(kafka, 1, 6);
}

#[test]
#[ignore = "30 changes of members take minutes"]
fn members_come_and_go_30_times() {
    let Some(kafka) = Kafka::shared() else { return };
    change_members(kafka, 2, 30);
}

/// A pipe that does not run for longer than its session is replaced. What it sends when it runs again must not count.
#[test]
fn a_suspended_pipe_is_replaced_and_returns() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut load = Load::new(kafka, 3);
    load.join();
    load.run_with(1);
    load.members[0].pipe.signal(Signal::SIGSTOP);
    load.join();
    // The successor is the only member as soon as the session of the first one has expired.
    load.run_with(1);
    load.members[0].pipe.signal(Signal::SIGCONT);
    load.run_with(2);
    load.end();
}

#[test]
#[ignore = "Kafka 4.4 itself can fail: killed after it decided to commit, it completed transactions without their markers"]
fn a_killed_broker_delays_but_does_not_repeat() {
    let Some(mut kafka) = Kafka::start() else { return };
    let mut load = Load::new(&kafka, 4);
    load.join();
    load.join();
    for _ in 0..2 {
        load.run_with(2);
        kafka.kill();
        kafka.start_again();
    }
    load.run_with(2);
    load.end();
}

/// Result of a suspension.
pub(super) struct Suspended {
    pub(super) faults: Faults,
    /// Error output of the pipe, if it ended instead of joining the group again.
    pub(super) ended: Option<String>,
}

/// Suspends a pipe within a batch until a successor has taken over, and then lets it continue. `point` is a step in the
/// form of `FIRSTSEEN_PIPE_STOP_AT`, and `transaction_ms` is the time after which the broker aborts a transaction.
pub(super) fn suspend(kafka: &Kafka, point: &str, transaction_ms: u32, variables: &[(&str, String)]) -> Suspended {
    let shape = Shape { partitions: 1, records: 2_000, keys: 2_000, epochs: 1 };
    let mut case = Case::new(kafka, shape.partitions).with("--batch 100");
    let properties =
        format!("session.timeout.ms=1500\nheartbeat.interval.ms=300\ntransaction.timeout.ms={transaction_ms}\n");
    case.folder.write("kafka.properties", properties);
    case.write(&Workload::new(6, shape).rest());
    let stop = ("FIRSTSEEN_PIPE_STOP_AT", point.to_owned());
    let mut pipe = case.start_with(&[], &[variables, &[stop]].concat());
    eventually("the suspension", || pipe.is_suspended());
    let successor = case.start_with(&["--until-end"], variables);
    successor.wait().ok();
    pipe.signal(Signal::SIGCONT);
    eventually("the return of the pipe", || !pipe.is_running() || case.client.group(&case.group).owned == [1]);
    let ended = if pipe.is_running() {
        pipe.end().stopped();
        None
    } else {
        Some(pipe.errors())
    };
    Suspended { faults: case.judge(), ended }
}

/// The membership of the group fences a suspended pipe while its transaction is open. Afterwards the broker has aborted
/// the transaction. In both cases the pipe continues as a member of the group.
#[test]
fn a_pipe_that_is_suspended_within_a_batch_returns() {
    let Some(kafka) = Kafka::shared() else { return };
    for (point, transaction_ms) in [
        ("after-test:3", 20_000),
        ("after-produce:3", 20_000),
        ("after-produce:3", 1_500),
        ("after-offsets:3", 1_500),
        ("after-commit:3", 1_500),
    ] {
        let Suspended { faults, ended } = suspend(kafka, point, transaction_ms, &[]);
        assert!(faults.is_empty(), "{point}: {faults}");
        assert_eq!(ended, None, "{point}: the pipe did not join the group again");
    }
}

/// A run to the end of the input loses its partitions for a while, because the machine was suspended. It must not take
/// that for the end.
#[test]
fn a_run_to_the_end_continues_after_a_suspension() {
    let Some(kafka) = Kafka::shared() else { return };
    let shape = Shape { partitions: 2, records: 6_000, keys: 500, epochs: 1 };
    let mut case = Case::new(kafka, shape.partitions).with("--batch 50 --until-end");
    case.write(&Workload::new(5, shape).rest());
    let pipe = case.start_with(&[], &[]);
    eventually("progress", || case.processed() >= 200);
    pipe.signal(Signal::SIGSTOP);
    eventually_eq("members of the group", Vec::new(), || case.client.group(&case.group).owned);
    assert!(case.processed() < shape.records, "the pipe was suspended too late");
    pipe.signal(Signal::SIGCONT);
    let ended = pipe.wait().ok();
    assert_eq!(case.processed(), shape.records, "{}", ended.err);
    let faults = case.judge();
    assert!(faults.is_empty(), "{faults}");
}
