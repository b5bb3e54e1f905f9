//! Runs the nodes of a scenario as processes of this machine, each with a folder for its data. When the program ends,
//! it ends these processes and removes their folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::scenario::Action;
use super::stage::Stage;
use crate::program::firstseen;
use firstseen_cli::cluster;
use firstseen_cli::cluster::connect::{self, Operator};
use firstseen_cli::node::health;
use firstseen_cli::text::size::ByteSize;
use firstseen_cli::up::{Asked, Folder, LocalNode, Processes};

/// Number of nodes in every scenario.
pub(super) const NODES: usize = 3;
/// Memory for cells of a node.
const MEMORY: ByteSize = ByteSize(256 << 20);
/// Time that a node has to exit after SIGTERM.
const END: Duration = Duration::from_secs(15);

/// Cluster whose nodes are processes of this machine.
pub(super) struct Local {
    processes: Processes,
    programs: Programs,
    folder: Folder,
    _data: TempDir,
}

/// Programs that the nodes can run.
struct Programs {
    older: Option<PathBuf>,
    newer: PathBuf,
}

impl Local {
    /// Starts the nodes, with an earlier version if one is given, and forms a cluster of them.
    pub(super) fn start(older: Option<&Path>) -> anyhow::Result<Self> {
        let data = TempDir::new().context("no folder for the cluster's data")?;
        let asked = Asked {
            nodes: Some(NODES),
            sites: Vec::new(),
            port: None,
            tls: false,
            redis: None,
            http_api: None,
            memory: Some(MEMORY),
        };
        let folder = Folder::open(&data.path().join("cluster"), asked)?;
        let programs = Programs { older: older.map(Path::to_owned), newer: firstseen()? };
        let processes = Processes::start_as(&folder, older.unwrap_or(&programs.newer))?;
        let local = Self { processes, programs, folder, _data: data };
        let addresses = local.addresses();
        connect::runtime()?.block_on(async {
            let any = Operator::new(addresses.clone(), local.folder.tls("admin").connector()?);
            cluster::form(&any, &addresses, cluster::FORM).await
        })?;
        Ok(local)
    }

    fn restart(&mut self, index: usize) -> anyhow::Result<()> {
        self.processes.end_one(index, END)?;
        self.processes.start_one(&self.folder, index)
    }

    fn addresses(&self) -> Vec<String> {
        self.folder.nodes().iter().map(LocalNode::address).collect()
    }
}

impl Stage for Local {
    fn command(&self, args: &[&str], besides: Option<usize>) -> Command {
        let mut command = Command::new(&self.programs.newer);
        command.args(args);
        let addresses = (1..).zip(self.addresses()).filter(|(node, _)| Some(*node) != besides).map(|(_, at)| at);
        let addresses: Vec<String> = addresses.collect();
        match args.first() {
            Some(&"cluster") => command.args(["--addr", addresses.first().map_or("", String::as_str)]),
            _ => command.args(["--cluster", &addresses.join(",")]),
        };
        command
    }

    fn producer(&self, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("cannot find the program itself")?);
        command.args(args).args(["--cluster", &self.addresses().join(",")]);
        Ok(command)
    }

    fn act(&mut self, action: Action, node: usize) -> anyhow::Result<()> {
        let index = node - 1;
        match action {
            Action::Kill => self.processes.kill_one(index),
            Action::Start => self.processes.start_one(&self.folder, index),
            Action::Restart => self.restart(index),
            Action::Upgrade => {
                self.processes.set_program(index, &self.programs.newer)?;
                self.restart(index)
            }
            Action::Downgrade => {
                let older = self.programs.older.as_deref().context("no earlier version to go back to")?;
                self.processes.set_program(index, older)?;
                self.restart(index)
            }
            Action::Pause => self.processes.signal_one(index, Signal::SIGSTOP),
            Action::Resume => self.processes.signal_one(index, Signal::SIGCONT),
            Action::RestartWhenReady | Action::Finalize => bail!("{action:?} is not an action of a node"),
            Action::Drain | Action::Disconnect | Action::Connect | Action::Fill | Action::Free | Action::Slow => {
                bail!("{action:?} is not supported for processes: run it with --containers")
            }
        }
    }

    fn not_ready(&self, node: usize) -> Option<String> {
        let address = self.folder.nodes().get(node - 1).map(LocalNode::http_address).unwrap_or_default();
        health::not_ready(&address).unwrap_or_else(|error| Some(format!("{error:#}")))
    }

    fn name_of(&self, node: usize) -> String {
        self.folder.nodes().get(node - 1).map_or_else(String::new, |node| node.name.clone())
    }
}
