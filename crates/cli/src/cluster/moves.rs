//! Implements `firstseen cluster rebalance` and `drain`, which move copies of slices between nodes and show how many
//! copies have arrived. Both commands print their plan before they move a slice. The nodes execute the moves
//! themselves, so the moves continue if the user stops the command.

use std::collections::BTreeSet;
use std::io::Write;

use clap::Args;
use firstseen_routing::{ClusterMap, FilterId, NodeId};
use firstseen_wire::proto::admin::{CancelMovesRequest, MoveSlicesRequest, PlanMovesRequest, PlannedMoves};
use serde::Serialize;
use tokio::time::{Duration, Instant, sleep};

use super::{ClusterStatus, NodeArgs, node_named, status};
use crate::cluster::connect::{Operator, fresh_id};
use crate::terminal::steps::{Pace, Steps};
use crate::text::size::ByteSize;
use crate::text::table::Table;

/// Interval in which the cluster is asked how many slices have arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of rounds in which a plan is executed. Only one copy of a slice can move at a time, so a plan that
/// moves several copies of the same slice needs several rounds. Each round brings the distribution of the cells closer
/// to the target.
const ROUNDS_MAX: usize = 8;

/// Maximum number of moves of a filter that begin at the same time.
const BEGIN_MAX: usize = 1024;

/// Maximum time, in milliseconds, for which the move of a slice waits for a long retry horizon.
///
/// A move waits for the retry horizon of the filter, which is the time for which a producer may retry a batch. After
/// this wait, the new owner of the slice recognises retries of all batches that can still be retried. If the retry
/// horizon is longer than this limit, the move waits only for the limit.
const HORIZON_MAX_MS: u32 = 60_000;

/// Flags of `firstseen cluster rebalance`.
#[derive(Debug, Args)]
pub struct RebalanceArgs {
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Flags that say how slices are moved.
    #[command(flatten)]
    pub how: HowArgs,
    /// Cancel all moves in progress instead; slices stay on their present nodes
    #[arg(long, conflicts_with_all = ["plan", "no_wait", "json"])]
    pub cancel: bool,
}

/// Flags of `firstseen cluster drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Names or numbers of nodes to drain. List all of them in one command, so that no slice moves from one of them to
    /// another
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
    /// Flags that say how slices are moved.
    #[command(flatten)]
    pub how: HowArgs,
}

/// Flags that say how slices are moved.
#[derive(Debug, Args)]
pub struct HowArgs {
    /// Only print what would move
    #[arg(long)]
    pub plan: bool,
    /// Do not wait until the slices have arrived
    #[arg(long, conflicts_with = "plan")]
    pub no_wait: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The JSON document. Its field names do not change between releases.
#[derive(Serialize)]
struct Document {
    moves: Vec<MoveDocument>,
    bytes: u64,
    /// Whether all slices have arrived.
    done: bool,
}

#[derive(Clone, Serialize)]
struct MoveDocument {
    filter: String,
    slice: u32,
    from: String,
    to: String,
    bytes: u64,
}

/// Distributes slices evenly over the nodes.
///
/// # Errors
/// Returns the errors of the cluster.
pub(super) async fn rebalance(args: &RebalanceArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let member = args.member.operator()?;
    if args.cancel { cancel(&member, out).await } else { carry_out(&member, &[], &args.how, out).await }
}

/// Moves all slices off some nodes.
///
/// # Errors
/// Returns the errors of the cluster, or an error if a node does not exist.
pub(super) async fn drain(args: &DrainArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let member = args.member.operator()?;
    let map = status::ask(&member).await?.map;
    let nodes: Vec<NodeId> = args.nodes.iter().map(|node| node_named(&map, node)).collect::<anyhow::Result<_>>()?;
    carry_out(&member, &nodes, &args.how, out).await
}

async fn carry_out(member: &Operator, drained: &[NodeId], how: &HowArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut document = Document { moves: Vec::new(), bytes: 0, done: false };
    for round in 0..ROUNDS_MAX {
        let drained_nodes = drained.iter().map(|node| node.0).collect();
        let request = PlanMovesRequest { drained_nodes };
        let plan = member.call(async |mut client| client.plan_moves(request.clone()).await).await?.filters;
        let map = status::ask(member).await?.map;
        let moves: Vec<MoveDocument> = plan.iter().flat_map(|planned| documents(&map, planned)).collect();
        document.bytes += moves.iter().map(|way| way.bytes).sum::<u64>();
        document.moves.extend(moves.iter().cloned());
        if !how.json && (round == 0 || !moves.is_empty()) {
            out.write_all(text(&moves).as_bytes())?;
            out.flush()?;
        }
        if how.plan || moves.is_empty() && !is_moving(&map) {
            document.done = !how.plan;
            break;
        }
        begin(member, &plan).await?;
        if how.no_wait {
            break;
        }
        wait(member).await?;
        // A move that ended elsewhere may have been cancelled, so it is not started again.
        let map = status::ask(member).await?.map;
        let stays = plan.iter().map(|planned| left_behind(&map, planned)).sum::<usize>();
        anyhow::ensure!(stays == 0, "{stays} slices have stayed where they were: their moves were cancelled");
        anyhow::ensure!(
            round + 1 < ROUNDS_MAX,
            "slices still move after {ROUNDS_MAX} rounds: see `firstseen cluster status`"
        );
    }
    match how.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?,
        false if how.plan && !document.moves.is_empty() => writeln!(out, "nothing has moved: leave out --plan")?,
        false if how.no_wait => writeln!(out, "under way: `firstseen cluster status` shows how far they have come")?,
        false => {}
    }
    Ok(())
}

/// Returns the number of slices of a filter that have not moved although their target node exists.
fn left_behind(map: &ClusterMap, planned: &PlannedMoves) -> usize {
    let Some(record) = map.filters.get(&FilterId(planned.filter_id)) else { return 0 };
    let stay =
        planned.moves.iter().filter(|way| record.copies_of(way.slice).any(|copy| copy.node == NodeId(way.from_node)));
    stay.count()
}

async fn begin(member: &Operator, plan: &[PlannedMoves]) -> anyhow::Result<()> {
    for planned in plan {
        for moves in planned.moves.chunks(BEGIN_MAX) {
            let request = MoveSlicesRequest {
                command_id: fresh_id().into(),
                filter_id: planned.filter_id,
                moves: moves.to_vec(),
            };
            member.call(async |mut client| client.move_slices(request.clone()).await).await?;
        }
    }
    Ok(())
}

/// Waits until no slice is moving any more.
async fn wait(member: &Operator) -> anyhow::Result<()> {
    let mut progress: Option<Steps> = None;
    let begun = Instant::now();
    let mut pace = Pace::new();
    let mut most = 0;
    let mut waited_for = BTreeSet::new();
    let mut lost = BTreeSet::new();
    loop {
        let ClusterStatus { map, .. } = status::ask(member).await?;
        let left = map.filters.values().map(|record| record.moves().count()).sum::<usize>() as u64;
        let progress = progress.get_or_insert_with(|| Steps::new(left, "slices", false));
        progress.left(left);
        most = most.max(left);
        progress.say(&mut pace, begun.elapsed(), || under_way(&map, most - left, most, begun.elapsed()));
        if left == 0 {
            progress.end();
            return Ok(());
        }
        for record in map.filters.values() {
            for way in record.moves() {
                let is_gone = record.copies_of(way.slice).any(|copy| copy.node == way.to && map.is_gone(copy));
                if is_gone && waited_for.insert(way.to) {
                    let name = map.node_name(way.to);
                    progress.note(&format!(
                        "firstseen: node {name} is down, or cannot hold slices, so slices that are moving there wait \
                         for it; `firstseen cluster rebalance --cancel` cancels these moves"
                    ));
                }
                if !map.is_complete(record, way.slice) && lost.insert(record.name.clone()) {
                    progress.note(&format!(
                        "firstseen: no copy of some slices of `{0}` is complete: they arrive when its window has \
                         passed, or when lost events are forgiven (`firstseen filter forgive {0}`)",
                        record.name
                    ));
                }
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns a line about the progress of a wait, with the slices that are still moving.
fn under_way(map: &ClusterMap, arrived: u64, all: u64, elapsed: Duration) -> String {
    let moving = map.filters.values().filter(|record| record.moves().next().is_some());
    let horizon_ms = moving.map(|record| record.policies.retry_horizon_ms.min(HORIZON_MAX_MS)).max().unwrap_or(0);
    format!(
        "firstseen: {} s: {arrived} of {all} slices have arrived; one needs {} s at least, so that retries are known there",
        elapsed.as_secs(),
        horizon_ms.div_ceil(1000)
    )
}

async fn cancel(member: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let ClusterStatus { map, .. } = status::ask(member).await?;
    let mut given_up = 0;
    for record in map.filters.values().filter(|record| record.moves().next().is_some()) {
        given_up += record.moves().count();
        let request = CancelMovesRequest { command_id: fresh_id().into(), name: record.name.clone() };
        member.call(async |mut client| client.cancel_moves(request.clone()).await).await?;
    }
    writeln!(out, "{given_up} moves are given up")?;
    Ok(())
}

fn is_moving(map: &ClusterMap) -> bool {
    map.filters.values().any(|record| record.moves().next().is_some())
}

fn documents(map: &ClusterMap, planned: &PlannedMoves) -> Vec<MoveDocument> {
    let name = map.filters.get(&FilterId(planned.filter_id)).map_or("?", |record| record.name.as_str());
    let documents = planned.moves.iter().map(|way| MoveDocument {
        filter: name.to_owned(),
        slice: way.slice,
        from: map.node_name(NodeId(way.from_node)).to_owned(),
        to: map.node_name(NodeId(way.to_node)).to_owned(),
        bytes: planned.slice_bytes,
    });
    documents.collect()
}

/// Returns the moves as a table.
fn text(moves: &[MoveDocument]) -> String {
    if moves.is_empty() {
        return "nothing is to move\n".to_owned();
    }
    let mut table = Table::new(&["filter", "slice", "from", "to", "at most"]);
    for MoveDocument { filter, slice, from, to, bytes } in moves {
        let bytes = ByteSize(*bytes).to_string();
        table.row([filter.clone(), slice.to_string(), from.clone(), to.clone(), bytes]);
    }
    let bytes = moves.iter().map(|way| way.bytes).sum();
    format!("{}{} slices move, {} at most\n", table.text(), moves.len(), ByteSize(bytes))
}
