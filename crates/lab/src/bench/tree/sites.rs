//! Cluster of three nodes in this process, each at a different simulated site, with producers at the same sites. All
//! traffic between sites passes through the simulated network [`Wan`], which delays it.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use firstseen_client::{Client, ConnectOptions, Filter};
use firstseen_node::{Edges, Node, NodeConfig};
use firstseen_wire::net::TcpConnector;
use tempfile::TempDir;

use super::wan::{NAMES, Traffic, Wan};
use crate::program::firstseen;
use firstseen_cli::cluster;
use firstseen_cli::cluster::connect::Operator;

/// Memory of a node.
const MEMORY_BYTES: u64 = 1 << 30;
/// Deadline of a call in milliseconds. It is longer than any queueing delay of a benchmark.
const DEADLINE_MS: u64 = 30_000;

/// Returns all pairs of sites.
pub(super) fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..NAMES.len()).flat_map(|one| (one + 1..NAMES.len()).map(move |other| (one, other)))
}

/// Cluster that is spread over the sites.
pub(super) struct Sites {
    nodes: Vec<Node>,
    wan: Arc<Wan>,
    _data: TempDir,
}

impl Sites {
    /// Starts a node at each site, with a one-way `delay` between sites, and forms a cluster of the nodes.
    pub(super) async fn start(delay: Duration) -> anyhow::Result<Self> {
        let data = TempDir::new().context("no folder for the cluster's data")?;
        let wan = Arc::new(Wan::new(delay));
        let mut nodes = Vec::new();
        for (site, name) in NAMES.iter().enumerate() {
            let folder = data.path().join(name);
            std::fs::create_dir(&folder)?;
            let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let mut config = NodeConfig::new(name, anywhere, folder);
            (config.site, config.memory_max_bytes, config.owners) = ((*name).to_owned(), MEMORY_BYTES, Some(1));
            let mut edges = Edges::of_machine(&config).await?;
            edges.connector = Arc::new(wan.at(site));
            let node = Node::start(config, edges).await.with_context(|| format!("node {name} cannot start"))?;
            wan.place(node.addr(), site);
            nodes.push(node);
        }
        let addresses: Vec<String> = nodes.iter().map(|node| node.addr().to_owned()).collect();
        let operator = Operator::new(addresses.clone(), TcpConnector::default());
        cluster::form(&operator, &addresses, cluster::FORM).await?;
        Ok(Self { nodes, wan, _data: data })
    }

    /// Stops the nodes.
    pub(super) async fn end(self) {
        for node in self.nodes {
            node.shutdown().await;
        }
    }

    /// Returns the traffic between the sites so far.
    pub(super) fn traffic(&self) -> Traffic {
        self.wan.traffic()
    }

    /// Returns the measured filter for a new producer at a site. The caller must keep the client as long as it uses the
    /// filter.
    pub(super) async fn producer(&self, site: usize) -> anyhow::Result<(Client, Filter)> {
        let client = Client::connect(ConnectOptions {
            deadline_ms: DEADLINE_MS,
            connector: Some(Arc::new(self.wan.at(site))),
            site: Some(NAMES[site].to_owned()),
            ..ConnectOptions::from([self.nodes[site].addr()])
        })
        .await?;
        let filter = client.filter("bench").await?;
        Ok((client, filter))
    }

    /// Runs `firstseen filter` with these arguments on the cluster.
    pub(super) async fn filter(&self, args: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(firstseen()?);
        command.arg("filter").args(args).args(["--cluster", self.nodes[0].addr()]);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        if !output.status.success() {
            bail!("firstseen filter {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}
