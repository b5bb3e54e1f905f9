//! `firstseen-lab bench moves` measures how much calls are slowed down while slices move to another node. For this
//! purpose, it measures the latency of calls before the move and during the move, in one run with the same filter and
//! the same load. The filter is filled first, so that the moving slices contain data.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use firstseen_cli::flags::filter::KindArg;
use firstseen_client::Filter;
use firstseen_filter::{Ability, Kind};
use serde::Serialize;

use super::calls::{calls_latency, until};
use super::flow::{Expected, FlowOperation, events_per_s};
use super::keys::Keys;
use super::local::{CLIENT_BATCH_EVENTS, LocalCluster, NewFilter, finish};
use super::open_loop::Latency;
use super::{Figures, PageTable};

const NODES: u32 = 3;
/// Number of events in a batch while the filter is filled.
const BATCH_EVENTS: u32 = 1024;
/// Retry horizon of the filter, which is the time during which a client may retry a request. A node that takes over a
/// slice must know the replies of the last retry horizon, so that a retry gets the same reply. The benchmark uses a
/// short retry horizon, so that a move takes little time.
const RETRY_HORIZON: &str = "1s";

/// Flags of `firstseen-lab bench moves`.
#[derive(Debug, Args)]
pub struct MovesArgs {
    /// Events in the filter when its slices move; the filter has capacity for twice as many
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = value_parser!(u64).range(10_000..))]
    events: u64,
    /// Calls per second
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = value_parser!(u32).range(1..=100_000))]
    calls_per_s: u32,
    /// Seconds that are measured before slices move
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = value_parser!(u64).range(1..=600))]
    quiet_s: u64,
    /// Kind of filter to measure; may be given several times, and the kinds are measured one after the other
    #[arg(long, value_name = "KIND", value_enum, default_value = "generations")]
    kind: Vec<KindArg>,
}

/// Results of one slicing with filters of one kind.
#[derive(Debug, Serialize)]
struct SlicingFigures {
    slicing: &'static str,
    kind: Kind,
    quiet: Latency,
    moving: Latency,
    /// Ratio of the p99 while slices move to the p99 before.
    p99_of_quiet: f64,
    /// Time from the first move until the last slice has arrived, in seconds.
    moved_s: f64,
}

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct MovesFigures {
    events: u64,
    calls_per_s: u32,
    nodes: u32,
    slicings: Vec<SlicingFigures>,
}

pub(super) fn measure(args: &MovesArgs) -> anyhow::Result<MovesFigures> {
    let cluster = LocalCluster::start(NODES, false)?;
    let mut slicings = Vec::new();
    for slicing in ["horizontal:6", "vertical:6"] {
        let kinds = args.kind.iter().map(|kind| Kind::from(*kind));
        for kind in kinds.filter(|kind| !slicing.starts_with("vertical") || kind.can(Ability::Divide)) {
            slicings.push(with_slicing(&cluster, args, slicing, kind)?);
        }
    }
    Ok(MovesFigures { events: args.events, calls_per_s: args.calls_per_s, nodes: NODES, slicings })
}

fn with_slicing(
    cluster: &LocalCluster,
    args: &MovesArgs,
    slicing: &'static str,
    kind: Kind,
) -> anyhow::Result<SlicingFigures> {
    let flags = ["--retry-horizon", RETRY_HORIZON, "--kind", &kind.to_string(), "--slicing", slicing];
    let filter = NewFilter::bench(2 * args.events, &flags);
    cluster.with_client(filter, CLIENT_BATCH_EVENTS, async |filter| {
        events_per_s(filter, Keys::new(0, args.events), BATCH_EVENTS, Expected::New, FlowOperation::Observe).await?;
        let rate = f64::from(args.calls_per_s);
        let quiet = calls_latency(filter, 1, rate, until(Duration::from_secs(args.quiet_s))).await?;
        let moves = while_moving(cluster, filter, rate).await?;
        let p99_of_quiet = moves.latency.p99_ms() / quiet.p99_ms();
        Ok(SlicingFigures { slicing, kind, quiet, moving: moves.latency, p99_of_quiet, moved_s: moves.seconds })
    })
}

/// Calls that were made while slices moved.
struct Moves {
    latency: Latency,
    /// Time from the first move until the last slice has arrived, in seconds.
    seconds: f64,
}

/// Moves all slices away from one node, and back to it.
async fn while_moving(cluster: &LocalCluster, filter: &Filter, rate: f64) -> anyhow::Result<Moves> {
    let is_over = Arc::new(AtomicBool::new(false));
    let has_moved = is_over.clone();
    let begun = Instant::now();
    let calling = calls_latency(filter, 2, rate, move || is_over.load(Ordering::Relaxed));
    let last = NODES.to_string();
    let mut commands = [cluster.command(&["cluster", "drain", &last]), cluster.command(&["cluster", "rebalance"])];
    let moving = tokio::task::spawn_blocking(move || {
        let moved = commands.iter_mut().try_for_each(finish);
        has_moved.store(true, Ordering::Relaxed);
        moved.map(|()| begun.elapsed().as_secs_f64())
    });
    let (latency, seconds) = tokio::join!(calling, moving);
    Ok(Moves { latency: latency?, seconds: seconds?? })
}

impl Figures for MovesFigures {
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

    fn tables(&self) -> Vec<PageTable> {
        let rows = self.slicings.iter().map(|figures| {
            let [quiet, moving] = [&figures.quiet, &figures.moving]
                .map(|latency| format!("{:.2}, {:.2} ms", latency.p50_ms(), latency.p99_ms()));
            vec![format!("`{}`", figures.slicing), quiet, moving, format!("{:.2}", figures.p99_of_quiet)]
        });
        let heading = ["slicing", "quiet p50, p99", "while slices move", "p99 of quiet"];
        vec![PageTable::new("moves", &heading, rows)]
    }
}
