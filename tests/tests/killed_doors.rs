//! Doors while nodes are killed with replies in flight: another node than the door's, and the door's own.
//!
//! Three producers send the same events at once, each under names of its own, by pipelines in which each reply has a meaning that
//! no other has. What is undecided, or never answered, is sent again under the same name. In the end the laws of the simulation
//! judge all that was said. [`Pipeline`] is the protocol of the door.

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
/// Events of a command with a name.
pub(crate) const EVENTS: u64 = 20;
/// Events with a verdict before something is done to the cluster.
const BETWEEN: u64 = 2_000;

/// Numbers of events that no command with a name has.
const OWN: u64 = 1 << 40;
const NEVER: u64 = 1 << 41;

/// What producers and the test know of each other.
#[derive(Default)]
pub(crate) struct Progress {
    decided: AtomicU64,
    undecided: AtomicU64,
    /// Pipelines that ended in the middle.
    cut: AtomicU64,
    pub(crate) is_over: AtomicBool,
}

impl Progress {
    pub(crate) fn tell(&self, verdict: &Verdict) {
        let count = if is_undecided(verdict) { &self.undecided } else { &self.decided };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tell_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    fn goes_on(&self, what: &str) {
        let before = self.decided.load(Ordering::Relaxed);
        eventually(what, || self.decided.load(Ordering::Relaxed) > before + BETWEEN);
    }
}

/// Ends the producers, also if the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The commands that are sent for one command with a name: its events, and what shows whether replies are where they belong.
pub(crate) struct Group {
    pub(crate) command: u64,
    /// The producer.
    pub(crate) source: u64,
    /// Different in each group that is sent.
    pub(crate) token: u64,
    /// The places of its calls in the history, where they have no verdicts yet.
    calls: usize,
}

impl Group {
    pub(crate) fn events(&self) -> Range<u64> {
        self.command * EVENTS..(self.command + 1) * EVENTS
    }

    /// An event that no other group has.
    pub(crate) fn own(&self) -> String {
        format!("own-{}", self.token)
    }

    /// An event that nobody ever records.
    pub(crate) fn never(&self) -> String {
        format!("never-{}", self.token)
    }
}

/// Long enough that a pipeline comes to the door in several parts.
pub(crate) fn item(event: u64) -> String {
    format!("event-{event:040}")
}

/// A connection of a producer. Each group is four commands: one that observes its events under its name, one that looks up the first
/// of them, one that observes [`Group::own`], and one that looks up [`Group::never`]. Replies are `None` once the connection has ended.
pub(crate) trait Pipeline: Sized + Send {
    /// Commands in a pipeline that are new or go on. A pipeline is longer than what the door reads at once, so replies come while
    /// commands wait.
    const COMMANDS: usize;
    /// Commands in a pipeline that have a verdict already.
    const AGAIN: usize;

    fn connect(port: u16) -> Self;
    /// Writes the commands of a group.
    fn write(group: &Group, bytes: &mut Vec<u8>);
    /// Sends a pipeline, and returns the thread that does, if there is one.
    fn send(&mut self, bytes: Vec<u8>) -> Option<Option<JoinHandle<()>>>;
    fn observed(&mut self) -> Option<Vec<Verdict>>;
    fn found(&mut self, group: &Group) -> Option<Verdict>;
    fn own(&mut self) -> Option<Verdict>;
    fn never(&mut self) -> Option<Verdict>;
}

struct Producer<'a, P> {
    /// Of the door that it uses, and of the one to which it turns with what that has not answered.
    ports: [u16; 2],
    kept: Kept,
    source: u64,
    begun: Instant,
    progress: &'a Progress,
    connection: Option<P>,
    was_cut: bool,
    dice: Random,
    /// Commands that were begun, those among them without a verdict on each event, and groups that were sent.
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
                batch.push(self.dice.below(self.commands));
            }
            self.submit(&batch);
        }
        eventually("a verdict on everything", || {
            let batch: Vec<u64> = self.open.iter().copied().take(P::COMMANDS).collect();
            self.submit(&batch);
            self.open.is_empty()
        });
        // All of it once more, as somebody does who has forgotten what it was told.
        let all: Vec<u64> = (0..self.commands).collect();
        all.chunks(P::COMMANDS).for_each(|batch| self.submit(batch));
        self.calls
    }

    fn submit(&mut self, batch: &[u64]) {
        let is_detour = std::mem::take(&mut self.was_cut);
        let [door, other] = self.ports;
        let kept = self.connection.take().filter(|_| !is_detour);
        let mut connection = kept.unwrap_or_else(|| P::connect(if is_detour { other } else { door }));
        let mut bytes = Vec::new();
        let groups: Vec<Group> = batch.iter().map(|command| self.begin(*command, &mut bytes)).collect();
        self.was_cut = true;
        let Some(sending) = connection.send(bytes) else { return };
        let unanswered = groups.iter().position(|group| self.hear(&mut connection, group).is_none());
        if let Some(place) = unanswered {
            // If nothing has come, it may not have been read.
            if place > 0 {
                self.progress.tell_cut();
            }
        } else {
            self.was_cut = false;
        }
        let _ = sending.map(JoinHandle::join);
        self.connection = Some(connection).filter(|_| unanswered.is_none() && !is_detour);
    }

    /// Puts a group into a pipeline, and its calls into the history.
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

    /// Reads the replies to a group. `None` means that the connection has ended before the last one.
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
        // A name may be forgotten where that is all that is promised: then whoever sent it knows that it does not know.
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

/// Has producers send events to doors at these ports while nodes are killed, and judges what they were told.
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
                dice: Random(seed + source),
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

/// Which submissions of each event were told that it is new, and which were told anything.
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

/// Kills another node than the door's, and the door's own until that has cut a pipeline in the middle.
pub(crate) fn kill_nodes(kept: Kept, nodes: &mut [OwnNode; 3], progress: &Progress) {
    progress.goes_on("producers at work");
    let undecided = progress.undecided.load(Ordering::Relaxed);
    nodes[2].kill();
    if kept == Kept::OnDisk {
        // The door stays open, and says of what it misses that it is undecided.
        eventually("a node that is missed", || progress.undecided.load(Ordering::Relaxed) > undecided);
    }
    progress.goes_on("producers without a node");
    nodes[2].start_again();
    eventually("what the node had", || is_back(&nodes[2], &nodes[1]));
    for _ in 0..10 {
        progress.goes_on("producers before the door is killed");
        nodes[0].kill();
        nodes[0].start_again();
        eventually("what the door's node had", || is_back(&nodes[0], &nodes[1]));
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
    // Where names may be forgotten, a submission that does not know is not told that others have the event.
    let is_lost = |(won, told): &&(BTreeSet<u128>, BTreeSet<u128>)| {
        won.is_empty() && (kept == Kept::OnDisk || told.len() as u64 == PRODUCERS)
    };
    assert_eq!(winners.values().filter(is_lost).count(), 0, "of some events everybody was told that others have them");
    assert!(winners.len() as u64 > BETWEEN / PRODUCERS, "hardly anything was asked");
}
