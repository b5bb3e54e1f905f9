//! Tests of `--state` with runs that are killed. The output may be ahead of the saved state, but the state is never
//! ahead of the output.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Child, Stdio};

use crate::local_cluster::eventually;
use crate::run::{Folder, Random, dedup};

/// Starts a run that reads what the test writes, and appends its output to the file `out`.
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

/// Checks that the state is saved even if no further record arrives.
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

/// Kills a run again and again. Each run reads its input from the start, like a pipeline that is restarted.
#[test]
fn records_that_a_killed_run_has_lost_pass_again() {
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

/// Checks that a run with a saved state continues the output files of a run that was killed. The saved state remembers
/// the records in these files, so they would not be written again if the second run emptied the files. The second run
/// must therefore append to the files, and must not write a second header.
#[test]
fn a_run_that_continues_empties_no_file() {
    let folder = Folder::with("k,v\na,1\nb,2\na,3\n,4\nbroken\n");
    folder.write("more", "k,v\nb,5\nc,6\nagain\n");
    let flags = "--format csv --key k,v --empty-key value --state state --state-every 1ms --out out.csv --rejected rejected.csv --report none";
    let mut child = start(&folder, flags);
    feed(&mut child, &folder.read("input"));
    eventually("a state that knows them", || {
        let asked = folder.dedup("--format csv --key k,v --empty-key value --lookup --state state input");
        asked.code == Some(0) && asked.out == "k,v\nbroken\n"
    });
    kill(child);
    let passed = "k,v\na,1\nb,2\na,3\n,4\n";
    assert_eq!(folder.read("out.csv"), passed);
    folder.dedup(&format!("{flags} input more")).ok();
    assert_eq!(folder.read("out.csv"), format!("{passed}b,5\nc,6\n"));
    assert_eq!(folder.read("rejected.csv"), "k,v\nbroken\nbroken\nagain\n");
    // Input without records empties no file either, and neither does a run that only looks up.
    folder.write("none", "");
    folder.dedup(&format!("{flags} none")).ok();
    folder.dedup(&format!("{flags} --lookup none")).ok();
    assert_eq!(folder.read("out.csv"), format!("{passed}b,5\nc,6\n"));
    // The same holds if the shell opens the file.
    let out = OpenOptions::new().append(true).open(folder.path("out.csv")).expect("a file");
    folder.write("more", "k,v\nd,7\n");
    let mut command = dedup("--format csv --key k,v --empty-key value --state state more");
    command.current_dir(folder.path("")).stdout(out).status().expect("the binary");
    assert_eq!(folder.read("out.csv"), format!("{passed}b,5\nc,6\nd,7\n"));
}

/// Checks a run that is killed before it first saves its state, which leaves records in the output file but no state.
#[test]
fn records_passed_on_before_the_first_save_stay() {
    let folder = Folder::with("b\nc\n");
    let mut child = start(&folder, "--state state --state-every 0 --out once");
    feed(&mut child, "a\nb\n");
    eventually("records", || folder.has("once") && folder.read("once") == "a\nb\n");
    kill(child);
    let ran = folder.dedup("--state state --out once input").ok();
    assert_eq!(folder.read("once"), "a\nb\nb\nc\n", "what nobody feeds again is not lost");
    assert!(ran.err.contains("once has 4 bytes of an earlier run") && ran.err.contains("delete once"), "{}", ran.err);
    let quiet = folder.dedup("--state state --out once input").ok();
    assert!(!quiet.err.contains("earlier run"), "{}", quiet.err);
}

#[test]
fn a_file_that_ends_in_mid_record_is_continued_on_a_line_of_its_own() {
    let folder = Folder::with("a\nb");
    folder.dedup("--state state --out once input").ok();
    folder.write("once", "a\nb\nhal");
    folder.write("input", "half\n");
    folder.dedup("--state state --out once input").ok();
    assert_eq!(folder.read("once"), "a\nb\nhal\nhalf\n");
    // Inside quotes, the incomplete record would swallow the next record.
    let flags = "--format csv --no-header --key 1 --seed 1 --report none --state csv --out once.csv";
    folder.write("once.csv", "a,\"b\nc\"\nd,\"e\nf");
    folder.write("input", "d,\"e\nf,\"\"g\"\"\"\n");
    folder.dedup(&format!("{flags} input")).ok();
    assert_eq!(folder.read("once.csv"), "a,\"b\nc\"\nd,\"e\nf\"\nd,\"e\nf,\"\"g\"\"\"\n");
}

/// Checks that a run reports its results even if its state cannot be saved because the disk is full.
#[test]
fn a_state_that_cannot_be_saved_at_the_end_hides_no_report() {
    let folder = Folder::with("{\"k\":1}\n".to_owned() + &"broken\n".repeat(6));
    for command in ["dedup --window unbounded --capacity 100k", "estimate --epoch 9events --capacity 100k"] {
        let flags = format!("{command} --format jsonl --key k --seed 1 --report json --state state input");
        let line = format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" {flags}");
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_firstseen-under-test")]).current_dir(folder.path(""));
        let ran = shell.output().expect("a shell");
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{command}: {err}");
        for words in ["6 records were not judged", "\"rejected\":6", "cannot save the state state"] {
            assert!(err.contains(words), "{command}: `{words}` is not in {err}");
        }
    }
}
