//! Cluster of real processes for a benchmark. The cluster is started and ended by `firstseen up`. When a measurement
//! ends, its processes are ended, and its files and filters are removed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use firstseen_client::{Client, ConnectOptions, Filter, TlsFiles};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::flow::WINDOW_MS;
use crate::program::firstseen;

/// Default number of events in a batch of a client, which is used if a benchmark does not set another number.
pub(super) const CLIENT_BATCH_EVENTS: u32 = 2048;

/// Cluster that ends when this value is dropped.
pub(super) struct LocalCluster {
    /// Path of the binary `firstseen`.
    program: PathBuf,
    child: Child,
    nodes: Vec<ReadyNode>,
    /// Folder of certificates. `None` means that the nodes do not require certificates.
    certificates: Option<PathBuf>,
    /// Runtime that executes clients.
    runtime: Runtime,
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

/// Filter that is created for a measurement.
#[derive(Clone, Copy)]
pub(super) struct NewFilter<'a> {
    pub(super) name: &'a str,
    /// Number of events that the filter has capacity for.
    pub(super) capacity: u64,
    pub(super) window_ms: u64,
    /// Additional flags of `firstseen filter create`.
    pub(super) flags: &'a [&'a str],
}

impl<'a> NewFilter<'a> {
    /// Returns a filter named `bench`, whose window is the one of [`super::flow`].
    pub(super) fn bench(capacity: u64, flags: &'a [&'a str]) -> Self {
        Self { name: "bench", capacity, window_ms: WINDOW_MS, flags }
    }
}

impl LocalCluster {
    /// Starts `nodes` nodes, and waits until they accept requests.
    pub(super) fn start(nodes: u32, tls: bool) -> anyhow::Result<Self> {
        Self::start_with(nodes, if tls { &["--tls"] } else { &[] })
    }

    /// Starts nodes with additional flags of `firstseen up`, and waits until they accept requests.
    pub(super) fn start_with(nodes: u32, flags: &[&str]) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let data = TempDir::new().context("no folder for the cluster's data")?;
        let folder = data.path().join("cluster");
        let program = firstseen()?;
        let mut command = Command::new(&program);
        command.args(["up", "--json", "--nodes", &nodes.to_string(), "--data"]).arg(&folder).args(flags);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("the cluster has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let certificates = flags.contains(&"--tls").then(|| folder.join("certs"));
        let mut cluster = Self { program, child, nodes: Vec::new(), certificates, runtime, _data: data };
        match serde_json::from_str::<Ready>(&line) {
            Ok(ready) => cluster.nodes = ready.nodes,
            Err(error) => bail!("a cluster of {nodes} nodes does not start ({error}); try `firstseen up`"),
        }
        Ok(cluster)
    }

    /// Returns the addresses of the nodes.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// Returns the addresses at which the nodes serve metrics.
    pub(super) fn http_addresses(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.http.as_str())
    }

    /// Kills the last node.
    pub(super) fn kill_one(&self) -> anyhow::Result<()> {
        let node = self.nodes.last().context("the cluster has no nodes")?;
        Ok(kill(Pid::from_raw(node.process), Signal::SIGKILL)?)
    }

    /// Returns the folder of certificates, if the nodes require certificates.
    pub(super) fn certificates(&self) -> Option<&PathBuf> {
        self.certificates.as_ref()
    }

    /// Returns the TLS files of the client `who`, if the nodes require certificates.
    pub(super) fn tls_of(&self, who: &str) -> Option<TlsFiles> {
        let folder = self.certificates()?;
        let cert = folder.join(format!("{who}.client.pem"));
        let key = folder.join(format!("{who}.client.key"));
        Some(TlsFiles { ca: folder.join("ca.pem"), cert, key })
    }

    /// Returns the command `firstseen` with these arguments for the cluster.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let addresses = self.addresses();
        command.args(args);
        match args.first() {
            Some(&"cluster") => command.args(["--addr", addresses.first().map_or("", String::as_str)]),
            _ => command.args(["--cluster", &addresses.join(",")]),
        };
        if let Some(folder) = self.certificates() {
            command.arg("--tls-ca").arg(folder.join("ca.pem"));
            command.arg("--tls-cert").arg(folder.join("admin.pem"));
            command.arg("--tls-key").arg(folder.join("admin.key"));
        }
        command
    }

    /// Runs `firstseen` with these arguments on the cluster.
    pub(super) fn run(&self, args: &[&str]) -> anyhow::Result<()> {
        finish(&mut self.command(args))
    }

    /// Creates a filter.
    pub(super) fn create(&self, filter: NewFilter<'_>) -> anyhow::Result<()> {
        let window = format!("{}s", filter.window_ms / 1000);
        let capacity = filter.capacity.to_string();
        let create = ["filter", "create", filter.name, "--window", &window, "--capacity", &capacity];
        self.run(&[&create, filter.flags].concat())
    }

    /// Creates a filter, executes a measurement, and drops the filter.
    pub(super) fn with_filter<T>(
        &self,
        filter: NewFilter<'_>,
        measure: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.create(filter)?;
        let measured = measure();
        self.run(&["filter", "drop", filter.name, "--yes"])?;
        measured
    }

    /// Creates a filter and a client whose batches have up to `batch` events, executes a measurement, and drops the
    /// filter.
    pub(super) fn with_client<T>(
        &self,
        filter: NewFilter<'_>,
        batch: u32,
        measure: impl AsyncFnOnce(&Filter) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.with_filter(filter, || {
            self.runtime.block_on(async {
                let client = self.client("local", batch).await?;
                measure(&client.filter(filter.name).await?).await
            })
        })
    }

    /// Creates a client. If the nodes require certificates, the client uses the certificate of `who`.
    pub(super) async fn client(&self, who: &str, batch: u32) -> anyhow::Result<Client> {
        let options =
            ConnectOptions { tls: self.tls_of(who), batch_events_max: batch, ..ConnectOptions::from(self.addresses()) };
        Ok(Client::connect(options).await?)
    }

    /// Runs a client until it is done.
    pub(super) fn block_on<T>(&self, client: impl Future<Output = T>) -> T {
        self.runtime.block_on(client)
    }
}

/// Runs a command and waits for its end.
pub(super) fn finish(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    if !output.status.success() {
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        bail!("firstseen {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
