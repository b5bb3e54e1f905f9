//! Tests of input that is still being written, of readers that disappear, and of signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::{TryRecvError, channel};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{Folder, Watchdog, example, number};

/// Writes `input`, and waits for one line of output.
fn ask(child: &mut Child, output: &mut impl BufRead, input: &str) -> String {
    let stdin = child.stdin.as_mut().expect("a pipe");
    stdin.write_all(input.as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    line
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a process id")), signal).expect("a process");
}

/// Waits until the run has ended. Returns its exit code and the rest of its error output.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut err = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    (child.wait().expect("an end").code(), err)
}

/// Checks that each record is written as soon as it is decided. The test sends the next record only after it has
/// received the previous one. If output were delayed, the test would wait for ever, and the watchdog would end the run.
#[test]
fn each_record_appears_while_the_input_stays_open() {
    for (flags, header, records) in [
        ("", "", ["a\n", "b\n", "c\n"]),
        ("--format csv --key k", "k,t\n", ["a,1\n", "b,2\n", "c,3\n"]),
        ("--format jsonl --key k", "", ["{\"k\":1}\n", "{\"k\":2}\n", "{\"k\":3}\n"]),
        ("--format tsv --no-header --key 1 --time 2 --window 1h", "", ["a\t1\n", "b\t2\n", "c\t3\n"]),
    ] {
        let mut child = Folder::new().start(flags);
        let _watchdog = Watchdog::of(&child);
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        if !header.is_empty() {
            assert_eq!(ask(&mut child, &mut output, header), header);
        }
        for record in records {
            assert_eq!(ask(&mut child, &mut output, record), record, "{flags}");
        }
        assert_eq!(
            ask(&mut child, &mut output, &format!("{}{}", records[0], records[2].replace(['c', '3'], "9"))).len(),
            records[2].len()
        );
        drop(child.stdin.take());
        assert_eq!(end(child).0, Some(0));
    }
}

#[test]
fn files_are_flushed_too() {
    let folder = Folder::new();
    let mut child = folder.start("--duplicates again");
    let _watchdog = Watchdog::of(&child);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    ask(&mut child, &mut output, "a\na\nb\n");
    // The record after the next pause shows that the first pause has ended, and that all outputs were flushed then.
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    ask(&mut child, &mut output, "c\n");
    assert_eq!(folder.read("again"), "a\n");
    drop(child.stdin.take());
    assert_eq!(end(child).0, Some(0));
}

#[test]
fn an_interrupt_ends_with_the_report_so_far_and_saves_the_state() {
    for wish in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = Folder::new();
        let mut child = folder.start("--state state --report json");
        let _watchdog = Watchdog::of(&child);
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        for record in ["a\n", "a\nb\n"] {
            ask(&mut child, &mut output, record);
        }
        signal(&child, wish);
        let (code, err) = end(child);
        assert_eq!(code, Some(130), "{err}");
        let report: Value = serde_json::from_str(&err).expect("nothing but the report");
        assert_eq!((number(&report, "first_seen"), number(&report, "duplicates")), (2, 1));
        assert_eq!(report["interrupted"], true);
        folder.write("input", "b\nc\na\n");
        assert_eq!(folder.dedup("--state state input").ok().out, "c\n");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let log = example("nasa_19950801.tsv.gz");
    for flags in ["", "--report json", "--state state"] {
        let folder = Folder::new();
        let mut child = folder.start(&format!("{flags} --format tsv {log} {log}"));
        let _watchdog = Watchdog::of(&child);
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        drop(output);
        let (code, err) = end(child);
        match flags {
            // A run with a state must report that the state does not contain what was read.
            "--state state" => {
                assert!(code == Some(1) && err.contains("the state state is as it was"), "{code:?} {err}")
            }
            _ => assert_eq!((code, err), (Some(0), String::new()), "{flags}"),
        }
        assert!(!folder.has("state"), "records that nobody received are not saved as delivered");
    }
}

/// Checks that the user learns about records that could not be judged, by a message or by the exit code.
#[test]
fn a_full_filter_is_reported_while_the_stream_goes_on() {
    for (strict, code) in [("", 0), ("--strict", 2)] {
        let mut child = Folder::new().start(&format!("--capacity 20 --seed 1 --report none {strict}"));
        let _watchdog = Watchdog::of(&child);
        let numbers: String = (0..100).map(|number| format!("{number}\n")).collect();
        let stdin = child.stdin.as_mut().expect("a pipe");
        stdin.write_all(numbers.as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
        let mut message = String::new();
        let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
        err.read_line(&mut message).expect("a line");
        assert!(
            message.contains("the filter is full at standard input:") && message.contains("--capacity"),
            "{message}"
        );
        drop(child.stdin.take());
        assert_eq!(child.wait_with_output().expect("an end").status.code(), Some(code));
        message.clear();
        err.read_to_string(&mut message).expect("text");
        assert_eq!(message.lines().count(), 1, "one line is enough, and one for the numbers: {message}");
        assert!(message.contains("records were not judged: ") && message.contains(" full"), "{message}");
    }
}

/// Checks that records without times count from their arrival.
#[test]
fn records_without_a_time_count_from_their_arrival() {
    let mut child = Folder::new().start("--window 300ms --capacity 100");
    let _watchdog = Watchdog::of(&child);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    assert_eq!(ask(&mut child, &mut output, "x\n"), "x\n");
    // The window passes while other records arrive. The first repetitions are within the window, unless this machine is
    // very slow.
    let stdin = child.stdin.take().expect("a pipe");
    let (stop, stopped) = channel::<()>();
    let feeding = std::thread::spawn(move || {
        let mut stdin = stdin;
        while stopped.try_recv() == Err(TryRecvError::Empty)
            && stdin.write_all(b"x\n").and_then(|()| stdin.flush()).is_ok()
        {
            std::thread::yield_now();
        }
    });
    let mut again = String::new();
    output.read_line(&mut again).expect("a line");
    assert_eq!(again, "x\n");
    drop(stop);
    let reading = std::thread::spawn(move || output.read_to_end(&mut Vec::new()).expect("the rest"));
    feeding.join().expect("a thread that writes");
    reading.join().expect("a thread that reads");
    let (code, err) = end(child);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("timed as they arrive") && err.contains("count from their arrival"), "{err}");
}

#[test]
fn a_named_pipe_is_read_to_its_end() {
    let folder = Folder::new();
    let path = folder.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    let writing = std::thread::spawn(move || std::fs::write(path, "a\nb\na\n").expect("a reader"));
    let ran = folder.dedup("--format lines pipe");
    writing.join().expect("a writer that was read");
    assert_eq!(ran.ok().out, "a\nb\n");
}
