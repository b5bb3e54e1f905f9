//! `firstseen-lab bench claims`: what it costs to claim events, deliver them and confirm them, beside observing them.
//!
//! Promises: filters that are compared are measured in turns, in one run; every event got a definite answer, and was granted once.
//! Must not know: how claims are granted.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firstseen_client::{Client, ConnectOptions, Filter};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::ClaimsBenchArgs;
use super::figures::Measured;
use super::flow::{Asks, Claimed, Expected, WINDOW_MS, claim, events_per_s, now_ms};
use super::keys::Keys;
use super::local::LocalCluster;

/// The filters that are compared, each with and without claims.
const SLICINGS: [(&str, &[&str]); 2] = [
    ("horizontal:3", &["--slicing", "horizontal:3"]),
    ("vertical:3, safe", &["--slicing", "vertical:3", "--answer", "safe"]),
];
const LEASE: Duration = Duration::from_secs(10);
/// The lease of events whose head is killed.
const LOST_LEASE: Duration = Duration::from_secs(2);
/// Events that are held when a node is killed.
const LOST_EVENTS: u64 = 1_000;
/// How long these are asked about at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often they are asked about.
const LOOK: Duration = Duration::from_millis(50);

/// The measurements of a slicing.
#[derive(Default)]
struct Runs {
    observed: Vec<f64>,
    claimed: Vec<f64>,
    observed_again: Vec<f64>,
    claimed_again: Vec<f64>,
}

/// Events a second of one slicing.
#[derive(Debug, Serialize)]
struct SlicingFigures {
    slicing: &'static str,
    /// New events that are observed.
    observed: Measured,
    /// New events that are claimed and confirmed, and repeats claimed again until these are.
    claimed: Measured,
    /// The rate as a share of that of observed ones.
    claimed_of_observed: f64,
    /// The same for events that are recorded.
    observed_known: Measured,
    claimed_known: Measured,
    known_of_observed: f64,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Figures {
    events: u64,
    batch_events: u32,
    slicings: Vec<SlicingFigures>,
    /// Bytes at the head of an event that is held.
    bytes_a_claim: f64,
    /// A node is killed: how long it took until all events that it had granted were granted to others, and the lease.
    definite_after_ms: u64,
    lease_ms: u64,
}

pub(super) fn run(args: &ClaimsBenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = LocalCluster::start(3, false)?;
    let mut runs: [Runs; SLICINGS.len()] = Default::default();
    for number in 0..args.runs {
        for ((_, flags), runs) in SLICINGS.iter().zip(&mut runs) {
            let keys = Keys::new(u64::from(number), args.events);
            measure(&cluster, &runtime, args, (flags, keys), runs)?;
        }
    }
    let bytes_a_claim = bytes_a_claim(&cluster, &runtime, args)?;
    let definite_after_ms = definite_after_ms(&cluster, &runtime)?;
    let figures = Figures {
        events: args.events,
        batch_events: args.batch,
        slicings: SLICINGS.iter().zip(runs).map(|((slicing, _), runs)| SlicingFigures::of(slicing, runs)).collect(),
        bytes_a_claim,
        definite_after_ms,
        lease_ms: LOST_LEASE.as_millis() as u64,
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &figures)?
    } else {
        figures.print(&mut out)?
    }
    Ok(())
}

/// Measures a filter without claims and one with them, each of which is dropped after that.
fn measure(
    cluster: &LocalCluster,
    runtime: &Runtime,
    args: &ClaimsBenchArgs,
    (flags, keys): (&[&str], Keys),
    runs: &mut Runs,
) -> anyhow::Result<()> {
    let asked = |name: &'static str, asks: Asks| {
        runtime.block_on(async {
            let client = Client::connect(ConnectOptions {
                batch_events_max: args.batch,
                ..ConnectOptions::from(cluster.addresses())
            })
            .await?;
            let filter = client.filter(name).await?;
            let new = events_per_s(&filter, keys, args.batch, Expected::New, asks).await?;
            anyhow::Ok((new, events_per_s(&filter, keys, args.batch, Expected::Known, asks).await?))
        })
    };
    create(cluster, "plain", args.events, flags)?;
    let (new, known) = asked("plain", Asks::Observe)?;
    runs.observed.push(new);
    runs.observed_again.push(known);
    cluster.filter(&["drop", "plain", "--yes"])?;
    create(cluster, "claimed", args.events, &[flags, &["--claims", "10s"]].concat())?;
    let (new, known) = asked("claimed", Asks::Claim(LEASE))?;
    runs.claimed.push(new);
    runs.claimed_again.push(known);
    cluster.filter(&["drop", "claimed", "--yes"])
}

fn create(cluster: &LocalCluster, name: &str, events: u64, flags: &[&str]) -> anyhow::Result<()> {
    let (capacity, window) = (events.to_string(), format!("{}s", WINDOW_MS / 1000));
    cluster.filter(&[&["create", name, "--window", &window, "--capacity", &capacity], flags].concat())
}

/// Claims as many events as a measurement has, and looks at what they take.
fn bytes_a_claim(cluster: &LocalCluster, runtime: &Runtime, args: &ClaimsBenchArgs) -> anyhow::Result<f64> {
    create(cluster, "held", args.events, &["--slicing", "horizontal:3", "--claims", "60s", "--retry-horizon", "60s"])?;
    let described = runtime.block_on(async {
        let client = Client::connect(ConnectOptions::from(cluster.addresses())).await?;
        let filter = client.filter("held").await?;
        let keys = Keys::new(1 << 20, args.events);
        let batch = u64::from(args.batch);
        for first in (0..keys.events()).step_by(args.batch as usize) {
            let events: Vec<[u8; 16]> =
                (first..keys.events().min(first + batch)).map(|event| keys.key(event)).collect();
            let now_ms = vec![now_ms()?; events.len()];
            claim(&filter, &events, &now_ms, Duration::from_secs(60)).await?;
        }
        describe(cluster, "held")
    })?;
    cluster.filter(&["drop", "held", "--yes"])?;
    let sum = |what: &str| {
        let nodes = described["nodes"].as_array().into_iter().flatten();
        nodes.filter_map(|node| node["claims"][what].as_f64()).sum::<f64>()
    };
    if sum("open") < 1.0 {
        bail!("no event is held");
    }
    Ok(sum("bytes") / sum("open"))
}

fn describe(cluster: &LocalCluster, name: &str) -> anyhow::Result<Value> {
    let output = cluster.command(&["filter", "describe", name, "--json"]).output()?;
    serde_json::from_slice(&output.stdout).context("no description of the filter")
}

/// Claims events, kills a node, and claims them again until all are granted.
fn definite_after_ms(cluster: &LocalCluster, runtime: &Runtime) -> anyhow::Result<u64> {
    let flags = ["--slicing", "horizontal:3", "--copies", "1", "--claims", "2s", "--retry-horizon", "5s"];
    create(cluster, "lost", 100_000, &flags)?;
    runtime.block_on(async {
        let client = Client::connect(ConnectOptions::from(cluster.addresses())).await?;
        let filter = client.filter("lost").await?;
        let keys = Keys::new(1 << 21, LOST_EVENTS);
        let mut left: Vec<[u8; 16]> = (0..keys.events()).map(|event| keys.key(event)).collect();
        left.sort_unstable();
        left.dedup();
        let held = claim_now(&filter, &left).await?;
        if held.len() < left.len() {
            bail!("{} of {} events are held", held.len(), left.len());
        }
        cluster.kill_one()?;
        let killed = Instant::now();
        while !left.is_empty() && killed.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK).await;
            let granted = claim_now(&filter, &left).await?;
            left.retain(|event| granted.binary_search(event).is_err());
        }
        if !left.is_empty() {
            bail!("{} events are granted to nobody {PATIENCE:?} after a node was killed", left.len());
        }
        Ok(killed.elapsed().as_millis() as u64)
    })
}

/// Claims events; returns those that were granted, in order.
async fn claim_now(filter: &Filter, events: &[[u8; 16]]) -> anyhow::Result<Vec<[u8; 16]>> {
    let times_ms = vec![now_ms()?; events.len()];
    let claimed = claim(filter, events, &times_ms, LOST_LEASE).await?;
    let granted = events.iter().zip(claimed).filter(|(_, claimed)| matches!(claimed, Claimed::Granted(_)));
    Ok(granted.map(|(event, _)| *event).collect())
}

impl SlicingFigures {
    fn of(slicing: &'static str, runs: Runs) -> Self {
        let Runs { observed, claimed, observed_again, claimed_again } = runs;
        let [observed, claimed, observed_known, claimed_known] =
            [observed, claimed, observed_again, claimed_again].map(Measured::of);
        Self {
            slicing,
            claimed_of_observed: claimed.median / observed.median,
            known_of_observed: claimed_known.median / observed_known.median,
            observed,
            claimed,
            observed_known,
            claimed_known,
        }
    }
}

impl Figures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, slicings, bytes_a_claim, definite_after_ms, lease_ms } = self;
        writeln!(out, "{events} events, batches of {batch_events}, 3 nodes, medians")?;
        for figures in slicings {
            let per_s = |measured: &Measured| measured.median / 1e6;
            writeln!(
                out,
                "  {:<18} observed {:.2}, claimed and confirmed {:.2} M events/s: {:.2} of it; known ones {:.2}, {:.2}: {:.2}",
                figures.slicing,
                per_s(&figures.observed),
                per_s(&figures.claimed),
                figures.claimed_of_observed,
                per_s(&figures.observed_known),
                per_s(&figures.claimed_known),
                figures.known_of_observed,
            )?;
        }
        writeln!(out, "  {bytes_a_claim:.0} bytes an event that is held")?;
        writeln!(
            out,
            "  a node is killed: {definite_after_ms} ms until what it had granted for {lease_ms} ms is granted to others"
        )
    }
}
