//! Implements `firstseen up`, which runs a small cluster on this machine, so that users can try things out. Each node
//! is a separate process, and all nodes end when this command ends. The data of the cluster stays in its folder, so a
//! later call with the same folder continues with the same cluster. Standard output contains only a description of the
//! nodes.

mod asked;
mod background;
mod folder;
mod http_endpoint;
mod ports;
mod processes;
mod redis_endpoint;
mod restart;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use serde::Serialize;

use crate::cluster;
use crate::cluster::connect::{self, Operator};
use crate::exit::{FAILED, INTERRUPTED, UsageError};
use crate::node::health;
use crate::terminal::signals::Signals;
use crate::text::size::ByteSize;
use crate::text::style::Look;
pub use asked::Asked;
pub(crate) use folder::first_http;
pub use folder::{Folder, LocalNode};
use http_endpoint::LocalHttpEndpoint;
pub use processes::Processes;
use redis_endpoint::{CLICKS, LocalRedisEndpoint};

/// Maximum number of nodes that is useful on one machine.
const NODES_MAX: i64 = 64;
/// Default folder of the cluster.
pub(crate) const DATA: &str = "firstseen-data";
/// Interval in which this command checks whether a node has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time to wait until the nodes of a local cluster accept events. After [`READY_TELL`], the command prints the
/// reason for the wait. A node can need some time after its start. For example, a single node that was down for more
/// than a minute must first find out whether its clock was changed while it was down.
const READY_MAX: Duration = Duration::from_secs(20);
const READY_TELL: Duration = Duration::from_secs(2);

/// Text below the flags in the help.
const ENDS: &str = "The cluster occupies the terminal while it runs: type other commands in another terminal, or say \
                    --detach.\nCtrl-C or SIGTERM ends the nodes in order, and then this with exit code 0; a second one \
                    kills them (130, as before the cluster is ready). Exit code 1: the nodes became no cluster, or \
                    none is left.";

/// Flags of `firstseen up`.
#[derive(Debug, Args)]
#[command(after_help = ENDS)]
pub struct UpArgs {
    /// Number of nodes. The default is 3, or the number of nodes in the folder
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=NODES_MAX))]
    pub nodes: Option<u32>,
    /// Create nodes at these sites, as if the sites were far from each other (`filter create --tree`)
    #[arg(long, value_name = "SITE,...", value_delimiter = ',', conflicts_with = "nodes")]
    pub sites: Vec<String>,
    /// Number of nodes at each site
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sites",
        value_parser = value_parser!(u32).range(1..=NODES_MAX))]
    pub nodes_per_site: u32,
    /// Folder of the cluster. It is created if it does not exist
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub data: PathBuf,
    /// Listen on this port and the following ports. The default are free ports, which the folder keeps
    #[arg(long, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Nodes require certificates, which are created in DIR/certs
    #[arg(long)]
    pub tls: bool,
    /// Open a Redis endpoint at the first node; without a PORT on 6379
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "6379",
        value_parser = value_parser!(u16).range(1..))]
    pub redis: Option<u16>,
    /// Open an HTTP endpoint at the first node; without a PORT on 7480
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "7480",
        value_parser = value_parser!(u16).range(1..))]
    pub http_api: Option<u16>,
    /// Memory that each node may use for cells. The default is 1GiB, or the setting of the nodes in the folder
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<ByteSize>,
    /// Print one line of JSON when the cluster is ready
    #[arg(long)]
    pub json: bool,
    /// Return to the shell when the cluster is ready. The cluster continues in the background
    #[arg(long)]
    pub detach: bool,
    /// End the cluster of the folder, no matter where it was started
    #[arg(long, conflicts_with_all = ["detach", "nodes", "sites", "port", "tls", "redis", "http_api", "json"])]
    pub end: bool,
    /// End a node of the running cluster, and start it again
    #[arg(long, value_name = "NODE",
        conflicts_with_all = ["detach", "nodes", "sites", "port", "tls", "redis", "http_api", "json", "end"])]
    pub restart: Option<String>,
    /// Accept that events may be lost which only the restarted node remembers, in memory
    #[arg(long, requires = "restart")]
    pub accept_loss: bool,
}

/// Output with `--json`.
#[derive(Serialize)]
struct Ready<'a> {
    cluster: &'a str,
    data: String,
    nodes: Vec<ReadyNode<'a>>,
    /// Address of the Redis endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<String>,
    /// Address of the HTTP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_api: Option<String>,
    /// URL of the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    console: Option<String>,
}

#[derive(Serialize)]
struct ReadyNode<'a> {
    name: &'a str,
    site: &'a str,
    address: String,
    http: String,
    process: u32,
}

/// Starts the nodes, forms a cluster of them, and waits until a signal ends it.
///
/// # Errors
/// Returns the errors that end the command. The nodes have ended by then.
pub fn run(args: &UpArgs) -> anyhow::Result<ExitCode> {
    if args.end {
        return background::end(&args.data, &mut io::stdout().lock());
    }
    if let Some(node) = &args.restart {
        return restart::ask(&args.data, node, args.accept_loss, &mut io::stdout().lock());
    }
    if args.detach {
        return background::detach(args, &mut io::stdout().lock());
    }
    let folder = Folder::open(&args.data, asked(args)?)?;
    folder.check_nodes()?;
    connect::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        // The nodes end together with the thread that starts them, so they must be started by this thread.
        let mut processes = Processes::start(&folder)?;
        let lived = live(args, &folder, &mut processes, &mut signals).await;
        notice!("ending {} nodes; a second signal does not wait for them", processes.running_count());
        tokio::select! {
            () = processes.end() => lived,
            _ = signals.next() => {
                processes.kill();
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

fn asked(args: &UpArgs) -> Result<Asked, UsageError> {
    let UpArgs { nodes, ref sites, nodes_per_site, port, tls, redis, http_api, memory, .. } = *args;
    if let Some((_, site)) = (1..).zip(sites).find(|(next, site)| sites[*next..].contains(site)) {
        return Err(UsageError(format!(
            "site `{site}` is named twice: say --nodes-per-site for several nodes at a site"
        )));
    }
    let sites: Vec<String> =
        sites.iter().flat_map(|site| std::iter::repeat_n(site.clone(), nodes_per_site as usize)).collect();
    if sites.len() as i64 > NODES_MAX {
        return Err(UsageError(format!("{} nodes: at most {NODES_MAX} make sense on one machine", sites.len())));
    }
    Ok(Asked { nodes: nodes.map(|nodes| nodes as usize), sites, port, tls, redis, http_api, memory })
}

async fn live(
    args: &UpArgs,
    folder: &Folder,
    processes: &mut Processes,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    let addresses: Vec<String> = folder.nodes().iter().map(LocalNode::address).collect();
    let any = Operator::new(addresses.clone(), folder.tls("admin").connector()?);
    let cluster = tokio::select! {
        cluster = cluster::form(&any, &addresses, cluster::FORM) => cluster?,
        ended = first_end(processes) => anyhow::bail!("{ended}"),
        _ = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    tokio::select! {
        () = all_ready(folder) => {}
        ended = first_end(processes) => anyhow::bail!("{ended}"),
        _ = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    }
    print_ready(args, folder, processes, &cluster)?;
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
            ended = first_end(processes) => notice!("firstseen: {ended}"),
            asked = restart::asked(folder.path()) => restart::carry_out(&any, folder, processes, &asked).await,
        }
        if processes.running_count() == 0 {
            notice!("firstseen: no node is left");
            return Ok(ExitCode::from(FAILED));
        }
    }
}

/// Waits until all nodes accept events, for at most [`READY_MAX`]. If the wait takes long, prints what it waits for.
async fn all_ready(folder: &Folder) {
    let begun = Instant::now();
    let mut has_told = false;
    for node in folder.nodes() {
        loop {
            let address = node.http_address();
            // A node that does not answer has another problem, which is described in its log.
            let answer = tokio::task::spawn_blocking(move || health::not_ready(&address)).await;
            let Ok(Ok(Some(reason))) = answer else { break };
            if !has_told && begun.elapsed() > READY_TELL {
                has_told = true;
                notice!("firstseen: waiting for {}: {reason}", node.name);
            }
            if begun.elapsed() > READY_MAX {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Waits until a node has ended, and returns how it ended.
async fn first_end(processes: &mut Processes) -> String {
    loop {
        if let Some(ended) = processes.ended() {
            return ended;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn print_ready(args: &UpArgs, folder: &Folder, processes: &Processes, cluster: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let data = folder.path().display();
    if args.json {
        let nodes = folder.nodes().iter().zip(processes.ids()).map(|(node, process)| ReadyNode {
            name: &node.name,
            site: &node.site,
            address: node.address(),
            http: node.http_address(),
            process,
        });
        let redis = folder.endpoint().map(|endpoint| endpoint.listen.to_string());
        let http_api = folder.http_endpoint().map(|endpoint| endpoint.url());
        let ready = Ready {
            cluster,
            data: data.to_string(),
            nodes: nodes.collect(),
            redis,
            http_api,
            console: folder.console(),
        };
        writeln!(out, "{}", serde_json::to_string(&ready).map_err(io::Error::other)?)?;
        return out.flush();
    }
    let ends = "The cluster now occupies this terminal: Ctrl-C ends it, and `firstseen up` starts it again. In another \
                terminal, create a filter, and send it a log:";
    let look = Look::of(&out);
    out.write_all(Shown::of(folder).text(cluster, ends, look).as_bytes())?;
    out.flush()
}

/// Description of a cluster that is printed.
struct Shown {
    data: PathBuf,
    nodes: Vec<LocalNode>,
    admin_flags: String,
    producer_flags: String,
    endpoint: Option<LocalRedisEndpoint>,
    http_endpoint: Option<LocalHttpEndpoint>,
    has_sites: bool,
    console: Option<String>,
}

impl Shown {
    fn of(folder: &Folder) -> Self {
        Self {
            data: folder.path().to_owned(),
            nodes: folder.nodes().to_vec(),
            admin_flags: folder.tls("admin").to_string(),
            producer_flags: folder.tls("local.client").to_string(),
            endpoint: folder.endpoint(),
            http_endpoint: folder.http_endpoint(),
            has_sites: folder.has_sites(),
            console: folder.console(),
        }
    }

    /// Returns the flag that another `firstseen up` needs to find the folder.
    fn data_flag(&self) -> String {
        if self.data.as_path() == Path::new(DATA) { String::new() } else { format!(" --data {}", self.data.display()) }
    }

    /// Returns the text: where the nodes are, how to end the cluster, and which commands to try next.
    fn text(&self, cluster: &str, ends: &str, look: Look) -> String {
        let Self { data, nodes, admin_flags, producer_flags, endpoint, http_endpoint, has_sites, console } = self;
        let mut text = format!(
            "{}, data in {}
",
            look.strong(&format!("cluster {cluster}")),
            data.display()
        );
        let letters = nodes.iter().map(|node| node.site.chars().count()).max().unwrap_or(0);
        for node in nodes {
            let LocalNode { name, site, .. } = node;
            let address = node.address();
            let http = node.http_address();
            text += &format!("  {name:<8} {site:<letters$} {address:<16} http://{http}/metrics\n");
        }
        if let (Some(console), Some(http)) = (console, nodes.first().map(LocalNode::http_address)) {
            text += &format!(
                "The console, for a browser on this machine: {}; in a terminal: {}\n",
                look.strong(console),
                look.strong(&format!("firstseen top --http {http}"))
            );
        }
        let addresses = nodes.iter().map(LocalNode::address).collect::<Vec<_>>().join(",");
        let (tree, site) = match nodes.first() {
            Some(node) if *has_sites => (" --tree dense --durability durable", format!(" --site {}", node.site)),
            _ => ("", String::new()),
        };
        let filter = format!("firstseen filter create {CLICKS} --cluster {addresses} --window 24h --capacity 1M");
        let dedup = format!("firstseen dedup --cluster {addresses} --filter {CLICKS}{site}");
        let create = format!("{filter}{tree}{admin_flags}");
        let send = format!("{dedup} --format clf access.log{producer_flags} > once.log");
        let status = format!("firstseen cluster status --cluster {addresses}{admin_flags}");
        text += &format!(
            "{ends}
{}
{}
{}
",
            look.strong(&create),
            look.strong(&send),
            look.strong(&status)
        );
        text += &endpoint.as_ref().map(|endpoint| endpoint.text(data, look)).unwrap_or_default();
        text += &http_endpoint.as_ref().map(|endpoint| endpoint.text(data, look)).unwrap_or_default();
        text
    }
}
