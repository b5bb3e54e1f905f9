//! `firstseen-lab bench slicings`: what dividing a filter costs, by how its slices lie: events a second, messages between nodes,
//! and how long a single call takes.
//!
//! Promises: slicings are measured in turns, in one run, over the same nodes; messages and visits are what the nodes
//! count. Must not know: how slices are asked.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use firstseen_client::{Client, ConnectOptions, Filter};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::SlicingsBenchArgs;
use super::calls::{calls_latency, until};
use super::figures::Measured;
use super::flow::{Asks, Expected, WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::LocalCluster;
use super::open_loop::Latency;
use firstseen_cli::node::health;

/// Bytes of a node's metrics: a few hundred series.
const METRICS_BYTES_MAX: u64 = 4 << 20;

/// How old a node's metrics may be, and a little more.
const METRICS_AGE: Duration = Duration::from_millis(1_200);

/// Where events take fewer bytes between nodes, nodes send them to no others.
const BYTES_PER_EVENT_MIN: f64 = 0.5;

/// So few single calls come that hardly two of them are under way at once.
const CALLS_PER_S: f64 = 200.0;
/// Calls of this long come before those that are measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// How long single calls are measured: 3,000 of them, so that the slowest thirty are above the 99th of 100.
const CALLS_MEASURED: Duration = Duration::from_secs(15);
/// The stream of the keys of single calls, which no batch has.
const CALLS_STREAM: u64 = 1 << 32;

/// What all nodes together have counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Events that came from producers, as often as they were sent.
    sent_events: f64,
    /// Visits of events at nodes, the first included.
    visits: f64,
    messages: f64,
    bytes: f64,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Run {
    events_per_s: f64,
    counted: Counted,
    events: f64,
}

/// Events of which the filter knows as many as the name says.
#[derive(Debug, Serialize)]
struct Figures {
    events_per_s: Measured,
    /// The rate as a share of the first slicing's.
    of_first: f64,
    sent_per_event: f64,
    visits_per_event: f64,
    /// None where hardly a message is about an event: links send some to measure clocks.
    visits_per_message: Option<f64>,
    bytes_per_event: f64,
}

#[derive(Debug, Serialize)]
struct SlicingFigures {
    slicing: String,
    new: Figures,
    known: Figures,
    single: SingleFigures,
}

/// Calls of one event each, with nothing else under way.
#[derive(Debug, Serialize)]
struct SingleFigures {
    p50_ms: Measured,
    p99_ms: Measured,
}

/// What was measured of one slicing.
#[derive(Debug, Default)]
struct Runs {
    new: Vec<Run>,
    known: Vec<Run>,
    single: Vec<Latency>,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Document {
    events: u64,
    batch_events: u32,
    nodes: u32,
    filter_flags: Vec<String>,
    slicings: Vec<SlicingFigures>,
}

pub(super) fn run(args: &SlicingsBenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = LocalCluster::start(args.nodes, false)?;
    let mut measured: Vec<Runs> = args.slicing.iter().map(|_| Runs::default()).collect();
    for number in 0..args.runs {
        for (slicing, runs) in args.slicing.iter().zip(&mut measured) {
            let (new, known, single) = measure(&cluster, &runtime, args, slicing, u64::from(number))
                .with_context(|| format!("slicing {slicing}"))?;
            runs.new.push(new);
            runs.known.push(known);
            runs.single.push(single);
        }
    }
    let rates = |runs: &[Run]| Measured::of(runs.iter().map(|run| run.events_per_s).collect());
    let base = measured.first().map_or((0.0, 0.0), |runs| (rates(&runs.new).median, rates(&runs.known).median));
    let figures = |runs: &[Run], base: f64| {
        let sum = |value: fn(&Run) -> f64| runs.iter().map(value).sum::<f64>();
        let (events, visits) = (sum(|run| run.events), sum(|run| run.counted.visits));
        let bytes_per_event = sum(|run| run.counted.bytes) / events;
        Figures {
            events_per_s: rates(runs),
            of_first: rates(runs).median / base,
            sent_per_event: sum(|run| run.counted.sent_events) / events,
            visits_per_event: visits / events,
            visits_per_message: (bytes_per_event >= BYTES_PER_EVENT_MIN)
                .then(|| visits / sum(|run| run.counted.messages)),
            bytes_per_event,
        }
    };
    let slicings = args.slicing.iter().zip(&measured).map(|(slicing, runs)| SlicingFigures {
        slicing: slicing.clone(),
        new: figures(&runs.new, base.0),
        known: figures(&runs.known, base.1),
        single: SingleFigures {
            p50_ms: Measured::of(runs.single.iter().map(Latency::p50_ms).collect()),
            p99_ms: Measured::of(runs.single.iter().map(Latency::p99_ms).collect()),
        },
    });
    let document = Document {
        events: args.events,
        batch_events: args.batch,
        nodes: args.nodes,
        filter_flags: flags(args),
        slicings: slicings.collect(),
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    } else {
        document.print(&mut out)?;
    }
    Ok(())
}

/// What filters are made with beside their slicing.
fn flags(args: &SlicingsBenchArgs) -> Vec<String> {
    let mut flags = vec!["--copies".to_owned(), args.copies.to_string()];
    flags.extend(args.durability.iter().flat_map(|mode| ["--durability".to_owned(), mode.clone()]));
    flags
}

/// Measures one slicing with a new filter, which it drops: events of which the filter knows a fifth, all of them again,
/// and single calls.
fn measure(
    cluster: &LocalCluster,
    runtime: &Runtime,
    args: &SlicingsBenchArgs,
    slicing: &str,
    number: u64,
) -> anyhow::Result<(Run, Run, Latency)> {
    // What was recorded is known for a while after.
    let (capacity, window) = ((2 * args.events).to_string(), format!("{}s", 2 * WINDOW_MS / 1000));
    let definition = ["create", "bench", "--kind", "generations", "--window", &window, "--capacity", &capacity];
    let others = flags(args);
    let others: Vec<&str> = others.iter().map(String::as_str).chain(["--slicing", slicing]).collect();
    cluster.filter(&[&definition[..], &others].concat())?;
    let measured = runtime.block_on(async {
        let client = Client::connect(ConnectOptions {
            batch_events_max: args.batch,
            ..ConnectOptions::from(cluster.addresses())
        })
        .await?;
        let filter = client.filter("bench").await?;
        let new = one(cluster, &filter, args, (number, Expected::New)).await?;
        let known = one(cluster, &filter, args, (number, Expected::Known)).await?;
        calls_latency(&filter, 0, CALLS_PER_S, until(WARM_UP)).await?;
        let single = calls_latency(&filter, CALLS_STREAM, CALLS_PER_S, until(CALLS_MEASURED)).await?;
        Ok((new, known, single))
    });
    cluster.filter(&["drop", "bench", "--yes"])?;
    measured
}

async fn one(
    cluster: &LocalCluster,
    filter: &Filter,
    args: &SlicingsBenchArgs,
    (number, expected): (u64, Expected),
) -> anyhow::Result<Run> {
    let before = Counted::of(cluster).await?;
    let keys = Keys::new(number, args.events);
    let events_per_s = events_per_s(filter, keys, args.batch, expected, Asks::Observe).await?;
    let after = Counted::of(cluster).await?;
    Ok(Run { events_per_s, counted: after.since(before), events: args.events as f64 })
}

impl Counted {
    async fn of(cluster: &LocalCluster) -> anyhow::Result<Self> {
        tokio::time::sleep(METRICS_AGE).await;
        let mut counted = Self::default();
        for address in cluster.http_addresses() {
            let metrics = health::get(address, "/metrics", METRICS_BYTES_MAX)?;
            counted.sent_events += sum(&metrics, "producer_received_events_total");
            counted.visits += sum(&metrics, "filter_pipeline_node_visits_total");
            counted.messages += sum(&metrics, "link_messages_sent_total");
            counted.bytes += sum(&metrics, "link_sent_bytes_total");
        }
        Ok(counted)
    }

    fn since(self, before: Self) -> Self {
        Self {
            sent_events: self.sent_events - before.sent_events,
            visits: self.visits - before.visits,
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// The sum of all series of a name.
fn sum(metrics: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix("firstseen_")?.strip_prefix(name)?;
        let is_whole = rest.starts_with(['{', ' ']);
        rest.rsplit(' ').next().filter(|_| is_whole)?.parse::<f64>().ok()
    };
    metrics.lines().filter_map(value).sum()
}

impl Document {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, nodes, filter_flags, slicings } = self;
        let flags = filter_flags.join(" ");
        writeln!(out, "{events} events, batches of {batch_events}, nodes: {nodes}, filters with {flags}; medians")?;
        let (slicing, rate) = ("slicing", "M events/s");
        writeln!(out, "  {slicing:<31} {rate:>12} of first  sent/event  visits/event  visits/message  bytes/event")?;
        for SlicingFigures { slicing, new, known, single: SingleFigures { p50_ms, p99_ms } } in slicings {
            for (what, figures) in [("new", new), ("known", known)] {
                let name = format!("{slicing}, {what}");
                writeln!(
                    out,
                    "  {name:<31} {:>12.3} {:>8.2} {:>11.2} {:>13.1} {:>15} {:>12.0}",
                    figures.events_per_s.median / 1e6,
                    figures.of_first,
                    figures.sent_per_event,
                    figures.visits_per_event,
                    figures.visits_per_message.map_or_else(|| "none".to_owned(), |visits| format!("{visits:.1}")),
                    figures.bytes_per_event
                )?;
            }
            let name = format!("{slicing}, single calls");
            writeln!(out, "  {name:<38} p50 {:.2} ms, p99 {:.2} ms", p50_ms.median, p99_ms.median)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_a_name_are_added() {
        let metrics = "# HELP firstseen_link_sent_bytes_total of=1\nfirstseen_link_sent_bytes_total{peer=\"a b\"} 3\n\
                       firstseen_link_sent_bytes_total 4\nfirstseen_link_sent_bytes_total_more 5\n";
        assert_eq!(sum(metrics, "link_sent_bytes_total"), 7.0);
    }
}
