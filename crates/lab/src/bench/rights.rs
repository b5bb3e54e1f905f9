//! `firstseen-lab bench rights` measures two effects of access control. The first effect is its cost: the benchmark
//! compares the rates of events with and without access control. The second effect is the protection by quotas: the
//! benchmark measures how much the latency of one producer increases while another producer sends ten times its quota.
//!
//! Each effect is printed as the ratio of two measurements, which are made alternately in one run, over TLS. One
//! producer stays within its quota. The benchmark fails if this producer does not get a definite verdict for every
//! event.

use std::io::{self, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use firstseen_client::{Batch, Client, ConnectOptions, Filter, Verdict};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::calls::{calls_latency, until};
use super::figures::Measured;
use super::flow::{Expected, FlowOperation, events_per_s, now_ms};
use super::keys::Keys;
use super::local::{LocalCluster, NewFilter, finish};
use super::open_loop::Latency;
use super::{Figures, PageTable, Size};
use crate::program::firstseen;

/// Number of nodes in the cluster.
const NODES: u32 = 3;
/// Flags that select the slicing of the filters.
const FLAGS: [&str; 2] = ["--slicing", "horizontal:3"];
/// Quota of the greedy producer at each node. The next constant is the factor by which it exceeds the quota.
const QUOTA_EVENTS_PER_S: u64 = 5_000;
const OVERLOAD_FACTOR: u64 = 10;
/// Number of events in a batch of the greedy producer.
const GREEDY_BATCH_EVENTS: u64 = 500;
/// Calls per second of the quiet producer. The next constant is the duration of the measurement.
const QUIET_CALLS_PER_S: f64 = 2_000.0;
const MEASURED: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(2);
/// Capacity of the filter for single calls.
const CALLS_CAPACITY: u64 = 5_000_000;

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct RightsFigures {
    events: u64,
    batch_events: u32,
    by_role: Measured,
    by_rights: Measured,
    /// Rate with access control, divided by the rate without.
    rights_of_role: f64,
    quiet_alone: Latency,
    quiet_beside_greedy: Latency,
    /// Maximum p99 next to the greedy producer, divided by the p99 alone.
    p99_beside_of_alone: f64,
    greedy_asked_per_s: f64,
    greedy_taken_per_s: f64,
}

pub(super) fn measure(size: Size) -> anyhow::Result<RightsFigures> {
    let cluster = LocalCluster::start(NODES, true)?;
    let folder = cluster.certificates().context("the cluster has no certificates")?;
    finish(Command::new(firstseen()?).args(["certs", "--clients", "quiet,greedy", "--out"]).arg(folder))?;
    cluster.run(&["access", "grant", "quiet", "--allow", "security"])?;
    for who in ["quiet", "greedy"] {
        cluster.run(&["access", "grant", who, "--filter", "bench*", "--allow", "observe"])?;
    }
    let mut by_role = Vec::new();
    let mut by_rights = Vec::new();
    for number in 0..u64::from(size.runs) {
        cluster.run(&["access", "disable"])?;
        by_role.push(rate(&cluster, size, number)?);
        cluster.run(&["access", "enable"])?;
        by_rights.push(rate(&cluster, size, number)?);
    }
    cluster.run(&["access", "limit", "greedy", "--events-per-s", &QUOTA_EVENTS_PER_S.to_string()])?;
    let greedy = measure_under_overload(&cluster)?;
    let by_role = Measured::of(by_role);
    let by_rights = Measured::of(by_rights);
    Ok(RightsFigures {
        events: size.events,
        batch_events: size.batch,
        rights_of_role: by_rights.median / by_role.median,
        by_role,
        by_rights,
        p99_beside_of_alone: greedy.beside.p99_ms() / greedy.alone.p99_ms(),
        quiet_alone: greedy.alone,
        quiet_beside_greedy: greedy.beside,
        greedy_asked_per_s: greedy.asked_per_s,
        greedy_taken_per_s: greedy.taken_per_s,
    })
}

/// Measures the events per second of one producer with a new filter.
fn rate(cluster: &LocalCluster, size: Size, number: u64) -> anyhow::Result<f64> {
    cluster.with_filter(NewFilter::bench(size.events, &FLAGS), || {
        cluster.block_on(async {
            let producer = Producer::connect(cluster, "quiet", size.batch).await?;
            let keys = Keys::new(number, size.events);
            events_per_s(&producer.filter, keys, size.batch, Expected::New, FlowOperation::Observe).await
        })
    })
}

/// Producer. Its client lives as long as its filter is used.
struct Producer {
    filter: Filter,
    _client: Client,
}

impl Producer {
    async fn connect(cluster: &LocalCluster, who: &str, batch: u32) -> anyhow::Result<Self> {
        let files = cluster.tls_of(who).context("the cluster has no certificates")?;
        let options = ConnectOptions {
            tls: Some(files),
            batch_events_max: batch,
            deadline_ms: 2_000,
            ..ConnectOptions::from(cluster.addresses())
        };
        let client = Client::connect(options).await?;
        Ok(Self { filter: client.filter("bench").await?, _client: client })
    }
}

struct Greedy {
    alone: Latency,
    beside: Latency,
    asked_per_s: f64,
    taken_per_s: f64,
}

/// Measures the latency of single calls, first alone and then while another producer sends ten times its quota.
fn measure_under_overload(cluster: &LocalCluster) -> anyhow::Result<Greedy> {
    cluster.create(NewFilter::bench(CALLS_CAPACITY, &FLAGS))?;
    cluster.block_on(async {
        let quiet = Producer::connect(cluster, "quiet", 1024).await?;
        let greedy = Producer::connect(cluster, "greedy", 1024).await?;
        calls_latency(&quiet.filter, 0, QUIET_CALLS_PER_S, until(WARM_UP)).await?;
        let alone = calls_latency(&quiet.filter, 1, QUIET_CALLS_PER_S, until(MEASURED)).await?;
        let is_over = Arc::new(AtomicBool::new(false));
        let begun = Instant::now();
        let sending = tokio::spawn(send_above_quota(greedy.filter.clone(), is_over.clone()));
        let beside = calls_latency(&quiet.filter, 2, QUIET_CALLS_PER_S, until(MEASURED)).await?;
        is_over.store(true, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        let sent = sending.await??;
        let asked_per_s = sent.asked as f64 / seconds;
        Ok(Greedy { alone, beside, asked_per_s, taken_per_s: sent.taken as f64 / seconds })
    })
}

/// Events of the greedy producer.
struct Sent {
    asked: u64,
    taken: u64,
}

/// Sends events at a multiple of the quota, even if earlier batches are not answered yet.
async fn send_above_quota(filter: Filter, is_over: Arc<AtomicBool>) -> anyhow::Result<Sent> {
    let keys = Keys::new(3, u64::MAX);
    let time_ms = now_ms()?;
    let taken = Arc::<AtomicU64>::default();
    let per_s = QUOTA_EVENTS_PER_S * u64::from(NODES) * OVERLOAD_FACTOR;
    let begun = Instant::now();
    let mut asked = 0;
    let mut sent = JoinSet::new();
    while !is_over.load(Ordering::Relaxed) {
        let due = Duration::from_micros(asked * 1_000_000 / per_s);
        sleep(due.saturating_sub(begun.elapsed())).await;
        let events: Vec<_> = (asked..asked + GREEDY_BATCH_EVENTS).map(|event| keys.key(event)).collect();
        asked += GREEDY_BATCH_EVENTS;
        let filter = filter.clone();
        let taken = taken.clone();
        sent.spawn(async move {
            let times_ms = vec![time_ms; events.len()];
            let Ok(verdicts) = filter.observe_batch(Batch::from(&events).times_ms(&times_ms)).await else { return };
            let decided = verdicts.iter().filter(|verdict| !matches!(verdict, Verdict::Undecided(_))).count();
            taken.fetch_add(decided as u64, Ordering::Relaxed);
        });
        while sent.try_join_next().is_some() {}
    }
    sent.join_all().await;
    Ok(Sent { asked, taken: taken.load(Ordering::Relaxed) })
}

impl Figures for RightsFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, by_role, by_rights, rights_of_role, .. } = self;
        writeln!(out, "{events} events, batches of {batch_events}, {NODES} nodes, TLS, medians")?;
        writeln!(
            out,
            "  by role {:.2}, by rights {:.2} M events/s: {rights_of_role:.3} of it",
            by_role.median / 1e6,
            by_rights.median / 1e6
        )?;
        writeln!(out, "  a quiet producer alone         {}", self.quiet_alone)?;
        writeln!(out, "  beside one of {OVERLOAD_FACTOR} times its quota {}", self.quiet_beside_greedy)?;
        let Self { p99_beside_of_alone, greedy_asked_per_s, greedy_taken_per_s, .. } = self;
        let quota = QUOTA_EVENTS_PER_S * u64::from(NODES);
        writeln!(
            out,
            "  p99 {p99_beside_of_alone:.2} of that alone; the other asked {greedy_asked_per_s:.0} events/s, \
             {greedy_taken_per_s:.0} were taken, {quota} is its quota"
        )
    }

    fn tables(&self) -> Vec<PageTable> {
        let producers = [("alone", &self.quiet_alone), ("beside the other", &self.quiet_beside_greedy)];
        let rows = producers.map(|(name, latency)| {
            let times = [latency.p50_ms(), latency.p99_ms(), latency.p999_ms()].map(|ms| format!("{ms:.2} ms"));
            [name.to_owned()].into_iter().chain(times).collect::<Vec<String>>()
        });
        vec![PageTable::new("rights", &["the quiet one's calls", "p50", "p99", "p99.9"], rows)]
    }
}
