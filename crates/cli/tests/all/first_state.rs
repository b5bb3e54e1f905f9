//! Tests that the first state of a run is saved soon after its start.

use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

use crate::run::{Folder, Watchdog};

/// A run that was killed in its first minute used to have no saved state, so it passed all records again.
#[test]
fn a_run_that_is_killed_soon_knows_what_it_has_passed_on() {
    for (flags, header) in [("", ""), ("--format csv --key k", "k\n")] {
        let folder = Folder::with(format!("{header}a\nb\n"));
        let mut child = folder.start(&format!("{flags} --capacity 1000 --state state"));
        let _watchdog = Watchdog::of(&child);
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(format!("{header}a\n").as_bytes()).and_then(|()| stdin.flush()).expect("a run that listens");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        for line in format!("{header}a\n").lines() {
            let mut passed = String::new();
            output.read_line(&mut passed).expect("a line");
            assert_eq!(passed.trim_end(), line);
        }
        // The default of --state-every is a minute, so only the early first save can create the file in time.
        let started = Instant::now();
        while !folder.has("state") {
            assert!(started.elapsed() < Duration::from_secs(50), "no state was saved");
            std::thread::yield_now();
        }
        child.kill().expect("a process");
        child.wait().expect("an end");
        assert_eq!(
            folder.dedup(&format!("{flags} --capacity 1000 --state state input")).ok().out,
            format!("{header}b\n")
        );
    }
}
