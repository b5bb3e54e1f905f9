//! Runs a node from start to end: it checks the configuration, starts the node, and shuts it down after a signal.

use std::fs;
use std::io::{ErrorKind, IsTerminal, stdin};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use firstseen_node::{Edges, Node, has_identity, has_lost_identity};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::NodeArgs;
use super::config_file::NodeFile;
use super::traces::Traces;
use super::{dates, freed_memory, log, machine, open_files};
use crate::exit::{INTERRUPTED, UsageError};
use crate::terminal::signals::Signals;

/// Name of a file that permits a node to start with an empty data folder. The operator creates the file in the data
/// folder, which is usually on a separate disk. If that disk is not mounted, the file is missing, and the node does not
/// start by mistake as a new node. A service can therefore use the same command for the first start and for all later
/// starts.
const NEW_NODE: &str = "new-node";

/// Runs the node of the configuration at `path`, or only checks it.
pub(super) fn run(args: &NodeArgs, path: &Path) -> anyhow::Result<ExitCode> {
    if let Some(parent) = args.end_with {
        end_with(parent)?;
    }
    let mut file = NodeFile::read(path, &args.set)?;
    let mut warnings = check(&file, path, args.create, args.check_config)?;
    warnings.extend(open_files::allow(&mut file.node, path));
    if args.check_config {
        warnings.iter().for_each(|warning| notice!("firstseen: {warning}"));
        println!("{}: a node `{}` can be started with this", path.display(), file.node.name);
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let traces = {
        let _entered = runtime.enter();
        Traces::start(&file.traces, &file.node.name)?
    };
    let spans = traces.as_ref().map(Traces::sink);
    log::start(&file.log, spans).map_err(|error| UsageError(format!("RUST_LOG: {error}")))?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let code = {
        // The last spans are sent while the runtime still exists.
        let _traces = traces;
        runtime.block_on(live(file))
    };
    // Tasks that are still running after a second signal must not keep the process alive.
    runtime.shutdown_background();
    code
}

/// Checks whether a node can start with `file`, which was read from `path`, and returns warnings. A folder that a run
/// with `create` would create is not created if `only_checks` is true.
fn check(file: &NodeFile, path: &Path, create: bool, only_checks: bool) -> anyhow::Result<Vec<String>> {
    if !(only_checks && create && !file.node.data_dir.exists()) {
        check_folder(&file.node.data_dir, create, path)?;
    }
    let mut warnings = dates::check(file, path)?;
    warnings.extend(machine::check(&file.node, path)?);
    Ok(warnings)
}

/// Checks whether `firstseen node --config PATH --create` can start a node, without changing anything.
///
/// # Errors
/// Returns an error that names the file, and the line and the key if they are known.
pub(crate) fn check_config(path: &Path) -> anyhow::Result<()> {
    let file = NodeFile::read(path, &[])?;
    check(&file, path, true, true).map(|_| ())
}

async fn live(file: NodeFile) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let edges = Edges::of_machine(&file.node).await?;
    let name = file.node.name.clone();
    let new_node = file.node.data_dir.join(NEW_NODE);
    let mut hangup = hangup(&file)?;
    let node = tokio::select! {
        node = Node::start(file.node, edges) => node.with_context(|| format!("node {name} cannot start"))?,
        // Starting may take long, because the node waits for space if the disk is full. A signal ends this wait.
        signal = signals.next() => {
            tracing::info!(signal, "ended before the node has started");
            return Ok(ExitCode::SUCCESS);
        }
    };
    forget(&new_node)?;
    tracing::info!(name, address = node.addr(), http = ?node.http_addr(), "node is listening");
    tokio::spawn(freed_memory::give_back());
    let first = tokio::select! {
        first = next_but_hangup(&mut signals, &mut hangup, &node) => first,
        failure = node.failure() => {
            tracing::error!(%failure, "the node ends");
            // Events that other owner threads have admitted are answered first. A further signal ends this wait.
            tokio::select! {
                () = node.shutdown() => {}
                _ = signals.next() => {}
            }
            return Err(failure).with_context(|| format!("node {name} has ended"));
        }
    };
    tracing::info!(signal = first, "draining; a second signal ends the node at once");
    tokio::select! {
        () = node.shutdown() => Ok(ExitCode::SUCCESS),
        second = signals.next() => {
            tracing::warn!(signal = second, "ended before everything in flight was answered");
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// Removes the file [`NEW_NODE`] after the first start, because the data folder now belongs to a node. If the file
/// remained and the identity of the node was lost later, the folder would look like the folder of a new node.
fn forget(new_node: &Path) -> anyhow::Result<()> {
    match fs::remove_file(new_node) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", new_node.display()))
        }
        _ => Ok(()),
    }
}

/// Returns a listener for the signal SIGHUP, after which a node loads its certificates again.
///
/// A node without certificates has nothing to load again. If such a node runs as a service, it still needs a listener,
/// because without one the signal would end the node. If the node runs in a terminal, the function returns `None`, so
/// the signal ends the node when the user closes the terminal.
fn hangup(file: &NodeFile) -> anyhow::Result<Option<Signal>> {
    let is_heard = file.node.tls.is_some() || !stdin().is_terminal();
    is_heard.then(|| signal(SignalKind::hangup()).context("cannot listen for signals")).transpose()
}

/// Returns the next signal that asks the node to end. Until then, the node reloads its certificates at each SIGHUP.
async fn next_but_hangup(signals: &mut Signals, hangup: &mut Option<Signal>, node: &Node) -> &'static str {
    loop {
        let told = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = signals.next() => return signal,
            _ = told => node.look_at_certificates(),
        }
    }
}

/// Checks the data folder. A missing or empty folder may be a disk that is not mounted, so no folder is created unless
/// a flag asks for it.
fn check_folder(folder: &Path, create: bool, config: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() && has_lost_identity(folder) => Err(UsageError(format!(
            "{}: data_dir {shown} holds the journal of a node, and not its identity (meta.redb): put that back; or, to \
             join as a new node that has nothing, name an empty folder",
            config.display()
        ))
        .into()),
        Ok(metadata) if metadata.is_dir() && !create && !has_identity(folder) && !folder.join(NEW_NODE).exists() => {
            Err(UsageError(format!(
                "{}: data_dir {shown} is no node's yet; for a new node say --create, or put an empty file `{NEW_NODE}` \
                 there; otherwise look where its data went: a disk may not be mounted",
                config.display()
            ))
            .into())
        }
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(UsageError(format!("{}: data_dir {shown} is no folder", config.display())).into()),
        Err(error) if error.kind() == ErrorKind::NotFound && create => {
            fs::create_dir_all(folder).with_context(|| format!("cannot make data_dir {shown}"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(UsageError(format!(
            "{}: data_dir {shown} does not exist; for a new node say --create, otherwise look where its data went",
            config.display()
        ))
        .into()),
        Err(error) => Err(error).with_context(|| format!("cannot use data_dir {shown}")),
    }
}

/// Asks the system to end this process when its parent ends for any reason.
#[cfg(target_os = "linux")]
fn end_with(parent: u32) -> anyhow::Result<()> {
    use nix::sys::prctl::set_pdeathsig;
    use nix::sys::signal::Signal;
    set_pdeathsig(Signal::SIGTERM).context("cannot tie this process to its parent")?;
    // The parent may have ended before this request was made.
    if nix::unistd::getppid().as_raw().cast_unsigned() != parent {
        anyhow::bail!("the process that started this node has ended");
    }
    Ok(())
}

/// Does nothing, because other systems do not offer this. The parent ends its nodes if it can.
#[cfg(not(target_os = "linux"))]
fn end_with(_parent: u32) -> anyhow::Result<()> {
    Ok(())
}
