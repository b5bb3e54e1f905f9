//! Implements `firstseen cluster`, which forms a cluster of nodes, changes the cluster, and shows its state. Each
//! request for a change has an id, so the cluster applies the change only once even if the command has to send the
//! request several times.

mod backup;
pub(crate) mod claims;
pub mod connect;
mod form;
mod identified;
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
/// How long `status` searches for a leader before it reports that there is none. This is slightly longer than an
/// election.
const LEADER_MAX: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Flags of `firstseen cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// The commands of `firstseen cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Form a cluster of one node that belongs to no cluster
    Init(NodeArgs),
    /// Add a node to a cluster
    Join(JoinArgs),
    /// Form one cluster of several nodes; nodes that are members already stay as they are
    Form(FormArgs),
    /// Show nodes and filters
    Status(StatusArgs),
    /// Check whether a node can be stopped: no data would be lost, and the other nodes would continue; --wait waits
    /// until this is true
    SafeToStop(SafeToStopArgs),
    /// Run nodes of two versions side by side, and take the step after which there is no way back
    Upgrade(UpgradeArgs),
    /// Move slices so that all nodes have about the same number; prints what moves
    Rebalance(RebalanceArgs),
    /// Move all slices off a node, so that it can leave
    Drain(DrainArgs),
    /// Remove a node from its cluster permanently: its number is never assigned again
    Leave(LeaveArgs),
    /// Write all filters to a folder, with their secrets and with the events recorded in them
    Backup(BackupArgs),
    /// Restore the filters of a backup to a cluster that has no filters of these names
    Restore(RestoreArgs),
    /// Continue with a single node, which is stopped, if more than half of the voters are permanently lost
    Recover(RecoverArgs),
}

/// Flags that name the node to ask.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Addresses of nodes; one reachable node is enough
    #[arg(
        long = "cluster",
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        required = true,
        visible_alias = "addr"
    )]
    pub addr: Vec<String>,
    /// Flags for certificates and tokens.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Flags of `firstseen cluster join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Address of the node that joins, as other nodes reach it
    #[arg(value_name = "HOST:PORT")]
    pub node: String,
}

/// Flags of `firstseen cluster form`.
#[derive(Debug, Args)]
pub struct FormArgs {
    /// Addresses of all nodes, as they reach each other
    #[arg(value_name = "HOST:PORT", required = true)]
    pub nodes: Vec<String>,
    /// Flags for certificates and tokens.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Flags of `firstseen cluster status`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code 0: a majority of the voters agrees on a leader; 1: there is no such leader, or no \
                        node answers.")]
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
    /// Any node of the cluster, preferably a node that stays.
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
/// Returns the errors of the node, or an error if no node answers.
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
                    notice!(
                        "firstseen: the other nodes do not know yet that it has started: until then it gets no \
                             slices"
                    );
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

/// Forms a cluster of the asked node. Returns the id of the cluster and the number of the node.
///
/// # Errors
/// Returns the errors of the node.
pub(crate) async fn init(node: &Operator) -> anyhow::Result<(String, u64)> {
    let made = node.call(async |mut client| client.init(InitRequest {}).await).await?;
    Ok((hex(&made.cluster_id), made.node_id))
}

/// Adds the node at `address` to the cluster of `member`, and returns its number.
///
/// # Errors
/// Returns the errors of the member.
pub(crate) async fn join(member: &Operator, address: &str) -> anyhow::Result<u64> {
    let request = JoinRequest { command_id: fresh_id().into(), address: address.to_owned() };
    Ok(member.call(async |mut client| client.join(request.clone()).await).await?.node_id)
}

/// Waits until a node can receive slices. Returns `false` if that takes too long.
async fn has_started(member: &Operator, node: NodeId) -> bool {
    let end = tokio::time::Instant::now() + STARTED_MAX;
    loop {
        // The node is a member already, so an error of this request does not end the wait.
        let status = status::ask(member).await.ok();
        let record = status.as_ref().and_then(|status| status.map.nodes.get(&node));
        if record.is_some_and(|record| record.incarnation != Incarnation::default()) {
            return true;
        }
        if tokio::time::Instant::now() > end {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the node with this name or number.
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
