//! `firstseen-lab bench claims` compares two ways to process events: claiming, delivering and confirming them, or only
//! observing them.
//!
//! The benchmark of claims measures filters with claims and filters without claims alternately in one run, so that
//! changes in the load of the machine affect both. It fails if an event does not get a definite answer, or if a claim
//! on the same event is granted twice.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firstseen_client::Filter;
use serde::Serialize;
use serde_json::Value;

use super::figures::Measured;
use super::flow::{Claimed, Expected, FlowOperation, claim, events_per_s, now_ms};
use super::keys::Keys;
use super::local::{CLIENT_BATCH_EVENTS, LocalCluster, NewFilter};
use super::{Figures, PageTable, Size};

/// Filters that are compared, each with and without claims.
const SLICINGS: [(&str, &[&str]); 2] = [
    ("horizontal:3", &["--slicing", "horizontal:3"]),
    ("vertical:3, safe", &["--slicing", "vertical:3", "--answer", "safe"]),
];
const LEASE: Duration = Duration::from_secs(10);
/// Duration of the claims on events whose head node is killed.
const LOST_LEASE: Duration = Duration::from_secs(2);
/// Number of events that are claimed when a node is killed.
const LOST_EVENTS: u64 = 1_000;
/// Maximum time for which claims on these events are retried.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two retries.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Measurements of a slicing.
#[derive(Default)]
struct Runs {
    observed: Vec<f64>,
    claimed: Vec<f64>,
    observed_again: Vec<f64>,
    claimed_again: Vec<f64>,
}

/// Rates of one slicing, in events per second.
#[derive(Debug, Serialize)]
struct SlicingFigures {
    slicing: &'static str,
    /// Rate of new events that are observed.
    observed: Measured,
    /// Rate of new events that are claimed and confirmed. Repeats are claimed again until their events are confirmed.
    claimed: Measured,
    /// Rate of claimed events, divided by the rate of observed events.
    claimed_of_observed: f64,
    /// The same rates for events that are already recorded.
    observed_known: Measured,
    claimed_known: Measured,
    known_of_observed: f64,
}

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct ClaimsFigures {
    events: u64,
    batch_events: u32,
    slicings: Vec<SlicingFigures>,
    /// Memory of a claimed event at its head node, in bytes.
    bytes_a_claim: f64,
    /// Time in milliseconds until consumers can process the events of a killed node again. The time begins when the
    /// node is killed, and ends when other nodes have granted claims on all events that the killed node had granted
    /// before.
    ///
    /// It should not be much longer than the duration of a claim (`lease_ms`), because other nodes must wait until the
    /// old claims have ended.
    definite_after_ms: u64,
    lease_ms: u64,
}

pub(super) fn measure(size: Size) -> anyhow::Result<ClaimsFigures> {
    let cluster = LocalCluster::start(3, false)?;
    let mut runs: [Runs; SLICINGS.len()] = Default::default();
    for number in 0..size.runs {
        for ((_, flags), runs) in SLICINGS.iter().zip(&mut runs) {
            let keys = Keys::new(u64::from(number), size.events);
            let plain = NewFilter { name: "plain", ..NewFilter::bench(size.events, flags) };
            let rates = rates(&cluster, size, plain, keys, FlowOperation::Observe)?;
            runs.observed.push(rates.new);
            runs.observed_again.push(rates.known);
            let flags = [*flags, &["--claims", "10s"]].concat();
            let claimed = NewFilter { name: "claimed", ..NewFilter::bench(size.events, &flags) };
            let rates = self::rates(&cluster, size, claimed, keys, FlowOperation::Claim(LEASE))?;
            runs.claimed.push(rates.new);
            runs.claimed_again.push(rates.known);
        }
    }
    let bytes_a_claim = bytes_a_claim(&cluster, size)?;
    let definite_after_ms = definite_after_ms(&cluster)?;
    Ok(ClaimsFigures {
        events: size.events,
        batch_events: size.batch,
        slicings: SLICINGS.iter().zip(runs).map(|((slicing, _), runs)| SlicingFigures::of(slicing, runs)).collect(),
        bytes_a_claim,
        definite_after_ms,
        lease_ms: LOST_LEASE.as_millis() as u64,
    })
}

/// Rates of one filter, in events per second.
struct Rates {
    new: f64,
    /// Rate for the same events a second time.
    known: f64,
}

fn rates(
    cluster: &LocalCluster,
    size: Size,
    filter: NewFilter<'_>,
    keys: Keys,
    asks: FlowOperation,
) -> anyhow::Result<Rates> {
    cluster.with_client(filter, size.batch, async |filter| {
        let new = events_per_s(filter, keys, size.batch, Expected::New, asks).await?;
        let known = events_per_s(filter, keys, size.batch, Expected::Known, asks).await?;
        Ok(Rates { new, known })
    })
}

/// Claims as many events as a measurement has, and returns the number of bytes that a claim takes.
fn bytes_a_claim(cluster: &LocalCluster, size: Size) -> anyhow::Result<f64> {
    let flags = ["--slicing", "horizontal:3", "--claims", "60s", "--retry-horizon", "60s"];
    let held = NewFilter { name: "held", ..NewFilter::bench(size.events, &flags) };
    let described = cluster.with_client(held, CLIENT_BATCH_EVENTS, async |filter| {
        let keys = Keys::new(1 << 20, size.events);
        let mut first = 0;
        while first < keys.events() {
            let end = keys.events().min(first + u64::from(size.batch));
            let events: Vec<_> = (first..end).map(|event| keys.key(event)).collect();
            let times_ms = vec![now_ms()?; events.len()];
            claim(filter, &events, &times_ms, Duration::from_secs(60)).await?;
            first = end;
        }
        describe(cluster, "held")
    })?;
    let mut held = 0.0;
    let mut bytes = 0.0;
    for node in described["nodes"].as_array().into_iter().flatten() {
        held += node["claims"]["open"].as_f64().unwrap_or_default();
        bytes += node["claims"]["bytes"].as_f64().unwrap_or_default();
    }
    if held < 1.0 {
        bail!("no event is held");
    }
    Ok(bytes / held)
}

fn describe(cluster: &LocalCluster, name: &str) -> anyhow::Result<Value> {
    let output = cluster.command(&["filter", "describe", name, "--json"]).output()?;
    serde_json::from_slice(&output.stdout).context("no description of the filter")
}

/// Claims events, kills a node, and claims the events again until all of them are granted.
fn definite_after_ms(cluster: &LocalCluster) -> anyhow::Result<u64> {
    let flags = ["--slicing", "horizontal:3", "--copies", "1", "--claims", "2s", "--retry-horizon", "5s"];
    cluster.create(NewFilter { name: "lost", ..NewFilter::bench(100_000, &flags) })?;
    cluster.block_on(async {
        let client = cluster.client("local", CLIENT_BATCH_EVENTS).await?;
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
        while !left.is_empty() && killed.elapsed() < TIMEOUT {
            tokio::time::sleep(POLL_INTERVAL).await;
            let granted = claim_now(&filter, &left).await?;
            left.retain(|event| granted.binary_search(event).is_err());
        }
        if !left.is_empty() {
            bail!("{} events are granted to nobody {TIMEOUT:?} after a node was killed", left.len());
        }
        Ok(killed.elapsed().as_millis() as u64)
    })
}

/// Claims events, and returns the events that were granted, in order.
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

impl Figures for ClaimsFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, slicings, bytes_a_claim, definite_after_ms, lease_ms } = self;
        writeln!(out, "{events} events, batches of {batch_events}, 3 nodes, medians")?;
        for figures in slicings {
            writeln!(
                out,
                "  {:<18} observed {:.2}, claimed and confirmed {:.2} M events/s: {:.2} of it; known ones {:.2}, {:.2}: {:.2}",
                figures.slicing,
                figures.observed.median / 1e6,
                figures.claimed.median / 1e6,
                figures.claimed_of_observed,
                figures.observed_known.median / 1e6,
                figures.claimed_known.median / 1e6,
                figures.known_of_observed,
            )?;
        }
        writeln!(out, "  {bytes_a_claim:.0} bytes an event that is held")?;
        writeln!(
            out,
            "  a node is killed: {definite_after_ms} ms until what it had granted for {lease_ms} ms is granted to others"
        )
    }

    fn tables(&self) -> Vec<PageTable> {
        let rows = self.slicings.iter().map(|figures| {
            let [observed, claimed] = [&figures.observed, &figures.claimed].map(Measured::in_table);
            let [observed_known, claimed_known] =
                [&figures.observed_known, &figures.claimed_known].map(Measured::in_table);
            let [of_new, of_known] =
                [figures.claimed_of_observed, figures.known_of_observed].map(|share| format!("{share:.2}"));
            vec![format!("`{}`", figures.slicing), observed, claimed, of_new, observed_known, claimed_known, of_known]
        });
        vec![PageTable::new("claims", &HEADING, rows)]
    }
}

/// Heading of the table in docs/reference/performance.md.
const HEADING: [&str; 7] =
    ["filter", "observed, M events/s", "claimed and confirmed", "of it", "recorded ones, observed", "claimed", "of it"];
