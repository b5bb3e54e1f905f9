//! The figures that were measured, and how they are printed.
//!
//! Promises: ratios are of medians of one run. Must not know: how figures were measured.

use std::io::{self, Write};

use firstseen_filter::Kind;
use serde::Serialize;

use super::open_loop::Latency;

/// Measurements of one figure.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Measured {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

impl Measured {
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(greatest)) = (values.first(), values.last()) else { return Self::default() };
        Self { median: values[values.len() / 2], least: *least, greatest: *greatest }
    }
}

/// A client against so many nodes.
#[derive(Debug, Serialize)]
pub(super) struct ClusterFigures {
    pub(super) kind: Kind,
    pub(super) nodes: u32,
    pub(super) tls: bool,
    pub(super) events_per_s: Measured,
    pub(super) single_calls_per_s: Option<f64>,
    /// Of single calls, by their rate.
    pub(super) latencies: Vec<Latency>,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) events: u64,
    pub(super) batch_events: u32,
    pub(super) clusters: Vec<ClusterFigures>,
    pub(super) redis: Option<RedisFigures>,
}

/// Redis, measured in the same run.
#[derive(Debug, Serialize)]
pub(super) struct RedisFigures {
    pub(super) events_per_s: Measured,
    /// Of single calls over so many connections as `REDIS_CONNECTIONS` says, by their rate.
    pub(super) latencies: Vec<Latency>,
}

impl Figures {
    /// Prints the figures for people.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let millions = |per_s: f64| per_s / 1e6;
        let one = self.clusters.first().map_or(f64::NAN, |cluster| cluster.events_per_s.median);
        writeln!(out, "{} events, batches of {}, medians (least to greatest)", self.events, self.batch_events)?;
        for cluster @ ClusterFigures { kind, nodes, tls, events_per_s, single_calls_per_s, latencies } in &self.clusters
        {
            let name = format!("{nodes} node{}{}", if *nodes == 1 { "" } else { "s" }, if *tls { ", TLS" } else { "" });
            let Measured { median, least, greatest } = events_per_s;
            let one_node = self.clusters.iter().find(|other| other.kind == *kind).unwrap_or(cluster);
            write!(
                out,
                "  {name:<14} {:>7.2} M events/s ({:.2} to {:.2}), {:.2} of one node",
                millions(*median),
                millions(*least),
                millions(*greatest),
                median / one_node.events_per_s.median
            )?;
            let first =
                self.clusters.iter().find(|other| other.nodes == *nodes && other.tls == *tls).unwrap_or(cluster);
            writeln!(out, ", {}", of_first(*kind, *median, first.kind, first.events_per_s.median))?;
            if let Some(calls_per_s) = single_calls_per_s {
                writeln!(out, "  {:<14} {calls_per_s:>9.0} single calls/s, 64 in flight", "")?;
            }
            print_latencies(latencies, out)?;
        }
        let Some(RedisFigures { events_per_s: Measured { median, least, greatest }, latencies }) = &self.redis else {
            return writeln!(out, "  redis          left out: no redis-server is installed, or --no-redis");
        };
        writeln!(
            out,
            "  {:<14} {:>7.2} M events/s ({:.2} to {:.2}); one node does {:.1} times as many",
            "redis",
            millions(*median),
            millions(*least),
            millions(*greatest),
            one / median
        )?;
        print_latencies(latencies, out)
    }
}

/// A kind and, where another one was measured first, its rate as a share of that one's.
pub(super) fn of_first(kind: Kind, per_s: f64, first: Kind, first_per_s: f64) -> String {
    if kind == first { kind.to_string() } else { format!("{kind}: {:.2} of {first}", per_s / first_per_s) }
}

fn print_latencies(latencies: &[Latency], out: &mut dyn Write) -> io::Result<()> {
    latencies.iter().try_for_each(|latency| writeln!(out, "  {:<14} at {latency}", ""))
}
