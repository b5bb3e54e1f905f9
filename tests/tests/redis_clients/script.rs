//! Checks what programs report that execute the script of `tests/clients/README.md`.
//!
//! The client program waits for a line of input before each round of its script, so the test controls when a round
//! begins. In some rounds, the test kills the endpoint's node. In one of these rounds, it first stops the node, so that
//! the node dies with a command of the client still unread. In another round, it kills the node while the node is
//! working.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::local_cluster::eventually;
use crate::redis_chaos::connect;
use crate::redis_endpoint::{RedisEndpoint, ask};
use crate::run::{Watchdog, number};

const ALONE: usize = 20;
const PIPELINED: usize = 1_000;
const EVENTS_PER_ROUND: usize = 100;
/// Number of rounds before the node is killed, and after it was killed twice.
const QUIET_ROUNDS: usize = 3;

const MAPPED: &str = "[[redis.prefix]]\nmatch = \"clicks:\"\nfilter = \"clicks\"\n\
                      [[redis.prefix]]\nmatch = \"jobs:\"\nfilter = \"jobs\"\n";

/// Starts a node with a Redis endpoint and two filters. The filter `clicks` is durable, and its window is as long as
/// the time to live of the script's keys. The filter `jobs` supports claims.
pub(super) fn endpoint() -> RedisEndpoint {
    let endpoint = RedisEndpoint::open(MAPPED);
    endpoint.form("");
    let flags = "--fpr 1e-8 --clock wall --window 10m --retry-horizon 9m";
    endpoint.run(&format!("filter create clicks {flags} --capacity 100k --durability durable"));
    endpoint.run(&format!("filter create jobs {flags} --capacity 10k --claims 60s"));
    let client = &mut endpoint.client();
    eventually("a first claim", || ask(client, "FS.CLAIM jobs:first PX 1000") == Ok(1));
    endpoint
}

/// Program that executes the script.
struct Program {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _watchdog: Watchdog,
}

impl Program {
    fn start(mut command: Command, port: u16) -> Self {
        command.arg(port.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let watchdog = Watchdog::of(&child);
        let stdin = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, stdin, lines, _watchdog: watchdog }
    }

    /// Reads the line of the next step.
    fn line(&mut self, step: &str) -> Value {
        let line = self.lines.next().unwrap_or_else(|| panic!("the program ended before `{step}`")).expect("text");
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(line["step"], step, "{line}");
        line
    }

    /// Returns what the program reports in the next step.
    fn saw(&mut self, step: &str) -> Value {
        self.line(step)["saw"].take()
    }

    fn say(&mut self, word: &str) {
        self.stdin.write_all(format!("{word}\n").as_bytes()).expect("it listens");
    }

    /// Waits until the program has ended successfully.
    fn end(mut self) {
        assert!(self.child.wait().expect("an end").success(), "the program failed");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether all threads of a process are stopped by a signal.
fn has_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("Linux");
    let state = |thread: &std::path::Path| std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
    threads.flatten().all(|thread| state(&thread.path()).contains(") T "))
}

/// Returns whether a client has sent something that the endpoint's node has not read.
fn has_unread(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let address = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_unread = words[4].split_once(':').is_some_and(|(_, unread)| unread != "00000000");
        // State 01 is an established connection.
        words[1].ends_with(&address) && words[3] == "01" && is_unread
    })
}

/// Starts the program with the port of an endpoint, and compares its reports with the expected values.
pub(super) fn assert_script_passes(command: Command) {
    let mut endpoint = endpoint();
    let mut program = Program::start(command, endpoint.port);
    connected_steps(&mut program);
    for _ in 0..QUIET_ROUNDS {
        program.say("round");
        let line = program.line("round");
        assert_eq!((number(&line, "tries"), &line["heard"]), (1, &json!([])), "nothing has happened to the node");
        judge_round(&line, &["new"]);
    }
    program.say("round");
    endpoint.node.crash();
    judge_round(&program.line("round"), &["new", "seen"]);
    endpoint.node.signal(Signal::SIGSTOP);
    // A thread that is still running could read the command, which would then not be unread, and would never be
    // answered.
    eventually("all threads to stop", || has_stopped(endpoint.node.process()));
    program.say("round");
    eventually("a command in flight", || has_unread(endpoint.port));
    endpoint.node.crash();
    judge_round(&program.line("round"), &["new", "seen"]);
    for _ in 0..QUIET_ROUNDS {
        program.say("round");
        judge_round(&program.line("round"), &["new"]);
    }
    program.say("over");
    let keys = ALONE + PIPELINED + (2 * QUIET_ROUNDS + 2) * EVENTS_PER_ROUND;
    assert_eq!(program.saw("again"), json!(vec!["seen"; keys]), "what was recorded outlives its node");
    let named = (2 * QUIET_ROUNDS + 2) * EVENTS_PER_ROUND;
    assert_eq!(program.saw("named again"), json!(vec![1; named]), "a retry is told its first verdict");
    program.end();
    are_recorded(&endpoint);
}

/// Checks the steps before the rounds.
fn connected_steps(program: &mut Program) {
    assert_eq!(program.saw("connect"), "PONG");
    assert_eq!(program.saw("alone"), json!([vec!["new"; ALONE], vec!["seen"; ALONE]].concat()));
    assert_eq!(program.saw("pipelined"), json!(["new", "seen"].repeat(PIPELINED)));
    assert_eq!(program.saw("transaction"), json!(["new", "seen", 1, 1]));
    assert_eq!(program.saw("bloom"), json!([true, false, false, true, true, false]));
    assert_eq!(program.saw("claims"), json!([1, -16, 1, 0, 1, 1, "new", "seen", 1, "new"]));
    let refused = program.saw("refused");
    let refusal = "invalid expire time: filter 'clicks' remembers 600 s";
    assert!(refused.as_str().is_some_and(|text| text.contains(refusal)), "{refused}");
}

/// Checks the verdicts of a round in which connections broke. All events of `FS.OBSERVE ... ID` must be new, because a
/// retry with the same id gets the verdict of the first attempt. A key of `SET NX` may also be seen: this command has
/// no id, so if its reply is lost, the node cannot recognise the retry and replies that the key exists.
fn judge_round(line: &Value, allowed: &[&str]) {
    assert_eq!(line["named"], json!(vec![1; EVENTS_PER_ROUND]), "named events are new: {line}");
    let words = line["saw"].as_array().expect("a word for each key");
    assert_eq!(words.len(), EVENTS_PER_ROUND, "{line}");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in words {
        let word = word.as_str().expect("a word");
        assert!(allowed.contains(&word), "{word} is not in {allowed:?}: {line}");
        *counts.entry(word).or_default() += 1;
    }
    println!("tries {}, keys {counts:?}, heard {}", line["tries"], line["heard"]);
    for text in line["heard"].as_array().expect("errors") {
        let is_known = text.as_str().is_some_and(|text| text.contains("UNDECIDED") || text.contains("LOADING"));
        assert!(is_known, "an error that nothing explains: {text}");
    }
}

/// Checks that the endpoint knows the keys that the program says it has sent.
fn are_recorded(endpoint: &RedisEndpoint) {
    let mut keys: Vec<String> = (0..ALONE).map(|number| format!("clicks:alone-{number}")).collect();
    keys.extend((0..PIPELINED).map(|number| format!("clicks:pipelined-{number}")));
    for round in 0..2 * QUIET_ROUNDS + 2 {
        keys.extend((0..EVENTS_PER_ROUND).map(|number| format!("clicks:round-{round}-{number}")));
    }
    let count: usize = redis::cmd("EXISTS").arg(&keys).query(&mut connect(endpoint.port)).expect("a count");
    assert_eq!(count, keys.len());
    let never: i64 = ask(&mut connect(endpoint.port), "EXISTS clicks:never").expect("a count");
    assert_eq!(never, 0, "the filter does not call everything seen");
}
