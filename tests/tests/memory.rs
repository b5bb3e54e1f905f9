//! Measures the peak memory of a `dedup` run. A run may use at most the size of its filter plus 64 MiB. If a filter is
//! much larger than its contents need, only the cells that are in use may occupy memory.

use std::fs;
use std::io::{BufRead, BufReader, Write};

use crate::run::{Folder, Watchdog, number};

const EVENTS: u64 = 2_000_000;
const ALLOWANCE_BYTES: u64 = 64 << 20;

/// Returns the peak memory of the process `id` so far, in bytes.
fn peak_bytes(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("a running process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kibibytes: u64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kibibytes * 1024
}

/// Measures a run while it waits for more input, after it has answered all records so far.
#[test]
fn a_run_takes_its_filter_and_at_most_64_mebibytes() {
    let folder = Folder::new();
    let flags = "--format csv --no-header --key 1,2 --time 3 --window 1h --capacity 1M --source 1 --report json";
    let mut child = folder.start(flags);
    let _watchdog = Watchdog::of(&child);
    let mut stdin = child.stdin.take().expect("a pipe");
    let writing = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for event in 0..EVENTS {
            let key = event * 7919 % 1_200_000;
            writeln!(lines, "user{key},campaign{},{}", key % 1000, 1_700_000_000 + event / 400).expect("memory");
            if lines.len() > 1 << 20 {
                stdin.write_all(&lines).expect("a run that listens");
                lines.clear();
            }
        }
        lines.extend_from_slice(b"the,end,1700005000\n");
        stdin.write_all(&lines).expect("a run that listens");
        stdin
    });
    let mut output = BufReader::with_capacity(1 << 20, child.stdout.take().expect("a pipe"));
    let mut line = Vec::new();
    while line != b"the,end,1700005000\n" {
        line.clear();
        assert!(output.read_until(b'\n', &mut line).expect("records") > 0, "the run ended too soon");
    }
    let peak = peak_bytes(child.id());
    drop(writing.join().expect("a thread that writes"));
    let err = child.wait_with_output().expect("an end").stderr;
    // The lines before the report say how full the filter is.
    let line = err.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"{")).expect("a report");
    let report = serde_json::from_slice(line).expect("the report");
    assert_eq!(number(&report, "events"), EVENTS + 1);
    let filter_bytes = number(&report, "filter_bytes");
    assert!(filter_bytes > 1 << 20, "{filter_bytes}");
    assert!(peak <= filter_bytes + ALLOWANCE_BYTES, "{peak} bytes with a filter of {filter_bytes}");
}

/// Regression test for large filters. In an earlier version, each tick of the clock visited all cells of a filter, so a
/// single record took eight seconds in a filter of a gigabyte.
///
/// The test measures memory instead of time, because times depend on the machine. The operating system gives memory to
/// a cell only when the cell is used for the first time. If the filter visits only the cells that it needs, the memory
/// of the run therefore stays small.
#[test]
fn a_record_goes_through_no_more_of_a_large_filter_than_it_needs() {
    for kind in ["generations", "timing"] {
        let folder = Folder::new();
        let mut child = folder.start(&format!("--clock wall --window 24h --kind {kind} -m 1073741824"));
        let _watchdog = Watchdog::of(&child);
        let mut stdin = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        for record in ["once\n", "twice\n"] {
            stdin.write_all(record.as_bytes()).expect("a run that listens");
            let mut line = String::new();
            output.read_line(&mut line).expect("records");
            assert_eq!(line, record, "{kind}");
        }
        let peak = peak_bytes(child.id());
        drop(stdin);
        assert!(child.wait_with_output().expect("an end").status.success(), "{kind}");
        assert!(peak <= ALLOWANCE_BYTES, "{kind}: {peak} bytes for a few cells");
    }
}
