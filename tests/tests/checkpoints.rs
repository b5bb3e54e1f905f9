//! `--state` of a run that is killed: its output may be ahead of the state, and the state never ahead of the output.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Child, Stdio};

use crate::local_cluster::eventually;
use crate::run::{Folder, Random, dedup};

/// A run that is fed by the test, whose output is added to the file `out`.
fn start(folder: &Folder, flags: &str) -> Child {
    let out = OpenOptions::new().create(true).append(true).open(folder.path("out")).expect("a file");
    let mut command = dedup(flags);
    command.current_dir(folder.path("")).stdin(Stdio::piped()).stdout(out).stderr(Stdio::null());
    command.spawn().expect("the binary")
}

fn feed(child: &mut Child, text: &str) {
    let stdin = child.stdin.as_mut().expect("a pipe");
    stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
}

fn kill(mut child: Child) {
    child.kill().expect("a process");
    child.wait().expect("an end");
}

/// The state is saved although nothing comes any more.
#[test]
fn a_stream_that_is_killed_goes_on_where_its_state_was_saved() {
    let folder = Folder::with("a\nb\n");
    let mut child = start(&folder, "--state state --state-every 1ms");
    feed(&mut child, "a\na\nb\n");
    eventually("a state that knows both", || {
        let asked = folder.dedup("--lookup --state state input");
        asked.code == Some(0) && asked.out.is_empty()
    });
    kill(child);
    assert_eq!(folder.read("out"), "a\nb\n");
    folder.write("input", "a\nb\nc\n");
    assert_eq!(folder.dedup("--state state input").ok().out, "c\n");
    assert_eq!(folder.names(), ["input", "out", "state"], "nothing else is left");
}

#[test]
fn a_state_that_is_saved_at_the_end_only_is_not_there_before() {
    let folder = Folder::with("a\n");
    let mut child = start(&folder, "--state state --state-every 0");
    feed(&mut child, "a\n");
    eventually("a record", || folder.read("out") == "a\n");
    kill(child);
    assert!(!folder.has("state"));
    folder.dedup("--state-every 1m input").fails(2, &["--state"]);
}

/// Killed again and again, and fed from the start each time, as a pipeline that is started anew may be.
#[test]
fn whatever_a_killed_run_has_lost_passes_again() {
    const RECORDS: usize = 4000;
    let seed = 7;
    let mut random = Random(seed);
    let folder = Folder::new();
    let records: Vec<String> = (0..RECORDS).map(|record| format!("record {record}\n")).collect();
    for round in 0..12 {
        let mut child = start(&folder, "--capacity 10k --fpr 1e-6 --seed 3 --state state --state-every 1ms");
        let end = RECORDS * (round + 1) / 12;
        for part in records[..end].chunks(1 + random.below(700) as usize) {
            feed(&mut child, &part.concat());
        }
        let some = &records[random.below(end as u64) as usize];
        eventually("a record that was fed", || folder.read("out").contains(some.as_str()));
        kill(child);
    }
    folder.write("input", records.concat());
    let rest = folder.dedup("--capacity 10k --fpr 1e-6 --seed 3 --state state input").ok().out;
    let out = folder.read("out") + &rest;
    let passed: BTreeSet<&str> = out.lines().collect();
    let lost = records.iter().filter(|record| !passed.contains(record.trim_end())).count();
    assert_eq!(lost, 0, "seed {seed}: of {RECORDS} records");
}
