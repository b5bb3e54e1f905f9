//! `firstseen-lab bench rights`: what it costs that nodes ask for rights, and what a producer that sends ten times its quota takes from
//! another.
//!
//! Promises: both sides of a ratio are measured in turns, in one run, over TLS; every event of the quiet producer got a definite
//! verdict. Must not know: how rights are checked.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use firstseen_client::{Batch, Client, ConnectOptions, Filter, TlsFiles, Verdict};
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::time::sleep;

use super::RightsBenchArgs;
use super::calls::{calls_latency, until};
use super::figures::Measured;
use super::flow::{Asks, Expected, WINDOW_MS, events_per_s, now_ms};
use super::keys::Keys;
use super::local::LocalCluster;
use super::open_loop::Latency;
use crate::program::firstseen;

/// Nodes of the cluster.
const NODES: u32 = 3;
/// The quota of the greedy producer at each node, and how many times that it sends.
const QUOTA_EVENTS_PER_S: u64 = 5_000;
const GREED: u64 = 10;
/// Events of its batches.
const GREEDY_BATCH_EVENTS: u64 = 500;
/// Calls a second of the quiet producer, and for how long they are measured.
const QUIET_CALLS_PER_S: f64 = 2_000.0;
const MEASURED: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(2);
/// The capacity of the filter of single calls.
const CALLS_CAPACITY: u64 = 5_000_000;

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Figures {
    events: u64,
    batch_events: u32,
    by_role: Measured,
    by_rights: Measured,
    /// The rate with rights as a share of that without.
    rights_of_role: f64,
    quiet_alone: Latency,
    quiet_beside_greedy: Latency,
    /// The greatest p99 beside the greedy one as a share of that alone.
    p99_beside_of_alone: f64,
    greedy_asked_per_s: f64,
    greedy_taken_per_s: f64,
}

pub(super) fn run(args: &RightsBenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = LocalCluster::start(NODES, true)?;
    let certificates = cluster.client_files().map(|[ca, ..]| ca).context("the cluster has no certificates")?;
    let folder = certificates.parent().context("certificates are in no folder")?;
    let clients = ["certs", "--out", &folder.display().to_string(), "--clients", "quiet,greedy"].map(str::to_owned);
    LocalCluster::finish(std::process::Command::new(firstseen()?).args(clients))?;
    let access = |flags: &[&str]| LocalCluster::finish(&mut cluster.command(&[&["access"], flags].concat()));
    access(&["grant", "quiet", "--allow", "security"])?;
    for who in ["quiet", "greedy"] {
        access(&["grant", who, "--filter", "bench*", "--allow", "observe"])?;
    }
    let (mut by_role, mut by_rights) = (Vec::new(), Vec::new());
    for number in 0..args.runs {
        access(&["disable"])?;
        by_role.push(rate(&cluster, &runtime, args, folder, u64::from(number))?);
        access(&["enable"])?;
        by_rights.push(rate(&cluster, &runtime, args, folder, u64::from(number))?);
    }
    access(&["limit", "greedy", "--events-per-s", &QUOTA_EVENTS_PER_S.to_string()])?;
    let greedy = beside_greedy(&cluster, &runtime, folder)?;
    let (by_role, by_rights) = (Measured::of(by_role), Measured::of(by_rights));
    let figures = Figures {
        events: args.events,
        batch_events: args.batch,
        rights_of_role: by_rights.median / by_role.median,
        by_role,
        by_rights,
        p99_beside_of_alone: greedy.beside.p99_ms() / greedy.alone.p99_ms(),
        quiet_alone: greedy.alone,
        quiet_beside_greedy: greedy.beside,
        greedy_asked_per_s: greedy.asked_per_s,
        greedy_taken_per_s: greedy.taken_per_s,
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &figures)?
    } else {
        figures.print(&mut out)?
    }
    Ok(())
}

/// Events a second of one producer, on a new filter.
fn rate(
    cluster: &LocalCluster,
    runtime: &Runtime,
    args: &RightsBenchArgs,
    folder: &Path,
    number: u64,
) -> anyhow::Result<f64> {
    create(cluster, args.events)?;
    let measured = runtime.block_on(async {
        let (_client, filter) = connect(cluster, folder, "quiet", args.batch).await?;
        events_per_s(&filter, Keys::new(number, args.events), args.batch, Expected::New, Asks::Observe).await
    });
    cluster.filter(&["drop", "bench", "--yes"])?;
    measured
}

fn create(cluster: &LocalCluster, events: u64) -> anyhow::Result<()> {
    let (capacity, window) = (events.to_string(), format!("{}s", WINDOW_MS / 1000));
    cluster.filter(&["create", "bench", "--window", &window, "--capacity", &capacity, "--slicing", "horizontal:3"])
}

async fn connect(cluster: &LocalCluster, folder: &Path, who: &str, batch: u32) -> anyhow::Result<(Client, Filter)> {
    let file = |ending: &str| folder.join(format!("{who}.client.{ending}"));
    let files = TlsFiles { ca: folder.join("ca.pem"), cert: file("pem"), key: file("key") };
    let options = ConnectOptions {
        tls: Some(files),
        batch_events_max: batch,
        deadline_ms: 2_000,
        ..ConnectOptions::from(cluster.addresses())
    };
    let client = Client::connect(options).await?;
    let filter = client.filter("bench").await?;
    Ok((client, filter))
}

struct Greedy {
    alone: Latency,
    beside: Latency,
    asked_per_s: f64,
    taken_per_s: f64,
}

/// How long single calls take while another producer sends ten times its quota, and before.
fn beside_greedy(cluster: &LocalCluster, runtime: &Runtime, folder: &Path) -> anyhow::Result<Greedy> {
    create(cluster, CALLS_CAPACITY)?;
    runtime.block_on(async {
        let (_quiet_client, quiet) = connect(cluster, folder, "quiet", 1024).await?;
        let (_greedy_client, greedy) = connect(cluster, folder, "greedy", 1024).await?;
        calls_latency(&quiet, 0, QUIET_CALLS_PER_S, until(WARM_UP)).await?;
        let alone = calls_latency(&quiet, 1, QUIET_CALLS_PER_S, until(MEASURED)).await?;
        let is_over = Arc::new(AtomicBool::new(false));
        let begun = Instant::now();
        let sending = tokio::spawn(send_greedily(greedy, is_over.clone()));
        let beside = calls_latency(&quiet, 2, QUIET_CALLS_PER_S, until(MEASURED)).await?;
        is_over.store(true, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        let (asked, taken) = sending.await??;
        Ok(Greedy { alone, beside, asked_per_s: asked as f64 / seconds, taken_per_s: taken as f64 / seconds })
    })
}

/// Sends as many times its quota, whether or not batches before are answered; returns the events asked about, and those taken.
async fn send_greedily(filter: Filter, is_over: Arc<AtomicBool>) -> anyhow::Result<(u64, u64)> {
    let (keys, time_ms, taken) = (Keys::new(3, u64::MAX), now_ms()?, Arc::<AtomicU64>::default());
    let per_s = QUOTA_EVENTS_PER_S * u64::from(NODES) * GREED;
    let (begun, mut asked, mut sent) = (Instant::now(), 0, tokio::task::JoinSet::new());
    while !is_over.load(Ordering::Relaxed) {
        let due = Duration::from_micros(asked * 1_000_000 / per_s);
        sleep(due.saturating_sub(begun.elapsed())).await;
        let events: Vec<_> = (asked..asked + GREEDY_BATCH_EVENTS).map(|event| keys.key(event)).collect();
        asked += GREEDY_BATCH_EVENTS;
        let (filter, taken) = (filter.clone(), taken.clone());
        sent.spawn(async move {
            let times_ms = vec![time_ms; events.len()];
            let Ok(verdicts) = filter.observe_batch(Batch::from(&events).times_ms(&times_ms)).await else { return };
            let decided = verdicts.iter().filter(|verdict| !matches!(verdict, Verdict::Undecided(_))).count();
            taken.fetch_add(decided as u64, Ordering::Relaxed);
        });
        while sent.try_join_next().is_some() {}
    }
    sent.join_all().await;
    Ok((asked, taken.load(Ordering::Relaxed)))
}

impl Figures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, by_role, by_rights, rights_of_role, .. } = self;
        let millions = |measured: &Measured| measured.median / 1e6;
        writeln!(out, "{events} events, batches of {batch_events}, {NODES} nodes, TLS, medians")?;
        writeln!(
            out,
            "  by role {:.2}, by rights {:.2} M events/s: {rights_of_role:.3} of it",
            millions(by_role),
            millions(by_rights)
        )?;
        writeln!(out, "  a quiet producer alone         {}", self.quiet_alone)?;
        writeln!(out, "  beside one of {GREED} times its quota {}", self.quiet_beside_greedy)?;
        let Self { p99_beside_of_alone, greedy_asked_per_s, greedy_taken_per_s, .. } = self;
        let quota = QUOTA_EVENTS_PER_S * u64::from(NODES);
        writeln!(
            out,
            "  p99 {p99_beside_of_alone:.2} of that alone; the other asked {greedy_asked_per_s:.0} events/s, \
             {greedy_taken_per_s:.0} were taken, {quota} is its quota"
        )
    }
}
