//! `firstseen cluster`: makes a cluster of nodes, changes it, and shows it.
//!
//! Promises: what a command asks for is done once, however often the request was sent. Must not know: how nodes agree.

mod backup;
pub(crate) mod claims;
pub mod connect;
mod form;
mod leading;
mod moves;
pub(crate) mod places;
mod recover;
mod restore;
mod safe_to_stop;
pub(crate) mod status;
mod summary;
mod upgrade;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use firstseen_routing::{ClusterMap, Incarnation, NodeId};
use firstseen_wire::proto::admin::{InitRequest, JoinRequest, LeaveRequest};

use crate::exit::{FAILED, UsageError};
use crate::flags::tls::TlsArgs;
use crate::text::hex::hex;
use connect::{Operator, fresh_id};
use summary::ClusterSummary;

pub use backup::BackupArgs;
pub use form::form;
pub use moves::{DrainArgs, RebalanceArgs};
pub use recover::RecoverArgs;
pub use restore::RestoreArgs;
pub use safe_to_stop::SafeToStopArgs;
pub(crate) use safe_to_stop::losses;
pub(crate) use status::ClusterStatus;
pub(crate) use summary::FilterSummaries;
pub use upgrade::UpgradeArgs;

/// How long nodes may take to start and agree.
pub const FORM: Duration = Duration::from_secs(60);
/// How long the other nodes may take to learn that a node which has joined has started.
const STARTED_MAX: Duration = Duration::from_secs(20);
/// How long `status` looks for a leader before it says that there is none: an election, and a bit.
const LEADER_MAX: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(100);

/// Flags of `firstseen cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The command that was asked for.
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make a cluster of one node that belongs to none
    Init(NodeArgs),
    /// Add a node to a cluster
    Join(JoinArgs),
    /// Make one cluster of nodes; those that are members already stay what they are
    Form(FormArgs),
    /// Show nodes and filters
    Status(StatusArgs),
    /// Say whether a node can be stopped: nothing would be lost, and the others would go on; --wait waits until it is so
    SafeToStop(SafeToStopArgs),
    /// Nodes of two versions side by side, and the step after which there is no way back
    Upgrade(UpgradeArgs),
    /// Move slices so that all nodes have about as many; says what moves
    Rebalance(RebalanceArgs),
    /// Move all slices off a node, which can leave then
    Drain(DrainArgs),
    /// Take a node out of its cluster, for good: its number is never given again
    Leave(LeaveArgs),
    /// Write all filters to a folder, with their secrets and what is recorded in them
    Backup(BackupArgs),
    /// Bring the filters of a backup to a cluster that has none of their names
    Restore(RestoreArgs),
    /// Go on with one node, which is stopped, where more than half of the voters are lost for good
    Recover(RecoverArgs),
}

/// The node that is asked.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Addresses of nodes; one that answers is enough
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', required = true, visible_alias = "cluster")]
    pub addr: Vec<String>,
    /// Certificates.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Flags of `firstseen cluster join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Address of the node that joins, as the others reach it
    #[arg(value_name = "HOST:PORT")]
    pub node: String,
}

/// Flags of `firstseen cluster form`.
#[derive(Debug, Args)]
pub struct FormArgs {
    /// Addresses of all nodes, as they reach each other
    #[arg(value_name = "HOST:PORT", required = true)]
    pub nodes: Vec<String>,
    /// Certificates.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Flags of `firstseen cluster status`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code 0: a majority of the voters agrees on a leader; 1: none does, or nobody answers.")]
pub struct StatusArgs {
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen cluster leave`.
#[derive(Debug, Args)]
pub struct LeaveArgs {
    /// Any node of the cluster; best one that stays.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Name or number of the node that leaves
    #[arg(value_name = "NODE")]
    pub node: String,
}

impl NodeArgs {
    fn operator(&self) -> anyhow::Result<Operator> {
        Ok(Operator::new(self.addr.clone(), self.tls.connector()?))
    }
}

/// Runs `firstseen cluster`.
///
/// # Errors
/// Those of the node; that no node answers.
pub fn run(args: &ClusterArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    connect::runtime()?.block_on(async {
        let mut code = ExitCode::SUCCESS;
        match &args.command {
            ClusterCommand::Init(node) => {
                let [address] = node.addr.as_slice() else {
                    let text = "a cluster begins with one node: give its address alone, or `cluster form` all of them";
                    return Err(UsageError(text.to_owned()).into());
                };
                let made = init(&node.operator()?).await?;
                writeln!(out, "cluster {} of one node: {address}, number {}", made.0, made.1)?;
            }
            ClusterCommand::Join(JoinArgs { member, node }) => {
                let member = member.operator()?;
                let number = join(&member, node).await?;
                writeln!(out, "{node} is a member, number {number}")?;
                if !has_started(&member, NodeId(number)).await {
                    notice!("firstseen: the others do not know of its start yet: until then it gets no slices");
                }
            }
            ClusterCommand::Form(FormArgs { nodes, tls }) => {
                let any = Operator::new(nodes.clone(), tls.connector()?);
                let cluster = form(&any, nodes, FORM).await?;
                writeln!(out, "cluster {cluster} of {} nodes", nodes.len())?;
            }
            ClusterCommand::Status(StatusArgs { member, json }) => {
                let member = member.operator()?;
                let status = leading::looked_at(&member, LEADER_MAX).await?;
                let (claims, versions) = tokio::join!(
                    claims::of_all(&member, &status.map, &status.unreachable),
                    upgrade::of_all(&member, &status.map, &status.unreachable)
                );
                let summary = ClusterSummary::new(&status, &claims, &versions);
                if *json {
                    writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?
                } else {
                    out.write_all(summary.text().as_bytes())?
                }
                if status.leader.is_none() {
                    code = ExitCode::from(FAILED);
                }
            }
            ClusterCommand::Upgrade(args) => code = upgrade::run(args, out).await?,
            ClusterCommand::SafeToStop(args) => code = safe_to_stop::run(args, out).await?,
            ClusterCommand::Rebalance(args) => moves::rebalance(args, out).await?,
            ClusterCommand::Drain(args) => moves::drain(args, out).await?,
            ClusterCommand::Leave(LeaveArgs { member, node }) => {
                let number = leave(&member.operator()?, node).await?;
                writeln!(out, "{node} has left, number {number}")?;
            }
            ClusterCommand::Backup(args) => code = backup::run(args, out).await?,
            ClusterCommand::Restore(args) => code = restore::run(args, out).await?,
            ClusterCommand::Recover(args) => code = recover::run(args, out).await?,
        }
        out.flush()?;
        Ok(code)
    })
}

/// Makes a cluster of the node that is asked, and returns its id and the node's number.
///
/// # Errors
/// Those of the node.
pub(crate) async fn init(node: &Operator) -> anyhow::Result<(String, u64)> {
    let made = node.call(async |mut client| client.init(InitRequest {}).await).await?;
    Ok((hex(&made.cluster_id), made.node_id))
}

/// Adds the node at `address` to the cluster of `member`, and returns its number.
///
/// # Errors
/// Those of the member.
pub(crate) async fn join(member: &Operator, address: &str) -> anyhow::Result<u64> {
    let request = JoinRequest { command_id: fresh_id().into(), address: address.to_owned() };
    Ok(member.call(async |mut client| client.join(request.clone()).await).await?.node_id)
}

/// Waits until a node can be given slices; `false` where that takes too long.
async fn has_started(member: &Operator, node: NodeId) -> bool {
    let end = tokio::time::Instant::now() + STARTED_MAX;
    loop {
        // The node is a member already, so an error here ends nothing.
        let status = status::ask(member).await.ok();
        let record = status.as_ref().and_then(|status| status.map.nodes.get(&node));
        if record.is_some_and(|record| record.incarnation != Incarnation::default()) {
            return true;
        }
        if tokio::time::Instant::now() > end {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The node of this name or number.
fn node_named(map: &ClusterMap, node: &str) -> anyhow::Result<NodeId> {
    if let Some((number, _)) = map.node_named(node) {
        return Ok(number);
    }
    if let Some(number) = node.parse().ok().map(NodeId).filter(|number| map.nodes.contains_key(number)) {
        return Ok(number);
    }
    let names: Vec<&str> = map.nodes.values().map(|node| node.name.as_str()).collect();
    Err(UsageError(format!("no node `{node}`: the cluster has {}", names.join(", "))).into())
}

async fn leave(member: &Operator, node: &str) -> anyhow::Result<NodeId> {
    let number = node_named(&status::ask(member).await?.map, node)?;
    let request = LeaveRequest { command_id: fresh_id().into(), node_id: number.0 };
    member.call(async |mut client| client.leave(request.clone()).await).await?;
    Ok(number)
}
