//! Implements `firstseen cluster safe-to-stop`, which checks whether a node can be stopped without losing data while
//! the other nodes continue to serve. If the node cannot be stopped, the command prints each obstacle together with
//! what to do about it.
//!
//! The check uses the cluster map that a majority of the consensus group has committed, so it does not rely on an
//! outdated view.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use firstseen_routing::stopping::{Forgets, Loss, Obstacle, may_owe, obstacles, owed, ranges, unconfirmed};
use firstseen_routing::{ClusterMap, FilterId, NodeId};
use serde::Serialize;
use tokio::time::{Duration, sleep};

use super::connect::Operator;
use super::identified::identified;
use super::leading::committed;
use super::{ClusterStatus, NodeArgs, node_named};
use crate::exit::FAILED;

/// Pause before the next check.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// How long the search for a leader may take.
const LEADER_MAX: Duration = Duration::from_secs(15);

/// Flags of `firstseen cluster safe-to-stop`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0: it is safe; 1: it is not, and every line says why and what to do; 2: there is no such node."
)]
pub struct SafeToStopArgs {
    /// Name or number of the node
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Wait until it is safe, as long as it can become safe
    #[arg(long)]
    pub wait: bool,
    /// Accept that events may be lost which only slices of this node remember, in memory
    #[arg(long)]
    pub accept_loss: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
}

/// The JSON document. Its field names do not change between releases.
#[derive(Serialize)]
struct Document {
    node: String,
    safe: bool,
    reasons: Vec<Reason>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Reason {
    /// Whether data would be lost. Otherwise the service would only pause for a while.
    loss: bool,
    /// Whether the obstacle may disappear without action.
    may_pass: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<u32>,
    text: String,
}

/// Prints whether the node can be stopped safely.
///
/// # Errors
/// Returns an error if the node does not exist or if there is no leader.
pub(super) async fn run(args: &SafeToStopArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let member = args.member.operator()?;
    let mut shown: Vec<Reason> = Vec::new();
    let mut has_told_unknown = false;
    loop {
        let status = committed(&member, LEADER_MAX).await?;
        let node = node_named(&status.map, &args.node)?;
        let Found { obstacles: found, unknown } = current_obstacles(&member, &status, node).await;
        if let Some(unknown) = unknown.filter(|_| !has_told_unknown) {
            notice!("firstseen: {unknown}");
            has_told_unknown = true;
        }
        let map = &status.map;
        let against: Vec<&Obstacle> = found.iter().filter(|found| !(args.accept_loss && found.is_loss())).collect();
        let reasons: Vec<Reason> = found.iter().map(|found| reason(map, node, found)).collect();
        let is_safe = against.is_empty();
        if is_safe || !args.wait || !against.iter().all(|found| found.may_pass()) {
            let name = map.nodes.get(&node).map_or_else(|| node.to_string(), |record| record.name.clone());
            if args.json {
                let document = Document { node: name, safe: is_safe, reasons };
                writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
            } else {
                out.write_all(text(&name, is_safe, &reasons).as_bytes())?
            }
            return Ok(if is_safe { ExitCode::SUCCESS } else { ExitCode::from(FAILED) });
        }
        for news in reasons.iter().filter(|reason| !shown.contains(reason)) {
            notice!("firstseen: waiting: {}", news.text);
        }
        shown = reasons;
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the data that would be lost if a node stopped now, each with what to do about it.
///
/// # Errors
/// Returns an error if the node does not exist or if there is no leader.
pub(crate) async fn losses(member: &Operator, node: &str) -> anyhow::Result<Vec<String>> {
    let status = committed(member, LEADER_MAX).await?;
    let node = node_named(&status.map, node)?;
    let Found { obstacles: found, unknown } = current_obstacles(member, &status, node).await;
    unknown.iter().for_each(|unknown| notice!("firstseen: {unknown}"));
    Ok(found.iter().filter(|found| found.is_loss()).map(|found| reason(&status.map, node, found).text).collect())
}

/// The obstacles to stopping a node.
struct Found {
    obstacles: Vec<Obstacle>,
    /// Message about obstacles that the node does not report.
    unknown: Option<String>,
}

/// Returns the obstacles to stopping the node, given which other nodes answer now.
async fn current_obstacles(member: &Operator, status: &ClusterStatus, node: NodeId) -> Found {
    let map = &status.map;
    let mut found = obstacles(map, node, |other| answers(status, other));
    let Some(reply) = identified(member, map, node).await else {
        found.extend((may_owe(map) && !map.is_down(node)).then_some(Obstacle::OwedUnknown));
        return Found { obstacles: found, unknown: None };
    };
    found.extend(unconfirmed(map, node, reply.confirms_waiting, |other| answers(status, other)));
    let is_unknown = reply.owed.is_none() && may_owe(map);
    let unknown = is_unknown.then(|| {
        format!(
            "{} does not say whether it has called events first-seen without the level above and must still report them: \
             its release is older, or it is busy; such events are not considered",
            reply.name
        )
    });
    let filters = reply.owed.map(|report| report.filters).unwrap_or_default();
    found.extend(filters.iter().filter_map(|of| owed(map, FilterId(of.filter_id), of.events, of.moved_events)));
    Found { obstacles: found, unknown }
}

fn answers(status: &ClusterStatus, node: NodeId) -> bool {
    !status.unreachable.contains(&node) && !status.not_answering.contains(&node)
}

fn text(node: &str, is_safe: bool, reasons: &[Reason]) -> String {
    let lines = reasons.iter().map(|reason| reason.text.clone() + "\n").collect::<String>();
    match (is_safe, reasons.is_empty()) {
        (true, true) => format!("{node} can be stopped: nothing is lost, and the others go on\n"),
        (true, false) => format!("{node} can be stopped, and this is accepted:\n{lines}"),
        (false, _) => format!("{node} must not be stopped now:\n{lines}"),
    }
}

/// Returns the names of nodes. For nodes that are no longer members, returns their numbers.
fn names(map: &ClusterMap, nodes: &BTreeSet<NodeId>) -> String {
    let names =
        nodes.iter().map(|node| map.nodes.get(node).map_or_else(|| node.to_string(), |record| record.name.clone()));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns an obstacle as text, with what to do about it.
fn reason(map: &ClusterMap, node: NodeId, obstacle: &Obstacle) -> Reason {
    let name = names(map, &BTreeSet::from([node]));
    let (filter, slices, text) = match obstacle {
        Obstacle::Loss { filter, slices, why } => {
            let why = match why {
                Loss::OnlyCopy => {
                    format!(
                        "no other node has copies of them, and they are in memory: their content is lost with {name}. \
                         Move them (firstseen cluster drain {name}), or say --accept-loss; a filter with --copies 1 \
                         or --durability durable loses nothing"
                    )
                }
                Loss::Fetching(nodes) => {
                    format!("the other copies have not fetched all of them yet (node {}): wait (--wait)", names(map, nodes))
                }
                Loss::Away(nodes) => {
                    format!("the nodes of the other copies are down, or out of reach: start {} first", names(map, nodes))
                }
                Loss::Incomplete => "no copy of them has everything, and what was recorded there since is lost: wait until \
                                     their window has passed (firstseen filter describe says when), or say --accept-loss"
                    .to_owned(),
            };
            let of = map.filters.get(filter).map(|record| record.name.clone());
            let text = format!("filter {}, slices {}: {why}", of.as_deref().unwrap_or("?"), ranges(slices));
            (of, slices.clone(), text)
        }
        Obstacle::Alteration { filter } => {
            let of = map.filters.get(filter).map(|record| record.name.clone());
            let text = format!(
                "filter {}: an alteration waits until {name} has ended what it has in flight: wait (--wait)",
                of.as_deref().unwrap_or("?")
            );
            (of, Vec::new(), text)
        }
        Obstacle::Unconfirmed { claims, away } => {
            let text = format!(
                "its endpoint for Redis clients has still to confirm {claims} keys, and cannot confirm those of {}, which are down or out of \
                 reach: start them first, or wait (--wait)",
                names(map, away)
            );
            (None, Vec::new(), text)
        }
        Obstacle::Owed { filter, events, why } => {
            let of = map.filters.get(filter).map(|record| record.name.clone());
            let why = match why {
                Forgets::InMemory => "they are in memory",
                Forgets::Moved => "their slices have moved to another node",
            };
            let text = format!(
                "filter {}: {name} has called {events} events first-seen without the level above, and has not reported \
                 them; {why}, so the level above never learns of them if {name} stops: wait until it reaches that level \
                 (--wait), or say --accept-loss",
                of.as_deref().unwrap_or("?")
            );
            (of, Vec::new(), text)
        }
        Obstacle::OwedUnknown => {
            let text = format!(
                "{name} does not answer whether it has called events first-seen without the level above and must still \
                 report them: wait (--wait), or say --accept-loss"
            );
            (None, Vec::new(), text)
        }
        Obstacle::Majority { voters, left } => {
            let needed = voters / 2 + 1;
            let what = if obstacle.may_pass() {
                "start the others first"
            } else {
                "let another node join (firstseen cluster join), or stop it anyway: the other nodes answer, but no \
                 node can be marked down until it is back"
            };
            let text = format!("{left} of {voters} voters are up without it, and {needed} are a majority: {what}");
            (None, Vec::new(), text)
        }
    };
    Reason { loss: obstacle.is_loss(), may_pass: obstacle.may_pass(), filter, slices, text }
}
