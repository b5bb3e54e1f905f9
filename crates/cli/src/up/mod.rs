//! `firstseen up`: a cluster of real processes on this machine, to try things on.
//!
//! Promises: standard output says where the nodes are and nothing else; processes that were started end with this one;
//! a folder is started again as it was left. Must not know: what nodes do.

mod background;
mod door;
mod folder;
mod http_door;
mod processes;
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
use crate::text::look::Look;
use crate::text::size::ByteSize;
use door::{CLICKS, LocalDoor};
pub(crate) use folder::first_http;
pub use folder::{Asked, Folder, LocalNode};
use http_door::LocalHttpDoor;
pub use processes::Processes;

/// More nodes than this make no sense on one machine.
const NODES_MAX: i64 = 64;
/// The folder of the cluster where no flag gives one.
pub(crate) const DATA: &str = "firstseen-data";
/// How often this looks whether a node has ended.
const LOOK: Duration = Duration::from_millis(100);
/// How long nodes of a cluster that is formed are waited for until they take events, and after how long it is said why. A lone node that
/// was down for more than a minute cannot know at once whether its clock was set meanwhile.
const READY_MAX: Duration = Duration::from_secs(20);
const READY_TELL: Duration = Duration::from_secs(2);

/// The text below the flags.
const ENDS: &str = "The terminal is the cluster's while it runs: type other commands in another one, or say --detach.\n\
                    Ctrl-C or SIGTERM ends the nodes in order, and then this with exit code 0; a second one kills them \
                    (130, as before the cluster is ready). Exit code 1: the nodes became no cluster, or none is left.";

/// Flags of `firstseen up`.
#[derive(Debug, Args)]
#[command(after_help = ENDS)]
pub struct UpArgs {
    /// Nodes; by default 3, or as many as the folder has
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=NODES_MAX))]
    pub nodes: Option<u32>,
    /// Nodes at these sites instead, as if they were far from each other (`filter create --tree`)
    #[arg(long, value_name = "SITE,...", value_delimiter = ',', conflicts_with = "nodes")]
    pub sites: Vec<String>,
    /// Nodes at each of the sites
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sites",
        value_parser = value_parser!(u32).range(1..=NODES_MAX))]
    pub nodes_per_site: u32,
    /// Folder of the cluster; made if there is none
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub data: PathBuf,
    /// Listen on this port and those that follow; by default on free ports, which the folder keeps
    #[arg(long, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Nodes ask for certificates, which are made in DIR/certs
    #[arg(long)]
    pub tls: bool,
    /// Open a door for Redis clients at the first node; without a PORT on 6379
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "6379",
        value_parser = value_parser!(u16).range(1..))]
    pub redis: Option<u16>,
    /// Open a door for HTTP clients at the first node; without a PORT on 7480
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "7480",
        value_parser = value_parser!(u16).range(1..))]
    pub http_api: Option<u16>,
    /// Memory that each node may use for cells
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    pub memory: ByteSize,
    /// Print one line of JSON when the cluster is ready
    #[arg(long)]
    pub json: bool,
    /// Give the terminal back when the cluster is ready, which goes on in the background
    #[arg(long)]
    pub detach: bool,
    /// End the cluster of the folder, wherever it was started
    #[arg(long, conflicts_with_all = ["detach", "nodes", "sites", "port", "tls", "redis", "http_api", "json"])]
    pub end: bool,
    /// End a node of the running cluster, and start it again
    #[arg(long, value_name = "NODE",
        conflicts_with_all = ["detach", "nodes", "sites", "port", "tls", "redis", "http_api", "json", "end"])]
    pub restart: Option<String>,
    /// What the restarted node alone remembers, in memory, may be lost
    #[arg(long, requires = "restart")]
    pub accept_loss: bool,
}

/// The output with `--json`.
#[derive(Serialize)]
struct Ready<'a> {
    cluster: &'a str,
    data: String,
    nodes: Vec<ReadyNode<'a>>,
    /// Where Redis clients connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<String>,
    /// The address of the door for HTTP clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_api: Option<String>,
    /// The address of the console, for a browser.
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

/// Starts the nodes, makes a cluster of them, and waits until a signal ends it.
///
/// # Errors
/// Those that end the command; the nodes have ended then.
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
    connect::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        // The nodes end with the thread that starts them, which is this one.
        let mut processes = Processes::start(&folder)?;
        let lived = live(args, &folder, &mut processes, &mut signals).await;
        notice!("ending {} nodes; a second signal does not wait for them", processes.living());
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
        if processes.living() == 0 {
            notice!("firstseen: no node is left");
            return Ok(ExitCode::from(FAILED));
        }
    }
}

/// Waits until all nodes take events, for [`READY_MAX`] at most, and says what it waits for where that takes long.
async fn all_ready(folder: &Folder) {
    let begun = Instant::now();
    let mut has_told = false;
    for node in folder.nodes() {
        loop {
            let address = node.http_address();
            // A node that does not answer is not ready for another reason, which its log has.
            let answer = tokio::task::spawn_blocking(move || health::not_ready(&address)).await;
            let Ok(Ok(Some(reason))) = answer else { break };
            if !has_told && begun.elapsed() > READY_TELL {
                has_told = true;
                notice!("firstseen: waiting for {}: {reason}", node.name);
            }
            if begun.elapsed() > READY_MAX {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Waits until a node has ended, and returns how it ended.
async fn first_end(processes: &mut Processes) -> String {
    loop {
        if let Some(ended) = processes.ended() {
            return ended;
        }
        tokio::time::sleep(LOOK).await;
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
        let redis = folder.door().map(|door| door.listen.to_string());
        let http_api = folder.http_door().map(|door| door.url());
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
    let ends = "This terminal is the cluster's now: Ctrl-C ends it, and `firstseen up` starts it again. In another one, make a \
                filter, and send it a log:";
    let look = Look::of(&out);
    out.write_all(Shown::of(folder).text(cluster, ends, look).as_bytes())?;
    out.flush()
}

/// The description of a cluster that is printed.
struct Shown {
    data: PathBuf,
    nodes: Vec<LocalNode>,
    admin_flags: String,
    producer_flags: String,
    door: Option<LocalDoor>,
    http_door: Option<LocalHttpDoor>,
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
            door: folder.door(),
            http_door: folder.http_door(),
            has_sites: folder.has_sites(),
            console: folder.console(),
        }
    }

    /// The flag that names the folder to another `firstseen up`.
    fn data_flag(&self) -> String {
        if self.data.as_path() == Path::new(DATA) { String::new() } else { format!(" --data {}", self.data.display()) }
    }

    /// The text: where the nodes are, how the cluster ends, and what to type next.
    fn text(&self, cluster: &str, ends: &str, look: Look) -> String {
        let Self { data, nodes, admin_flags, producer_flags, door, http_door, has_sites, console } = self;
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
            Some(node) if *has_sites => (" --tree dense", format!(" --site {}", node.site)),
            _ => ("", String::new()),
        };
        let filter = format!("firstseen filter create {CLICKS} --cluster {addresses} --window 24h --capacity 1M");
        let dedup = format!("firstseen dedup --cluster {addresses} --filter {CLICKS}{site}");
        let create = format!("{filter}{tree}{admin_flags}");
        let send = format!("{dedup} --format clf access.log{producer_flags} > once.log");
        text += &format!(
            "{ends}
{}
{}
",
            look.strong(&create),
            look.strong(&send)
        );
        text += &door.as_ref().map(|door| door.text(data, look)).unwrap_or_default();
        text += &http_door.as_ref().map(|door| door.text(data, look)).unwrap_or_default();
        text
    }
}
