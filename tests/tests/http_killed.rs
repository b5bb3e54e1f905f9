//! The door for HTTP while nodes are killed with replies in flight: another node than the door's, and the door's own.
//!
//! Three producers send the same events at once, each under names of its own, by pipelined requests. What is undecided, or never
//! answered, is sent again under the same name. In the end the laws of the simulation judge all that was said, as for the door for
//! Redis clients.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use firstseen_checker::history::Call;
use firstseen_client::{Reason, SubmissionName, Verdict};
use serde_json::{Value, json};

use crate::http_wire::{HttpReply, HttpWire, opened};
use crate::local_cluster::eventually;
use crate::ports::free_ports;
use crate::redis_chaos::formed_with;
use crate::redis_history::{Kept, asked, is_back, is_undecided};
use crate::redis_killed::{Over, Progress, judge, kill_nodes};
use crate::run::Random;

const PRODUCERS: u64 = 3;
/// Events of a call; calls in a pipeline that are new or go on, and those in it that have a verdict already.
const EVENTS: u64 = 20;
const CALLS: usize = 60;
const AGAIN: usize = 5;
const SEED: u64 = 13;

/// Numbers of events that no call with a name has.
const OWN: u64 = 1 << 40;
const NEVER: u64 = 1 << 41;

const OBSERVE: &str = "/v1/filters/clicks/observe";
const TEST: &str = "/v1/filters/clicks/test";

/// The requests that are sent for one call with a name.
struct Group {
    call: u64,
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
    connection: Option<HttpWire>,
    was_cut: bool,
    dice: Random,
    /// Calls that were begun, those among them without a verdict on each event, and groups that were sent.
    begun_calls: u64,
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
            let mut batch: Vec<u64> = self.open.iter().copied().take(CALLS).collect();
            while batch.len() < CALLS {
                batch.push(self.begun_calls);
                self.open.insert(self.begun_calls);
                self.begun_calls += 1;
            }
            for _ in 0..AGAIN {
                batch.push(self.dice.below(self.begun_calls));
            }
            self.submit(&batch);
        }
        eventually("a verdict on everything", || {
            let batch: Vec<u64> = self.open.iter().copied().take(CALLS).collect();
            self.submit(&batch);
            self.open.is_empty()
        });
        // All of it once more, as somebody does who has forgotten what it was told.
        let all: Vec<u64> = (0..self.begun_calls).collect();
        all.chunks(CALLS).for_each(|batch| self.submit(batch));
        self.calls
    }

    fn submit(&mut self, batch: &[u64]) {
        let is_detour = std::mem::take(&mut self.was_cut);
        let [door, other] = self.ports;
        let kept = self.connection.take().filter(|_| !is_detour);
        let mut wire = kept.unwrap_or_else(|| connected(if is_detour { other } else { door }));
        let mut bytes = Vec::new();
        let groups: Vec<Group> = batch.iter().map(|call| self.begin(*call, &mut bytes)).collect();
        self.was_cut = true;
        let mut writing = wire.stream();
        // Replies are read while requests are written: the door reads no more while nobody reads its replies.
        let writer = thread::spawn(move || std::io::Write::write_all(&mut writing, &bytes));
        for (place, group) in groups.iter().enumerate() {
            if self.hear(&mut wire, group).is_none() {
                // If nothing has come, it may not have been read.
                if place > 0 {
                    self.progress.tell_cut();
                }
                let _ = writer.join();
                return;
            }
        }
        let _ = writer.join();
        self.was_cut = false;
        self.connection = Some(wire).filter(|_| !is_detour);
    }

    /// Puts a group into a pipeline, and its calls into the history.
    fn begin(&mut self, call: u64, bytes: &mut Vec<u8>) -> Group {
        let token = self.tokens * PRODUCERS + self.source;
        self.tokens += 1;
        let (calls, began_us) = (self.calls.len(), self.now_us());
        let events = call * EVENTS..(call + 1) * EVENTS;
        for event in events.clone() {
            let name = Some(SubmissionName { source: self.source.into(), number: event });
            self.calls.push(asked(self.source, event, (false, name), began_us));
        }
        self.calls.push(asked(self.source, events.start, (true, None), began_us));
        self.calls.push(asked(self.source, OWN + token, (false, None), began_us));
        self.calls.push(asked(self.source, NEVER + token, (true, None), began_us));
        let names = format!("X-Firstseen-Source: {}\r\nIdempotency-Key: {call}\r\n", self.source);
        let all: Vec<String> = events.clone().map(item).collect();
        request(bytes, OBSERVE, &names, &json!({ "events": all }));
        request(bytes, TEST, "", &json!({ "events": [item(events.start)] }));
        request(bytes, OBSERVE, "", &json!({ "events": [format!("own-{token}")] }));
        request(bytes, TEST, "", &json!({ "events": [format!("never-{token}")] }));
        Group { call, calls }
    }

    /// Reads the replies to a group; `None` if the connection ends before.
    fn hear(&mut self, wire: &mut HttpWire, group: &Group) -> Option<()> {
        let first = group.calls;
        let verdicts = verdicts(wire.reply()?, EVENTS)?;
        self.end(first, &verdicts);
        let seen = self::verdicts(wire.reply()?, 1)?;
        let was_decided = verdicts.first().is_some_and(|verdict| !is_undecided(verdict));
        assert!(!was_decided || seen[0] != Verdict::FirstSeen, "what was just recorded is seen: {verdicts:?}");
        self.end(first + EVENTS as usize, &seen);
        let own = self::verdicts(wire.reply()?, 1)?;
        self.end(first + EVENTS as usize + 1, &own);
        let never = self::verdicts(wire.reply()?, 1)?;
        self.end(first + EVENTS as usize + 2, &never);
        // A name may be forgotten where that is all that is promised: then whoever sent it knows that it does not know.
        let is_final = |verdict: &Verdict| {
            !is_undecided(verdict) || (self.kept == Kept::InMemory && *verdict == Verdict::Undecided(Reason::TooOld))
        };
        if verdicts.iter().all(is_final) {
            self.open.remove(&group.call);
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

fn connected(port: u16) -> HttpWire {
    opened(port);
    let mut wire = None;
    eventually("a connection", || {
        wire = HttpWire::to(port);
        wire.is_some()
    });
    wire.expect("a connection")
}

fn item(event: u64) -> String {
    format!("event-{event:040}")
}

fn request(bytes: &mut Vec<u8>, path: &str, headers: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(body.as_bytes());
}

/// The verdicts of a reply; `None` if it is not whole.
fn verdicts(reply: HttpReply, events: u64) -> Option<Vec<Verdict>> {
    if !reply.is_whole {
        return None;
    }
    // While the door has no way to its filter, nothing is recorded.
    if reply.status == 503 {
        assert_eq!(reply.problem(), "undecided");
        return Some(vec![Verdict::Undecided(Reason::NotReady); events as usize]);
    }
    assert_eq!(reply.status, 200, "{}", reply.text());
    let reply = reply.json();
    let verdicts: Vec<Verdict> = reply["verdicts"].as_array().expect("verdicts").iter().map(verdict).collect();
    assert_eq!(verdicts.len() as u64, events);
    Some(verdicts)
}

fn verdict(shown: &Value) -> Verdict {
    match shown.as_str() {
        Some("first_seen") => Verdict::FirstSeen,
        Some("duplicate") => Verdict::Duplicate,
        Some(other) => panic!("`{other}` is no verdict of these calls"),
        None => {
            let reason: Reason = serde_json::from_value(shown["undecided"].clone()).expect("a reason");
            Verdict::Undecided(reason)
        }
    }
}

/// Sections of configurations with a door for HTTP at these ports.
fn doors(ports: [u16; 2]) -> [String; 2] {
    ports.map(|port| format!("[http_api]\nlisten = \"127.0.0.1:{port}\"\n"))
}

fn nodes_are_killed(kept: Kept) {
    println!("{kept:?}, seed {SEED}");
    let ports = [free_ports(1), free_ports(1)];
    let mut nodes = formed_with(doors(ports), &format!("--slicing horizontal:3 {}", kept.flags()));
    ports.into_iter().for_each(opened);
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
                begun_calls: 0,
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

#[test]
#[ignore = "minutes"]
fn a_durable_filter_repeats_its_verdicts_over_http_when_nodes_were_killed() {
    nodes_are_killed(Kept::OnDisk);
}

#[test]
fn a_filter_with_copies_goes_on_over_http_when_nodes_are_killed() {
    nodes_are_killed(Kept::InMemory);
}

/// A stream is cut off when the door's own node dies. Sent again under its name, it has all records once, and those among them that
/// the first reply had.
#[test]
fn a_stream_whose_door_is_killed_is_sent_again_and_loses_no_record() {
    let ports = [free_ports(1), free_ports(1)];
    let flags = format!("--slicing horizontal:3 {}", Kept::OnDisk.flags());
    let mut nodes = formed_with(doors(ports), &flags);
    ports.into_iter().for_each(opened);
    let records: Vec<String> = (0..30_000).map(|number| format!("record {}", number % 20_000)).collect();
    let distinct: BTreeSet<&str> = records.iter().map(String::as_str).collect();
    let head = "POST /v1/filters/clicks/dedup HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\
                X-Firstseen-Source: importer\r\nIdempotency-Key: file-1\r\n\r\n";
    let mut wire = connected(ports[0]);
    wire.write(head.as_bytes());
    let mut writing = wire.stream();
    let lines = records.iter().map(|record| format!("{record}\n"));
    let chunks: Vec<String> = lines.collect::<Vec<_>>().chunks(100).map(<[String]>::concat).collect();
    let sending = chunks.clone();
    let writer = thread::spawn(move || {
        for chunk in sending {
            let bytes = format!("{:x}\r\n{chunk}\r\n", chunk.len());
            if std::io::Write::write_all(&mut writing, bytes.as_bytes()).is_err() {
                return;
            }
            // So that the node dies in the middle.
            thread::yield_now();
        }
    });
    let mut reply = wire.head().expect("a head");
    let first = wire.chunk().expect("the first records");
    nodes[0].kill();
    wire.rest(&mut reply);
    writer.join().expect("a thread");
    assert!(!reply.is_whole, "the reply was whole before the node was killed");
    let partial = String::from_utf8([first, reply.body].concat()).expect("text");
    // The last line may have been cut.
    let partial: BTreeSet<&str> = partial.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).collect();
    nodes[0].start_again();
    eventually("what the door's node had", || is_back(&nodes[0], &nodes[1]));
    let again = HttpWire::at(ports[1]).ask(
        "POST",
        "/v1/filters/clicks/dedup?unjudged=drop",
        &[("X-Firstseen-Source", "importer"), ("Idempotency-Key", "file-1")],
        chunks.concat().as_bytes(),
    );
    assert!(again.status == 200 && again.is_whole);
    let text = again.text();
    let passed: Vec<&str> = text.lines().collect();
    let passed_once: BTreeSet<&str> = passed.iter().copied().collect();
    println!("{} records before the end, {} in the second reply", partial.len(), passed.len());
    assert_eq!(passed.len(), passed_once.len(), "a record was passed on twice");
    assert!(partial.is_subset(&passed_once), "a record of the first reply is not in the second");
    assert_eq!(passed_once.len(), distinct.len(), "records are lost");
}
