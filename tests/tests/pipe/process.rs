//! Starts processes of `firstseen pipe`, and collects what they print.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{Folder, Watchdog, firstseen};

use super::broker::unique;

/// Maximum time of one process.
const LIMIT: Duration = Duration::from_secs(240);

/// Process of `firstseen pipe`, which ends with the test.
pub(super) struct Pipe {
    process: Child,
    output: PathBuf,
    errors: PathBuf,
    _watchdog: Watchdog,
}

/// How a process has ended, and what it printed.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl Pipe {
    /// Starts `firstseen pipe` with arguments and environment variables.
    pub(super) fn start(folder: &Folder, arguments: &[String], variables: &[(&str, String)]) -> Self {
        let name = unique("pipe");
        let output = folder.path(&format!("{name}.out"));
        let errors = folder.path(&format!("{name}.err"));
        let mut command = firstseen();
        command.arg("pipe").args(arguments).current_dir(folder.path("")).envs(variables.iter().cloned());
        command.stdout(File::create(&output).expect("a file")).stderr(File::create(&errors).expect("a file"));
        let process = command.spawn().expect("the binary");
        let watchdog = Watchdog::within(&process, LIMIT);
        Self { process, output, errors, _watchdog: watchdog }
    }

    /// Sends a signal to the process, which may have ended.
    pub(super) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("a process id");
        let _ = kill(Pid::from_raw(id), signal);
    }

    /// Returns what the process has written to its error output so far.
    pub(super) fn errors(&self) -> String {
        text(&self.errors)
    }

    /// Returns whether the process is running.
    pub(super) fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("a status").is_none()
    }

    /// Returns whether the process is suspended by a signal.
    pub(super) fn is_suspended(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.process.id())).is_ok_and(|status| status.contains(") T "))
    }

    /// Waits until the process ends.
    pub(super) fn wait(mut self) -> Ended {
        let status: ExitStatus = self.process.wait().expect("an end");
        let ended =
            Ended { code: status.code(), signal: status.signal(), out: text(&self.output), err: text(&self.errors) };
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        ended
    }

    /// Asks the process to end, and waits until it has ended.
    pub(super) fn end(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Kills the process, and waits until it has ended.
    pub(super) fn kill(self) -> Ended {
        self.signal(Signal::SIGKILL);
        self.wait()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).expect("a file of a process")).into_owned()
}

impl Ended {
    /// Checks that the process succeeded.
    pub(super) fn ok(self) -> Self {
        assert_eq!((self.code, self.signal), (Some(0), None), "{}", self.err);
        self
    }

    /// Checks that the process has ended in order because it was told to.
    pub(super) fn stopped(self) -> Self {
        assert_eq!((self.code, self.signal), (Some(130), None), "{}", self.err);
        self
    }

    /// Returns whether the process was killed.
    pub(super) fn is_killed(&self) -> bool {
        self.signal == Some(Signal::SIGKILL as i32)
    }

    /// Checks that the process failed with `code`, and that its error output contains each of `words`.
    pub(super) fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{words:?}: {}", self.err);
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in: {}", self.err);
        }
        self
    }

    /// Returns the report, which is the last line of the standard output.
    pub(super) fn report(&self) -> Value {
        let line = self.out.lines().last().unwrap_or_else(|| panic!("no report: {}", self.err));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// Returns the status and the body of a page at a port of this machine, or `None` if nothing answers there.
pub(super) fn page(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
