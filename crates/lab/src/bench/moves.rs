//! `firstseen-lab bench moves`: how long calls take while slices move, beside how long they take before.
//!
//! Promises: both are measured in one run, with the same filter, at the same load, and the slices that move are full.
//! Must not know: how slices move.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use firstseen_client::{Client, ConnectOptions, Filter};
use firstseen_filter::{Ability, Kind};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::MovesBenchArgs;
use super::calls::calls_latency;
use super::flow::{Asks, Expected, WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::LocalCluster;
use super::open_loop::Latency;

const NODES: u32 = 3;
/// Events of a batch with which the filter is filled.
const BATCH_EVENTS: u32 = 1024;
/// A slice does not move before its new node knows the replies of so long a time.
const RETRY_HORIZON: &str = "1s";

/// One slicing with filters of one kind.
#[derive(Debug, Serialize)]
struct SlicingFigures {
    slicing: &'static str,
    kind: Kind,
    quiet: Latency,
    moving: Latency,
    /// The p99 while slices move, as a multiple of the p99 before.
    p99_of_quiet: f64,
    /// From the first move to the last arrival.
    moved_s: f64,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Figures {
    events: u64,
    calls_per_s: u32,
    nodes: u32,
    slicings: Vec<SlicingFigures>,
}

pub(super) fn run(args: &MovesBenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = LocalCluster::start(NODES, false)?;
    let mut slicings = Vec::new();
    for slicing in ["horizontal:6", "vertical:6"] {
        let kinds = args.kind.iter().map(|kind| Kind::from(*kind));
        for kind in kinds.filter(|kind| !slicing.starts_with("vertical") || kind.can(Ability::Divide)) {
            slicings.push(measure(&cluster, &runtime, args, slicing, kind)?);
        }
    }
    let figures = Figures { events: args.events, calls_per_s: args.calls_per_s, nodes: NODES, slicings };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &figures)?
    } else {
        figures.print(&mut out)?
    }
    Ok(())
}

fn measure(
    cluster: &LocalCluster,
    runtime: &Runtime,
    args: &MovesBenchArgs,
    slicing: &'static str,
    kind: Kind,
) -> anyhow::Result<SlicingFigures> {
    let (name, capacity, window) = (kind.to_string(), (2 * args.events).to_string(), format!("{}s", WINDOW_MS / 1000));
    let definition = ["--kind", &name, "--window", &window, "--capacity", &capacity, "--slicing", slicing];
    cluster.filter(&[&["create", "bench", "--retry-horizon", RETRY_HORIZON], &definition[..]].concat())?;
    let measured = runtime.block_on(async {
        let client = Client::connect(ConnectOptions::from(cluster.addresses())).await?;
        let filter = client.filter("bench").await?;
        events_per_s(&filter, Keys::new(0, args.events), BATCH_EVENTS, Expected::New, Asks::Observe).await?;
        let rate = f64::from(args.calls_per_s);
        let (begun, quiet_s) = (Instant::now(), args.quiet_s);
        let quiet = calls_latency(&filter, 1, rate, move || begun.elapsed().as_secs() >= quiet_s).await?;
        let (moving, moved_s) = while_moving(cluster, &filter, rate).await?;
        let p99_of_quiet = moving.p99_ms() / quiet.p99_ms();
        anyhow::Ok(SlicingFigures { slicing, kind, quiet, moving, p99_of_quiet, moved_s })
    });
    cluster.filter(&["drop", "bench", "--yes"])?;
    measured
}

/// Moves all slices off one node, and back to it.
async fn while_moving(cluster: &LocalCluster, filter: &Filter, rate: f64) -> anyhow::Result<(Latency, f64)> {
    let (is_over, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let calling = calls_latency(filter, 2, rate, {
        let is_over = is_over.clone();
        move || is_over.load(Ordering::Relaxed)
    });
    let last = NODES.to_string();
    let mut commands = [cluster.command(&["cluster", "drain", &last]), cluster.command(&["cluster", "rebalance"])];
    let moving = tokio::task::spawn_blocking(move || {
        let moved = commands.iter_mut().try_for_each(LocalCluster::finish);
        is_over.store(true, Ordering::Relaxed);
        moved.map(|()| begun.elapsed().as_secs_f64())
    });
    let (latency, moved_s) = tokio::join!(calling, moving);
    Ok((latency?, moved_s??))
}

impl Figures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, calls_per_s, nodes, slicings } = self;
        writeln!(
            out,
            "{events} events in the filter, {calls_per_s} single calls a second, {nodes} nodes: all slices of one"
        )?;
        writeln!(out, "of them go to the others, and come back")?;
        for SlicingFigures { slicing, kind, quiet, moving, p99_of_quiet, moved_s } in slicings {
            writeln!(out, "  {slicing:<13} {kind:<11} quiet {quiet}")?;
            writeln!(out, "  {:<25} moves {moving}: {p99_of_quiet:.2} of the quiet p99, {moved_s:.1} s", "")?;
        }
        Ok(())
    }
}
