//! A cluster of real processes for a benchmark: `firstseen up` starts the nodes, and ends them.
//!
//! Promises: no process and no file is left behind. Must not know: what is measured.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use tempfile::TempDir;

use crate::program::firstseen;

/// A cluster that ends when this is dropped.
pub(super) struct LocalCluster {
    /// The binary `firstseen`.
    program: PathBuf,
    child: Child,
    addresses: Vec<String>,
    http_addresses: Vec<String>,
    processes: Vec<Pid>,
    /// Where the client's certificate is, if the nodes ask for one.
    certificates: Option<PathBuf>,
    _data: TempDir,
}

#[derive(Deserialize)]
struct Ready {
    nodes: Vec<ReadyNode>,
}

#[derive(Deserialize)]
struct ReadyNode {
    address: String,
    http: String,
    process: i32,
}

impl LocalCluster {
    /// Starts `nodes` nodes and waits until they serve.
    pub(super) fn start(nodes: u32, tls: bool) -> anyhow::Result<Self> {
        Self::start_with(nodes, tls, &[])
    }

    /// The same with further flags of `firstseen up`.
    pub(super) fn start_with(nodes: u32, tls: bool, flags: &[String]) -> anyhow::Result<Self> {
        let data = TempDir::new().context("no folder for the cluster's data")?;
        let folder = data.path().join("cluster");
        let program = firstseen()?;
        let mut command = Command::new(&program);
        command.args(["up", "--json", "--nodes", &nodes.to_string(), "--data"]).arg(&folder).args(flags);
        let certificates = tls.then(|| folder.join("certs"));
        if tls {
            command.arg("--tls");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("the cluster has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let (addresses, http_addresses, processes) = (Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Self { program, child, addresses, http_addresses, processes, certificates, _data: data };
        match serde_json::from_str::<Ready>(&line) {
            Ok(ready) => {
                cluster.processes = ready.nodes.iter().map(|node| Pid::from_raw(node.process)).collect();
                let ends = ready.nodes.into_iter().map(|node| (node.address, node.http));
                (cluster.addresses, cluster.http_addresses) = ends.unzip();
            }
            Err(error) => bail!("a cluster of {nodes} nodes does not start ({error}); try `firstseen up`"),
        }
        Ok(cluster)
    }

    /// Where its nodes listen.
    pub(super) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Where their metrics are.
    pub(super) fn http_addresses(&self) -> &[String] {
        &self.http_addresses
    }

    /// Kills the last of its nodes.
    pub(super) fn kill_one(&self) -> anyhow::Result<()> {
        let process = self.processes.last().context("the cluster has no nodes")?;
        Ok(kill(*process, Signal::SIGKILL)?)
    }

    /// Certificates of a producer: authority, certificate, key.
    pub(super) fn client_files(&self) -> Option<[PathBuf; 3]> {
        let file = |folder: &Path, name: &str| folder.join(name);
        let folder = self.certificates.as_deref()?;
        Some([file(folder, "ca.pem"), file(folder, "local.client.pem"), file(folder, "local.client.key")])
    }

    /// Certificates of an operator.
    fn admin_files(&self) -> Option<[PathBuf; 3]> {
        let folder = self.certificates.as_deref()?;
        Some([folder.join("ca.pem"), folder.join("admin.pem"), folder.join("admin.key")])
    }

    /// Runs `firstseen filter` with these arguments on the cluster.
    pub(super) fn filter(&self, args: &[&str]) -> anyhow::Result<()> {
        Self::finish(&mut self.command(&[&["filter"], args].concat()))
    }

    /// `firstseen` with these arguments, on the cluster.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args);
        match args.first() {
            Some(&"cluster") => command.args(["--addr", self.addresses.first().map_or("", String::as_str)]),
            _ => command.args(["--cluster", &self.addresses.join(",")]),
        };
        if let Some(files) = self.admin_files() {
            ["--tls-ca", "--tls-cert", "--tls-key"].iter().zip(files).for_each(|(flag, file)| {
                command.arg(flag).arg(file);
            });
        }
        command
    }

    /// Runs it to its end.
    pub(super) fn finish(command: &mut Command) -> anyhow::Result<()> {
        let output = command.output()?;
        if !output.status.success() {
            let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
            bail!("firstseen {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
