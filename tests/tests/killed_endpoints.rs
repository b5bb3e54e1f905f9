//! Tests of the Redis and HTTP endpoints in which nodes are killed before they have sent all of their replies. In some
//! rounds, the test kills the node of the endpoint itself, and in others another node of the cluster.
//!
//! Three producers send the same events at the same time, each with its own idempotency keys. If an event is undecided
//! or gets no reply, its producer sends it again with the same key. At the end, all replies must satisfy the
//! consistency rules of the simulation.
//!
//! Each producer sends several commands at once, as a pipeline. No two commands of a pipeline expect the same reply. If
//! a reply is lost or is assigned to the wrong command, the producer therefore receives a reply that it does not
//! expect. The trait [`Pipeline`] hides the differences between the Redis protocol and HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use firstseen_checker::history::Call;
use firstseen_client::{Reason, SubmissionName, Verdict};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::redis_history::{Kept, asked, broken, is_back, is_undecided};
use crate::run::Random;

const PRODUCERS: u64 = 3;
/// Number of events in a command with an idempotency key.
pub(crate) const EVENTS: u64 = 20;
/// Number of events that get a verdict before the test does something to the cluster.
const BETWEEN: u64 = 2_000;

/// Numbers of events that do not occur in any command with an idempotency key.
const OWN: u64 = 1 << 40;
const NEVER: u64 = 1 << 41;

/// Shared state of the producers and the test.
#[derive(Default)]
pub(crate) struct Progress {
    decided: AtomicU64,
    undecided: AtomicU64,
    /// Number of pipelines that ended in the middle.
    cut: AtomicU64,
    pub(crate) is_over: AtomicBool,
}

impl Progress {
    pub(crate) fn tell(&self, verdict: &Verdict) {
        let count = if is_undecided(verdict) { &self.undecided } else { &self.decided };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    fn goes_on(&self, what: &str) {
        let before = self.decided.load(Ordering::Relaxed);
        eventually(what, || self.decided.load(Ordering::Relaxed) > before + BETWEEN);
    }
}

/// Guard that ends the producers, even if the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Four commands that a producer sends together. The first command observes events with an idempotency key, and its
/// verdicts depend on the other producers. The replies to the other three commands are known in advance, because they
/// depend on nothing but this group. They show whether each reply arrives in the right place.
pub(crate) struct Group {
    pub(crate) command: u64,
    /// Number of the producer.
    pub(crate) source: u64,
    /// Token that is different in each group.
    pub(crate) token: u64,
    /// Indices of the group's calls in the history, which have no verdicts yet.
    calls: usize,
}

impl Group {
    pub(crate) fn events(&self) -> Range<u64> {
        self.command * EVENTS..(self.command + 1) * EVENTS
    }

    /// Returns an event that no other group has.
    pub(crate) fn own(&self) -> String {
        format!("own-{}", self.token)
    }

    /// Returns an event that is never recorded.
    pub(crate) fn never(&self) -> String {
        format!("never-{}", self.token)
    }
}

/// Returns the name of an event. The name is long enough that a pipeline arrives at the endpoint in several parts.
pub(crate) fn item(event: u64) -> String {
    format!("event-{event:040}")
}

/// Connection of a producer, which sends groups of four commands:
///
/// - The first command observes the events of the group with an idempotency key.
/// - The second command looks up the first of these events.
/// - The third command observes the event [`Group::own`], which no other group contains.
/// - The fourth command looks up the event [`Group::never`], which is never recorded.
///
/// A method returns `None` if the connection has ended.
pub(crate) trait Pipeline: Sized + Send {
    /// Number of commands in a pipeline for which the producer has no final verdict yet. The number is so large that
    /// the endpoint cannot read the whole pipeline at once. The endpoint therefore sends the first replies while later
    /// commands still wait to be read, and a kill can cut the pipeline in the middle.
    const COMMANDS: usize;
    /// Number of commands in a pipeline that already have a verdict.
    const AGAIN: usize;

    fn connect(port: u16) -> Self;
    /// Writes the commands of a group.
    fn write(group: &Group, bytes: &mut Vec<u8>);
    /// Sends a pipeline. Returns the thread that does so, if there is one.
    fn send(&mut self, bytes: Vec<u8>) -> Option<Option<JoinHandle<()>>>;
    fn observed(&mut self) -> Option<Vec<Verdict>>;
    fn found(&mut self, group: &Group) -> Option<Verdict>;
    fn own(&mut self) -> Option<Verdict>;
    fn never(&mut self) -> Option<Verdict>;
}

struct Producer<'a, P> {
    /// Port of the endpoint that the producer normally uses, and port of the endpoint for commands that were not
    /// answered.
    ports: [u16; 2],
    kept: Kept,
    source: u64,
    begun: Instant,
    progress: &'a Progress,
    connection: Option<P>,
    was_cut: bool,
    rng: Random,
    /// Number of commands that were begun, commands without a verdict on each event, and number of groups that were
    /// sent.
    commands: u64,
    open: BTreeSet<u64>,
    tokens: u64,
    calls: Vec<Call>,
}

impl<P: Pipeline> Producer<'_, P> {
    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).expect("a short test")
    }

    fn run(mut self) -> Vec<Call> {
        while !self.progress.is_over.load(Ordering::Relaxed) {
            let mut batch: Vec<u64> = self.open.iter().copied().take(P::COMMANDS).collect();
            while batch.len() < P::COMMANDS {
                batch.push(self.commands);
                self.open.insert(self.commands);
                self.commands += 1;
            }
            for _ in 0..P::AGAIN {
                batch.push(self.rng.below(self.commands));
            }
            self.submit(&batch);
        }
        eventually("a verdict on everything", || {
            let batch: Vec<u64> = self.open.iter().copied().take(P::COMMANDS).collect();
            self.submit(&batch);
            self.open.is_empty()
        });
        // All commands are sent once more, as a client does that has lost the replies.
        let all: Vec<u64> = (0..self.commands).collect();
        all.chunks(P::COMMANDS).for_each(|batch| self.submit(batch));
        self.calls
    }

    fn submit(&mut self, batch: &[u64]) {
        let is_detour = std::mem::take(&mut self.was_cut);
        let [endpoint, other] = self.ports;
        let kept = self.connection.take().filter(|_| !is_detour);
        let mut connection = kept.unwrap_or_else(|| P::connect(if is_detour { other } else { endpoint }));
        let mut bytes = Vec::new();
        let groups: Vec<Group> = batch.iter().map(|command| self.begin(*command, &mut bytes)).collect();
        self.was_cut = true;
        let Some(sending) = connection.send(bytes) else { return };
        let unanswered = groups.iter().position(|group| self.hear(&mut connection, group).is_none());
        if let Some(place) = unanswered {
            // If no reply has arrived, the pipeline may not have been read at all, so it does not count as cut.
            if place > 0 {
                self.progress.note_cut();
            }
        } else {
            self.was_cut = false;
        }
        let _ = sending.map(JoinHandle::join);
        self.connection = Some(connection).filter(|_| unanswered.is_none() && !is_detour);
    }

    /// Adds a group to a pipeline, and its calls to the history.
    fn begin(&mut self, command: u64, bytes: &mut Vec<u8>) -> Group {
        let token = self.tokens * PRODUCERS + self.source;
        self.tokens += 1;
        let group = Group { command, source: self.source, token, calls: self.calls.len() };
        let began_us = self.now_us();
        for event in group.events() {
            let name = Some(SubmissionName { source: self.source.into(), number: event });
            self.calls.push(asked(self.source, event, (false, name), began_us));
        }
        self.calls.push(asked(self.source, group.events().start, (true, None), began_us));
        self.calls.push(asked(self.source, OWN + token, (false, None), began_us));
        self.calls.push(asked(self.source, NEVER + token, (true, None), began_us));
        P::write(&group, bytes);
        group
    }

    /// Reads the replies to a group. Returns `None` if the connection ends before the last reply.
    fn hear(&mut self, connection: &mut P, group: &Group) -> Option<()> {
        let verdicts = connection.observed()?;
        self.end(group.calls, &verdicts);
        let found = connection.found(group)?;
        let was_decided = verdicts.first().is_some_and(|verdict| !is_undecided(verdict));
        assert!(!was_decided || found != Verdict::FirstSeen, "what was just recorded is seen: {verdicts:?}");
        let others = group.calls + EVENTS as usize;
        self.end(others, &[found]);
        let own = connection.own()?;
        self.end(others + 1, &[own]);
        let never = connection.never()?;
        self.end(others + 2, &[never]);
        // A filter in memory may forget an idempotency key. The client then learns that the outcome is unknown.
        let is_final = |verdict: &Verdict| {
            !is_undecided(verdict) || (self.kept == Kept::InMemory && *verdict == Verdict::Undecided(Reason::TooOld))
        };
        if verdicts.iter().all(is_final) {
            self.open.remove(&group.command);
        }
        Some(())
    }

    fn end(&mut self, first: usize, verdicts: &[Verdict]) {
        let now_us = self.now_us();
        for (call, verdict) in self.calls[first..].iter_mut().zip(verdicts) {
            call.returned_us = Some(now_us);
            call.verdict = Some(*verdict);
            self.progress.tell(verdict);
        }
    }
}

/// Runs producers that send events to endpoints at these ports while nodes are killed, and checks the replies.
pub(crate) fn producers_outlast_kills<P: Pipeline>(kept: Kept, ports: [u16; 2], nodes: &mut [OwnNode; 3], seed: u64) {
    println!("{kept:?}, seed {seed}");
    let begun = Instant::now();
    let progress = Progress::default();
    let calls = thread::scope(|scope| {
        let over = Over(&progress.is_over);
        let producers = (0..PRODUCERS).map(|source| {
            let producer = Producer::<P> {
                ports,
                kept,
                source,
                begun,
                progress: &progress,
                connection: None,
                was_cut: false,
                rng: Random(seed + source),
                commands: 0,
                open: BTreeSet::new(),
                tokens: 0,
                calls: Vec::new(),
            };
            scope.spawn(|| producer.run())
        });
        let producers: Vec<_> = producers.collect();
        kill_nodes(kept, nodes, &progress);
        drop(over);
        producers.into_iter().flat_map(|producer| producer.join().expect("a producer")).collect::<Vec<Call>>()
    });
    judge(kept, calls);
}

/// Returns for each event which submissions were told that the event is new, and which submissions got any verdict.
fn winners(calls: &[Call]) -> BTreeMap<u64, (BTreeSet<u128>, BTreeSet<u128>)> {
    let mut winners: BTreeMap<u64, (BTreeSet<u128>, BTreeSet<u128>)> = BTreeMap::new();
    for call in calls {
        let Some(name) = call.name else { continue };
        let (won, told) = winners.entry(call.event).or_default();
        if call.won() {
            won.insert(name.source);
        }
        if call.verdict.as_ref().is_some_and(|verdict| !is_undecided(verdict)) {
            told.insert(name.source);
        }
    }
    winners
}

/// Kills a node that has no endpoint, and then kills the endpoint's own node until that has cut a pipeline in the
/// middle.
pub(crate) fn kill_nodes(kept: Kept, nodes: &mut [OwnNode; 3], progress: &Progress) {
    progress.goes_on("producers at work");
    let undecided = progress.undecided.load(Ordering::Relaxed);
    nodes[2].kill();
    if kept == Kept::OnDisk {
        // The endpoint stays available, and reports events of the missing slices as undecided.
        eventually("a node that is missed", || progress.undecided.load(Ordering::Relaxed) > undecided);
    }
    progress.goes_on("producers without a node");
    nodes[2].start_again();
    eventually("what the node had", || is_back(&nodes[2], &nodes[1]));
    for _ in 0..10 {
        progress.goes_on("producers before the endpoint is killed");
        nodes[0].kill();
        nodes[0].start_again();
        eventually("what the endpoint's node had", || is_back(&nodes[0], &nodes[1]));
        if progress.cut.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    progress.goes_on("producers in the end");
    assert!(progress.cut.load(Ordering::Relaxed) > 0, "no pipeline was cut in the middle");
}

pub(crate) fn judge(kept: Kept, calls: Vec<Call>) {
    let winners = winners(&calls);
    let count = |is_so: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| is_so(call)).count();
    let unanswered = count(&|call| call.verdict.is_none());
    let undecided = count(&|call| call.verdict.as_ref().is_some_and(is_undecided));
    let forgotten = count(&|call| call.verdict == Some(Verdict::Undecided(Reason::TooOld)));
    println!(
        "{} calls about {} events: {unanswered} without an answer, {undecided} undecided, {forgotten} of them TooOld",
        calls.len(),
        winners.len()
    );
    assert!(unanswered > 0, "no reply was in flight");
    let law = broken(calls);
    assert!(law.is_empty(), "{} laws are broken: {:#?}", law.len(), &law[..law.len().min(5)]);
    // If idempotency keys may be forgotten, a submission whose outcome is unknown may be the one that recorded the
    // event.
    let is_lost = |(won, told): &&(BTreeSet<u128>, BTreeSet<u128>)| {
        won.is_empty() && (kept == Kept::OnDisk || told.len() as u64 == PRODUCERS)
    };
    assert_eq!(winners.values().filter(is_lost).count(), 0, "of some events everybody was told that others have them");
    assert!(winners.len() as u64 > BETWEEN / PRODUCERS, "hardly anything was asked");
}
