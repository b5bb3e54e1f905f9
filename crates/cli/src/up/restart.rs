//! Ends and restarts a node of a running cluster, as `firstseen up --restart NODE` asks from another terminal.
//!
//! The two processes communicate by files in the folder of the cluster. One file has the name of the node, and the
//! other file has the answer.
//!
//! The process that started the cluster also performs the restart, and it restarts only nodes of its own folder.
//!
//! A restart can lose data that no other node has. If the node has such data, it is restarted only if the user has
//! accepted the loss.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::folder::{Folder, running};
use super::processes::Processes;
use super::{LocalNode, POLL_INTERVAL};
use crate::cluster::connect::Operator;
use crate::cluster::losses;
use crate::exit::UsageError;

/// File with the name of the node.
const ASKED: &str = "restart";
/// File with the answer.
const ANSWER: &str = "restarted";
/// Second line of the request file if the user accepts the loss of data.
const ACCEPTED: &str = "accept-loss";
/// First word of the answer if the node was restarted.
const DONE: &str = "done ";
/// First word of the answer if the node did not start again, for a reason that is not the user's request.
const FAILED: &str = "failed ";
/// Maximum time to wait for the answer. It is longer than finding a leader, ending a node and [`START_MAX`] together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum time until a process that was started again answers.
const START_MAX: Duration = Duration::from_secs(20);

/// Asks the process that runs the cluster in the folder at `path` to restart a node, and waits for its answer.
///
/// # Errors
/// Returns an error if no cluster runs in the folder, if the node does not exist, or if the node was not restarted.
pub(super) fn ask(path: &Path, name: &str, accepts_loss: bool, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let shown = path.display();
    if running(path)?.is_none() {
        return Err(UsageError(format!("the cluster in {shown} is not running: `firstseen up` starts it")).into());
    }
    let asked = path.join(ASKED);
    let answer = path.join(ANSWER);
    remove(&answer)?;
    let question = if accepts_loss { format!("{name}\n{ACCEPTED}") } else { name.to_owned() };
    write_whole(&asked, &question).with_context(|| format!("cannot write {}", asked.display()))?;
    let begun = Instant::now();
    while !answer.exists() {
        if begun.elapsed() > REQUEST_TIMEOUT {
            remove(&asked)?;
            bail!("the process that runs the cluster in {shown} does not answer: was it started by an older version?");
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let said = fs::read_to_string(&answer).with_context(|| format!("cannot read {}", answer.display()))?;
    remove(&answer)?;
    if let Some(how) = said.strip_prefix(DONE) {
        writeln!(out, "{name} {how}; `firstseen cluster status` shows when it has everything again")?;
        return Ok(ExitCode::SUCCESS);
    }
    match said.strip_prefix(FAILED) {
        Some(why) => bail!("{why}"),
        None => Err(UsageError(said).into()),
    }
}

/// Waits until another process asks for a restart, and returns the request.
pub(super) async fn asked(path: &Path) -> String {
    let asked = path.join(ASKED);
    loop {
        if let Ok(name) = fs::read_to_string(&asked)
            && remove(&asked).is_ok()
        {
            return name;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Restarts a node, and writes the answer.
pub(super) async fn carry_out(any: &Operator, folder: &Folder, processes: &mut Processes, asked: &str) {
    let answer = match restart(any, folder, processes, asked).await {
        Ok(how) => format!("{DONE}{how}"),
        Err(Failure::NotTouched(error)) => format!("{error:#}"),
        Err(Failure::NotStarted(error)) => format!("{FAILED}{error:#}"),
    };
    let answered = folder.path().join(ANSWER);
    if let Err(error) = write_whole(&answered, &answer) {
        notice!("firstseen: cannot write {}: {error}", answered.display());
    }
}

/// Why a node was not restarted.
enum Failure {
    /// The request was refused, and the node is as before.
    NotTouched(anyhow::Error),
    /// The node was ended if it ran, and it did not start again.
    NotStarted(anyhow::Error),
}

/// Restarts a node, waits until it answers, and returns a description of how it was restarted.
async fn restart(any: &Operator, folder: &Folder, processes: &mut Processes, asked: &str) -> Result<String, Failure> {
    let (name, accepted) = asked.split_once('\n').unwrap_or((asked, ""));
    let index = index_of(folder, name).map_err(Failure::NotTouched)?;
    let is_running = processes.is_running(index);
    let allowed = check(any, folder, processes, index, is_running && accepted != ACCEPTED).await;
    allowed.map_err(Failure::NotTouched)?;
    let how = if is_running { "was ended and is started again" } else { "had ended, and is started again" };
    let started = start(folder, processes, index).await;
    let process = started.map_err(Failure::NotStarted)?;
    Ok(format!("{how} (process {process})"))
}

/// Returns the index of the node called `name`.
fn index_of(folder: &Folder, name: &str) -> anyhow::Result<usize> {
    folder.nodes().iter().position(|node| node.name == name).with_context(|| {
        let names: Vec<&str> = folder.nodes().iter().map(|node: &LocalNode| node.name.as_str()).collect();
        format!("the cluster has no node `{name}`: {}", names.join(", "))
    })
}

/// Checks that a node can start with its configuration, and with `keeps_data` also that ending it loses no data.
///
/// A node with an unusable configuration would end right after its start, so it must not be ended.
async fn check(
    any: &Operator,
    folder: &Folder,
    processes: &mut Processes,
    index: usize,
    keeps_data: bool,
) -> anyhow::Result<()> {
    let name = &folder.nodes()[index].name;
    if let Err(error) = processes.check_one(folder, index).await {
        let state = if processes.is_running(index) { "and still runs as before" } else { "and is still down" };
        bail!("{name} is not restarted {state}, because it cannot start with its configuration: {error:#}");
    }
    if keeps_data {
        let lost = losses(any, name).await?;
        anyhow::ensure!(lost.is_empty(), "{name} must not be stopped now:\n{}", lost.join("\n"));
    }
    Ok(())
}

/// Ends a node if it runs, starts it, waits until it answers, and returns the id of its process.
async fn start(folder: &Folder, processes: &mut Processes, index: usize) -> anyhow::Result<u32> {
    processes.restart_one(folder, index).await?;
    processes.answers(folder, index, START_MAX).await?;
    processes.ids().nth(index).context("it has no process")
}

/// Writes `text` to a file in one atomic step, so that another process finds either the whole text or no file. A plain
/// write would first create an empty file. If the other process read the empty file, it would try to restart a node
/// without a name.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
