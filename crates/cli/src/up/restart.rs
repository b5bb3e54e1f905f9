//! A node of a running cluster that is ended and started again, as `firstseen up --restart NODE` asks from another terminal.
//!
//! The two processes talk by files in the folder of the cluster: one with the name of the node, and one with the answer.
//!
//! Promises: only a node of the folder is restarted, and by the process that started it; what the node alone remembers is lost only if
//! the user has accepted that. It must not depend on what nodes do.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::folder::{Folder, running};
use super::processes::Processes;
use super::{LOOK, LocalNode};
use crate::cluster::connect::Operator;
use crate::cluster::losses;
use crate::exit::UsageError;

/// The file with the name of the node.
const ASKED: &str = "restart";
/// The file with the answer.
const ANSWER: &str = "restarted";
/// The second line of the question if loss is accepted.
const ACCEPTED: &str = "accept-loss";
/// The first word of the answer if the node was restarted.
const DONE: &str = "done ";
/// How long an answer may take: longer than a leader is looked for, and a node has to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the process that runs the cluster in the folder at `path`, and waits for its answer.
///
/// # Errors
/// That no cluster runs there, that it has no such node, or why it was not restarted.
pub(super) fn ask(path: &Path, name: &str, accepts_loss: bool, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let shown = path.display();
    if running(path)?.is_none() {
        return Err(UsageError(format!("the cluster in {shown} is not running: `firstseen up` starts it")).into());
    }
    let asked = path.join(ASKED);
    let answer = path.join(ANSWER);
    remove(&answer)?;
    let question = if accepts_loss { format!("{name}\n{ACCEPTED}") } else { name.to_owned() };
    fs::write(&asked, question).with_context(|| format!("cannot write {}", asked.display()))?;
    let begun = Instant::now();
    while !answer.exists() {
        if begun.elapsed() > PATIENCE {
            remove(&asked)?;
            bail!("the process that runs the cluster in {shown} does not answer: was it started by an older version?");
        }
        std::thread::sleep(LOOK);
    }
    let said = fs::read_to_string(&answer).with_context(|| format!("cannot read {}", answer.display()))?;
    remove(&answer)?;
    match said.strip_prefix(DONE) {
        Some(how) => writeln!(out, "{name} {how}; `firstseen cluster status` shows when it has everything again")?,
        None => return Err(UsageError(said).into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until somebody asks for a node, and returns the question.
pub(super) async fn asked(path: &Path) -> String {
    let asked = path.join(ASKED);
    loop {
        if let Ok(name) = fs::read_to_string(&asked)
            && remove(&asked).is_ok()
        {
            return name;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Restarts a node, and says so.
pub(super) async fn carry_out(any: &Operator, folder: &Folder, processes: &mut Processes, asked: &str) {
    let answer = match restart(any, folder, processes, asked).await {
        Ok(how) => format!("{DONE}{how}"),
        Err(error) => format!("{error:#}"),
    };
    // The answer is there as a whole or not at all.
    let unfinished = folder.path().join("restarted.new");
    let answered = folder.path().join(ANSWER);
    if let Err(error) = fs::write(&unfinished, answer).and_then(|()| fs::rename(&unfinished, &answered)) {
        notice!("firstseen: cannot write {}: {error}", answered.display());
    }
}

/// Returns how it was restarted.
async fn restart(any: &Operator, folder: &Folder, processes: &mut Processes, asked: &str) -> anyhow::Result<String> {
    let (name, accepted) = asked.split_once('\n').unwrap_or((asked, ""));
    let index = folder.nodes().iter().position(|node| node.name == name).with_context(|| {
        let names: Vec<&str> = folder.nodes().iter().map(|node: &LocalNode| node.name.as_str()).collect();
        format!("the cluster has no node `{name}`: {}", names.join(", "))
    })?;
    let lives = processes.lives(index);
    if lives && accepted != ACCEPTED {
        let lost = losses(any, name).await?;
        anyhow::ensure!(lost.is_empty(), "{name} must not be stopped now:\n{}", lost.join("\n"));
    }
    processes.restart_one(folder, index).await?;
    let process = processes.ids().nth(index).context("it has no process")?;
    let how = if lives { "was ended and is started again" } else { "had ended, and is started again" };
    Ok(format!("{how} (process {process})"))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
