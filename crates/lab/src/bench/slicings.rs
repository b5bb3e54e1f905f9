//! `firstseen-lab bench slicings` compares the cost of different slicings: events per second, messages between nodes,
//! and the latency of a single call. All slicings are measured alternately in one run with the same nodes, so that
//! their results can be compared.
//!
//! The numbers of messages and of visits come from the metrics of the nodes. A visit means that a node tests an event
//! or sets its cells.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, value_parser};
use firstseen_cli::node::health;
use firstseen_client::Filter;
use serde::Serialize;

use super::calls::{calls_latency, until};
use super::figures::Measured;
use super::flow::{Expected, FlowOperation, WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::{LocalCluster, NewFilter};
use super::open_loop::Latency;
use super::{Figures, Size};

/// Flags of `firstseen-lab bench slicings`.
#[derive(Debug, Args)]
pub struct SlicingsArgs {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=100))]
    nodes: u32,
    /// Slicing to measure; may be given several times, and rates are compared with those of the first slicing
    #[arg(long, value_name = "SLICING",
        default_values = ["horizontal:10", "horizontal:3", "vertical:3", "horizontal-vertical:5x2", "vertical:10"])]
    slicing: Vec<String>,
    /// Further copies of each slice
    #[arg(long, value_name = "N", default_value_t = 0)]
    copies: u32,
    /// Durability of the filters, in the form that `firstseen filter create` accepts
    #[arg(long, value_name = "MODE")]
    durability: Option<String>,
    #[command(flatten)]
    size: Size,
}

/// Maximum size of a node's metrics in bytes. A node has a few hundred series.
const METRICS_BYTES_MAX: u64 = 4 << 20;

/// Maximum age of a node's metrics, with a margin.
const METRICS_AGE: Duration = Duration::from_millis(1_200);

/// Minimum number of bytes per event between nodes. If an event takes fewer bytes, nodes do not send events to each
/// other.
const BYTES_PER_EVENT_MIN: f64 = 0.5;

/// Rate of single calls. It is so low that two calls rarely overlap.
const CALLS_PER_S: f64 = 200.0;
/// Duration of the calls before the measurement.
const WARM_UP: Duration = Duration::from_millis(300);
/// Duration of the measurement of single calls. It comprises 3,000 calls, so that 30 of them are above the 99th
/// percentile.
const CALLS_MEASURED: Duration = Duration::from_secs(15);
/// Key stream of single calls, which no batch uses.
const CALLS_STREAM: u64 = 1 << 32;

/// Sums of the counters of all nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Number of events that came from producers, including retries.
    sent_events: f64,
    /// Number of visits of events at nodes, including the first visit.
    visits: f64,
    messages: f64,
    bytes: f64,
}

/// Single measurement.
#[derive(Clone, Copy, Debug)]
struct Run {
    events_per_s: f64,
    counted: Counted,
    events: f64,
}

/// Results for a stream of events, of which the filter knows some or all.
#[derive(Debug, Serialize)]
struct FlowFigures {
    events_per_s: Measured,
    /// Rate as a share of the first slicing's rate.
    of_first: f64,
    sent_per_event: f64,
    visits_per_event: f64,
    /// Visits per message. `None` means that hardly any message concerns an event. Links also send messages to compare
    /// clocks.
    visits_per_message: Option<f64>,
    bytes_per_event: f64,
}

#[derive(Debug, Serialize)]
struct SlicingFigures {
    slicing: String,
    new: FlowFigures,
    known: FlowFigures,
    single: SingleFigures,
}

/// Calls with a single event each, without any other load.
#[derive(Debug, Serialize)]
struct SingleFigures {
    p50_ms: Measured,
    p99_ms: Measured,
}

/// Measurements of one slicing.
#[derive(Debug, Default)]
struct Runs {
    new: Vec<Run>,
    known: Vec<Run>,
    single: Vec<Latency>,
}

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct SlicingsFigures {
    events: u64,
    batch_events: u32,
    nodes: u32,
    filter_flags: Vec<String>,
    slicings: Vec<SlicingFigures>,
}

pub(super) fn measure(args: &SlicingsArgs) -> anyhow::Result<SlicingsFigures> {
    let cluster = LocalCluster::start(args.nodes, false)?;
    let mut measured: Vec<Runs> = args.slicing.iter().map(|_| Runs::default()).collect();
    for number in 0..args.size.runs {
        for (slicing, runs) in args.slicing.iter().zip(&mut measured) {
            one_run(&cluster, args, slicing, u64::from(number), runs).with_context(|| format!("slicing {slicing}"))?;
        }
    }
    let Some(first) = measured.first() else { bail!("no slicing to measure") };
    let first_new = rates(&first.new).median;
    let first_known = rates(&first.known).median;
    let slicings = args.slicing.iter().zip(&measured).map(|(slicing, runs)| SlicingFigures {
        slicing: slicing.clone(),
        new: FlowFigures::of(&runs.new, first_new),
        known: FlowFigures::of(&runs.known, first_known),
        single: SingleFigures {
            p50_ms: Measured::of(runs.single.iter().map(Latency::p50_ms).collect()),
            p99_ms: Measured::of(runs.single.iter().map(Latency::p99_ms).collect()),
        },
    });
    Ok(SlicingsFigures {
        events: args.size.events,
        batch_events: args.size.batch,
        nodes: args.nodes,
        filter_flags: flags(args),
        slicings: slicings.collect(),
    })
}

fn rates(runs: &[Run]) -> Measured {
    Measured::of(runs.iter().map(|run| run.events_per_s).collect())
}

impl FlowFigures {
    /// Returns the results of `runs`. `first_per_s` is the rate of the first slicing.
    fn of(runs: &[Run], first_per_s: f64) -> Self {
        let events: f64 = runs.iter().map(|run| run.events).sum();
        let mut all = Counted::default();
        runs.iter().for_each(|run| all.add(run.counted));
        let bytes_per_event = all.bytes / events;
        let are_sent = bytes_per_event >= BYTES_PER_EVENT_MIN;
        let events_per_s = rates(runs);
        Self {
            of_first: events_per_s.median / first_per_s,
            events_per_s,
            sent_per_event: all.sent_events / events,
            visits_per_event: all.visits / events,
            visits_per_message: are_sent.then(|| all.visits / all.messages),
            bytes_per_event,
        }
    }
}

/// Returns the flags of the filters apart from their slicing.
fn flags(args: &SlicingsArgs) -> Vec<String> {
    let mut flags = vec!["--copies".to_owned(), args.copies.to_string()];
    flags.extend(args.durability.iter().flat_map(|mode| ["--durability".to_owned(), mode.clone()]));
    flags
}

/// Measures one slicing with a new filter: events of which a fifth are repeats, the same events again, and single
/// calls.
fn one_run(
    cluster: &LocalCluster,
    args: &SlicingsArgs,
    slicing: &str,
    number: u64,
    runs: &mut Runs,
) -> anyhow::Result<()> {
    let others = flags(args);
    let mut flags = vec!["--kind", "generations", "--slicing", slicing];
    flags.extend(others.iter().map(String::as_str));
    // The filter must still know the recorded events in the second pass, so its window is longer than usual.
    let filter = NewFilter { window_ms: 2 * WINDOW_MS, ..NewFilter::bench(2 * args.size.events, &flags) };
    cluster.with_client(filter, args.size.batch, async |filter| {
        runs.new.push(flow(cluster, filter, args.size, number, Expected::New).await?);
        runs.known.push(flow(cluster, filter, args.size, number, Expected::Known).await?);
        calls_latency(filter, 0, CALLS_PER_S, until(WARM_UP)).await?;
        runs.single.push(calls_latency(filter, CALLS_STREAM, CALLS_PER_S, until(CALLS_MEASURED)).await?);
        Ok(())
    })
}

async fn flow(
    cluster: &LocalCluster,
    filter: &Filter,
    size: Size,
    number: u64,
    expected: Expected,
) -> anyhow::Result<Run> {
    let before = Counted::of(cluster).await?;
    let keys = Keys::new(number, size.events);
    let events_per_s = events_per_s(filter, keys, size.batch, expected, FlowOperation::Observe).await?;
    let after = Counted::of(cluster).await?;
    Ok(Run { events_per_s, counted: after.since(before), events: size.events as f64 })
}

impl Counted {
    async fn of(cluster: &LocalCluster) -> anyhow::Result<Self> {
        tokio::time::sleep(METRICS_AGE).await;
        let mut counted = Self::default();
        for address in cluster.http_addresses() {
            let metrics = health::get(address, "/metrics", METRICS_BYTES_MAX)?;
            counted.add(Self {
                sent_events: sum(&metrics, "producer_received_events_total"),
                visits: sum(&metrics, "filter_pipeline_node_visits_total"),
                messages: sum(&metrics, "link_messages_sent_total"),
                bytes: sum(&metrics, "link_sent_bytes_total"),
            });
        }
        Ok(counted)
    }

    fn add(&mut self, more: Self) {
        self.sent_events += more.sent_events;
        self.visits += more.visits;
        self.messages += more.messages;
        self.bytes += more.bytes;
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

/// Returns the sum of all series of a metric.
fn sum(metrics: &str, name: &str) -> f64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix("firstseen_")?.strip_prefix(name));
    let values = series.filter(|rest| rest.starts_with(['{', ' '])).filter_map(|rest| rest.rsplit(' ').next());
    values.filter_map(|value| value.parse::<f64>().ok()).sum()
}

impl Figures for SlicingsFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, nodes, filter_flags, slicings } = self;
        let flags = filter_flags.join(" ");
        writeln!(out, "{events} events, batches of {batch_events}, nodes: {nodes}, filters with {flags}; medians")?;
        let columns = "of first  sent/event  visits/event  visits/message  bytes/event";
        writeln!(out, "  {:<31} {:>12} {columns}", "slicing", "M events/s")?;
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
