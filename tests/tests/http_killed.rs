//! Tests of the HTTP endpoint while nodes are killed with replies in flight ([`killed_endpoints`](crate::killed_endpoints)).

use std::collections::BTreeSet;
use std::io::Write;
use std::thread::{self, JoinHandle};

use firstseen_client::{Reason, Verdict};
use serde_json::{Value, json};

use crate::http_wire::{HttpReply, HttpWire, opened};
use crate::killed_endpoints::{EVENTS, Group, Pipeline, item, producers_outlast_kills};
use crate::local_cluster::eventually;
use crate::ports::free_ports;
use crate::redis_chaos::formed_with;
use crate::redis_history::{Kept, is_back};

const SEED: u64 = 13;

const OBSERVE: &str = "/v1/filters/clicks/observe";
const TEST: &str = "/v1/filters/clicks/test";

impl Pipeline for HttpWire {
    const COMMANDS: usize = 60;
    const AGAIN: usize = 5;

    fn connect(port: u16) -> Self {
        connected(port)
    }

    fn write(group: &Group, bytes: &mut Vec<u8>) {
        let names = format!("X-Firstseen-Source: {}\r\nIdempotency-Key: {}\r\n", group.source, group.command);
        let all: Vec<String> = group.events().map(item).collect();
        request(bytes, OBSERVE, &names, &json!({ "events": all }));
        request(bytes, TEST, "", &json!({ "events": [item(group.events().start)] }));
        request(bytes, OBSERVE, "", &json!({ "events": [group.own()] }));
        request(bytes, TEST, "", &json!({ "events": [group.never()] }));
    }

    fn send(&mut self, bytes: Vec<u8>) -> Option<Option<JoinHandle<()>>> {
        let mut writing = self.stream();
        // Replies are read while requests are written, because the endpoint stops reading when its replies are not
        // read.
        Some(Some(thread::spawn(move || drop(writing.write_all(&bytes)))))
    }

    fn observed(&mut self) -> Option<Vec<Verdict>> {
        verdicts(self.reply()?, EVENTS)
    }

    fn found(&mut self, _group: &Group) -> Option<Verdict> {
        Some(verdicts(self.reply()?, 1)?[0])
    }

    fn own(&mut self) -> Option<Verdict> {
        Some(verdicts(self.reply()?, 1)?[0])
    }

    fn never(&mut self) -> Option<Verdict> {
        Some(verdicts(self.reply()?, 1)?[0])
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

fn request(bytes: &mut Vec<u8>, path: &str, headers: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(body.as_bytes());
}

/// Returns the verdicts of a reply, or `None` if the reply is incomplete.
fn verdicts(reply: HttpReply, events: u64) -> Option<Vec<Verdict>> {
    if !reply.is_whole {
        return None;
    }
    // While the endpoint cannot reach the nodes of its filter, nothing is recorded.
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

/// Returns configuration sections for HTTP endpoints at these ports.
fn endpoints(ports: [u16; 2]) -> [String; 2] {
    ports.map(|port| format!("[http_api]\nlisten = \"127.0.0.1:{port}\"\n"))
}

fn nodes_are_killed(kept: Kept) {
    let ports = [free_ports(1), free_ports(1)];
    let mut nodes = formed_with(endpoints(ports), &format!("--slicing horizontal:3 {}", kept.flags()));
    ports.into_iter().for_each(opened);
    producers_outlast_kills::<HttpWire>(kept, ports, &mut nodes, SEED);
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

/// Kills the endpoint's own node while it serves a stream, so the reply is cut off. The client then sends the whole
/// stream again under the same name. The second reply must contain every record exactly once, including the records
/// that the first reply already contained.
#[test]
fn a_stream_whose_endpoint_is_killed_is_sent_again_and_loses_no_record() {
    let ports = [free_ports(1), free_ports(1)];
    let flags = format!("--slicing horizontal:3 {}", Kept::OnDisk.flags());
    let mut nodes = formed_with(endpoints(ports), &flags);
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
            if writing.write_all(bytes.as_bytes()).is_err() {
                return;
            }
            // This gives the node time to be killed in the middle of the stream.
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
    // The last line may be incomplete.
    let partial: BTreeSet<&str> = partial.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).collect();
    nodes[0].start_again();
    eventually("what the endpoint's node had", || is_back(&nodes[0], &nodes[1]));
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
