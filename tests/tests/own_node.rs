//! Node in a process of its own, which a test can kill and restart.

use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ports::free_ports;
use crate::run::{Folder, firstseen};

/// Node in a folder of its own, with a port that stays the same.
pub(crate) struct OwnNode {
    pub(crate) folder: Folder,
    pub(crate) address: String,
    /// Environment variables of the process, in addition to those of the test.
    environment: Vec<(&'static str, String)>,
    child: Child,
}

impl OwnNode {
    /// Starts a node. `settings` are added to its configuration.
    pub(crate) fn start(name: &str, settings: &str) -> Self {
        Self::start_in(Folder::new(), name, settings)
    }

    /// Starts a node with these variables in its environment.
    pub(crate) fn start_with(environment: Vec<(&'static str, String)>, name: &str, settings: &str) -> Self {
        Self::start_of(Folder::new(), environment, name, settings)
    }

    /// Starts a new node in an existing folder, whose subfolder `data` must be missing or empty. A new node needs a
    /// permission to start without data, which is usually the flag `--create`. If `data` contains only the file
    /// `new-node`, this file is the permission, and the flag is left out.
    pub(crate) fn start_in(folder: Folder, name: &str, settings: &str) -> Self {
        Self::start_of(folder, Vec::new(), name, settings)
    }

    fn start_of(folder: Folder, environment: Vec<(&'static str, String)>, name: &str, settings: &str) -> Self {
        let port = free_ports(1);
        let config = format!(
            "name = \"{name}\"\nlisten = \"127.0.0.1:{port}\"\ndata_dir = \"data\"\nmemory_max_bytes = 268435456\n{settings}"
        );
        folder.write("node.toml", config);
        let flags = if folder.has("data/new-node") { "" } else { "--create" };
        let child = Self::begin(&folder, &environment, flags);
        Self { folder, address: format!("127.0.0.1:{port}"), environment, child }
    }

    fn begin(folder: &Folder, environment: &[(&'static str, String)], flags: &str) -> Child {
        let mut command = firstseen();
        command.args(["node", "--config", "node.toml"]).args(flags.split_whitespace());
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.path("log"));
        let log = Stdio::from(log.expect("a file for its log"));
        command
            .envs(environment.iter().cloned())
            .current_dir(folder.path(""))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the binary")
    }

    /// Returns the node's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path("log")).unwrap_or_default()
    }

    /// Stops the node with a signal, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Sends a signal to the node.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(process, signal).expect("it runs");
    }

    /// Returns the process id of the node.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Stops the node with a signal, and waits until it has ended.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
    }

    /// Returns whether the process of the node is running.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("its process").is_none()
    }

    /// Kills the node, and starts it again.
    pub(crate) fn crash(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Kills the node.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Sets environment variables for the next process of the node, in addition to those of the test.
    pub(crate) fn set_environment(&mut self, environment: Vec<(&'static str, String)>) {
        self.environment = environment;
    }

    /// Starts the node again after it has ended.
    pub(crate) fn start_again(&mut self) {
        self.child = Self::begin(&self.folder, &self.environment, "");
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
