//! Runs clients of redis-py while nodes are killed before they have sent all of their replies. The test
//! `killed_endpoints.rs` checks the same with a Rust client. This test covers the pipelines and transactions of
//! redis-py, and commands without idempotency keys.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use firstseen_checker::history::Call;
use firstseen_client::SubmissionName;

use crate::killed_endpoints::{Progress, judge, kill_nodes};
use crate::python::{REDIS_PY, fetch, python};
use crate::redis_chaos::{connect, formed};
use crate::redis_history::{Kept, asked, verdict_of};
use crate::run::{Folder, Watchdog};

const SEED: u64 = 23;

/// Parses a call, as the program prints it.
fn call(line: &str) -> Call {
    let words: Vec<&str> = line.split(' ').collect();
    let &[producer, event, kind, name, began_us, returned_us, verdict] = &words[..] else { panic!("`{line}`") };
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|error| panic!("{error}: `{line}`"));
    let source = number(producer);
    let name = (name != "-").then(|| SubmissionName { source: source.into(), number: number(name) });
    let asked = asked(source, number(event), (kind == "lookup", name), number(began_us));
    let returned_us = (returned_us != "-").then(|| number(returned_us));
    Call { returned_us, verdict: returned_us.map(|_| verdict_of(verdict)), ..asked }
}

/// Returns all calls that the program prints.
fn hear(output: ChildStdout, progress: &Progress) -> Vec<Call> {
    let mut calls = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.expect("text");
        if line == "cut" {
            progress.note_cut();
            continue;
        }
        let call = call(&line);
        if let Some(verdict) = &call.verdict {
            progress.tell(verdict);
        }
        calls.push(call);
    }
    calls
}

#[test]
#[ignore = "it fetches redis-py from a registry, and is skipped with a notice where there is none"]
fn redis_py_is_told_first_verdicts_again_when_nodes_were_killed() {
    let folder = Folder::new();
    if !fetch(&folder, &[REDIS_PY]) {
        return;
    }
    println!("seed {SEED}");
    let kept = Kept::OnDisk;
    let mapped = "[[redis.prefix]]\nmatch = \"dedup:\"\nfilter = \"clicks\"\n";
    let (mut nodes, [port, _]) = formed(mapped, &format!("--slicing horizontal:3 {}", kept.flags()));
    drop(connect(port));
    folder.write("killed.py", include_str!("python/killed.py"));
    let mut command = python(&folder, &["killed.py", &port.to_string(), &SEED.to_string()]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("python3");
    let _watchdog = Watchdog::within(&child, Duration::from_secs(900));
    let (stdin, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let progress = Progress::default();
    let calls = thread::scope(|scope| {
        // If the test fails, closing the pipe also ends the program.
        let mut stdin = stdin;
        let hearer = scope.spawn(|| hear(output, &progress));
        kill_nodes(kept, &mut nodes, &progress);
        stdin.write_all(b"over\n").expect("it listens");
        hearer.join().expect("calls")
    });
    assert!(child.wait().expect("an end").success(), "the program failed");
    judge(kept, calls);
}
