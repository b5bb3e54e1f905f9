//! Starts and ends the node processes of a local cluster. When the value [`Processes`] is dropped, each process
//! receives a signal to end. The processes also receive the signal if this process ends for any other reason, so no
//! node continues to run unnoticed.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folder::{Folder, LocalNode};
use crate::exit::UsageError;
use crate::node::health;

/// How long nodes may take to answer in-flight events and end. It is slightly longer than the limit of the nodes
/// themselves.
const END: Duration = Duration::from_secs(12);
/// Number of lines that are shown from the log of a node that has ended.
const LINES: usize = 5;

/// The node processes of a cluster, one per node.
pub struct Processes(Vec<Process>);

struct Process {
    name: String,
    program: PathBuf,
    log: PathBuf,
    /// Length of the log when the process was started. Earlier processes have written what stands before it.
    log_start: u64,
    child: Child,
    has_ended: bool,
}

impl Processes {
    /// Starts a node for each configuration of `folder`.
    ///
    /// # Errors
    /// Returns an error if a process cannot be started. The other processes are ended in that case.
    pub(crate) fn start(folder: &Folder) -> anyhow::Result<Self> {
        let this = std::env::current_exe().context("cannot find the program itself")?;
        Self::start_as(folder, &this)
    }

    /// Starts a node with the binary `program` for each configuration of `folder`.
    ///
    /// # Errors
    /// Returns an error if a process cannot be started. The other processes are ended in that case.
    pub fn start_as(folder: &Folder, program: &Path) -> anyhow::Result<Self> {
        let mut processes = Self(Vec::new());
        for node in folder.nodes() {
            processes.0.push(Process::start(folder, node, program)?);
        }
        Ok(processes)
    }

    /// Sets the binary that a process uses from its next start on.
    ///
    /// # Errors
    /// Returns an error if the process does not exist.
    pub fn set_program(&mut self, index: usize, program: &Path) -> anyhow::Result<()> {
        self.0.get_mut(index).context("no such node")?.program = program.to_owned();
        Ok(())
    }

    /// Starts a process again after it has ended.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub fn start_one(&mut self, folder: &Folder, index: usize) -> anyhow::Result<()> {
        let node = folder.nodes().get(index).context("no such node")?;
        let process = self.0.get_mut(index).context("no such node")?;
        *process = Process::start(folder, node, &process.program)?;
        Ok(())
    }

    /// Kills a process (SIGKILL).
    ///
    /// # Errors
    /// Returns an error if the process does not exist.
    pub fn kill_one(&mut self, index: usize) -> anyhow::Result<()> {
        self.signal_one(index, Signal::SIGKILL)?;
        let process = self.0.get_mut(index).context("no such node")?;
        process.has_ended = process.child.wait().is_ok();
        Ok(())
    }

    /// Sends SIGTERM to a process, and waits until the process has ended.
    ///
    /// # Errors
    /// Returns an error if the process does not end in time.
    pub fn end_one(&mut self, index: usize, patience: Duration) -> anyhow::Result<()> {
        self.signal_one(index, Signal::SIGTERM)?;
        let begun = std::time::Instant::now();
        let process = self.0.get_mut(index).context("no such node")?;
        while process.look().is_none() && !process.has_ended {
            anyhow::ensure!(begun.elapsed() < patience, "{} does not end", process.name);
            std::thread::sleep(super::POLL_INTERVAL);
        }
        Ok(())
    }

    /// Ends a process gracefully if it still runs, and starts it again. A process that does not end in time is killed.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub(crate) async fn restart_one(&mut self, folder: &Folder, index: usize) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + END;
        if self.is_running(index) {
            self.signal_one(index, Signal::SIGTERM)?;
        }
        while self.is_running(index) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(super::POLL_INTERVAL).await;
        }
        if self.is_running(index) {
            self.kill_one(index)?;
        }
        self.start_one(folder, index)
    }

    /// Checks the configuration of a node with the binary that the next start of its process uses. The process that
    /// runs is not touched.
    ///
    /// # Errors
    /// Returns what `firstseen node --check-config` says.
    pub(crate) async fn check_one(&self, folder: &Folder, index: usize) -> anyhow::Result<()> {
        let node = folder.nodes().get(index).context("no such node")?;
        let program = &self.0.get(index).context("no such node")?.program;
        let mut command = node_command(folder, node, program);
        command.arg("--check-config").stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await?;
        let output = output.with_context(|| format!("cannot start {}", program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim_end();
        Err(UsageError(said.strip_prefix("firstseen: ").unwrap_or(said).to_owned()).into())
    }

    /// Waits until a process that was just started answers at its address for health checks.
    ///
    /// # Errors
    /// Returns an error with the end of the log if the process has ended, or if it does not answer for `patience`.
    pub(crate) async fn answers(&mut self, folder: &Folder, index: usize, patience: Duration) -> anyhow::Result<()> {
        let node = folder.nodes().get(index).context("no such node")?;
        let process = self.0.get_mut(index).context("no such node")?;
        let address = folder.health_address(node);
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            if let Some(status) = process.look() {
                anyhow::bail!("{}", process.last_log_lines(status));
            }
            let Some(address) = address.clone() else { return Ok(()) };
            let answer = tokio::task::spawn_blocking(move || health::not_ready(&address)).await?;
            if answer.is_ok() {
                return Ok(());
            }
            anyhow::ensure!(
                tokio::time::Instant::now() < deadline,
                "{} was started again and does not answer yet; see its log {}",
                process.name,
                process.log.display()
            );
            tokio::time::sleep(super::POLL_INTERVAL).await;
        }
    }

    /// Returns whether a process still runs.
    pub(super) fn is_running(&mut self, index: usize) -> bool {
        self.0.get_mut(index).is_some_and(|process| process.look().is_none() && !process.has_ended)
    }

    /// Sends a signal to a process.
    ///
    /// # Errors
    /// Returns an error if the process does not exist.
    pub fn signal_one(&self, index: usize, signal: Signal) -> anyhow::Result<()> {
        let process = self.0.get(index).context("no such node")?;
        kill(Pid::from_raw(i32::try_from(process.child.id())?), signal)?;
        Ok(())
    }

    /// Returns the ids of the processes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|process| process.child.id())
    }

    /// Returns the number of processes that still run.
    pub(crate) fn running_count(&self) -> usize {
        self.0.iter().filter(|process| !process.has_ended).count()
    }

    /// Returns a description of a process that has ended since the last call.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.0.iter_mut().find_map(|process| process.look().map(|status| process.last_log_lines(status)))
    }

    /// Sends SIGTERM to all processes and waits. Processes that do not end in time are killed.
    pub(crate) async fn end(&mut self) {
        self.signal(Signal::SIGTERM);
        let deadline = tokio::time::Instant::now() + END;
        while self.running_count() > 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(super::POLL_INTERVAL).await;
            self.0.iter_mut().for_each(|process| _ = process.look());
        }
        self.kill();
    }

    /// Kills all processes that still run.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        for process in self.0.iter_mut().filter(|process| !process.has_ended) {
            process.has_ended = process.child.wait().is_ok();
        }
    }

    fn signal(&self, signal: Signal) {
        for process in self.0.iter().filter(|process| !process.has_ended) {
            if let Ok(id) = i32::try_from(process.child.id()) {
                // The process may have ended in the meantime, so the error is ignored.
                let _ = kill(Pid::from_raw(id), signal);
            }
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
    }
}

impl Process {
    fn start(folder: &Folder, node: &LocalNode, program: &Path) -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt;
        let log = folder.log(node);
        let written = File::options().append(true).create(true).open(&log);
        let written = written.with_context(|| format!("cannot write {}", log.display()))?;
        let log_start = written.metadata().map_or(0, |metadata| metadata.len());
        let mut command = node_command(folder, node, program);
        command.arg("--end-with").arg(std::process::id().to_string());
        // The node has a separate process group. Ctrl-C in the terminal therefore reaches only this process, which then
        // ends the nodes gracefully.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(written);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name: node.name.clone(), program: program.to_owned(), log, log_start, child, has_ended: false })
    }

    /// Returns how the process has ended, if it has ended since the last call.
    fn look(&mut self) -> Option<ExitStatus> {
        if self.has_ended {
            return None;
        }
        let status = self.child.try_wait().ok().flatten();
        self.has_ended = status.is_some();
        status
    }

    fn last_log_lines(&self, status: ExitStatus) -> String {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no reason given".to_owned(),
        };
        let log = fs::read(&self.log).unwrap_or_default();
        let own_start = usize::try_from(self.log_start).unwrap_or(0);
        let log = String::from_utf8_lossy(log.get(own_start..).unwrap_or(&log));
        let last: Vec<&str> = log.lines().rev().take(LINES).collect();
        let last: String = last.iter().rev().map(|line| format!("\n  {line}")).collect();
        format!("{} has ended ({how}); its log is {}, which ends:{last}", self.name, self.log.display())
    }
}

/// Returns the command that runs a node with its configuration.
fn node_command(folder: &Folder, node: &LocalNode, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("node").arg("--config").arg(folder.config(node)).arg("--create");
    command
}
