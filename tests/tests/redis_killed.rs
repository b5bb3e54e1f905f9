//! The door while nodes are killed with replies in flight: another node than the door's, and the door's own.
//!
//! Three producers send the same events at once, each under names of its own, by pipelines in which each reply has a meaning that
//! no other has. What is undecided, or never answered, is sent again under the same name. In the end the laws of the simulation
//! judge all that was said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use firstseen_checker::history::Call;
use firstseen_client::{Reason, SubmissionName, Verdict};
use redis::{Cmd, Connection, Value};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::redis_chaos::{connect, formed};
use crate::redis_history::{Kept, asked, broken, is_back, is_undecided, verdict_of};
use crate::run::Random;

const PRODUCERS: u64 = 3;
/// Items of a command, commands in a pipeline that are new or go on, and commands in it that have a verdict already. A pipeline is
/// longer than what the door reads at once, so replies come while commands wait.
const ITEMS: u64 = 20;
const COMMANDS: usize = 120;
const AGAIN: usize = 10;
/// Items with a verdict before something is done to the cluster.
const BETWEEN: u64 = 2_000;
/// Longer than any machine takes for one reply.
const PATIENCE: Duration = Duration::from_secs(120);
const SEED: u64 = 11;

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

/// Ends the producers, also where the test has failed.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The commands that are sent for one command with a name: its events, and what shows whether replies are where they belong.
struct Group {
    command: u64,
    /// Different in each group that is sent.
    token: u64,
    /// The places of its calls in the history, where they have no verdicts yet.
    calls: usize,
}

struct Producer<'a> {
    /// Of the door that it uses, and of the one to which it turns with what that has not answered.
    ports: [u16; 2],
    kept: Kept,
    source: u64,
    begun: Instant,
    progress: &'a Progress,
    connection: Option<Connection>,
    was_cut: bool,
    dice: Random,
    /// Commands that were begun, those among them without a verdict on each item, and groups that were sent.
    commands: u64,
    open: BTreeSet<u64>,
    tokens: u64,
    calls: Vec<Call>,
}

impl Producer<'_> {
    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).expect("a short test")
    }

    fn run(mut self) -> Vec<Call> {
        while !self.progress.is_over.load(Ordering::Relaxed) {
            let mut batch: Vec<u64> = self.open.iter().copied().take(COMMANDS).collect();
            while batch.len() < COMMANDS {
                batch.push(self.commands);
                self.open.insert(self.commands);
                self.commands += 1;
            }
            for _ in 0..AGAIN {
                batch.push(self.dice.below(self.commands));
            }
            self.submit(&batch);
        }
        eventually("a verdict on everything", || {
            let batch: Vec<u64> = self.open.iter().copied().take(COMMANDS).collect();
            self.submit(&batch);
            self.open.is_empty()
        });
        // All of it once more, as somebody does who has forgotten what it was told.
        let all: Vec<u64> = (0..self.commands).collect();
        all.chunks(COMMANDS).for_each(|batch| self.submit(batch));
        self.calls
    }

    fn submit(&mut self, batch: &[u64]) {
        let is_detour = std::mem::take(&mut self.was_cut);
        let [door, other] = self.ports;
        let kept = self.connection.take().filter(|_| !is_detour);
        let mut connection = kept.unwrap_or_else(|| connect(if is_detour { other } else { door }));
        connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut bytes = Vec::new();
        let groups: Vec<Group> = batch.iter().map(|command| self.begin(*command, &mut bytes)).collect();
        self.was_cut = true;
        if connection.send_packed_command(&bytes).is_err() {
            return;
        }
        for (place, group) in groups.iter().enumerate() {
            if self.hear(&mut connection, group).is_none() {
                // Where nothing has come, it may not have been read.
                if place > 0 {
                    self.progress.tell_cut();
                }
                return;
            }
        }
        self.was_cut = false;
        self.connection = Some(connection).filter(|_| !is_detour);
    }

    /// Puts a group into a pipeline, and its calls into the history.
    fn begin(&mut self, command: u64, bytes: &mut Vec<u8>) -> Group {
        let token = self.tokens * PRODUCERS + self.source;
        self.tokens += 1;
        let (calls, began_us) = (self.calls.len(), self.now_us());
        let events = command * ITEMS..(command + 1) * ITEMS;
        let mut observe = redis::cmd("FS.OBSERVE");
        observe.arg("clicks").arg("ID").arg(self.source).arg(events.start).arg("ITEMS");
        for event in events.clone() {
            observe.arg(item(event));
            let name = Some(SubmissionName { source: self.source.into(), number: event });
            self.calls.push(asked(self.source, event, (false, name), began_us));
        }
        self.calls.push(asked(self.source, events.start, (true, None), began_us));
        self.calls.push(asked(self.source, OWN + token, (false, None), began_us));
        self.calls.push(asked(self.source, NEVER + token, (true, None), began_us));
        let ask = |words: &[&str], item: String| {
            let mut command = Cmd::new();
            words.iter().for_each(|word| _ = command.arg(word));
            command.arg(item).get_packed_command()
        };
        bytes.extend(observe.get_packed_command());
        bytes.extend(ask(&["ECHO"], token.to_string()));
        bytes.extend(ask(&["BF.EXISTS", "clicks"], item(events.start)));
        bytes.extend(ask(&["SADD", "clicks"], format!("own-{token}")));
        bytes.extend(ask(&["FS.TEST", "clicks", "ITEMS"], format!("never-{token}")));
        Group { command, token, calls }
    }

    /// Reads the replies to a group; none where the connection ends before.
    fn hear(&mut self, connection: &mut Connection, group: &Group) -> Option<()> {
        let codes = codes(reply(connection)?, ITEMS);
        let first = group.calls;
        self.end(first, &codes);
        match reply(connection)? {
            Value::BulkString(echoed) => {
                assert_eq!(String::from_utf8_lossy(&echoed), group.token.to_string(), "replies are in order");
            }
            other => panic!("ECHO got {other:?}"),
        }
        let seen = of_integer(reply(connection)?, 0);
        let was_decided = codes.first().is_some_and(|code| !is_undecided(code));
        assert!(!was_decided || seen != Verdict::FirstSeen, "what was just recorded is seen: {codes:?}");
        self.end(first + ITEMS as usize, &[seen]);
        let added = of_integer(reply(connection)?, 1);
        self.end(first + ITEMS as usize + 1, &[added]);
        let never = codes_of_one(reply(connection)?);
        self.end(first + ITEMS as usize + 2, &[never]);
        // A name may be forgotten where that is all that is promised: then who sent it knows that it does not know.
        let is_final = |code: &Verdict| {
            !is_undecided(code) || (self.kept == Kept::InMemory && *code == Verdict::Undecided(Reason::TooOld))
        };
        if codes.iter().all(is_final) {
            self.open.remove(&group.command);
        }
        Some(())
    }

    fn end(&mut self, first: usize, verdicts: &[Verdict]) {
        let now_us = self.now_us();
        for (call, verdict) in self.calls[first..].iter_mut().zip(verdicts) {
            (call.returned_us, call.verdict) = (Some(now_us), Some(*verdict));
            self.progress.tell(verdict);
        }
    }
}

/// Long enough that a pipeline comes to the door in several parts.
fn item(event: u64) -> String {
    format!("event-{event:040}")
}

/// The next reply; none where the connection is over.
fn reply(connection: &mut Connection) -> Option<Value> {
    match connection.recv_response() {
        Ok(value) => Some(value),
        Err(error) if error.is_io_error() && !error.is_timeout() => None,
        Err(error) => panic!("no reply: {error}"),
    }
}

/// The verdict of an error, which has to be one of those that are promised.
fn of_error(value: &Value) -> Option<Verdict> {
    let Value::ServerError(error) = value else { return None };
    assert_eq!(error.code(), "UNDECIDED", "{error}");
    let details = error.details().unwrap_or_default();
    Some(verdict_of(details.split(':').next().unwrap_or_default()))
}

/// That of a number which says `new` of an event that is new.
fn of_integer(value: Value, new: i64) -> Verdict {
    if let Some(verdict) = of_error(&value) {
        return verdict;
    }
    match value {
        Value::Int(number) if number == new => Verdict::FirstSeen,
        Value::Int(number) if number == 1 - new => Verdict::Duplicate,
        other => panic!("instead of 0 or 1: {other:?}"),
    }
}

/// Those of a command that has a number for each item.
fn codes(value: Value, items: u64) -> Vec<Verdict> {
    if let Some(verdict) = of_error(&value) {
        return vec![verdict; items as usize];
    }
    let codes: Vec<i64> = redis::from_redis_value(value).expect("numbers");
    assert_eq!(codes.len() as u64, items);
    codes.iter().map(|code| verdict_of(&code.to_string())).collect()
}

fn codes_of_one(value: Value) -> Verdict {
    codes(value, 1)[0]
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

fn nodes_are_killed(kept: Kept) {
    println!("{kept:?}, seed {SEED}");
    let (mut nodes, ports) = formed("", &format!("--slicing horizontal:3 {}", kept.flags()));
    ports.into_iter().for_each(|port| drop(connect(port)));
    let (begun, progress) = (Instant::now(), Progress::default());
    let calls = thread::scope(|scope| {
        let over = Over(&progress.is_over);
        let producers = (0..PRODUCERS).map(|source| {
            let producer = Producer {
                ports,
                kept,
                source,
                begun,
                progress: &progress,
                connection: None,
                was_cut: false,
                dice: Random(SEED + source),
                commands: 0,
                open: BTreeSet::new(),
                tokens: 0,
                calls: Vec::new(),
            };
            scope.spawn(|| producer.run())
        });
        let producers: Vec<_> = producers.collect();
        kill_nodes(kept, &mut nodes, &progress);
        drop(over);
        producers.into_iter().flat_map(|producer| producer.join().expect("a producer")).collect::<Vec<Call>>()
    });
    judge(kept, calls);
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

#[test]
#[ignore = "minutes"]
fn a_durable_filter_repeats_its_verdicts_when_nodes_were_killed() {
    nodes_are_killed(Kept::OnDisk);
}

#[test]
fn a_filter_with_copies_goes_on_when_nodes_are_killed() {
    nodes_are_killed(Kept::InMemory);
}
