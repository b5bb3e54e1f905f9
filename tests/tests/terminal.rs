//! Tests of the progress display, which appears only on a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use nix::pty::openpty;

use crate::run::{Folder, dedup, example};

/// Returns the output on a terminal while a run reads `log` and writes records to `out`.
fn shown(flags: &str) -> String {
    shown_where(flags, "NO_COLOR", "")
}

/// Returns the output on a terminal, with an additional environment variable.
fn shown_where(flags: &str, name: &str, value: &str) -> String {
    let folder = Folder::new();
    let terminal = openpty(None, None).expect("a pseudo terminal");
    let mut command = dedup(flags);
    let stderr: OwnedFd = terminal.slave;
    let mut child = command
        .current_dir(folder.path(""))
        .env("TERM", "xterm")
        .env(name, value)
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .expect("the binary");
    // The command holds copies of the terminal's other end. While a copy is open, a read would never end.
    drop(command);
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A terminal reports its end with the error EIO.
        let _ = File::from(terminal.master).read_to_end(&mut bytes);
        bytes
    });
    assert!(child.wait().expect("an end").success());
    String::from_utf8_lossy(&reading.join().expect("a thread that reads")).into_owned()
}

#[test]
fn a_terminal_shows_progress_and_is_left_clean() {
    let logs = example("nasa_19950801.tsv.gz");
    let shown = shown(&format!("--format tsv --out out --report text {logs} {logs} {logs}"));
    assert!(shown.contains("MiB/") || shown.contains("KiB/") || shown.contains("eta"), "{shown:?}");
    let report = shown.find("first seen").expect("the report");
    assert!(!shown[report..].contains("eta"), "no bar after the report: {shown:?}");
}

/// Checks the report on a terminal. It must show the share of duplicates and the most frequent keys as bars. The bars
/// are coloured unless the user has switched off colours.
#[test]
fn a_terminal_shows_bars_and_a_pipe_none() {
    let flags = format!("--format clf --source host --out out --report text {}", example("apache_logs.gz"));
    let duplicates =
        |text: &str| text.lines().find(|line| line.starts_with("duplicates")).map(str::trim_end).map(str::to_owned);
    let coloured = shown_where(&flags, "NO_COLOR", "");
    assert!(coloured.contains("\x1b[1mmost repeated keys\x1b[0m"), "{coloured}");
    assert_eq!(
        duplicates(&coloured),
        Some("duplicates     2,086 (20.9 %)           \x1b[33m████████▎\x1b[0m".to_owned())
    );
    let plain = shown_where(&flags, "NO_COLOR", "1");
    let report = &plain[plain.find("events  ").expect("the report")..];
    assert_eq!(duplicates(report), Some("duplicates     2,086 (20.9 %)           ████████▎".to_owned()));
    assert!(!report.contains('\x1b'), "{report}");
    for text in [shown_where(&flags, "TERM", "dumb"), Folder::new().dedup(&flags).ok().err] {
        let report = &text[text.find("events  ").expect("the report")..];
        assert!(!report.contains('█') && !report.contains('\x1b'), "{report}");
    }
}

#[test]
fn a_pipe_gets_no_progress() {
    let ran = Folder::new().dedup(&format!("--format tsv --report json {}", example("nasa_19950801.tsv.gz"))).ok();
    assert_eq!(ran.err.lines().count(), 1, "{:?}", ran.err);
    assert!(!ran.err.contains('\r') && !ran.err.contains('\x1b'));
}
