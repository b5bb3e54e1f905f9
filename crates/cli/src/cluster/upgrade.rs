//! Implements `firstseen cluster upgrade`, which upgrades a cluster to a new data format after its nodes run a new
//! release. While nodes of two releases run side by side, the cluster keeps the old format.
//!
//! Raising the format cannot be undone. Only the leader raises it, and only after every node has reported that it can
//! read the new format. The command shows which nodes do not answer.

use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use firstseen_routing::{ClusterMap, Format, NodeId};
use firstseen_wire::proto::admin::{HoldFormatRequest, IdentifyReply, IdentifyRequest, RaiseFormatRequest};
use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::{Duration, timeout};

use super::{ClusterStatus, NodeArgs, leading, status};
use crate::cluster::connect::Operator;
use crate::exit::FAILED;
use crate::text::table::Table;

/// How long a node may take to report its version.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the search for a leader may take.
const LEADER_MAX: Duration = Duration::from_secs(15);

/// Flags of `firstseen cluster upgrade`.
#[derive(Debug, Args)]
#[command(
    after_help = "Upgrade the nodes one after the other (firstseen cluster safe-to-stop says when): versions that \
                  follow each other run side by side, and any node can go back, as long as the format is not raised. \
                  Ten minutes after the last node has been upgraded the leader raises it, unless a node holds it. From \
                  then on older versions cannot take part in the cluster."
)]
pub struct UpgradeArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: UpgradeCommand,
}

/// The commands of `firstseen cluster upgrade`.
#[derive(Debug, Subcommand)]
pub enum UpgradeCommand {
    /// Show which version each node runs, and whether the format of the cluster can be raised
    Status(UpgradeStatusArgs),
    /// Keep the present format, so that every node can return to the earlier version, until it is finalized
    Hold(NodeArgs),
    /// Raise the format now; nodes of older versions can no longer take part in the cluster
    Finalize(NodeArgs),
}

/// Flags of `firstseen cluster upgrade status`.
#[derive(Debug, Args)]
pub struct UpgradeStatusArgs {
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What a node reports about its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Version {
    /// Version of the program.
    pub(crate) version: String,
    /// Newest format that the program can read.
    pub(crate) newest_format: u8,
    /// Whether the node prevents the format of the cluster from being raised.
    pub(crate) holds: bool,
}

impl From<IdentifyReply> for Version {
    fn from(reply: IdentifyReply) -> Self {
        let newest = u8::try_from(reply.newest_format).unwrap_or(u8::MAX).max(Format::FIRST.0);
        Self { version: reply.version, newest_format: newest, holds: reply.holds_format }
    }
}

/// Versions of all nodes, in the order of the cluster map. `None` stands for a node that does not answer.
pub(crate) type Versions = Vec<(NodeId, Option<Version>)>;

/// The JSON document. Its field names do not change between releases.
#[derive(Serialize)]
struct Document<'a> {
    /// Format that the cluster writes.
    format: u8,
    /// Newest format that all nodes can read. `None` means that a node did not answer.
    all_read: Option<u8>,
    held_by: Vec<&'a str>,
    nodes: Vec<NodeDocument<'a>>,
}

#[derive(Serialize)]
struct NodeDocument<'a> {
    name: &'a str,
    #[serde(flatten)]
    version: Option<&'a Version>,
}

/// Runs `firstseen cluster upgrade`.
///
/// # Errors
/// Returns the errors of the nodes.
pub(super) async fn run(args: &UpgradeArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match &args.command {
        UpgradeCommand::Status(UpgradeStatusArgs { member, json }) => {
            let member = member.operator()?;
            let status = status::ask(&member).await?;
            let versions = of_all(&member, &status.map, &status.unreachable).await;
            let text = if *json { json_of(&status.map, &versions)? + "\n" } else { text_of(&status.map, &versions) };
            out.write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        UpgradeCommand::Hold(member) => {
            let member = member.operator()?;
            let status = status::ask(&member).await?;
            let held = hold(&member, &status, true).await;
            out.write_all(held_text(&held).as_bytes())?;
            let is_held = held.iter().any(|(_, done)| done.is_ok());
            Ok(if is_held { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
        }
        UpgradeCommand::Finalize(member) => {
            let member = member.operator()?;
            let status = leading::committed(&member, LEADER_MAX).await?;
            let let_go = hold(&member, &status, false).await;
            for (node, error) in let_go.iter().filter_map(|(node, done)| Some((node, done.as_ref().err()?))) {
                notice!("firstseen: {node} does not end its hold: {error:#}");
            }
            let leader = status.leader.and_then(|leader| status.map.nodes.get(&leader));
            let leader =
                leader.ok_or_else(|| anyhow::anyhow!("the cluster has no leader: see firstseen cluster status"))?;
            let leader = member.at(&leader.address);
            let raised = leader.call(async |mut client| client.raise_format(RaiseFormatRequest {}).await).await?;
            writeln!(
                out,
                "the cluster writes format {}: versions that do not read it cannot take part",
                raised.format
            )?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Tells all nodes at the same time whether to hold the format, and returns the answer of each node.
async fn hold(member: &Operator, status: &ClusterStatus, hold: bool) -> Vec<(String, anyhow::Result<()>)> {
    let told = status.map.nodes.values().map(async |node| {
        let there = member.at(&node.address).within(REQUEST_TIMEOUT);
        let done = there.call(async |mut client| client.hold_format(HoldFormatRequest { hold }).await).await;
        (node.name.clone(), done.map(drop))
    });
    join_all(told).await
}

fn held_text(held: &[(String, anyhow::Result<()>)]) -> String {
    let mut text = String::new();
    for (node, done) in held {
        let _ = match done {
            Ok(()) => writeln!(text, "{node} holds the format, also over restarts"),
            Err(error) => writeln!(text, "{node} does not: {error:#}"),
        };
    }
    text.push_str(if held.iter().any(|(_, done)| done.is_ok()) {
        "the format stays until firstseen cluster upgrade finalize: one node that holds it is enough\n"
    } else {
        "no node holds the format: a node whose version supports formats must do so\n"
    });
    text
}

/// Asks all nodes at the same time which version they run, except the nodes that are `unreachable`.
pub(crate) async fn of_all(operator: &Operator, map: &ClusterMap, unreachable: &[NodeId]) -> Versions {
    let asked = map.nodes.iter().map(async |(number, node)| {
        if node.is_down || unreachable.contains(number) {
            return (*number, None);
        }
        let there = operator.at(&node.address).within(REQUEST_TIMEOUT);
        let call = there.call(async |mut client| client.identify(IdentifyRequest {}).await);
        (*number, timeout(REQUEST_TIMEOUT, call).await.ok().and_then(Result::ok).map(Version::from))
    });
    join_all(asked).await
}

/// Returns the newest format that all nodes can read. `None` means that a node did not report it.
fn all_read(versions: &Versions) -> Option<u8> {
    let each = versions.iter().map(|(_, version)| version.as_ref().map(|version| version.newest_format));
    each.collect::<Option<Vec<u8>>>()?.into_iter().min()
}

fn held_by<'a>(map: &'a ClusterMap, versions: &Versions) -> Vec<&'a str> {
    let holds = versions.iter().filter(|(_, version)| version.as_ref().is_some_and(|version| version.holds));
    holds.filter_map(|(node, _)| map.nodes.get(node)).map(|node| node.name.as_str()).collect()
}

fn json_of(map: &ClusterMap, versions: &Versions) -> anyhow::Result<String> {
    let nodes = versions.iter().filter_map(|(node, version)| {
        Some(NodeDocument { name: &map.nodes.get(node)?.name, version: version.as_ref() })
    });
    let document = Document {
        format: map.format.0,
        all_read: all_read(versions),
        held_by: held_by(map, versions),
        nodes: nodes.collect(),
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

fn text_of(map: &ClusterMap, versions: &Versions) -> String {
    let mut table = Table::new(&["node", "version", "reads formats up to", "holds"]);
    for (node, version) in versions {
        let Some(record) = map.nodes.get(node) else { continue };
        let (program, newest, holds) = match version {
            Some(version) => (
                version.version.clone(),
                version.newest_format.to_string(),
                if version.holds { "yes" } else { "no" }.to_owned(),
            ),
            None => ("did not say".to_owned(), String::new(), String::new()),
        };
        table.row([record.name.clone(), program, newest, holds]);
    }
    let mut text = table.text();
    let format = map.format.0;
    let holders = held_by(map, versions);
    let then = match all_read(versions) {
        None => "nodes that do not answer have to start, or leave, before it can be raised".to_owned(),
        Some(newest) if newest <= format => {
            "every node reads it, and none that all read is newer: nothing is to be done".to_owned()
        }
        Some(newest) if holders.is_empty() => format!(
            "every node reads {newest}: it is raised ten minutes after the last one was upgraded (firstseen cluster upgrade hold \
             keeps it, finalize raises it now)"
        ),
        Some(newest) => format!(
            "every node reads {newest}, and {} holds it: firstseen cluster upgrade finalize raises it",
            holders.join(", ")
        ),
    };
    let _ = writeln!(text, "the cluster writes format {format}: {then}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(newest_format: u8, holds: bool) -> Option<Version> {
        Some(Version { version: "1".to_owned(), newest_format, holds })
    }

    #[test]
    fn a_node_that_says_nothing_reads_nothing_for_sure() {
        let of = |versions: &[Option<Version>]| all_read(&(1..).map(NodeId).zip(versions.iter().cloned()).collect());
        assert_eq!(of(&[said(11, false), said(10, true), said(12, false)]), Some(10));
        assert_eq!(of(&[said(11, false), None]), None);
        assert_eq!(Version::from(IdentifyReply::default()).newest_format, Format::FIRST.0, "a version without formats");
    }
}
