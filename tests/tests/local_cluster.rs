//! Starts a cluster of real processes with `firstseen up`, in a folder of its own.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{Folder, Ran, Watchdog, firstseen};

/// Maximum time until a condition must hold.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Cluster that ends with the test.
pub(crate) struct LocalCluster {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Output of `firstseen up` when the cluster was ready.
    pub(crate) ready: Value,
    _watchdog: Watchdog,
}

impl LocalCluster {
    /// Starts `firstseen up` with `flags` in `folder`, and waits until the cluster is ready.
    pub(crate) fn start(folder: &Folder, flags: &str) -> Self {
        let mut command = firstseen();
        command.args(["up", "--json", "--memory", "64MiB"]).args(flags.split_whitespace()).current_dir(folder.path(""));
        let mut child = command.stderr(Stdio::inherit()).spawn().expect("the binary");
        let watchdog = Watchdog::within(&child, Duration::from_secs(300));
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("`{line}`: {error}"));
        Self { child, output, ready, _watchdog: watchdog }
    }

    /// Returns the addresses of all nodes, in the form that `--cluster` accepts.
    pub(crate) fn addresses(&self) -> String {
        let nodes = self.ready["nodes"].as_array().expect("nodes");
        let addresses = nodes.iter().map(|node| node["address"].as_str().expect("an address"));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Returns the process ids of the nodes.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let nodes = self.ready["nodes"].as_array().expect("nodes");
        let number = |node: &Value| node["process"].as_i64().and_then(|number| i32::try_from(number).ok());
        nodes.iter().map(|node| Pid::from_raw(number(node).expect("a process"))).collect()
    }

    /// Runs `firstseen filter create NAME` with `flags`.
    pub(crate) fn create(&self, folder: &Folder, name: &str, flags: &str) -> Ran {
        folder.run(&format!("filter create {name} --cluster {} {flags}", self.addresses()))
    }

    /// Sends a signal to `firstseen up`.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // The process may have ended already.
        let _ = kill(Pid::from_raw(id), signal);
    }

    /// Ends the cluster with a signal. Returns its exit code and the rest of its output.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        self.signal(Signal::SIGTERM);
        self.rest()
    }

    /// Waits until the cluster ends. Returns its exit code and the rest of its output.
    pub(crate) fn rest(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        (self.child.wait().expect("an end").code(), rest)
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Waits until `condition` returns `true`.
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_eq(what, true, condition);
}

/// Waits until `found` returns `wanted`.
pub(crate) fn eventually_eq<T: PartialEq + Debug>(what: &str, wanted: T, mut found: impl FnMut() -> T) {
    let deadline = Instant::now() + TIMEOUT;
    let mut now = found();
    while now != wanted {
        assert!(Instant::now() < deadline, "{what}: {now:?} at last, and not {wanted:?}");
        std::thread::sleep(Duration::from_millis(20));
        now = found();
    }
}

/// Returns whether a process is running. A process that has ended and waits to be reaped is not.
pub(crate) fn is_alive(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}
